//! Findings from an HPA alone.

use serde_json::{Value, json};

use super::{autoscaler, average, codes_of, failing, metric, offline, pods};
use crate::Severity;
use crate::hpa::{self, ServedMetrics};

#[test]
fn an_autoscaler_without_a_fault_has_no_finding() {
    for name in [
        "gpu_memory_utilization",
        "gpu_utilization",
        "avg_GPU_utilization",
    ] {
        let labels = json!({"window": "2m", "model": "H100", "node": "a"});
        let metric = metric("Pods", name, &labels, &average("50"));
        assert_eq!(offline(&json!([metric]), &json!({})), [""; 0], "{name}");
    }
    for (kind, name, labels) in [
        ("Object", "gpu_memory_utilization_sum", json!({})),
        ("Pods", "http_requests_per_second", json!({"windw": "x"})),
    ] {
        let metric = metric(kind, name, &labels, &average("50"));
        assert_eq!(offline(&json!([metric]), &json!({})), [""; 0], "{name}");
    }
}

#[test]
fn gm501_names_the_metric_that_was_meant() {
    let served = ServedMetrics {
        custom: Some(
            ["gpu_memory_utilization", "queue_length"]
                .map(str::to_owned)
                .into(),
        ),
        external: Some(["cluster_gpu_held_count".to_owned()].into()),
    };
    let found = |kind: &str, name: &str, served: Option<&ServedMetrics>| {
        let metric = metric(kind, name, &json!({}), &average("50"));
        let found = hpa::check(&autoscaler(&json!([metric]), &json!({})), served, None);
        let found = found.into_iter().filter(|it| it.code == "GM501");
        found
            .map(|it| format!("{}: {}", it.message, it.remedy))
            .collect::<Vec<_>>()
            .join("")
    };
    // With or without the served names, kind and name of the metric | the remedy.
    for row in [
        "served Pods gpu_memory_utilisation | is gpu_memory_utilization meant?",
        "offline Pods gpu_memory_utilisation | is gpu_memory_utilization meant?",
        "served Pods http_requests | use a name from",
        "served Pods cluster_gpu_held_count | type External",
        "served External queue_length | type Pods or Object",
        "offline External cluster_gpu_held_conut | cluster_gpu_held_count meant?",
        "offline External dcgm_gpu_utilization | ",
        "offline External cluster_avg_GPU_utilization | is ",
        "served Pods gpu_memory_utilization | ",
        "served Object queue_length | ",
        "served External cluster_gpu_held_count | ",
        "offline Pods http_requests | ",
        "offline External gpu_held_count | ",
    ] {
        let (asked, says) = row.split_once(" | ").unwrap();
        let words: Vec<&str> = asked.split(' ').collect();
        let served = Some(&served).filter(|_| words[0] == "served");
        let said = found(words[1], words[2], served);
        let is_right = said.contains(says) && said.is_empty() == says.is_empty();
        assert!(is_right, "{row}: {said}");
    }
}

#[test]
fn gm501_names_the_built_in_metric_of_a_usual_name() {
    let served = ServedMetrics {
        custom: Some(["gpu_utilization".to_owned()].into()),
        external: Some(["gpu_utilization".to_owned()].into()),
    };
    for (kind, name, meant) in [
        ("Pods", "DCGM_FI_DEV_GPU_UTIL", "gpu_utilization"),
        ("Object", "DCGM_FI_DEV_GPU_UTIL_AVG", "gpu_utilization"),
        ("External", "DCGM_FI_DEV_GPU_UTIL", "gpu_utilization"),
        (
            "Pods",
            "dcgm_fi_dev_mem_copy_util",
            "gpu_memory_utilization",
        ),
        ("Pods", "gpu_memory_util", "gpu_memory_utilization"),
        ("Pods", "nvidia_gpu_utilization", "gpu_utilization"),
        ("Pods", "nvidia_gpu_duty_cycle", "gpu_utilization"),
        ("Pods", "DCGM_FI_DEV_FB_USED", "gpu_memory_used"),
        ("Pods", "DCGM_FI_DEV_POWER_USAGE", "gpu_power_usage"),
    ] {
        let metric = metric(kind, name, &json!({}), &average("80"));
        let hpa = autoscaler(&json!([metric]), &json!({}));
        // A rule may serve it, which a file does not show.
        for (served, severity) in [(Some(&served), Severity::Error), (None, Severity::Warning)] {
            let found = hpa::check(&hpa, served, None);
            assert_eq!(
                (&*found[0].code, found[0].severity),
                ("GM501", severity),
                "{name}"
            );
            let target = match meant {
                "gpu_memory_used" => "MIB",
                "gpu_power_usage" => "WATTS",
                _ => "80",
            };
            let line = format!(
                "write {{type: Pods, pods: {{metric: {{name: {meant}}}, target: {{type: AverageValue, averageValue: \"{target}\"}}}}}}"
            );
            assert!(found[0].remedy.starts_with(&line), "{name}: {found:?}");
        }
    }
    let target = json!({"type": "Utilization", "averageUtilization": 80});
    let resource =
        |name: &str| json!({"type": "Resource", "resource": {"name": name, "target": target}});
    for (name, codes) in [("nvidia.com/gpu", &["GM501"][..]), ("memory", &[])] {
        let hpa = autoscaler(&json!([resource(name)]), &json!({}));
        let found = hpa::check(&hpa, Some(&served), None);
        let found: Vec<&str> = found.iter().map(|it| &*it.code).collect();
        assert_eq!(found, codes, "{name}");
    }
    let own = ServedMetrics {
        custom: Some(["DCGM_FI_DEV_GPU_UTIL".to_owned()].into()),
        external: Some([].into()),
    };
    let served = metric("Pods", "DCGM_FI_DEV_GPU_UTIL", &json!({}), &average("80"));
    let hpa = autoscaler(&json!([served]), &json!({}));
    assert_eq!(hpa::check(&hpa, Some(&own), None), []);
}

#[test]
fn gm503_is_about_types_that_multiply_the_replicas_or_divide_by_them_twice() {
    let value = json!({"type": "Value", "value": "50"});
    for (row, says) in [
        ("External gpu_memory_utilization", "multiplies"),
        ("Object gpu_utilization", "multiplies"),
        ("External cluster_gpu_memory_utilization", "multiplies"),
        ("External gpu_held_count", "multiplies"),
        ("Object gpu_memory_utilization_sum", "multiplies"),
        ("Object vllm_requests_waiting", "multiplies"),
        (
            "External avg_GPU_utilization average",
            "never wants more than 2",
        ),
        (
            "External gpu_memory_utilization average",
            "never wants more than 2",
        ),
        (
            "Object gpu_memory_used_percent average",
            "never wants more than 2",
        ),
        ("Object gpu_memory_utilization_sum average", ""),
        ("External gpu_held_count average", ""),
        ("External queue_length", ""),
        ("Object inference_pool_requests_waiting", ""),
        ("Pods gpu_memory_utilization average", ""),
    ] {
        let words: Vec<&str> = row.split(' ').collect();
        let target = match words.get(2) {
            Some(&"average") => average("50"),
            _ => value.clone(),
        };
        let metric = metric(words[0], words[1], &json!({}), &target);
        let found = hpa::check(&autoscaler(&json!([metric]), &json!({})), None, None);
        let found: Vec<_> = found.iter().filter(|it| it.code == "GM503").collect();
        assert_eq!(found.is_empty(), says.is_empty(), "{row}: {found:?}");
        assert!(
            found.iter().all(|it| it.message.contains(says)),
            "{found:?}"
        );
    }
    let saturation = metric(
        "Object",
        "vllm_kv_cache_usage",
        &json!({}),
        &average("700m"),
    );
    let found = hpa::check(&autoscaler(&json!([saturation]), &json!({})), None, None);
    assert!(
        found[0].message.contains("never wants more than 2"),
        "{found:?}"
    );
}

#[test]
fn gm504_begins_where_a_hundred_is_within_the_tolerance() {
    let tolerant = |text: &str| json!({"behavior": {"scaleUp": {"tolerance": text}}});
    for (target, over, is_found) in [
        ("95", json!({}), true),
        ("91", json!({}), true),
        ("90", json!({}), false),
        ("120", json!({}), true),
        ("95", tolerant("0.05"), false),
        ("96", tolerant("0.05"), true),
        ("80", tolerant("0.25"), true),
        (
            "95",
            json!({"behavior": {"scaleDown": {"tolerance": "0"}}}),
            true,
        ),
    ] {
        let found = offline(&json!([pods(target)]), &over);
        assert_eq!(
            found.iter().any(|it| it == "GM504"),
            is_found,
            "{target} {over}"
        );
    }
    // Before 1.35 an autoscaler's own tolerance needs a feature gate.
    let hpa = autoscaler(&json!([pods("95")]), &tolerant("0.05"));
    for (minor, expected) in [(34, &["GM504"][..]), (35, &[]), (37, &[])] {
        let found = codes_of(hpa::check(&hpa, None, Some(minor)));
        assert_eq!(found, expected, "1.{minor}");
    }
    let ratio = metric("Pods", "vllm_kv_cache_usage", &json!({}), &average("950m"));
    assert_eq!(offline(&json!([ratio]), &json!({})), ["GM504"]);
    let watts = metric("Pods", "gpu_power_usage", &json!({}), &average("300"));
    assert_eq!(offline(&json!([watts]), &json!({})), [""; 0]);
}

#[test]
fn gm505_is_about_targets_in_another_unit() {
    for (name, targets, is_found) in [
        ("gpu_memory_utilization", "0.5 500m 1", true),
        ("gpu_memory_utilization", "2 50", false),
        ("gpu_memory_used", "80 200", true),
        ("gpu_memory_used", "40000", false),
        ("gpu_power_usage", "0.8", true),
        ("gpu_power_usage", "300", false),
        ("vllm_kv_cache_usage", "80", true),
        ("vllm_kv_cache_usage", "800m", false),
        ("vllm_requests_waiting", "500m 80", false),
    ] {
        for target in targets.split(' ') {
            let metric = metric("Pods", name, &json!({}), &average(target));
            let found = offline(&json!([metric]), &json!({}));
            assert_eq!(
                found.iter().any(|it| it == "GM505"),
                is_found,
                "{name} {target}"
            );
        }
    }
}

#[test]
fn gm509_is_a_zero_that_the_controller_did_not_make() {
    let queue = metric("External", "queue_length", &json!({}), &average("10"));
    let metrics = json!([queue, pods("50")]);
    let off = json!({"type": "ScalingActive", "status": "False", "reason": "ScalingDisabled",
        "message": "scaling is disabled since the replica count of the target is zero"});
    let found = |min: i32, condition: &Value, minor: Option<u32>| {
        let hpa = failing(&metrics, &json!({"minReplicas": min}), condition);
        let found = hpa::check(&hpa, None, minor).into_iter();
        let found = found.filter(|it| it.code == "GM509");
        found.map(|it| it.severity).collect::<Vec<_>>()
    };
    let warning = [Severity::Warning];
    assert_eq!(found(0, &off, Some(37)), warning);
    assert_eq!(found(0, &off, None), warning);
    // With a minimum above zero this is how scaling is switched off.
    assert_eq!(found(1, &off, Some(37)), [Severity::Info]);
    let marked = json!({"type": "ScaledToZero", "status": "True", "reason": "ScaledToZero",
        "message": ""});
    assert_eq!(found(0, &marked, Some(37)), []);
}

#[test]
fn gm516_is_a_maximum_that_stops_the_hpa() {
    let condition = json!({"type": "ScalingLimited", "status": "True", "reason": "TooManyReplicas", "message": ""});
    let mut hpa = failing(&json!([pods("50")]), &json!({}), &condition);
    hpa.status.replicas = Some(4);
    hpa.status.values = vec![Some(100.0)];
    let found = &hpa::check(&hpa, None, None)[0];
    assert_eq!((&*found.code, found.severity), ("GM516", Severity::Warning));
    assert_eq!(found.message, "At its maximum: has 4, wants 8");
}

#[test]
fn gm518_depends_on_the_version_of_the_cluster() {
    let refused = |version: &str, minor, error| {
        let found = hpa::refused("HorizontalPodAutoscaler a/b", Some(version), minor, error);
        found.map(|it| it.message)
    };
    let gone = Some("autoscaling/v2beta2 is not served since Kubernetes 1.26".to_owned());
    assert_eq!(refused("autoscaling/v2beta2", None, None), gone);
    assert_eq!(refused("autoscaling/v2beta2", Some(37), None), gone);
    assert_eq!(refused("autoscaling/v2beta2", Some(25), None), None);
    assert_eq!(refused("autoscaling/v2", None, None), None);
    let error = Some("unknown field targetAverageUtilization");
    assert_eq!(refused("autoscaling/v2", None, error).as_deref(), error);
    assert!(
        refused("autoscaling/v3", None, None)
            .unwrap()
            .contains("autoscaling/v3")
    );
}

#[test]
fn gm515_is_also_a_target_that_the_controller_cannot_read() {
    let condition = json!({"type": "AbleToScale", "status": "False", "reason": "FailedGetScale", "message": "no matches for kind"});
    let hpa = failing(&json!([pods("50")]), &json!({}), &condition);
    assert_eq!(codes_of(hpa::check(&hpa, None, None)), ["GM515"]);
}

#[test]
fn gm515_is_a_missing_value_that_no_other_finding_explains() {
    let without = |target: &str, reason: &str, served: Option<&ServedMetrics>| {
        let message = "10m is longer than the 5m that are kept";
        let condition = json!({"type": "ScalingActive", "status": "False", "reason": reason, "message": message});
        let hpa = failing(&json!([pods(target)]), &json!({}), &condition);
        codes_of(hpa::check(&hpa, served, None))
    };
    let unserved = |target: &str, reason: &str| without(target, reason, None);
    assert_eq!(unserved("50", "FailedGetPodsMetric"), ["GM515"]);
    // Another server has the API: GM101 covers it.
    let of_other = ServedMetrics {
        custom: None,
        external: Some(["gpu_memory_utilization".to_owned()].into()),
    };
    let found = without("50", "FailedGetPodsMetric", Some(&of_other));
    assert_eq!(found, [""; 0]);
    assert_eq!(unserved("50", "ScalingDisabled"), ["GM509"]);
    assert_eq!(unserved("95", "FailedGetPodsMetric"), ["GM504"]);
}

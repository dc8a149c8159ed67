//! Findings from an HPA alone, and from others beside it.

use ::hpa::Hpa;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::{Value, json};

use super::{read, told, transcript};
use crate::hpa::{self, ServedMetrics};
use crate::peers;

/// `Pods gpu_memory_utilization 50 window=2m`, of type `Value` with `=50`.
fn metric(text: &str) -> Value {
    let words: Vec<&str> = text.split(' ').collect();
    let (kind, name, target) = (words[0], words[1], words[2]);
    let labels = words
        .get(3)
        .into_iter()
        .flat_map(|labels| labels.split(','));
    let labels = labels.map(|label| label.split_once('=').unwrap());
    let labels: Value = labels.map(|(key, value)| (key, value.to_owned())).collect();
    let target = match (target.strip_prefix('='), target.strip_suffix('%')) {
        (Some(value), _) => json!({"type": "Value", "value": value}),
        (_, Some(percent)) => {
            json!({"type": "Utilization", "averageUtilization": percent.parse::<i32>().unwrap()})
        }
        _ => json!({"type": "AverageValue", "averageValue": target}),
    };
    let mut source = json!({"name": name, "target": target});
    if kind != "Resource" {
        source["metric"] = json!({"name": name, "selector": {"matchLabels": labels}});
    }
    if kind == "Object" {
        source["describedObject"] =
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "infer"});
    }
    json!({"type": kind, kind.to_lowercase(): source})
}

/// An HPA of `Deployment infer`, the metrics that are served and the version of Kubernetes, as
/// `hpa.txt` describes.
fn around(line: &str) -> (Hpa, Option<ServedMetrics>, Option<u32>) {
    let mut fields = line.split(" | ");
    let metrics = fields.next().unwrap().split(" + ").map(metric);
    let mut spec = json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "infer"},
        "minReplicas": 1, "maxReplicas": 4, "metrics": metrics.collect::<Vec<_>>(),
    });
    let mut status = json!({"desiredReplicas": 2, "currentMetrics": null});
    let mut served: Option<ServedMetrics> = None;
    let mut minor = None;
    for field in fields {
        let (key, text) = field.split_once(' ').unwrap();
        let names = || text.split(' ').map(str::to_owned).collect();
        let value = || serde_json::from_str::<Value>(text).unwrap();
        match key {
            "custom" => served.get_or_insert_default().custom = Some(names()),
            "external" => served.get_or_insert_default().external = Some(names()),
            "minor" => minor = Some(text.parse().unwrap()),
            "condition" => {
                let words: Vec<&str> = text.splitn(4, ' ').collect();
                status["conditions"] = json!([{
                    "type": words[0], "status": words[1], "reason": words[2], "message": words[3],
                }]);
            }
            "currentReplicas" | "currentMetrics" => status[key] = value(),
            _ => spec[key] = value(),
        }
    }
    let object: HorizontalPodAutoscaler = read(json!({
        "metadata": {"name": "infer", "namespace": "team"}, "spec": spec, "status": status,
    }));
    (Hpa::try_from(&object).unwrap(), served, minor)
}

#[test]
fn each_hpa_has_its_findings() {
    transcript::compare("src/tests/hpa.txt", |line| {
        let (hpa, served, minor) = around(line);
        told(&hpa::check(&hpa, served.as_ref(), minor))
    });
}

#[test]
fn gm518_depends_on_the_version_of_the_cluster() {
    let gone = Some("autoscaling/v2beta2 is not served since Kubernetes 1.26");
    let error = Some("unknown field targetAverageUtilization");
    let other = Some("apiVersion \"autoscaling/v3\" has no HorizontalPodAutoscaler");
    for (version, minor, of_schema, message) in [
        ("autoscaling/v2beta2", None, None, gone),
        ("autoscaling/v2beta2", Some(37), None, gone),
        ("autoscaling/v2beta2", Some(25), None, None),
        ("autoscaling/v2", None, None, None),
        ("autoscaling/v2", None, error, error),
        ("autoscaling/v3", None, None, other),
    ] {
        let found = hpa::refused(
            "HorizontalPodAutoscaler a/b",
            Some(version),
            minor,
            of_schema,
        );
        let found = found.map(|it| it.message);
        assert_eq!(found.as_deref(), message, "{version} {minor:?}");
    }
}

#[test]
fn gm507_is_about_hpas_with_one_target_and_about_ambiguous_selectors() {
    let ambiguous = |hpas: &[Hpa]| {
        let found = peers::ambiguous(hpas);
        assert_eq!(found.len(), hpas.len());
        let found: Vec<_> = found.into_iter().flatten().collect();
        let told = found.iter().map(|it| format!("{} {}", it.code, it.message));
        told.collect::<Vec<_>>()
    };
    let (one, ..) = around("Pods gpu_memory_utilization 50");
    let mut other = one.clone();
    other.name = "again".to_owned();
    let found = ambiguous(&[one.clone(), other.clone()]);
    assert!(found[0].starts_with("GM507 team/again scales the same"));
    assert!(found[1].starts_with("GM507 team/infer scales the same"));
    other.namespace = "elsewhere".to_owned();
    assert_eq!(ambiguous(&[one, other]), [""; 0]);
    let (given_up, ..) = around(
        "Pods gpu_memory_utilization 50 | condition ScalingActive False AmbiguousSelector \
         pods by selector app=x are controlled by multiple HPAs",
    );
    let found = ambiguous(&[given_up]);
    assert!(found[0].contains("multiple HPAs"), "{found:?}");
}

//! The metrics of inference servers by `presets`: a Prometheus scrapes texts recorded
//! from the servers, as those of real pods.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde_json::json;

use super::check_diagnosis::await_finding;
use super::lab::{APP, CONFIG, Lab, PATIENCE, TEAM};
use super::operators;
use super::workload::{deployment, on_pods};
use crate::chart::root;
use crate::program::{eventually, found_if, in_time, ok_if};
use crate::prometheus::{Storage, Store};
use crate::served::{Answer, unix_seconds};
use crate::stub::Stub;

/// All presets, and a rule for pods with the name of one of their metrics.
const PRESETS: &str = "
presets: [vllm, sglang, triton, endpoint-picker]
rules:
- seriesQuery: '{__name__=~\"(ray_)?vllm[:_]num_requests_running\",pod!=\"\"}'
  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
  name: {as: vllm_requests_running}
  metricsQuery: 100 * sum({__name__=~\"(ray_)?vllm[:_]num_requests_running\",<<.LabelMatchers>>}) by (<<.GroupBy>>)
";

const VLLM_OLD: &str = include_str!("../presets/vllm-2025-03.prom");
const VLLM: &str = include_str!("../presets/vllm-0.26.prom");
const SGLANG: &str = include_str!("../presets/sglang-docs.prom");
const SGLANG_IDLE: &str = include_str!("../presets/sglang-0.5.16.prom");
const TRITON: &str = include_str!("../presets/triton.prom");
const PICKER: &str = include_str!("../presets/endpoint-picker.prom");
const FLOW_CONTROL: &str = include_str!("../presets/endpoint-picker-flow.prom");
const AMD: &str = include_str!("../presets/amd.prom");
/// The queue of a frontend of NVIDIA Dynamo, with the label that its operator's PodMonitor adds.
const DYNAMO: &str =
    "dynamo_frontend_queued_requests{dynamo_namespace=\"default-graph\",model=\"m\"} 3\n";
const AMD_RULES: &str = include_str!("../../docs/amd.yaml");
const PICKER_OLD: &str = include_str!("../presets/endpoint-picker-1.4.prom");

/// Other ranks of the same scheduler with priorities, as SGLang's
/// `python/sglang/srt/observability/metrics_collector.py` labels them.
const SGLANG_RANKS: &str = r#"
sglang:num_queue_reqs{priority="",pp_rank="0",tp_rank="0"} 4
sglang:num_queue_reqs{priority="1",pp_rank="0",tp_rank="0"} 4
sglang:num_queue_reqs{priority="",pp_rank="0",tp_rank="1"} 4
sglang:num_queue_reqs{priority="1",pp_rank="0",tp_rank="1"} 4
sglang:num_queue_reqs{priority="",pp_rank="0",tp_rank="0",dp_rank="1"} 3
"#;

/// A recorded text, in which the numbers of these series replace those of an idle server.
fn with(text: &str, numbers: &[(&str, &str)]) -> String {
    let mut text = text.to_owned();
    for (series, number) in numbers {
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{series}{{")));
        let line = line
            .unwrap_or_else(|| panic!("no {series}: {text}"))
            .to_owned();
        let (labels, _) = line.rsplit_once(' ').unwrap();
        text = text.replace(&line, &format!("{labels} {number}"));
    }
    text
}

/// The labels for the namespace and the pod of an operator's monitors, and of scrape
/// configurations by annotations.
const LABELS: [&str; 2] = ["namespace", "pod"];
const OLD_LABELS: [&str; 2] = ["kubernetes_namespace", "kubernetes_pod_name"];

/// Labels that hide none of the text.
const FURTHER_LABELS: [&str; 2] = ["further_namespace", "further_pod"];

/// A text to scrape, with the labels of its target.
#[derive(Debug)]
struct Target {
    labels: [&'static str; 2],
    namespace: &'static str,
    pod: String,
    text: String,
}

/// A Prometheus that scrapes the texts besides the GPUs.
async fn prometheus(lab: &Lab, targets: Vec<Target>) -> (Store, Stub) {
    let texts = targets.iter().map(|target| target.text.clone()).collect();
    let stub = Stub::exporting(Ipv4Addr::LOCALHOST.into(), texts).await;
    let address = stub.address;
    let mut config = lab.exporters.scrapes();
    for (index, target) in targets.iter().enumerate() {
        let (Target { namespace, pod, .. }, [of_namespace, of_pod]) = (target, target.labels);
        config.push_str(&format!(
            "- job_name: text-{index}\n  metrics_path: /{index}\n  static_configs:\n  \
             - {{targets: [\"{address}\"], labels: {{{of_namespace}: {namespace}, {of_pod}: {pod}}}}}\n"
        ));
    }
    let engine = Storage::new().start(&config).await;
    in_time("scraped texts", PATIENCE, async || {
        let time = unix_seconds().to_string();
        let up = engine.query("up{job=~\"text-.*\"} == 1", &time).await;
        ok_if(up.len() == targets.len(), &up)
    })
    .await;
    (engine, stub)
}

/// The servers' pods by their Deployments and numbers: `sglang-1`.
type Pods = BTreeMap<String, String>;

/// Deploys a server, and adds its pods, sorted, once there are as many.
fn deploy(lab: &Lab, name: &str, replicas: u32, pods: &mut Pods) {
    let (labels, limits) = (json!({"app": name}), json!({"nvidia.com/gpu": 1}));
    lab.plane
        .apply(&deployment((TEAM, name), replicas, &labels, &limits));
    let found = eventually("the pods", PATIENCE, || {
        let mut names = lab.plane.pods(TEAM);
        names.retain(|pod| pod.rsplitn(3, '-').last() == Some(name));
        found_if(names, |names| names.len() == replicas as usize)
    });
    let numbered = found.into_iter().zip(0..);
    pods.extend(numbered.map(|(pod, number)| (format!("{name}-{number}"), pod)));
}

/// The values of objects of a namespace: `pods/*/vllm_requests_waiting`.
fn await_values(lab: &Lab, namespace: &str, path: &str, wanted: &[(&str, &str)]) {
    let client = lab.plane.client();
    let path = format!("/apis/custom.metrics.k8s.io/v1beta2/namespaces/{namespace}/{path}");
    eventually(
        &format!("{wanted:?} at {path}"),
        PATIENCE,
        || match client.values(&path) {
            Err(Answer::NotFound(_)) if wanted.is_empty() => Ok(()),
            Err(answer) => Err(format!("{answer:?}")),
            Ok(found) => {
                let found = found.iter().map(|it| (&*it.name, &*it.value));
                let found: Vec<(&str, &str)> = found.collect();
                ok_if(found == wanted, &found)
            }
        },
    );
}

/// Waits until the values are those of `presets.txt`.
fn await_all_values(lab: &Lab, pods: &Pods) {
    let lines = include_str!("presets.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let line = line.replace("POOLS", "inferencepools.inference.networking.k8s.io");
        let mut words = line.split(' ');
        let (namespace, path) = (words.next().unwrap(), words.next().unwrap());
        let wanted = words.map(|word| {
            let (object, value) = word.split_once('=').unwrap();
            (pods.get(object).map_or(object, String::as_str), value)
        });
        let wanted: Vec<(&str, &str)> = wanted.collect();
        await_values(lab, namespace, path, &wanted);
    }
}

/// What there is to scrape of the servers and of endpoint pickers.
fn targets(pods: &Pods) -> Vec<Target> {
    let old = [
        ("vllm:num_requests_waiting", "3"),
        ("vllm:num_requests_running", "2"),
        ("vllm:gpu_cache_usage_perc", "0.5"),
    ];
    let new = [
        ("vllm:num_requests_waiting", "4"),
        ("vllm:kv_cache_usage_perc", "0.25"),
    ];
    // The names that Ray Serve gives.
    let of_ray = with(VLLM, &new).replace("vllm:", "ray_vllm_");
    let ranks = SGLANG_IDLE.to_owned() + SGLANG_RANKS;
    // Its router writes underscores.
    let ranks = with(&ranks, &[("sglang:token_usage", "0.5")]).replace("sglang:", "sglang_");
    let pending = [("nv_inference_pending_request_count", "3")];
    let none_ready = [("inference_pool_ready_pods", "0")];
    let target = |namespace, pod: &str, text: String| Target {
        labels: LABELS,
        namespace,
        pod: pod.to_owned(),
        text,
    };
    let named = AMD.replace("NAMESPACE", TEAM);
    let amd = named.replace("POD", &pods["triton-0"]);
    vec![
        Target {
            labels: FURTHER_LABELS,
            ..target(TEAM, "exporter", amd)
        },
        target(TEAM, &pods["infer-0"], with(VLLM_OLD, &old)),
        target(TEAM, &pods["infer-1"], of_ray),
        target(TEAM, &pods["sglang-0"], SGLANG.to_owned()),
        Target {
            labels: OLD_LABELS,
            ..target(TEAM, &pods["sglang-1"], ranks)
        },
        target(TEAM, &pods["triton-0"], with(TRITON, &pending)),
        target(TEAM, "frontend", DYNAMO.to_owned()),
        target(TEAM, "picker", PICKER.to_owned() + FLOW_CONTROL),
        target("default", "picker", PICKER_OLD.to_owned()),
        target("kube-system", "picker", with(PICKER_OLD, &none_ready)),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn presets_serve_each_servers_recorded_metrics_and_an_autoscaler_scales_by_them() {
    let mut lab = Lab::start().await;
    let pools = root().join("e2e/presets/inferencepools.yaml");
    lab.plane.run(&format!("apply -f {}", pools.display()));
    let mut pods = Pods::new();
    for (name, replicas) in [(APP, 2), ("sglang", 2), ("triton", 1)] {
        deploy(&lab, name, replicas, &mut pods);
    }
    let (engine, _stub) = prometheus(&lab, targets(&pods)).await;
    let (_, rules) = AMD_RULES.split_once("rules:\n").unwrap();
    let external = operators::block("externalRules:");
    lab.write_config(&format!("{CONFIG}{PRESETS}{rules}{external}"));
    lab.read_from(engine.url.clone());
    await_all_values(&lab, &pods);
    keys_of_gpu_metrics_are_refused(&lab);

    // Seven requests wait for two pods, whose GPUs have little to do.
    lab.gpus.work(20);
    let queue = on_pods("vllm_requests_waiting", "2");
    lab.autoscale(8, &json!([queue, on_pods("gpu_memory_utilization", "60")]));
    lab.await_replicas(4);
    operators::scale_by_the_manual(&lab);
    a_preset_without_series_names_another_spelling(&mut lab).await;
}

/// A proxy in front of vLLM may write names of its own.
async fn a_preset_without_series_names_another_spelling(lab: &mut Lab) {
    let text = VLLM.replace("vllm:", "proxy_vllm_");
    let target = Target {
        labels: LABELS,
        namespace: TEAM,
        pod: "proxy".to_owned(),
        text,
    };
    let (engine, _stub) = prometheus(lab, vec![target]).await;
    lab.write_config(&format!("{CONFIG}presets: [vllm]\n"));
    lab.read_from(engine.url.clone());
    let why = "presets.vllm[0].seriesQuery: Prometheus has no such series; \
               proxy_vllm_num_requests_waiting exists";
    let client = lab.plane.client();
    let path = format!("/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}/pods/*");
    eventually("the reason", PATIENCE, || {
        let found = client.values(&format!("{path}/vllm_requests_waiting"));
        match &found {
            Err(Answer::NotFound(message)) if message.contains(why) => Ok(()),
            _ => Err(format!("{found:?}")),
        }
    });
    await_finding(
        lab,
        "GM604",
        "presets.vllm[0].seriesQuery",
        "proxy_vllm_num",
    );
    let log = lab.server.as_ref().unwrap().stderr();
    assert_eq!(log.matches(why).count(), 1, "{log}");
}

fn keys_of_gpu_metrics_are_refused(lab: &Lab) {
    let client = lab.plane.client();
    let of = |metric: &str| {
        let path = format!("/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}/pods/*");
        client.values(&format!("{path}/{metric}"))
    };
    for key in ["window%3D2m", "model%3Dllama"] {
        let refused = of(&format!("vllm_requests_waiting?metricLabelSelector={key}"));
        let refused = format!("{:?}", refused.unwrap_err());
        assert!(refused.contains("has the label"), "{refused}");
    }
    // Triton's series have the label.
    let none = of("triton_requests_waiting?metricLabelSelector=model%3Dno-such");
    assert!(none.unwrap().is_empty());
}

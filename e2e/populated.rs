//! The pods of a simulated fleet, and many others, in a real kube-apiserver, and a server
//! with flags of its own.

use std::collections::BTreeMap;

use apimachinery::time::Timestamp;
use futures_util::stream::{self, StreamExt as _};
use gpu_metrics::inventory::Pod;
use reqwest::Method;
use serde_json::{Value, json};
use simulator::Fleet;

use crate::asking::ApiClient;
use crate::controlplane::ControlPlane;
use crate::curl::curl;
use crate::program::{Program, memory_kib};
use crate::prometheus::free_port;

/// Concurrent requests to kube-apiserver.
const AT_A_TIME: usize = 32;

/// Pods of a Deployment.
const REPLICAS: usize = 20;

/// A server of a control plane and a Prometheus.
pub(crate) struct Server {
    pub(crate) program: Program,
    _dir: tempfile::TempDir,
    port: u16,
}

impl Server {
    pub(crate) fn start(plane: &ControlPlane, prometheus: &str, flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let port = free_port();
        let mut command = Program::command([format!("--secure-port={port}")]);
        command
            .arg("--prometheus-url")
            .arg(prometheus)
            .arg("--cert-dir")
            .arg(dir.path())
            .arg("--authorization-always-allow-paths=/metrics,/livez,/readyz")
            .args(Program::kubeconfig_flags(plane.kubeconfig()))
            .args(flags);
        Self {
            program: Program::start(command),
            _dir: dir,
            port,
        }
    }

    /// The value of a metric in `/metrics`.
    pub(crate) fn metric(&self, name: &str) -> Result<f64, String> {
        let said = self.metrics();
        let wanted = format!("gpu_metrics_apiserver_{name} ");
        let value = said.lines().find_map(|line| line.strip_prefix(&wanted));
        value
            .and_then(|value| value.parse().ok())
            .ok_or_else(|| format!("no {name} in {said}{}", self.program.stderr()))
    }

    /// Its own metrics.
    pub(crate) fn metrics(&self) -> String {
        let url = format!("https://127.0.0.1:{}/metrics", self.port);
        curl(&url, "")
    }

    /// A size from the kernel, in MiB.
    pub(crate) fn status(&self, key: &str) -> u64 {
        memory_kib(self.program.id(), key) / 1024
    }
}

/// Creates the fleet's pods, and further pods up to `pods`, each owned by a
/// ReplicaSet of a Deployment. Returns how many GPUs they hold.
pub(crate) async fn populate(plane: &ControlPlane, fleet: &Fleet, pods: usize) -> usize {
    let epoch = fleet.scenario().epoch;
    let api = ApiClient::of(plane.kubeconfig());
    let truth = fleet.inventory(epoch);
    let namespaces = truth.namespaces.iter().map(|it| ("namespaces", &*it.name));
    let nodes = truth.nodes.iter().map(|it| ("nodes", &*it.name));
    for (kind, name) in namespaces.chain(nodes) {
        let body = json!({"metadata": {"name": name}});
        send(&api, Method::POST, &format!("/api/v1/{kind}"), &body).await;
    }
    // Owners are in the namespace of the pod; a pod refers to them by UID.
    let mut homes: BTreeMap<&str, Vec<Option<&Pod>>> = BTreeMap::new();
    for pod in &truth.pods {
        homes.entry(&*pod.namespace).or_default().push(Some(pod));
    }
    let fillers = pods.saturating_sub(truth.pods.len());
    let others = homes.entry("default").or_default();
    others.resize(others.len() + fillers, None);
    let mut bodies = Vec::new();
    for (namespace, pods) in homes {
        for (group, members) in pods.chunks(REPLICAS).enumerate() {
            let owner = replica_set(&api, namespace, group).await;
            for (index, member) in members.iter().enumerate() {
                let filler = format!("filler-{group}-{index}");
                let name = member.map_or(filler.as_str(), |pod| &*pod.name);
                let node = member.and_then(|pod| pod.node.as_deref());
                let gpus = member.map_or(0, |pod| pod.gpus);
                bodies.push((namespace.to_owned(), pod(name, node, gpus, &owner)));
            }
        }
    }
    run_pods(&api, bodies, epoch).await;
    let devices = 0..fleet.devices().len();
    devices
        .filter(|device| !fleet.holders(*device, epoch).is_empty())
        .count()
}

/// A pod of this owner, which requests so many GPUs.
pub(crate) fn pod(name: &str, node: Option<&str>, gpus: u32, owner: &Value) -> Value {
    let resources = match gpus {
        0 => json!({}),
        _ => json!({"limits": {"nvidia.com/gpu": gpus.to_string()}}),
    };
    json!({
        "metadata": {
            "name": name,
            "labels": {
                "app": "inference", "app.kubernetes.io/name": name,
                "app.kubernetes.io/part-of": "a-platform-of-some-kind",
                "pod-template-hash": "6d4cf56db6",
            },
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": node.unwrap_or("elsewhere"),
            "containers": [{
                "name": "main", "image": "registry.example.com/inference/server:v1.2.3",
                "resources": resources,
                "env": [{"name": "MODEL", "value": "a-model"}],
            }],
        },
    })
}

/// Sends an object, which must succeed.
pub(crate) async fn send(api: &ApiClient, method: Method, path: &str, object: &Value) -> Value {
    let reply = api.write(method, path, object).await;
    assert!(matches!(reply.code, 200 | 201), "{path}: {reply:?}");
    serde_json::from_str(&reply.body).unwrap()
}

/// Creates a Deployment's ReplicaSet. Returns the reference for its pods.
async fn replica_set(api: &ApiClient, namespace: &str, number: usize) -> Value {
    let name = format!("service-{number}");
    let spec = json!({
        "selector": {"matchLabels": {"app": "inference"}},
        "template": {
            "metadata": {"labels": {"app": "inference"}},
            "spec": {"containers": [{"name": "main", "image": "none"}]},
        },
    });
    let mut owners = Vec::new();
    for (kind, plural) in [("Deployment", "deployments"), ("ReplicaSet", "replicasets")] {
        let path = format!("/apis/apps/v1/namespaces/{namespace}/{plural}");
        let metadata = json!({"name": name, "ownerReferences": owners});
        let object = json!({"metadata": metadata, "spec": spec});
        let made = send(api, Method::POST, &path, &object).await;
        owners = vec![json!({
            "apiVersion": "apps/v1", "kind": kind, "name": name,
            "uid": made["metadata"]["uid"], "controller": true,
        })];
    }
    owners.remove(0)
}

/// Creates pods and sets their status to running, as a kubelet does.
pub(crate) async fn run_pods(api: &ApiClient, pods: Vec<(String, Value)>, since: Timestamp) {
    let since = jiff::Timestamp::from_millisecond(since.millis()).unwrap();
    let status = json!({"status": {
        "phase": "Running", "startTime": since.to_string(),
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    let status = &status;
    let run = |(namespace, pod): (String, Value)| async move {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let made = send(api, Method::POST, &path, &pod).await;
        let name = made["metadata"]["name"].as_str().unwrap();
        send(api, Method::PATCH, &format!("{path}/{name}/status"), status).await;
    };
    stream::iter(pods).for_each_concurrent(AT_A_TIME, run).await;
}

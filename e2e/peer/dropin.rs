//! prometheus-adapter's own installation with only the image changed: its manifests, which
//! `make peer` takes from the module of the adapter that it builds.
//!
//! As in `cluster::install`, a process on this machine replaces the pods. It has the
//! Deployment's arguments, except for paths of this machine, and the ServiceAccount's
//! rights.

use std::process::Command;
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::compared;
use super::objects::holding;
use super::pair::{LOOKING, Scene, Side, adapter};
use crate::cluster::workload::{Pod, deployment};
use crate::controlplane::{ControlPlane, Extent};
use crate::program::{Program, eventually, found_if, listening, ok_if};
use crate::prometheus::free_port;

const NAMESPACE: &str = "monitoring";
const NAME: &str = "prometheus-adapter";
const IMAGE: &str = "registry.k8s.io/prometheus-adapter/prometheus-adapter:v0.12.0";

const PATIENCE: Duration = Duration::from_secs(120);

const CUSTOM: &str = "/apis/custom.metrics.k8s.io/v1beta2";
const USAGE: &str = "/apis/metrics.k8s.io/v1beta1";

fn object(plane: &ControlPlane, kind: &str, name: &str) -> Value {
    plane.object(&[kind, name, "-n", NAMESPACE])
}

/// Flags with this machine's paths, ports and addresses.
const HERE: [&str; 4] = [
    "--config=",
    "--cert-dir=",
    "--prometheus-url=",
    "--secure-port=",
];

/// The pod's processes.
struct Processes(Pod);

impl Processes {
    /// Starts a program as the pod's process, on a new port. `more` comes before the
    /// pod's arguments.
    async fn start(
        &self,
        scene: Scene<'_>,
        mut command: Command,
        more: &[&str],
        port: Option<u16>,
    ) -> Side {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        std::fs::write(&file, &self.0.config).unwrap();
        // A folder that does not exist yet, like the contents of an empty volume.
        let certificates = dir.path().join("cert");
        command.args(&self.0.arguments).args([
            format!("--config={}", file.display()),
            format!("--cert-dir={}", certificates.display()),
            format!("--prometheus-url={}", scene.prometheus.url),
            format!("--secure-port={}", port.unwrap_or_default()),
            // Without these flags, the reference lists at most five times a second.
            "--client-qps=100000".to_owned(),
            "--client-burst=100000".to_owned(),
        ]);
        command
            .args(Program::kubeconfig_flags(&self.0.account))
            .args(more);
        let program = Program::start(command);
        let port = port.unwrap_or_else(|| listening(&program));
        scene.ready(program, port, dir).await.unwrap()
    }

    /// Starts both, the reference first. Like the reference, this server queries
    /// Prometheus for each request, because they are compared while values change.
    async fn both(&self, scene: Scene<'_>) -> (Side, Side) {
        let theirs = Command::new(adapter());
        let theirs = self.start(scene, theirs, &LOOKING, Some(free_port()));
        let ours = Program::command::<&str>([]);
        let (theirs, ours) =
            tokio::join!(theirs, self.start(scene, ours, &["--rule-max-age=0"], None));
        theirs.has_looked(&self.0.config).await;
        (theirs, ours)
    }
}

/// Directs the Service and this APIService to a port of this machine, and waits
/// until kube-apiserver reports it as available.
fn lead(plane: &ControlPlane, port: u16, apiservice: &str) {
    // The name of the port differs from that in the applied Service.
    let ports = json!([{"name": "here", "port": port, "targetPort": 6443}]);
    let spec = json!({"type": "ExternalName", "externalName": "localhost", "ports": ports});
    plane.patch(&["service", NAME, "-n", NAMESPACE], &json!({"spec": spec}));
    let port = json!({"spec": {"service": {"port": port}}});
    plane.patch(&["apiservice", apiservice], &port);
    let available = r#"jsonpath={.status.conditions[?(@.type=="Available")]}"#;
    eventually(&format!("{apiservice} available"), PATIENCE, || {
        let said = plane.kubectl(&["get", "apiservice", apiservice, "-o", available]);
        ok_if(said.contains(r#""status":"True""#), &said)
    });
}

/// A Deployment whose pods hold a GPU each. Returns their names.
fn gpu_pods(plane: &ControlPlane) -> Vec<String> {
    plane.kubectl(&["create", "namespace", "team"]);
    let (labels, limits) = (json!({"app": "infer"}), json!({"nvidia.com/gpu": 1}));
    plane.apply(&deployment(("team", "infer"), 2, &labels, &limits));
    eventually("pods that run", PATIENCE, || {
        found_if(plane.pods("team"), |pods| pods.len() == 2)
    })
}

/// The series of cAdvisor, the node exporter and dcgm-exporter about these pods.
fn series_of(pods: &[String]) -> String {
    const NODE: &str = "gpu-node-0";
    let mut series = format!(
        "node_cpu_usage_seconds_total{{node=\"{NODE}\"}} 0+2\n\
         node_memory_working_set_bytes{{node=\"{NODE}\"}} 5000000\n"
    );
    for (number, pod) in pods.iter().enumerate() {
        let of = format!("namespace=\"team\",pod=\"{pod}\",container=\"main\"");
        let device = format!(
            "gpu=\"{number}\",UUID=\"GPU-{number}\",device=\"nvidia{number}\",\
             modelName=\"NVIDIA H100\",Hostname=\"{NODE}\",instance=\"10.0.0.1:9400\",job=\"dcgm\""
        );
        for line in [
            format!("container_cpu_usage_seconds_total{{{of}}} 0+0.5"),
            format!("container_memory_working_set_bytes{{{of}}} 1000000"),
            format!("DCGM_FI_DEV_GPU_UTIL{{{device},{of}}} 80"),
            format!("DCGM_FI_DEV_MEM_COPY_UTIL{{{device},{of}}} 40"),
        ] {
            series.push_str(&line);
            series.push('\n');
        }
    }
    series
}

/// Runs a command of the migration page, in either direction.
fn follow(plane: &ControlPlane, words: &str) {
    let page = "docs/migrate/prometheus-adapter.md";
    let lines = crate::manual::commands(page, "Another image and nothing else");
    let line = lines.iter().find(|line| line.contains(words)).unwrap();
    let line = line.strip_prefix("kubectl ").unwrap();
    plane.run(line);
}

fn image(plane: &ControlPlane) -> String {
    let deployment = object(plane, "deployment", NAME);
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    image.as_str().unwrap().to_owned()
}

/// Applies the unchanged manifests and changes the image. The pods are admitted and
/// become ready, then they are scaled to zero.
fn apply_manifests(plane: &ControlPlane) {
    plane.kubectl(&["create", "namespace", NAMESPACE]);
    let manifests = adapter().parent().unwrap().join("manifests");
    plane.kubectl(&["apply", "-f", manifests.to_str().unwrap()]);
    assert_eq!(image(plane), IMAGE);
    follow(plane, "set image");
    let place = format!("{NAME} -n {NAMESPACE}");
    plane.run(&format!("rollout status deployment {place} --timeout=120s"));
    plane.run(&format!("scale deploy {place} --replicas=0"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make test-slow"]
async fn the_adapters_manifests_need_another_image_and_nothing_else() {
    let plane = ControlPlane::start(Extent::CLUSTER);
    let pods = gpu_pods(&plane);
    let prometheus = holding(&series_of(&pods)).await;
    let scene = Scene {
        plane: &plane,
        prometheus: &prometheus,
    };
    apply_manifests(&plane);
    assert!(!image(&plane).contains("prometheus-adapter"));
    let pod = Pod::of(&plane, (NAMESPACE, NAME), &HERE);
    let (theirs, ours) = Processes(pod).both(scene).await;
    let before = object(&plane, "apiservice", "v1beta1.metrics.k8s.io");
    assert_eq!(before["spec"]["insecureSkipTLSVerify"], true);
    lead(&plane, ours.port(), "v1beta1.metrics.k8s.io");
    // kube-apiserver forwards requests only some time after it reports the APIService as
    // available.
    let nodes = eventually("usage of nodes", PATIENCE, || {
        plane.kubectl_as(
            plane.kubeconfig(),
            &["get", "--raw", &format!("{USAGE}/nodes")],
        )
    });
    assert!(nodes.contains(r#""cpu":"2""#), "{nodes}");

    let pod = &pods[0];
    let paths = [
        "/nodes".to_owned(),
        "/nodes/gpu-node-0".to_owned(),
        "/pods".to_owned(),
        "/namespaces/team/pods".to_owned(),
        "/namespaces/team/pods?labelSelector=app%3Dinfer".to_owned(),
        format!("/namespaces/team/pods/{pod}"),
    ];
    for path in paths {
        let path = format!("{USAGE}{path}");
        let found = compared(&theirs, &ours, &Method::GET, &path).await;
        assert_eq!(found, Vec::<String>::new());
    }
    // Both answer 404, with different messages.
    let nobody = format!("{USAGE}/namespaces/team/pods/nobody");
    for side in [&theirs, &ours] {
        assert_eq!(side.ask(&Method::GET, &nobody).await.code, 404);
    }
    drop(theirs);

    // The adapter's ClusterRole has no right to ReplicaSets: pods have values, and the
    // Deployment has none.
    let path = format!("{CUSTOM}/namespaces/team/pods/*/gpu_memory_utilization");
    ours.await_answer(&path, |said| said.matches(r#""value":"40""#).count() == 2)
        .await;
    let of_node = format!("{CUSTOM}/nodes/gpu-node-0/gpu_held_count");
    ours.await_answer(&of_node, |said| said.contains(r#""value":"2""#))
        .await;
    let of_deployment = path.replace("pods/*", "deployments.apps/infer");
    let reply = ours.ask(&Method::GET, &of_deployment).await;
    assert_eq!(reply.code, 404, "{}", reply.body);
    let rule = r#"resources: ["replicasets"], verbs: ["list", "watch"]"#;
    eventually("one warning about ReplicaSets", PATIENCE, || {
        let log = ours.log();
        ok_if(log.matches(rule).count() == 1, &log)
    });
    follow(&plane, "rollout undo");
    assert_eq!(image(&plane), IMAGE);
}

//! A cluster with everything in it: the control plane, a node that runs any
//! pod, GPUs whose holders are the pods that are really there, a Prometheus
//! that scrapes them, and the server, registered.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gpu_metrics_apiserver::core::time::Timestamp;
use gpu_metrics_apiserver::simulator::live::{self, Controls, RunningExporter};
use gpu_metrics_apiserver::simulator::{Fleet, Scenario};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::controlplane::{ControlPlane, Extent};
use crate::live::scene::scrapes;
use crate::program::{End, Program, eventually};
use crate::prometheus::{Engine, Storage};

/// Generous: what is awaited comes within seconds on an idle machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Where the server lives.
pub(super) const HOME: &str = "gpu-metrics";
pub(super) const NAME: &str = "gpu-metrics-apiserver";

/// The service that scales, and its namespace.
pub(super) const TEAM: &str = "team";
pub(super) const APP: &str = "infer";

/// Nodes of four GPUs.
const NODES: u32 = 2;

/// Everything that runs. Ended from top to bottom.
#[derive(Debug)]
pub(super) struct Lab {
    pub(super) server: Option<Program>,
    /// Where it listens, also after a restart.
    pub(super) port: u16,
    pub(super) gpus: Gpus,
    pub(super) plane: Arc<ControlPlane>,
    pub(super) prometheus: Engine,
    dir: TempDir,
    _exporters: Vec<RunningExporter>,
}

/// Hands GPUs to the pods of the service as they come and go.
#[derive(Debug)]
pub(super) struct Gpus {
    /// Percent, of each GPU that is held.
    load: Arc<AtomicU32>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Gpus {
    fn start(plane: Arc<ControlPlane>, controls: Arc<Controls>) -> Self {
        let load = Arc::new(AtomicU32::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (load, stop) = (Arc::clone(&load), Arc::clone(&stop));
            move || {
                let mut held: BTreeMap<String, usize> = BTreeMap::new();
                while !stop.load(Ordering::Relaxed) {
                    if let Some(pods) = pods(&plane) {
                        hand_out(&mut held, &pods, &controls);
                    }
                    let percent = f64::from(load.load(Ordering::Relaxed));
                    for device in 0..(4 * NODES as usize) {
                        let used = held.values().any(|taken| *taken == device);
                        controls.force_value(device, if used { percent } else { 0.0 });
                    }
                    std::thread::sleep(Duration::from_millis(250));
                }
            }
        });
        Self {
            load,
            stop,
            thread: Some(thread),
        }
    }

    /// From now on every GPU that is held works this hard.
    pub(super) fn work(&self, percent: u32) {
        self.load.store(percent, Ordering::Relaxed);
    }
}

impl Drop for Gpus {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The service's pods that run; nothing while kube-apiserver is away.
fn pods(plane: &ControlPlane) -> Option<Vec<String>> {
    let label = format!("app={APP}");
    let said = plane
        .kubectl_as(
            plane.kubeconfig(),
            &["get", "pods", "-n", TEAM, "-l", &label, "-o", "json"],
        )
        .ok()?;
    let list: Value = serde_json::from_str(&said).ok()?;
    let running = |pod: &&Value| {
        pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
    };
    let name = |pod: &Value| Some(pod["metadata"]["name"].as_str()?.to_owned());
    Some(
        list["items"]
            .as_array()?
            .iter()
            .filter(running)
            .filter_map(name)
            .collect(),
    )
}

fn hand_out(held: &mut BTreeMap<String, usize>, pods: &[String], controls: &Controls) {
    let gone: Vec<String> = held
        .keys()
        .filter(|name| !pods.contains(name))
        .cloned()
        .collect();
    for name in gone {
        if let Some(device) = held.remove(&name) {
            controls.release(device);
        }
    }
    for name in pods {
        let free =
            (0..4 * NODES as usize).find(|device| !held.values().any(|taken| taken == device));
        if let (false, Some(device)) = (held.contains_key(name), free) {
            controls.reassign(device, TEAM, name);
            held.insert(name.clone(), device);
        }
    }
}

impl Lab {
    /// Starts everything; the server is registered and Available.
    pub(super) async fn start(autoscaler_sync: Duration) -> Self {
        let plane = Arc::new(ControlPlane::start(Extent::Cluster { autoscaler_sync }));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let epoch = Timestamp::from_secs(i64::try_from(now.as_secs()).unwrap());
        let mut scenario = Scenario::clean(NODES, 4, 7).starting_at(epoch);
        scenario.exporters.interval = Duration::from_secs(1);
        let fleet = Arc::new(Fleet::new(scenario));
        let controls = Arc::new(Controls::default());
        for device in 0..4 * NODES as usize {
            controls.release(device);
            controls.force_value(device, 0.0);
        }
        let clock = gpu_metrics_apiserver::app::clock::now;
        let exporters = live::serve(Arc::clone(&fleet), Arc::clone(&controls), clock)
            .await
            .unwrap();
        let prometheus = Engine::start(Storage::new(), &scrapes(&fleet, &exporters)).await;
        let dir = tempfile::tempdir().unwrap();
        install(&plane);
        let (server, port) = serve(&plane, &prometheus, &dir);
        let lab = Self {
            server: Some(server),
            port,
            gpus: Gpus::start(Arc::clone(&plane), controls),
            plane,
            prometheus,
            dir,
            _exporters: exporters,
        };
        lab.await_available();
        lab
    }

    /// Ends the server by a signal; how it ended.
    pub(super) fn end_server(&mut self, signal: &str) -> End {
        let server = self.server.take().expect("a running server");
        server.signal(signal);
        server.await_end(PATIENCE)
    }

    /// Starts it again where it was.
    pub(super) fn start_server(&mut self) {
        let server = self.replica(self.port, &[]);
        self.server = Some(server);
    }

    /// Another server of the same settings, on a port of its own.
    pub(super) fn replica(&self, port: u16, flags: &[&str]) -> Program {
        let config = self.dir.path().join("config.yaml");
        let mut command = command(self.plane.kubeconfig(), &config, &self.prometheus, port);
        command.args(flags);
        let server = Program::start(command);
        listening(&server);
        server
    }

    /// Waits until kube-apiserver has found all APIServices available.
    pub(super) fn await_available(&self) {
        eventually("available APIServices", PATIENCE, || {
            let troubles: Vec<String> = APISERVICES
                .into_iter()
                .filter_map(|name| self.unavailable(name))
                .collect();
            if troubles.is_empty() {
                Ok(())
            } else {
                Err(troubles.join("; "))
            }
        });
    }

    /// Why an APIService is not available.
    pub(super) fn unavailable(&self, name: &str) -> Option<String> {
        let said = self.plane.kubectl_as(
            self.plane.kubeconfig(),
            &["get", "apiservice", name, "-o", "json"],
        );
        let said = match said {
            Ok(said) => serde_json::from_str::<Value>(&said).unwrap(),
            Err(error) => return Some(error),
        };
        let conditions = said["status"]["conditions"].as_array().cloned();
        let available = conditions
            .unwrap_or_default()
            .into_iter()
            .find(|condition| condition["type"] == "Available");
        match available {
            Some(condition) if condition["status"] == "True" => None,
            other => Some(format!("{name}: {other:?}")),
        }
    }

    /// The replicas that the Deployment asks for.
    pub(super) fn replicas(&self) -> u64 {
        let said = self
            .plane
            .kubectl(&["get", "deploy", APP, "-n", TEAM, "-o", "json"]);
        let said: Value = serde_json::from_str(&said).unwrap();
        said["spec"]["replicas"].as_u64().unwrap()
    }

    /// Waits for that many.
    pub(super) fn await_replicas(&self, wanted: u64) {
        eventually(&format!("{wanted} replicas"), PATIENCE, || {
            let replicas = self.replicas();
            (replicas == wanted).then_some(()).ok_or_else(|| {
                let hpa = ["get", "hpa", "-n", TEAM, "-o", "yaml"];
                format!("{replicas}: {}", self.plane.kubectl(&hpa))
            })
        });
    }

    /// The service that scales: pods with a GPU each.
    pub(super) fn deploy(&self, replicas: u32) {
        self.plane.apply(&json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": APP, "namespace": TEAM},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": APP}},
                "template": {
                    "metadata": {"labels": {"app": APP}},
                    "spec": {"containers": [{
                        "name": "main", "image": "none",
                        "resources": {"limits": {"nvidia.com/gpu": 1}},
                    }]},
                },
            },
        }));
    }

    /// An autoscaler from 1 to `most` on these metrics, without delays.
    pub(super) fn autoscale(&self, most: u32, metrics: &Value) {
        self.plane.apply(&json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": APP, "namespace": TEAM},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": APP},
                "minReplicas": 1, "maxReplicas": most,
                "metrics": metrics,
                "behavior": {
                    "scaleDown": {"stabilizationWindowSeconds": 0},
                    "scaleUp": {"stabilizationWindowSeconds": 0},
                },
            },
        }));
    }
}

pub(super) const APISERVICES: [&str; 3] = [
    "v1beta2.custom.metrics.k8s.io",
    "v1beta1.custom.metrics.k8s.io",
    "v1beta1.external.metrics.k8s.io",
];

/// What `manifests/` makes, but for the pods: they are processes of this
/// machine.
fn install(plane: &ControlPlane) {
    for namespace in [HOME, TEAM] {
        plane.apply(&json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
        }));
    }
    plane.apply(&json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "gpu-metrics-apiserver-certificates", "namespace": HOME},
    }));
}

/// The port that a server has said it listens on.
pub(super) fn listening(server: &Program) -> u16 {
    server.find_in_stderr("the address", PATIENCE, |said| {
        let line = said.lines().find(|line| line.contains("listening"))?;
        let (_, rest) = line.split_once("address=0.0.0.0:")?;
        rest.split_whitespace().next()?.parse().ok()
    })
}

/// Starts the server and leads its Service to it.
fn serve(plane: &ControlPlane, prometheus: &Engine, dir: &TempDir) -> (Program, u16) {
    let config = dir.path().join("config.yaml");
    std::fs::write(&config, "gpu: {window: 10s}\n").unwrap();
    let kubeconfig = plane.kubeconfig().to_owned();
    let server = Program::start(command(&kubeconfig, &config, prometheus, 0));
    let port = listening(&server);
    plane.apply(&json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": NAME, "namespace": HOME},
        "spec": {
            "type": "ExternalName", "externalName": "localhost",
            "ports": [{"port": port, "protocol": "TCP"}],
        },
    }));
    for (name, priority) in APISERVICES.into_iter().zip([200, 100, 100]) {
        let (version, group) = name.split_once('.').unwrap();
        plane.apply(&json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": name},
            "spec": {
                "group": group, "version": version,
                "groupPriorityMinimum": 100, "versionPriority": priority,
                "service": {"name": NAME, "namespace": HOME, "port": port},
            },
        }));
    }
    (server, port)
}

fn command(
    kubeconfig: &Path,
    config: &Path,
    prometheus: &Engine,
    port: u16,
) -> std::process::Command {
    let mut command = Program::command(["--service=gpu-metrics/gpu-metrics-apiserver"]);
    command.arg(format!("--secure-port={port}"));
    command.arg("--prometheus-url").arg(prometheus.url());
    command.arg("--config").arg(config);
    for flag in [
        "--lister-kubeconfig",
        "--authentication-kubeconfig",
        "--authorization-kubeconfig",
    ] {
        command.arg(flag).arg(kubeconfig);
    }
    command
}

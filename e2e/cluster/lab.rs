//! A cluster with everything in it: the control plane, a node that runs any
//! pod, GPUs whose holders are the pods that are really there, a Prometheus
//! that scrapes them, and the server, registered.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gpu_metrics_apiserver::core::time::Timestamp;
use gpu_metrics_apiserver::simulator::live::{self, Controls, RunningExporter};
use gpu_metrics_apiserver::simulator::{Fleet, Scenario};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::install;
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

/// The configuration of the server, but for the address of Prometheus.
const CONFIG: &str = "gpu: {window: 10s}\n";

/// Nodes of four GPUs.
const NODES: u32 = 3;
const GPUS: usize = 4 * NODES as usize;

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
    /// The ServiceAccount's, which has the rights of the manifests.
    account: PathBuf,
    _exporters: Vec<RunningExporter>,
}

/// Hands GPUs to the pods of the service as they come and go.
#[derive(Debug)]
pub(super) struct Gpus {
    work: Arc<Mutex<Work>>,
    /// Pods by the place of their GPU in [`device`]'s order.
    held: Arc<Mutex<BTreeMap<usize, String>>>,
    controls: Arc<Controls>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What the GPUs that are held do; those that nobody holds do nothing.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// The first so many work this hard, percent; the others are idle.
    First(usize, u32),
    /// They share this many percent evenly.
    Shared(u32),
}

impl Work {
    /// Percent of the GPU at a place among those held.
    fn of(self, place: usize, held: usize) -> f64 {
        match self {
            Self::First(busy, percent) if place < busy => f64::from(percent),
            Self::First(..) => 0.0,
            Self::Shared(percent) => (f64::from(percent) / held.max(1) as f64).min(100.0),
        }
    }
}

impl Gpus {
    fn start(plane: Arc<ControlPlane>, controls: Arc<Controls>) -> Self {
        let mut gpus = Self {
            work: Arc::new(Mutex::new(Work::First(0, 0))),
            held: Arc::default(),
            controls,
            stop: Arc::default(),
            thread: None,
        };
        let (work, held) = (Arc::clone(&gpus.work), Arc::clone(&gpus.held));
        let (controls, stop) = (Arc::clone(&gpus.controls), Arc::clone(&gpus.stop));
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                if let Some(pods) = pods(&plane) {
                    hand_out(&mut held.lock().unwrap(), &pods, &controls);
                }
                let work = *work.lock().unwrap();
                let places: Vec<usize> = held.lock().unwrap().keys().copied().collect();
                for place in 0..GPUS {
                    let rank = places.iter().position(|held| *held == place);
                    let percent = rank.map_or(0.0, |rank| work.of(rank, places.len()));
                    controls.force_value(device(place), percent);
                }
                std::thread::sleep(Duration::from_millis(250));
            }
        });
        gpus.thread = Some(thread);
        gpus
    }

    /// From now on every GPU that is held works this hard.
    pub(super) fn work(&self, percent: u32) {
        self.concentrate(GPUS, percent);
    }

    /// From now on the first so many work this hard, and the others not.
    pub(super) fn concentrate(&self, busy: usize, percent: u32) {
        *self.work.lock().unwrap() = Work::First(busy, percent);
    }

    /// From now on those held share this many percent: as many as there are.
    pub(super) fn share(&self, percent: u32) {
        *self.work.lock().unwrap() = Work::Shared(percent);
    }

    /// The pods that hold a GPU, in the order in which work is given to them.
    pub(super) fn holders(&self) -> Vec<String> {
        self.held.lock().unwrap().values().cloned().collect()
    }

    /// The exporter of a node gives no answer until it resumes. The first pods
    /// to hold a GPU are on one node each.
    pub(super) fn silence(&self, node: usize) {
        self.controls.silence(node);
    }

    /// All exporters answer.
    pub(super) fn resume(&self) {
        (0..NODES as usize).for_each(|node| self.controls.resume(node));
    }
}

/// The device at a place: one of each node, then the second of each node.
fn device(place: usize) -> usize {
    let nodes = NODES as usize;
    place % nodes * 4 + place / nodes
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

fn hand_out(held: &mut BTreeMap<usize, String>, pods: &[String], controls: &Controls) {
    held.retain(|place, name| {
        let stays = pods.contains(name);
        if !stays {
            controls.release(device(*place));
        }
        stays
    });
    for name in pods {
        let free = (0..GPUS).find(|place| !held.contains_key(place));
        if let (false, Some(place)) = (held.values().any(|holder| holder == name), free) {
            controls.reassign(device(place), TEAM, name);
            held.insert(place, name.clone());
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
        for device in 0..GPUS {
            controls.release(device);
            controls.force_value(device, 0.0);
        }
        let clock = gpu_metrics_apiserver::app::clock::now;
        let exporters = live::serve(Arc::clone(&fleet), Arc::clone(&controls), clock)
            .await
            .unwrap();
        let prometheus = Engine::start(Storage::new(), &scrapes(&fleet, &exporters)).await;
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.yaml"), CONFIG).unwrap();
        install::install(&plane);
        plane.kubectl(&["create", "namespace", TEAM]);
        let mut lab = Self {
            server: None,
            port: 0,
            gpus: Gpus::start(Arc::clone(&plane), controls),
            account: plane.service_account_kubeconfig(HOME, NAME),
            plane,
            prometheus,
            dir,
            _exporters: exporters,
        };
        lab.start_server();
        install::lead(&lab.plane, lab.port);
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
        self.port = listening(&server);
        self.server = Some(server);
    }

    /// Starts it again with another configuration.
    pub(super) fn reconfigure(&mut self, config: &str) {
        self.server = None;
        std::fs::write(self.dir.path().join("config.yaml"), config).unwrap();
        self.start_server();
        self.await_available();
    }

    /// Another server of the same settings, on a port of its own (0: any). Its
    /// arguments are those of the manifests, its rights the ServiceAccount's.
    pub(super) fn replica(&self, port: u16, flags: &[&str]) -> Program {
        let mut command = Program::command(install::arguments(&self.plane));
        command.arg(format!("--secure-port={port}"));
        let config = self.dir.path().join("config.yaml");
        command.arg("--config").arg(config);
        command.arg("--prometheus-url").arg(self.prometheus.url());
        for flag in [
            "--lister-kubeconfig",
            "--authentication-kubeconfig",
            "--authorization-kubeconfig",
        ] {
            command.arg(flag).arg(&self.account);
        }
        command.args(flags);
        let server = Program::start(command);
        let _ = listening(&server);
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

    /// Waits until a path is answered with what is wanted, as JSON.
    pub(super) fn await_answer(&self, path: &str, wanted: impl Fn(&str) -> bool) {
        eventually(path, PATIENCE, || {
            let admin = self.plane.kubeconfig();
            let said = self.plane.kubectl_as(admin, &["get", "--raw", path])?;
            wanted(&said).then_some(()).ok_or(said)
        });
    }

    /// The service that scales: pods with a GPU each.
    pub(super) fn deploy(&self, replicas: u32) {
        self.deploy_as(APP, replicas);
    }

    /// Another one beside it; its pods get GPUs too.
    pub(super) fn deploy_as(&self, name: &str, replicas: u32) {
        let labels = json!({"app": APP, "deployment": name});
        self.plane.apply(&json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": TEAM},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
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
                    "scaleUp": {
                        "stabilizationWindowSeconds": 0,
                        // The limit of 15 s would count what an autoscaler of
                        // the same name did before.
                        "policies": [{"type": "Percent", "value": 900, "periodSeconds": 1}],
                    },
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

/// The port that a server has said it listens on.
pub(crate) fn listening(server: &Program) -> u16 {
    server.find_in_stderr("the address", PATIENCE, |said| {
        let line = said.lines().find(|line| line.contains("listening"))?;
        let (_, rest) = line.split_once("address=0.0.0.0:")?;
        rest.split_whitespace().next()?.parse().ok()
    })
}

//! A complete cluster: the control plane, a node that runs any pod, GPUs held by the
//! real pods, a Prometheus that scrapes them, and the registered server.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(super) use cluster_state::registration::APISERVICES;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::gpus::{Gpus, Places};
use super::install;
use super::installed::Installed;
use super::workload::{autoscaler, behavior, condition, deployment};
use crate::asking::ApiClient;
use crate::exporters::{Exporters, SCRAPED};
use crate::program::{End, Program, eventually, listening, ok_if};
use crate::prometheus::{Storage, Store, free_port};

/// A generous limit: on an idle machine each wait takes seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// The server's namespace.
pub(super) const HOME: &str = "gpu-metrics";
pub(super) const NAME: &str = "gpu-metrics-apiserver";

/// The Secret of `manifests/secret.yaml`.
pub(super) const SECRET: &str = "gpu-metrics-apiserver-certificates";

/// The scaled service, and its namespace.
pub(super) const TEAM: &str = "team";
pub(super) const APP: &str = "infer";

/// The values of the service's pods.
pub(super) const PODS: &str =
    "/apis/custom.metrics.k8s.io/v1beta2/namespaces/team/pods/*/gpu_memory_utilization";

/// The server's configuration, without the address of Prometheus. Readings are valid a
/// little longer than by default: when other tests use the same cores, an exporter that is
/// scraped every second may be seconds late.
/// Polls are as frequent before the scrape interval is known: autoscalers sync every two
/// seconds, and would count values of deleted pods.
pub(super) const CONFIG: &str = "gpu: {window: 10s, freshness: 20s, poll: 1s}\n";

/// The nodes, with four GPUs each.
const NODES: u32 = 3;

/// Everything that runs. Fields end from top to bottom.
#[derive(Debug)]
pub(super) struct Lab {
    pub(super) server: Option<Program>,
    /// The server's port, which it keeps after a restart.
    pub(super) port: u16,
    pub(super) gpus: Gpus,
    pub(super) plane: Installed,
    pub(super) prometheus: Store,
    /// The address that the server uses as Prometheus, if it is another one.
    stand_in: Option<String>,
    dir: TempDir,
    /// The ServiceAccount's kubeconfig, with the rights of the manifests.
    account: PathBuf,
    pub(super) exporters: Exporters,
}

impl Lab {
    /// Starts everything. The server is registered and Available.
    pub(super) async fn start() -> Self {
        let plane = Installed::take();
        let exporters = Exporters::start(NODES, 4, SCRAPED).await;
        let controls = Arc::clone(&exporters.controls);
        let places = Places {
            nodes: NODES as usize,
        };
        for device in places.all() {
            controls.release(device);
            controls.force_value(device, 0.0);
        }
        let prometheus = Storage::new().start(&exporters.scrapes()).await;
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("config.yaml"), CONFIG).unwrap();
        let mut lab = Self {
            server: None,
            port: free_port(),
            gpus: Gpus::start(ApiClient::of(plane.kubeconfig()), controls, places),
            account: plane.service_account_kubeconfig(HOME, NAME),
            plane,
            prometheus,
            stand_in: None,
            dir,
            exporters,
        };
        lab.start_server();
        install::lead(&lab.plane, lab.port);
        lab.await_available();
        lab
    }

    /// Ends the server by a signal. Returns how it ended.
    pub(super) fn end_server(&mut self, signal: &str) -> End {
        let server = self.server.take().expect("a running server");
        server.signal(signal);
        server.await_end(PATIENCE)
    }

    /// Starts the server again on its port.
    pub(super) fn start_server(&mut self) {
        self.server = Some(self.replica(self.port, &[]));
    }

    /// Starts the server again with another configuration.
    pub(super) fn reconfigure(&mut self, config: &str) {
        self.write_config(config);
        self.restart();
    }

    /// Starts the server again with another Prometheus.
    pub(super) fn read_from(&mut self, prometheus: String) {
        self.stand_in = Some(prometheus);
        self.restart();
    }

    fn restart(&mut self) {
        self.server = None;
        self.start_server();
        self.await_available();
    }

    /// Writes the file of `--config`.
    pub(super) fn write_config(&self, config: &str) {
        std::fs::write(self.config(), config).unwrap();
    }

    /// The file of `--config`.
    pub(super) fn config(&self) -> PathBuf {
        self.dir.path().join("config.yaml")
    }

    /// Another server with the same settings on another port (0: any). It has the
    /// arguments of the manifests, and the ServiceAccount's rights.
    pub(super) fn replica(&self, port: u16, flags: &[&str]) -> Program {
        let mut command = install::server(&self.plane, &self.account, &self.config());
        command.arg(format!("--secure-port={port}"));
        let prometheus = self.stand_in.clone().unwrap_or(self.prometheus.url.clone());
        command.arg("--prometheus-url").arg(prometheus);
        command.args(flags);
        // The name of a Service is known inside of a cluster only.
        command.env("http_proxy", &self.prometheus.url);
        let server = Program::start(command);
        let _ = listening(&server);
        server
    }

    /// Waits until kube-apiserver reports all APIServices as available.
    pub(super) fn await_available(&self) {
        eventually("available APIServices", PATIENCE, || {
            let troubles: Vec<String> = APISERVICES
                .into_iter()
                .filter_map(|name| self.unavailable(name))
                .collect();
            ok_if(troubles.is_empty(), &troubles)
        });
    }

    /// Why an APIService is unavailable.
    pub(super) fn unavailable(&self, name: &str) -> Option<String> {
        let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}");
        let said = match self.plane.read(&path) {
            Ok(said) => serde_json::from_str::<Value>(&said).unwrap(),
            Err(error) => return Some(error),
        };
        match condition(&said, "Available") {
            Some(condition) if condition["status"] == "True" => None,
            other => Some(format!("{name}: {other:?}")),
        }
    }

    /// The replicas in the Deployment.
    pub(super) fn replicas(&self) -> u64 {
        let said = self.plane.found(TEAM, &format!("deployments/{APP}"));
        said["spec"]["replicas"].as_u64().unwrap()
    }

    /// Waits for this number of replicas.
    pub(super) fn await_replicas(&self, wanted: u64) {
        eventually(&format!("{wanted} replicas"), PATIENCE, || {
            let replicas = self.replicas();
            (replicas == wanted).then_some(()).ok_or_else(|| {
                let hpa = ["get", "hpa", "-n", TEAM, "-o", "yaml"];
                format!("{replicas}: {}", self.plane.kubectl(&hpa))
            })
        });
    }

    /// Waits until the answer at a path has this value for so many objects, and no other.
    pub(super) fn await_values(&self, path: &str, count: usize, value: &str) {
        let wanted = format!(r#""value":"{value}""#);
        self.await_answer(path, |said| {
            let all = said.matches(r#""value":"#).count();
            all == count && said.matches(&wanted).count() == count
        });
    }

    /// Waits until the answer at a path is as wanted, as JSON.
    pub(super) fn await_answer(&self, path: &str, wanted: impl Fn(&str) -> bool) {
        eventually(path, PATIENCE, || {
            let said = self.plane.read(path)?;
            ok_if(wanted(&said), &said)
        });
    }

    /// Deploys the scaled service: pods with a GPU each.
    pub(super) fn deploy(&self, replicas: u32) {
        self.deploy_as(APP, replicas);
    }

    /// Deploys another service, whose pods get GPUs too.
    pub(super) fn deploy_as(&self, name: &str, replicas: u32) {
        let labels = json!({"app": APP, "deployment": name});
        let limits = json!({"nvidia.com/gpu": 1});
        self.plane
            .apply(&deployment((TEAM, name), replicas, &labels, &limits));
    }

    /// An autoscaler from 1 to `most` replicas on these metrics, without delays.
    pub(super) fn autoscale(&self, most: u32, metrics: &Value) {
        self.autoscale_after(most, metrics, Duration::ZERO);
    }

    /// An autoscaler with this stabilisation.
    pub(super) fn autoscale_after(&self, most: u32, metrics: &Value, stable: Duration) {
        let behavior = behavior(stable);
        self.plane
            .apply(&autoscaler((TEAM, APP), APP, most, metrics, &behavior));
    }
}

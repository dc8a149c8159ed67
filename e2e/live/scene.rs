//! Two nodes of four GPUs, with holders and readings set by the test, their
//! exporters, a Prometheus that scrapes them every second, and the server.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::time::Timestamp;
use simulator::live::{self, Controls, RunningExporter};
use simulator::{Fleet, Scenario};
use tempfile::TempDir;

use crate::kubectl::{Answer, Kubectl, Served, is_lost, unix_seconds};
use crate::program::{Program, eventually};
use crate::prometheus::{Engine, Storage};

/// The largest age of the newest sample of a value, in seconds. The weather tests assert
/// the exact bound (F, lag, 15 s, a poll and the step) in virtual time. Here scrapes and
/// polls may be as late as a busy machine makes them, and the tests wait until the
/// lateness is measured.
pub(crate) const FRESH: f64 = 60.0;

/// A generous limit: on an idle machine each wait takes seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// The interval at which exporters are scraped and renew their readings.
pub(crate) const SCRAPED: Duration = Duration::from_secs(1);

/// The default window of these tests: ten instants.
pub(super) const WINDOW: u64 = 10;

/// Device, namespace, pod, percent. The eighth device is not held.
const HOLDERS: [(usize, &str, &str, f64); 7] = [
    (0, "team-a", "train-0", 40.0),
    (1, "team-a", "train-0", 60.0),
    (2, "team-a", "idle-0", 0.0),
    (3, "team-b", "serve-0", 20.0),
    (4, "team-b", "batch-0", 30.0),
    (5, "team-b", "batch-0", 0.0),
    (6, "team-a", "far-0", 80.0),
];

/// The device that is not held.
const FREE: usize = 7;

pub(super) const TEAM_A: &str = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/team-a";
pub(super) const TEAM_B: &str = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/team-b";
pub(super) const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces/team-a";
pub(super) const PODS_A: &str =
    "/apis/custom.metrics.k8s.io/v1beta2/namespaces/team-a/pods/*/gpu_memory_utilization";
pub(super) const PODS_B: &str =
    "/apis/custom.metrics.k8s.io/v1beta2/namespaces/team-b/pods/*/gpu_memory_utilization";
pub(super) const CLUSTER: &str =
    "/apis/external.metrics.k8s.io/v1beta1/namespaces/team-a/cluster_gpu_memory_utilization";

/// Everything that runs. Fields end from top to bottom.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) server: Program,
    pub(super) kubectl: Kubectl,
    pub(super) prometheus: Engine,
    pub(super) fleet: Arc<Fleet>,
    pub(super) controls: Arc<Controls>,
    dir: TempDir,
    pub(super) exporters: Exporters,
}

impl Scene {
    /// Starts everything, and waits until all values are served.
    pub(super) async fn start() -> Self {
        let exporters = Exporters::start(2, 4, SCRAPED).await;
        let controls = &exporters.controls;
        for (device, namespace, pod, percent) in HOLDERS {
            controls.reassign(device, namespace, pod);
            controls.force_value(device, percent);
        }
        controls.release(FREE);
        controls.force_value(FREE, 0.0);
        let prometheus = Engine::start(Storage::new(), &exporters.scrapes()).await;
        let dir = tempfile::tempdir().unwrap();
        let (server, kubectl) = serve(&prometheus, &dir.path().join("main"), &of_window(WINDOW));
        let scene = Self {
            server,
            kubectl,
            prometheus,
            fleet: Arc::clone(&exporters.fleet),
            controls: Arc::clone(controls),
            dir,
            exporters,
        };
        scene.await_values(
            PODS_A,
            &[("far-0", "80"), ("idle-0", "0"), ("train-0", "50")],
        );
        scene.await_values(PODS_B, &[("batch-0", "30"), ("serve-0", "20")]);
        scene.await_values(CLUSTER, &[("cluster_gpu_memory_utilization", "46")]);
        eventually("/readyz", PATIENCE, || match scene.kubectl.get("/readyz") {
            Answer::Body(_) => Ok(()),
            answer => Err(format!("{answer:?}")),
        });
        scene
    }

    /// Another server on the same Prometheus.
    pub(super) fn serve_again(&self, name: &str, window: u64) -> (Program, Kubectl) {
        self.serve_configured(name, &of_window(window))
    }

    /// Another server with its own configuration.
    pub(super) fn serve_configured(&self, name: &str, config: &str) -> (Program, Kubectl) {
        self.serve_of(&self.prometheus, name, config)
    }

    /// Another server, on another Prometheus.
    pub(super) fn serve_of(
        &self,
        prometheus: &Engine,
        name: &str,
        config: &str,
    ) -> (Program, Kubectl) {
        serve(prometheus, &self.dir.path().join(name), config)
    }

    /// Requests values, and fails if one is too old.
    pub(super) fn ask(&self, path: &str) -> Result<Vec<Served>, Answer> {
        ask(&self.kubectl, path)
    }

    /// Waits until a path has exactly these values.
    pub(super) fn await_values(&self, path: &str, wanted: &[(&str, &str)]) {
        self.await_values_by_way_of(path, wanted, |_| true);
    }

    /// Waits for these values. Every answer until then must satisfy `passes`.
    pub(super) fn await_values_by_way_of(
        &self,
        path: &str,
        wanted: &[(&str, &str)],
        passes: impl Fn(&Served) -> bool,
    ) {
        eventually(&format!("{wanted:?} at {path}"), PATIENCE, || {
            let served = self.ask(path).map_err(|answer| format!("{answer:?}"))?;
            let found: Vec<(&str, &str)> = served.iter().map(pair).collect();
            if found == wanted {
                return Ok(());
            }
            let odd = served.iter().find(|served| !passes(served));
            assert!(odd.is_none(), "{odd:?} at {path} on the way to {wanted:?}");
            Err(format!("{found:?}"))
        });
    }

    /// Waits until the error message for a path has these words.
    pub(super) fn await_message(&self, path: &str, words: &str) {
        eventually(&format!("{words:?} at {path}"), PATIENCE, || {
            match self.ask(path) {
                Err(Answer::NotFound(message)) if message.contains(words) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
    }

    /// Waits until a path has no values. Returns the error message.
    pub(super) fn await_end(&self, path: &str, passes: impl Fn(&Served) -> bool) -> String {
        eventually(&format!("the end of {path}"), PATIENCE, || {
            match self.ask(path) {
                Err(Answer::NotFound(message)) => Ok(message),
                Err(Answer::Other(said)) if is_lost(&said) => Err(said),
                Err(answer) => panic!("{answer:?} at {path}"),
                Ok(served) => {
                    let odd = served.iter().find(|served| !passes(served));
                    assert!(odd.is_none(), "{odd:?} at {path} before its end");
                    Err(format!("{served:?}"))
                }
            }
        })
    }
}

/// Requests values, and fails if one is too old.
pub(super) fn ask(kubectl: &Kubectl, path: &str) -> Result<Vec<Served>, Answer> {
    let begun = unix_seconds();
    let served = kubectl.values(path)?;
    for item in &served {
        // Timestamps in answers have no fractions.
        let newest = item.at.as_second() as f64 + 1.0;
        assert!(newest > begun - FRESH, "{item:?} is stale at {begun}");
    }
    Ok(served)
}

/// Name and value.
pub(super) fn pair(served: &Served) -> (&str, &str) {
    (&served.name, &served.value)
}

/// A quantity in thousandths.
pub(crate) fn milli(served: &Served) -> u64 {
    let text = served.value.as_str();
    match text.strip_suffix('m') {
        Some(milli) => milli.parse().unwrap(),
        None => 1000 * text.parse::<u64>().unwrap(),
    }
}

/// Readings are valid a little longer than by default: when other tests use the
/// same cores, an exporter that is scraped every second may be seconds late.
pub(super) fn of_window(window: u64) -> String {
    format!("gpu: {{window: {window}s, freshness: 20s}}\n")
}

/// Starts the server and waits until it listens.
fn serve(prometheus: &Engine, dir: &Path, text: &str) -> (Program, Kubectl) {
    std::fs::create_dir_all(dir).unwrap();
    let config = dir.join("own.yaml");
    std::fs::write(&config, text).unwrap();
    let mut command = Program::command(["demo", "--port", "0", "--prometheus-url"]);
    command.arg(prometheus.url());
    command.arg("--dir").arg(dir).arg("--config").arg(&config);
    let server = Program::start(command);
    server.await_stdout("the address", PATIENCE, |said| {
        said.contains("serving ").then_some(())
    });
    let kubeconfig = dir.join("kubeconfig");
    (server, Kubectl { kubeconfig })
}

/// Running exporters of nodes, with holders and readings set by the test.
#[derive(Debug)]
pub(crate) struct Exporters {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) controls: Arc<Controls>,
    running: Vec<RunningExporter>,
    interval: Duration,
}

impl Exporters {
    /// Starts exporters that renew their readings, and are to be scraped, at an interval.
    pub(crate) async fn start(nodes: u32, gpus_per_node: u32, interval: Duration) -> Self {
        let epoch = Timestamp::from_secs(cluster_state::clock::now().secs());
        let mut scenario = Scenario::clean(nodes, gpus_per_node, 7).starting_at(epoch);
        scenario.exporters.interval = interval;
        scenario.scrape.interval = interval;
        let fleet = Arc::new(Fleet::new(scenario));
        let controls = Arc::new(Controls::default());
        let clock = cluster_state::clock::now;
        let running = live::serve(Arc::clone(&fleet), Arc::clone(&controls), clock);
        Self {
            running: running.await.unwrap(),
            fleet,
            controls,
            interval,
        }
    }

    /// A configuration of Prometheus that gives targets the labels of the operator's
    /// ServiceMonitor.
    pub(crate) fn scrapes(&self) -> String {
        self.scrapes_of(&self.running)
    }

    /// The same for the exporter of one node.
    pub(super) fn scrapes_of_node(&self, node: usize) -> String {
        self.scrapes_of(&self.running[node..=node])
    }

    fn scrapes_of(&self, running: &[RunningExporter]) -> String {
        let interval = self.interval.as_secs();
        let mut config = format!(
            "global: {{scrape_interval: {interval}s, scrape_timeout: {interval}s}}\n\
             scrape_configs:\n\
             - job_name: nvidia-dcgm-exporter\n  \
               honor_labels: false\n  \
               static_configs:\n"
        );
        for running in running {
            let pod = &self.fleet.exporters()[running.index].pod;
            config.push_str(&format!(
                "  - targets: [\"{}\"]\n    \
                     labels: {{namespace: gpu-operator, pod: {pod}, container: nvidia-dcgm-exporter, \
                     service: nvidia-dcgm-exporter, endpoint: gpu-metrics}}\n",
                running.addr
            ));
        }
        config
    }
}

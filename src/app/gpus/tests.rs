//! Engines that replace one another, with a cluster and stores that are HTTP servers.

use futures_util::FutureExt as _;

use super::*;
use crate::provider::composite::Composite;
use crate::provider::gpu::ServedProvider;
use crate::provider::{Item, ListedMetrics, ObjectSelection, Provider, Query, ValuesOf};
use crate::telemetry::Telemetry;
use crate::telemetry::health::Probe;
use crate::telemetry::metrics::Exposition;
use aggregated_apiserver::testing::log::logging;
use aggregated_apiserver::testing::test_server::until;
use apimachinery::selector::Selector;
use cluster_state::client::{Client, ClusterAccess};
use cluster_state::clock;
use cluster_state::health::WatchRegistry;
use cluster_state::testing::fake_kube::{FakeKube, pod};
use configuration::Flags;
use prometheus_source::testing::fake_prometheus::FakePrometheus;
use prometheus_source::{KeyHasher, Prometheus};

const FIELD: &str = "DCGM_FI_DEV_MEM_COPY_UTIL";

pub(in crate::app) const METRIC: &str = "gpu_memory_utilization";

const TICK: Duration = Duration::from_millis(50);

/// A minute of samples with this value, one per second.
fn readings(value: u8) -> String {
    let now = clock::now().secs();
    let values = (now - 60..=now).map(|at| format!(r#"[{at},"{value}"]"#));
    let values = values.collect::<Vec<_>>().join(",");
    format!(
        r#"{{"status":"success","data":{{"resultType":"matrix","result":[{{"metric":{{
        "__name__":"{FIELD}","UUID":"GPU-1","gpu":"0","Hostname":"n1","modelName":"H100","job":"dcgm",
        "instance":"10.0.0.1:9400","exported_namespace":"ml","exported_pod":"a","exported_container":"c"
        }},"values":[{values}]}}]}}}}"#
    )
}

/// A store whose exporter reports this value. Dropping it stops the exporter.
pub(in crate::app) struct Store {
    pub(in crate::app) fake: Arc<FakePrometheus>,
    scraping: JoinSet<()>,
}

impl Store {
    pub(in crate::app) async fn reading(value: u8) -> Self {
        let store = Self::empty().await;
        store.scrape(value)
    }

    async fn empty() -> Self {
        let fake = Arc::new(FakePrometheus::start().await);
        fake.match_names_exactly(&[]);
        let scraping = JoinSet::new();
        Self { fake, scraping }
    }

    fn scrape(mut self, value: u8) -> Self {
        let fake = Arc::clone(&self.fake);
        self.scraping.spawn(async move {
            loop {
                fake.match_names_exactly(&[(FIELD, &readings(value))]);
                tokio::time::sleep(TICK).await;
            }
        });
        self
    }

    /// The number of queries for the field.
    fn asked(&self) -> usize {
        let requests = self.fake.requests();
        let of_field = requests.iter().filter(|request| {
            let query = request.param("query").unwrap_or_default();
            query.starts_with(&format!("{{__name__=\"{FIELD}\""))
        });
        of_field.count()
    }

    fn settings(&self, gpu: &str) -> Settings {
        settings(&self.fake.url(), gpu)
    }
}

type Settings = (Config, Prometheus);

fn settings(url: &str, gpu: &str) -> Settings {
    let text = format!("prometheus: {{url: '{url}', nameMatching: exact}}\ngpu: {gpu}\n");
    let config = Config::from_yaml("config.yaml", &text, &Flags::default()).unwrap();
    let prometheus = config.prometheus.clone().unwrap();
    let source = Prometheus::new(prometheus, KeyHasher::new()).unwrap();
    (config, source)
}

/// A node and a pod with a GPU.
pub(in crate::app) async fn cluster() -> FakeKube {
    let kube = FakeKube::small().await;
    kube.put("/api/v1/pods", pod("a"));
    kube
}

/// The answer to a request of an autoscaler for the pod.
pub(in crate::app) fn ask(provider: &dyn Provider, metric: &str) -> Result<f64, String> {
    let query = Query {
        of: ValuesOf::Objects(ObjectSelection::named("pods", Some("ml"), "a")),
        metric: metric.to_owned(),
        selector: Selector::everything(),
        now: clock::now(),
        user: String::new(),
    };
    let mut value = None;
    let mut sink = |item: Item<'_>| value = Some(item.value().value);
    let asked = provider.values(&query, &mut sink).now_or_never();
    asked.unwrap().map_err(|error| error.to_string())?;
    Ok(value.unwrap())
}

/// The running tasks. Dropping this ends them.
struct World {
    _kube: FakeKube,
    telemetry: Telemetry,
    served: ServedProvider,
    changes: mpsc::UnboundedSender<Settings>,
    _tasks: JoinSet<()>,
}

impl World {
    async fn start(first: Settings) -> Self {
        Self::with(first, OVERLAP).await
    }

    async fn with(first: Settings, overlap: Duration) -> Self {
        let kube = cluster().await;
        let access = ClusterAccess::Kubeconfig(kube.kubeconfig());
        let client = Client::connect(&access).await.unwrap();
        let registry = WatchRegistry::default();
        let watches = Watches::start(&client, &registry, watching(&first.0));
        let telemetry = Telemetry::new();
        let wiring = Wiring::new(&first.0, watches.subscribe(), telemetry.clone());
        let served = Arc::clone(&wiring.served);
        let (changes, changed) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(run(wiring, watches, overlap, first, changed));
        Self {
            _kube: kube,
            telemetry,
            served,
            changes,
            _tasks: tasks,
        }
    }

    fn change(&self, settings: Settings) {
        self.changes.send(settings).unwrap();
    }

    fn ask(&self, metric: &str) -> Result<f64, String> {
        let provider = Composite::new(None, Arc::clone(&self.served), Vec::new());
        ask(&provider, metric)
    }

    /// Waits for a value. Every answer before it must satisfy `rightly`.
    async fn until(&self, wanted: f64, rightly: impl Fn(&Result<f64, String>) -> bool) {
        until("the value is served", async || {
            let told = self.ask(METRIC);
            let is_there = told == Ok(wanted);
            assert!(is_there || rightly(&told), "{told:?}");
            is_there
        })
        .await;
    }

    /// The reason of a check of readiness.
    fn check(&self, name: &str) -> String {
        let findings = self.telemetry.health.examine(Probe::Ready);
        let found = findings.iter().find(|finding| finding.name == name);
        format!("{:?}", found.unwrap().trouble)
    }

    fn metrics(&self) -> String {
        let metrics = &self.telemetry.metrics;
        metrics.render(Exposition::Prometheus)
    }
}

#[tokio::test]
async fn values_stay_until_new_settings_have_values() {
    let (old, new) = (Store::reading(40).await, Store::reading(80).await);
    let world = World::start(old.settings("{}")).await;
    world.until(40.0, Result::is_err).await;
    let extra =
        "{name: temperature, field: DCGM_FI_DEV_GPU_TEMP, unit: plain, reducer: max, over: all}";
    world.change(new.settings(&format!("{{metrics: [{extra}]}}")));
    world.until(80.0, |told| *told == Ok(40.0)).await;
    let told = world.ask("temperature").unwrap_err();
    // It is listed, without a value.
    assert!(told.contains("temperature"), "{told}");
    assert!(world.telemetry.health.is_ok(Probe::Live));
    // The former engine has ended.
    let asked = old.asked();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(old.asked() <= asked + 1, "{asked}, then {}", old.asked());
}

#[tokio::test]
async fn values_end_if_the_new_prometheus_does_not_answer() {
    let old = Store::reading(40).await;
    let overlap = Duration::from_secs(2);
    let world = World::with(old.settings("{}"), overlap).await;
    world.until(40.0, Result::is_err).await;
    let silent = FakePrometheus::start().await;
    silent.answer_with(503, &[], "no");
    world.change(settings(&silent.url(), "{}"));
    let changed = tokio::time::Instant::now();
    until("the value ends", async || {
        let told = world.ask(METRIC);
        assert!(told.is_err() || told == Ok(40.0), "{told:?}");
        told.is_err()
    })
    .await;
    assert!(changed.elapsed() >= overlap);
    let reason = world.ask(METRIC).unwrap_err();
    let words = "queries to Prometheus have failed since";
    assert!(reason.contains(words), "{reason}");
    let check = world.check("metrics-source");
    assert!(check.contains("server_error"), "{check}");
    // Back to the good settings.
    world.change(old.settings("{}"));
    world.until(40.0, Result::is_err).await;
    assert_eq!(world.check("metrics-source"), "None");
}

#[tokio::test]
async fn disabled_gpus_are_neither_listed_nor_queried() {
    let store = Store::reading(40).await;
    let world = World::start(store.settings("{enabled: false}")).await;
    let is_ready = world.telemetry.health.is_ok(Probe::Ready);
    assert!(is_ready, "nothing is waited for");
    assert_eq!(*world.served.load().listed(), ListedMetrics::default());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(store.fake.requests().len(), 0);

    world.change(store.settings("{}"));
    world.until(40.0, Result::is_err).await;
    let snapshot = "\ngpu_metrics_apiserver_snapshot_timestamp_seconds ";
    let is_shown = || world.metrics().contains(snapshot);
    until("the snapshot has a time", async || is_shown()).await;

    world.change(store.settings("{enabled: false}"));
    let is_empty = || world.served.load().listed().custom.is_empty();
    until("no metric is listed", async || is_empty()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let asked = store.fake.requests().len();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(store.fake.requests().len(), asked, "the engine has ended");
    assert!(!is_shown(), "a time that stands still is no age");
    for probe in Probe::ALL {
        assert!(world.telemetry.health.is_ok(probe));
    }
}

#[tokio::test]
async fn missing_series_are_reported_and_looked_for() {
    let (log, _guard) = logging(tracing::Level::INFO);
    let store = Store::empty().await;
    let world = World::start(store.settings("{poll: 500ms}")).await;
    let health = &world.telemetry.health;
    until("ready", async || health.is_ok(Probe::Ready)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let words = "no DCGM series found in Prometheus";
    for told in [
        world.ask(METRIC).unwrap_err(),
        world.check("metrics-source"),
    ] {
        assert!(told.contains(words), "{told}");
    }
    let warnings = log.text().matches("no DCGM series found").count();
    assert_eq!(warnings, 1, "{}", log.text());
    let _store = store.scrape(40);
    world.until(40.0, Result::is_err).await;
    assert_eq!(world.check("metrics-source"), "None");
}

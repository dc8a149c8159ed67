//! The poll loop with a cluster and a store that are HTTP servers.

use futures_util::FutureExt as _;
use tokio::task::JoinSet;

use super::*;
use crate::provider::composite::Composite;
use crate::provider::gpu::GpuProvider;
use crate::provider::tests::numbered;
use crate::provider::{ListedMetrics, ObjectSelection, Provider, Query, ValuesOf};
use crate::telemetry::Telemetry;
use crate::telemetry::health::Probe;
use aggregated_apiserver::testing::test_server::until;
use apimachinery::selector::Selector;
use cluster_state::client::Client;
use cluster_state::clock;
use cluster_state::health::WatchRegistry;
use cluster_state::inventory::{WatchSettings, Watches};
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

    fn settings(&self, gpu: &str) -> Settings {
        settings(&self.fake.url(), gpu)
    }
}

type Settings = (Config, Prometheus);

fn settings(url: &str, gpu: &str) -> Settings {
    let text = format!("prometheus: {{url: '{url}'}}\ngpu: {gpu}\n");
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
    let asked = provider.values(&query).now_or_never();
    let values = asked.unwrap().map_err(|error| format!("{error:?}"))?;
    Ok(numbered(&values)[0].1.value)
}

/// The running poll loop. Dropping this ends it.
struct World {
    _kube: FakeKube,
    telemetry: Telemetry,
    provider: Arc<GpuProvider>,
    _watches: Watches,
    _tasks: JoinSet<()>,
}

impl World {
    async fn start((config, prometheus): Settings) -> Self {
        let kube = cluster().await;
        let access = kube.access();
        let client = Client::connect(&access).await.unwrap();
        let registry = WatchRegistry::default();
        let watches = Watches::start(&client, &registry, WatchSettings::default());
        let telemetry = Telemetry::new().unwrap();
        let inventory = watches.subscribe();
        let provider = provider(&config);
        let mut tasks = JoinSet::new();
        if config.gpus_enabled {
            let served = Arc::clone(&provider);
            let engine = Engine::new(config, prometheus, inventory, served, &telemetry);
            tasks.spawn(engine.run_in_cluster());
        }
        Self {
            _kube: kube,
            telemetry,
            provider,
            _watches: watches,
            _tasks: tasks,
        }
    }

    fn ask(&self, metric: &str) -> Result<f64, String> {
        ask(&Composite::from(Arc::clone(&self.provider)), metric)
    }

    async fn until(&self, wanted: f64) {
        let value = || self.ask(METRIC);
        until("the value is served", async || value() == Ok(wanted)).await;
    }
}

#[tokio::test]
async fn disabled_gpus_are_neither_listed_nor_queried() {
    let store = Store::reading(40).await;
    let world = World::start(store.settings("{enabled: false}")).await;
    let is_ready = world.telemetry.health.is_ok(Probe::Ready);
    assert!(is_ready, "nothing is waited for");
    assert_eq!(*world.provider.listed(), ListedMetrics::default());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(store.fake.requests().len(), 0);
}

#[tokio::test]
async fn missing_series_are_reported_and_looked_for() {
    let store = Store::empty().await;
    let world = World::start(store.settings("{poll: 500ms}")).await;
    let health = &world.telemetry.health;
    until("ready", async || health.is_ok(Probe::Ready)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let words = "no DCGM series found in Prometheus";
    let told = world.ask(METRIC).unwrap_err();
    assert!(told.contains(words), "{told}");
    let _store = store.scrape(40);
    world.until(40.0).await;
}

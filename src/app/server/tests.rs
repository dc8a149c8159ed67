//! The configuration file and the parts that follow it, connected as in a server, with a
//! cluster and a store that are HTTP servers.

use futures_util::FutureExt as _;
use tokio::task::JoinSet;

use super::*;
use crate::provider::tests::numbered;
use crate::provider::{ListedMetrics, ObjectSelection, Provider as _, Query, ValuesOf};
use crate::telemetry::health::Probe;
use aggregated_apiserver::testing::test_server::until;
use apimachinery::selector::Selector;
use cluster_state::testing::fake_kube::{FakeKube, pod};
use configuration::Flags;
use prometheus_source::testing::fake_prometheus::FakePrometheus;

const FIELD: &str = "DCGM_FI_DEV_MEM_COPY_UTIL";

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

/// A server without its listeners. Its cluster has a node and a pod with a GPU.
struct Scene {
    telemetry: Telemetry,
    provider: Arc<Composite>,
    _tasks: Tasks,
    _kube: FakeKube,
}

impl Scene {
    async fn by(text: &str) -> Self {
        let kube = FakeKube::small().await;
        kube.put("/api/v1/pods", pod("a"));
        let config = Config::from_yaml("config.yaml", text, &Flags::default()).unwrap();
        let (telemetry, mut tasks) = (Telemetry::new().unwrap(), Tasks::default());
        let client = connect(&Some(kube.kubeconfig())).await.unwrap();
        let loaded = Loaded {
            prometheus: config.client().unwrap(),
            config,
            file: None,
        };
        let flags = RuleFlags {
            metrics_relist_interval: Duration::from_secs(600),
            metrics_max_age: None,
            rule_max_age: Duration::from_secs(5),
        };
        let own: SelfFindings = Arc::new(Vec::new);
        let provider = provide(loaded, &flags, client, own, &telemetry, &mut tasks);
        Self {
            telemetry,
            provider,
            _tasks: tasks,
            _kube: kube,
        }
    }
    /// The answer to a request of an autoscaler for the pod.
    fn ask(&self) -> Result<f64, String> {
        let query = Query {
            of: ValuesOf::Objects(ObjectSelection::named("pods", Some("ml"), "a")),
            metric: "gpu_memory_utilization".to_owned(),
            selector: Selector::everything(),
            now: clock::now(),
            user: String::new(),
        };
        let asked = self.provider.values(&query).now_or_never();
        let values = asked.unwrap().map_err(|error| format!("{error:?}"))?;
        Ok(numbered(&values)[0].1.value)
    }

    async fn until_ready(&self) {
        let health = &self.telemetry.health;
        until("ready", async || health.is_ok(Probe::Ready)).await;
    }
}

/// A valid response to the search for the series of [`rule`], but an invalid one to a query.
const SERIES: &str = r#"{"status":"success","data":[{"__name__":"up"}]}"#;

/// A file with one rule.
fn rule(fake: &FakePrometheus, gpu: &str) -> String {
    format!(
        "prometheus: {{url: '{}', timeout: 1h}}\ngpu: {gpu}\n\
         externalRules: [{{seriesQuery: up, metricsQuery: up, resources: {{namespaced: false}}}}]\n",
        fake.url()
    )
}

#[tokio::test]
async fn rules_do_not_wait_for_gpu_data() {
    for gpu in ["{enabled: false}", "{}"] {
        let fake = FakePrometheus::start().await;
        fake.answer(SERIES);
        let scene = Scene::by(&rule(&fake, gpu)).await;
        let is_found = || scene.provider.listed().external.contains(&"up".into());
        until("the metric is found", async || is_found()).await;
        scene.until_ready().await;
    }
}

#[tokio::test]
async fn disabled_gpus_are_neither_listed_nor_queried() {
    let store = FakePrometheus::start().await;
    let url = store.url();
    let scene = Scene::by(&format!(
        "prometheus: {{url: '{url}'}}\ngpu: {{enabled: false}}"
    ))
    .await;
    scene.until_ready().await;
    assert_eq!(*scene.provider.listed(), ListedMetrics::default());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(store.requests().len(), 0);
}

#[tokio::test]
async fn missing_series_are_reported_and_looked_for() {
    let store = Arc::new(FakePrometheus::start().await);
    store.match_names_exactly(&[]);
    let url = store.url();
    let scene = Scene::by(&format!(
        "prometheus: {{url: '{url}'}}\ngpu: {{poll: 500ms}}"
    ))
    .await;
    scene.until_ready().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let told = scene.ask().unwrap_err();
    assert!(
        told.contains("no DCGM series found in Prometheus"),
        "{told}"
    );
    let mut exporter = JoinSet::new();
    exporter.spawn(async move {
        loop {
            store.match_names_exactly(&[(FIELD, &readings(40))]);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    until("the value is served", async || scene.ask() == Ok(40.0)).await;
}

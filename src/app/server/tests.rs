//! The configuration file and the parts that follow it, connected as in a server.

use super::super::engine::tests::cluster;
use super::*;
use crate::provider::Provider as _;
use crate::telemetry::health::Probe;
use aggregated_apiserver::testing::test_server::until;
use cluster_state::testing::fake_kube::FakeKube;
use configuration::Flags;
use prometheus_source::testing::fake_prometheus::FakePrometheus;

/// A server without its listeners.
struct Scene {
    telemetry: Telemetry,
    provider: Arc<Composite>,
    _tasks: Tasks,
    _kube: FakeKube,
}

impl Scene {
    async fn by(text: &str) -> Self {
        let kube = cluster().await;
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
        let health = &scene.telemetry.health;
        until("ready", async || health.is_ok(Probe::Ready)).await;
    }
}

//! The configuration file and the parts that follow it, connected as in a server.

use std::path::Path;

use super::super::gpus::tests::{METRIC, Store, ask, cluster};
use super::super::reload::tests::RESOURCES;
use super::*;
use crate::provider::Provider as _;
use crate::telemetry::health::Probe;
use aggregated_apiserver::testing::test_server::until;
use cluster_state::testing::fake_kube::FakeKube;
use configuration::Flags;
use prometheus_source::testing::fake_prometheus::FakePrometheus;

/// A server without its listeners, configured by a file.
struct Scene {
    background: Background,
    provider: Arc<Composite>,
    serves_resources: Arc<AtomicBool>,
    drain: watch::Sender<bool>,
    _kube: FakeKube,
}

impl Scene {
    async fn by(path: &Path) -> Self {
        let kube = cluster().await;
        let flags = Flags::default();
        let (config, text) = Config::load(path, &flags).unwrap();
        let (drain, draining) = watch::channel(false);
        let mut background = Background {
            telemetry: Telemetry::new(),
            tasks: JoinSet::new(),
            draining,
            own: Vec::new(),
        };
        let access = ClusterAccess::Kubeconfig(kube.kubeconfig());
        let client = Client::connect(&access).await.unwrap();
        let serves_resources = Arc::new(AtomicBool::new(false));
        let clients = Clients::new(&config).unwrap();
        let path = path.to_owned();
        let file = Some(ConfigFile { path, text, flags });
        let provider = background.provide(
            (config, file, clients),
            RelistTimes {
                relist: Duration::from_secs(600),
                max_age: Duration::from_secs(600),
                answer: Duration::from_secs(5),
            },
            Arc::clone(&serves_resources),
            &client,
        );
        Self {
            background,
            provider,
            serves_resources,
            drain,
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
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.yaml");
        std::fs::write(&path, rule(&fake, gpu)).unwrap();
        let scene = Scene::by(&path).await;
        let is_found = || scene.provider.listed().external.contains(&"up".into());
        until("the metric is found", async || is_found()).await;
        let health = &scene.background.telemetry.health;
        until("ready", async || health.is_ok(Probe::Ready)).await;
    }
}

#[tokio::test]
async fn a_corrected_address_of_prometheus_does_not_wait_for_a_search_at_the_former_one() {
    let (dead, fine) = (FakePrometheus::start().await, FakePrometheus::start().await);
    dead.stall();
    fine.answer(SERIES);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    std::fs::write(&path, rule(&dead, "{enabled: false}")).unwrap();
    let scene = Scene::by(&path).await;
    until("it searches", async || !dead.requests().is_empty()).await;
    std::fs::write(&path, rule(&fine, "{enabled: false}")).unwrap();
    let found = || !scene.provider.listed().external.is_empty();
    until("the metric is found", async || found()).await;
}

#[tokio::test]
async fn a_changed_file_applies_to_gpus_and_resource_metrics_unless_it_is_invalid() {
    let (one, two) = (Store::reading(40).await, Store::reading(80).await);
    let at = |url: String| format!("prometheus: {{url: '{url}', nameMatching: exact}}\n");
    let of = |store: &Store| at(store.fake.url());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    std::fs::write(&path, of(&one)).unwrap();
    let mut scene = Scene::by(&path).await;
    let provider = Arc::clone(&scene.provider);
    let telemetry = scene.background.telemetry.clone();
    let value = || ask(&*provider, METRIC);
    until("it has a value", async || value() == Ok(40.0)).await;

    std::fs::write(&path, format!("{}{RESOURCES}", of(&two))).unwrap();
    until("it has another value", async || {
        let told = value();
        assert!(told == Ok(40.0) || told == Ok(80.0), "{told:?}");
        told == Ok(80.0)
    })
    .await;
    assert!(provider.knows_usage() && scene.serves_resources.load(Ordering::Relaxed));

    std::fs::write(&path, "gpu: {window: soon}\n").unwrap();
    let is_refused = || {
        let findings = telemetry.health.examine(Probe::Ready);
        let mut failed = findings.into_iter().filter(|it| it.trouble.is_some());
        failed.any(|finding| finding.name == "configuration")
    };
    until("the file is refused", async || is_refused()).await;
    let is_found = || {
        provider
            .findings()
            .findings
            .iter()
            .any(|it| it.code == "GM603")
    };
    assert!(is_found());
    assert_eq!(value(), Ok(80.0));
    assert!(provider.knows_usage());
    std::fs::write(&path, of(&two)).unwrap();
    until("a good file is in force", async || !is_found()).await;

    scene.drain.send(true).unwrap();
    let ended = async { while scene.background.tasks.join_next().await.is_some() {} };
    let ended = tokio::time::timeout(Duration::from_secs(60), ended);
    ended.await.unwrap();
}

//! Files that are valid, invalid, replaced and missing.

use std::future::ready;

use super::super::backing::LoggedAnswers;
use super::*;
use crate::provider::rules::tests::FakeObjects;
use crate::telemetry::health::Probe;
use crate::telemetry::metrics::Exposition;
use configuration::Flags;

const FIRST: &str = "prometheus: {url: 'http://one:9090'}
rules:
- {seriesQuery: up, resources: {template: <<.Resource>>}, metricsQuery: up}
";

pub(in crate::app) const RESOURCES: &str = "resourceRules:
  cpu: {containerQuery: c, nodeQuery: c, resources: {template: <<.Resource>>}, containerLabel: container}
  memory: {containerQuery: m, nodeQuery: m, resources: {template: <<.Resource>>}, containerLabel: container}
";

/// A follower of a file, and the receivers of its changes.
struct Scene {
    reload: Reload,
    file: ConfigFile,
    rules: watch::Receiver<Arc<RuleSet>>,
    gpus: mpsc::UnboundedReceiver<(Config, Prometheus)>,
    provider: Arc<RuleProvider>,
    serves_resources: Arc<AtomicBool>,
    telemetry: Telemetry,
}

impl Scene {
    fn new(flags: Flags) -> Self {
        let file = ConfigFile {
            path: "config.yaml".into(),
            text: FIRST.to_owned(),
            flags,
        };
        let config = Config::from_yaml("config.yaml", FIRST, &file.flags).unwrap();
        let prometheus = Arc::new(Clients::new(&config).unwrap().promql);
        let answers = AnswerCache::new(Arc::clone(&prometheus), clock::now, Duration::ZERO);
        let answers = Arc::new(answers);
        let asked = LoggedAnswers::new(Arc::clone(&answers));
        let objects = Box::new(FakeObjects::default());
        let provider = Arc::new(RuleProvider::new(objects, Box::new(asked)));
        let (sender, rules) = watch::channel(Arc::new(RuleSet::new(&config, prometheus)));
        let (changes, gpus) = mpsc::unbounded_channel();
        let serves_resources = Arc::new(AtomicBool::new(false));
        let telemetry = Telemetry::new();
        let targets = Targets {
            rules: sender,
            answers,
            provider: Arc::clone(&provider),
            serves_resources: Arc::clone(&serves_resources),
            gpus: changes,
        };
        Self {
            reload: Reload::new(None, config, targets, &telemetry),
            file,
            rules,
            gpus,
            provider,
            serves_resources,
            telemetry,
        }
    }

    /// Replaces the file's text.
    async fn write(&mut self, text: &str) {
        text.clone_into(&mut self.file.text);
        self.reload.read(&self.file).await;
    }

    fn check(&self) -> Option<String> {
        check(&self.telemetry)
    }

    /// Whether `/metrics` has this line, without the common prefix.
    fn counts(&self, line: &str) -> bool {
        let text = self.telemetry.metrics.render(Exposition::Prometheus);
        text.contains(&format!("\ngpu_metrics_apiserver_{line}\n"))
    }

    /// The address for the queries of rules.
    fn prometheus(&self) -> String {
        format!("{:?}", self.rules.borrow().prometheus)
    }
}

fn check(telemetry: &Telemetry) -> Option<String> {
    let findings = telemetry.health.examine(Probe::Ready);
    let found = findings.into_iter().find(|it| it.name == "configuration");
    found.unwrap().trouble
}

/// Waits until the file is refused, and returns the reason.
async fn refused(telemetry: &Telemetry) -> String {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if let Some(reason) = check(telemetry) {
            return reason;
        }
    }
}

#[tokio::test]
async fn a_valid_file_is_applied_as_a_whole() {
    let mut scene = Scene::new(Flags::default());
    assert!(scene.counts("rules{kind=\"custom\"} 1.0"));
    assert!(!scene.provider.knows_usage());
    let other = "prometheus: {url: 'http://two:9090'}\ngpu: {maxWindow: 10m}\n";
    scene.write(&format!("{other}{RESOURCES}")).await;
    assert_eq!(scene.rules.borrow().iter().count(), 0);
    assert!(scene.prometheus().contains("http://two:9090"));
    let (config, prometheus) = scene.gpus.try_recv().unwrap();
    assert_eq!(config.policy.max_window, Duration::from_secs(600));
    assert_eq!(prometheus.address(), "http://two:9090");
    assert!(scene.provider.knows_usage());
    assert!(scene.serves_resources.load(Ordering::Relaxed));
    assert!(scene.counts("rules{kind=\"custom\"} 0.0"));
    assert!(scene.counts("rules{kind=\"resource\"} 2.0"));
    scene.write(FIRST).await;
    assert!(!scene.provider.knows_usage() && !scene.serves_resources.load(Ordering::Relaxed));
    assert_eq!(scene.check(), None);
}

#[tokio::test]
async fn changed_rules_change_neither_gpus_nor_prometheus() {
    let mut scene = Scene::new(Flags::default());
    let before = Arc::clone(&scene.rules.borrow().prometheus);
    let external = "externalRules: [{seriesQuery: up, metricsQuery: up}]\n";
    scene.write(&format!("{FIRST}{external}")).await;
    let now = Arc::clone(&scene.rules.borrow().prometheus);
    assert!(Arc::ptr_eq(&before, &now), "its connections are kept");
    assert!(scene.gpus.try_recv().is_err());
    assert!(scene.counts("rules{kind=\"external\"} 1.0"));
}

#[tokio::test]
async fn an_invalid_file_leaves_the_old_one_in_force_and_its_fault_is_located() {
    let mut scene = Scene::new(Flags::default());
    let soon = "prometheus: {url: 'http://two:9090'}\ngpu: {window: soon}\n";
    let untrusting = "prometheus: {url: 'https://two:9090', tls: {caFile: /nonexistent}}\n";
    for (text, place) in [
        (soon, "config.yaml:2:"),
        ("rules: []\nnonsense: 1\n", "config.yaml:2:1: nonsense: "),
        ("gpu: {}\n", "no address of Prometheus"),
        (untrusting, "/nonexistent"),
    ] {
        scene.write(text).await;
        let reason = scene.check().expect(text);
        assert!(reason.contains(place), "{reason}");
        assert!(scene.gpus.try_recv().is_err());
        assert_eq!(scene.rules.borrow().iter().count(), 1);
        assert!(scene.prometheus().contains("http://one:9090"));
    }
    assert!(scene.counts("config_reload_failures_total 4"));
    scene.write(FIRST).await;
    assert_eq!(scene.check(), None);
    assert!(scene.counts("config_reload_failures_total 4"));
}

/// The runtime of this test has one thread, so another task progresses only if the read
/// does not block that thread.
#[tokio::test]
async fn a_file_is_not_read_on_the_threads_that_serve() {
    let mut scene = Scene::new(Flags::default());
    let request = tokio::spawn(ready(()));
    scene.write(FIRST).await;
    assert!(request.is_finished());
}

#[tokio::test]
async fn flags_take_precedence_over_a_changed_file() {
    let flags = Flags {
        prometheus_url: Some("http://flag:9090".parse().unwrap()),
        ..Flags::default()
    };
    let mut scene = Scene::new(flags);
    scene.write("prometheus: {url: 'http://two:9090'}\n").await;
    assert!(scene.prometheus().contains("http://flag:9090"));
    assert!(scene.gpus.try_recv().is_err(), "nothing changed");
}

#[tokio::test(start_paused = true)]
async fn a_mounted_file_is_followed_through_links_and_its_removal_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let version = |name: &str, text: &str| {
        std::fs::create_dir(at(name)).unwrap();
        std::fs::write(at(name).join("config.yaml"), text).unwrap();
        std::os::unix::fs::symlink(at(name), at("next")).unwrap();
        std::fs::rename(at("next"), at("..data")).unwrap();
    };
    version("v1", FIRST);
    std::os::unix::fs::symlink(at("..data").join("config.yaml"), at("config.yaml")).unwrap();
    let mut scene = Scene::new(Flags::default());
    scene.file.path = at("config.yaml");
    scene.reload.file = Some(scene.file);
    let (telemetry, mut rules) = (scene.telemetry.clone(), scene.rules.clone());
    let following = tokio::spawn(scene.reload.follow());
    version("v2", &FIRST.replace("seriesQuery: up", "seriesQuery: down"));
    rules.changed().await.unwrap();
    assert_eq!(rules.borrow_and_update().rules[0].series_query, "down");
    std::fs::remove_file(at("..data")).unwrap();
    let reason = refused(&telemetry).await;
    assert!(reason.contains("cannot be read"), "{reason}");
    version("v3", FIRST);
    rules.changed().await.unwrap();
    assert_eq!(check(&telemetry), None);
    // A reload on request applies the same text again.
    rules.borrow_and_update();
    let process = std::process::id().to_string();
    let mut kill = std::process::Command::new("kill");
    assert!(kill.args(["-HUP", &process]).status().unwrap().success());
    rules.changed().await.unwrap();
    following.abort();
}

#[tokio::test(start_paused = true)]
async fn incomplete_and_empty_files_are_not_applied() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    let whole = FIRST.replace("seriesQuery: up", "seriesQuery: down");
    let half = whole.replace("seriesQuery: down", "seriesQuery: half");
    std::fs::write(&path, FIRST).unwrap();
    let mut scene = Scene::new(Flags::default());
    scene.file.path.clone_from(&path);
    scene.reload.file = Some(scene.file);
    let (telemetry, mut rules) = (scene.telemetry.clone(), scene.rules.clone());
    let following = tokio::spawn(scene.reload.follow());
    std::fs::write(&path, half).unwrap();
    tokio::time::sleep(EVERY + WRITTEN_IN / 2).await;
    std::fs::write(&path, whole).unwrap();
    rules.changed().await.unwrap();
    assert_eq!(rules.borrow_and_update().rules[0].series_query, "down");
    std::fs::write(&path, "").unwrap();
    let reason = refused(&telemetry).await;
    assert!(reason.contains("is empty"), "{reason}");
    assert!(!rules.has_changed().unwrap());
    following.abort();
}

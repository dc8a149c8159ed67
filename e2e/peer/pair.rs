//! prometheus-adapter and this server with the same file.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::Value;
use tempfile::TempDir;

use crate::asking::{ApiClient, Reply, identity_of};
use crate::controlplane::ControlPlane;
use crate::program::{Program, built, in_time, listening, ok_if};
use crate::prometheus::{Store, free_port};

/// How long each server may take to become ready.
const START: Duration = Duration::from_secs(60);

/// The kinds of rules in a file, and the source file of prometheus-adapter that logs
/// its search for their series.
const KINDS: [(&str, &str); 2] = [
    ("rules:", " provider.go:"),
    ("externalRules:", " basic_metric_lister.go:"),
];

/// prometheus-adapter's log message after a failed search.
const UNABLE: &str = "unable to update list of all metrics";

/// Makes prometheus-adapter search every second, for series of ten minutes, and log each search.
pub(crate) const LOOKING: [&str; 3] = [
    "--metrics-relist-interval=1s",
    "--metrics-max-age=10m",
    "--vmodule=provider=10,basic_metric_lister=10",
];

/// The discovery documents of both groups' versions.
pub(crate) const DOCUMENTS: &[&str] = &[
    "/apis/custom.metrics.k8s.io/v1beta2",
    "/apis/external.metrics.k8s.io/v1beta1",
];

/// A server, queried as a cluster's administrator.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) program: Program,
    client: ApiClient,
    port: u16,
    _dir: TempDir,
}

/// Why a server does not serve.
pub(crate) type Ended = String;

/// The control plane and Prometheus.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) plane: &'a ControlPlane,
    pub(crate) prometheus: &'a Store,
}

/// The path of prometheus-adapter, from `make peer`.
pub(crate) fn adapter() -> PathBuf {
    built("peer", "adapter", "make peer").unwrap()
}

impl Scene<'_> {
    /// Flags of both servers, and their files.
    fn flags(&self, config: &str) -> (TempDir, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        std::fs::write(&file, config).unwrap();
        let mut flags = vec![
            format!("--config={}", file.display()),
            format!("--cert-dir={}", dir.path().display()),
            format!("--prometheus-url={}", self.prometheus.url),
            "--metrics-relist-interval=10m".to_owned(),
            // Without these flags, prometheus-adapter sends at most five requests a second
            // to kube-apiserver.
            "--client-qps=100000".to_owned(),
            "--client-burst=100000".to_owned(),
        ];
        flags.extend(Program::kubeconfig_flags(self.plane.kubeconfig()));
        (dir, flags)
    }

    /// Starts prometheus-adapter.
    pub(crate) async fn theirs(&self, config: &str) -> Result<Side, Ended> {
        let side = self.theirs_with(config, &LOOKING).await?;
        side.has_looked(config).await;
        Ok(side)
    }

    /// Starts prometheus-adapter with other flags, before the common ones.
    pub(crate) async fn theirs_with(&self, config: &str, more: &[&str]) -> Result<Side, Ended> {
        let (dir, flags) = self.flags(config);
        let port = free_port();
        let mut command = Command::new(adapter());
        command.args(flags).arg(format!("--secure-port={port}"));
        command.args(more);
        self.ready(Program::start(command), port, dir).await
    }

    /// Starts this server without its own metrics; it queries Prometheus for each
    /// request.
    pub(crate) async fn ours(&self, config: &str) -> Result<Side, Ended> {
        let config = format!("{config}\ngpu: {{enabled: false}}\n");
        self.ours_with_gpus(&config, &["--rule-max-age=0"]).await
    }

    /// Starts this server with its own metrics and other flags.
    pub(crate) async fn ours_with_gpus(&self, config: &str, more: &[&str]) -> Result<Side, Ended> {
        let (dir, flags) = self.flags(config);
        let mut command = Program::command(["--secure-port=0"]);
        command.args(flags).args(more);
        let program = Program::start(command);
        let port = listening(&program);
        self.ready(program, port, dir).await
    }

    /// Waits until a server is ready and authenticates the client: prometheus-adapter
    /// treats its clients as anonymous at first.
    pub(crate) async fn ready(
        &self,
        mut program: Program,
        port: u16,
        dir: TempDir,
    ) -> Result<Side, Ended> {
        let identity = identity_of(self.plane.kubeconfig());
        let client = ApiClient::direct(port, Some(identity));
        let begun = Instant::now();
        while client.get("/readyz").await.code != 200 {
            if program.has_ended() {
                return Err(last_words(&program.stderr()));
            }
            assert!(begun.elapsed() < START, "not ready: {}", program.stderr());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let side = Side {
            program,
            client,
            port,
            _dir: dir,
        };
        side.await_answer("/apis", |_| true).await;
        Ok(side)
    }
}

/// The log line with the reason.
fn last_words(log: &str) -> String {
    let told = log
        .lines()
        .rfind(|line| line.starts_with('F') || line.starts_with("Error"));
    let line = told.or_else(|| log.lines().last()).unwrap_or_default();
    line.split_once("] ")
        .map_or(line, |(_, words)| words)
        .to_owned()
}

impl Side {
    pub(crate) async fn ask(&self, method: &Method, path: &str) -> Reply {
        let reply = self.client.send(method.clone(), path).await;
        assert_ne!(reply.code, 0, "{path}: {reply:?}\n{}", self.log());
        reply
    }

    /// Waits until the answer at a path is as wanted.
    pub(crate) async fn await_answer(&self, path: &str, wanted: impl Fn(&str) -> bool) {
        let is_it = |reply: &Reply| reply.code == 200 && wanted(&reply.body);
        self.client.until(path, is_it).await;
    }

    /// Its port.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// Its log.
    pub(crate) fn log(&self) -> String {
        self.program.stderr()
    }

    /// The names that discovery lists for a group's version.
    pub(crate) async fn listed(&self, document: &str) -> Vec<(String, bool)> {
        let reply = self.ask(&Method::GET, document).await;
        let document: Value = serde_json::from_str(&reply.body).unwrap_or_default();
        let resources = document["resources"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let entry = |entry: &Value| {
            let name = entry["name"].as_str().unwrap_or_default().to_owned();
            (name, entry["namespaced"] == true)
        };
        resources.iter().map(entry).collect()
    }

    /// Waits until prometheus-adapter lists the metrics for each kind of rules in its
    /// file. It is ready before it has searched for series, and starts its second search
    /// only after it has read the first result.
    pub(crate) async fn has_looked(&self, config: &str) {
        let is_there = |kind: &str| config.lines().any(|line| line == kind);
        let kinds = KINDS.iter().filter(|(kind, _)| is_there(kind));
        let sources: Vec<&str> = kinds.map(|(_, source)| *source).collect();
        in_time("two searches", START, async || {
            let log = self.log();
            let looks = |source: &str| log.matches(source).count() + log.matches(UNABLE).count();
            ok_if(sources.iter().all(|source| looks(source) >= 2), &log)
        })
        .await;
    }
}

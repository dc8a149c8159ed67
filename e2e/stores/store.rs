//! Stores as separate processes on the loopback interface.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::prometheus::free_port;

/// How long a store may take to answer.
const START: Duration = Duration::from_secs(120);

/// A running process with its own folder, ended on drop.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    place: Place,
}

/// A folder for a process, and its name.
#[derive(Debug)]
pub(crate) struct Place {
    name: String,
    dir: TempDir,
}

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            name: name.to_owned(),
            dir,
        }
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    /// A file in the folder.
    pub(crate) fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.path(file);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Starts `program` here.
    pub(crate) fn start<A: AsRef<OsStr>>(
        self,
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Process {
        let child = self.spawn(program, arguments);
        Process { child, place: self }
    }

    fn spawn<A: AsRef<OsStr>>(
        &self,
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Child {
        let log = File::create(self.path("log")).unwrap();
        Command::new(program)
            .args(arguments)
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| {
                panic!(
                    "{} ({error}): these tests need the real one: make prerequisites",
                    program.display()
                )
            })
    }
}

impl Process {
    /// Starts a program again in the same folder.
    pub(crate) fn restart(&mut self, program: &Path, arguments: &[String]) {
        self.child = self.place.spawn(program, arguments);
    }

    /// The process id.
    #[allow(dead_code, reason = "for the slow tests and the measurements")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits until an address answers with success.
    pub(crate) async fn await_ready(&mut self, url: &str) {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let client = reqwest::Client::new();
        let begun = Instant::now();
        loop {
            let answer = client.get(url).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return;
            }
            let ended = self.child.try_wait().unwrap();
            if ended.is_some() || begun.elapsed() > START {
                let log = std::fs::read_to_string(self.place.path("log")).unwrap();
                panic!("{} does not get ready ({ended:?}): {log}", self.place.name);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A store: its query API, and its processes.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) name: String,
    /// The value of `prometheus.url`.
    pub(crate) url: String,
    #[allow(dead_code, reason = "ended with the store; the slow tests freeze them")]
    pub(crate) processes: Vec<Process>,
}

impl Store {
    /// Debian's VictoriaMetrics with a scrape configuration.
    pub(crate) async fn victoria_metrics(scrapes: &str) -> Self {
        let place = Place::new("VictoriaMetrics");
        let config = place.write("scrapes.yml", scrapes);
        let port = free_port();
        let arguments = [
            format!("-httpListenAddr=127.0.0.1:{port}"),
            format!("-storageDataPath={}", place.path("data").display()),
            format!("-promscrape.config={}", config.display()),
            "-retentionPeriod=100y".to_owned(),
        ];
        let process = place.start(Path::new("victoria-metrics"), arguments);
        Self::ready("VictoriaMetrics", port, "/health", process).await
    }

    /// A Prometheus from the Debian package or from `program`.
    pub(crate) async fn prometheus(name: &str, program: &Path, config: &str) -> Self {
        let place = Place::new(name);
        let config = place.write("prometheus.yml", config);
        let port = free_port();
        let arguments = [
            format!("--config.file={}", config.display()),
            format!("--storage.tsdb.path={}", place.path("data").display()),
            format!("--web.listen-address=127.0.0.1:{port}"),
            "--log.level=warn".to_owned(),
        ];
        let process = place.start(program, arguments);
        Self::ready(name, port, "/-/ready", process).await
    }

    async fn ready(name: &str, port: u16, path: &str, mut process: Process) -> Self {
        let url = format!("http://127.0.0.1:{port}");
        process.await_ready(&format!("{url}{path}")).await;
        Self {
            name: name.to_owned(),
            url,
            processes: vec![process],
        }
    }

    /// The store's own answer: labels and values at a time (seconds).
    pub(crate) async fn query(&self, expression: &str, time: &str) -> Vec<(Value, f64)> {
        let client = reqwest::Client::new();
        let time = [("time", time)];
        vector(ask(&client, &self.url, "query", expression, &time).await)
    }

    /// The single value of an expression, if it has one.
    pub(crate) async fn number(&self, expression: &str, time: &str) -> Option<f64> {
        let found = self.query(expression, time).await;
        assert!(found.len() < 2, "{found:?} for {expression}");
        found.first().map(|(_, value)| *value)
    }
}

/// The result of a query to a store with Prometheus' API; `more` are its times.
pub(crate) async fn ask(
    client: &reqwest::Client,
    url: &str,
    path: &str,
    expression: &str,
    more: &[(&str, &str)],
) -> Vec<Value> {
    let form = url::form_urlencoded::Serializer::new(String::new())
        .extend_pairs([("query", expression), ("nocache", "1")])
        .extend_pairs(more)
        .finish();
    let (base, fixed) = url.split_once('?').unwrap_or((url, ""));
    let base = base.trim_end_matches('/');
    let answer = client
        .post(format!("{base}/api/v1/{path}?{fixed}"))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(form)
        .send()
        .await
        .unwrap();
    let text = answer.text().await.unwrap();
    let mut body: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"));
    let error = &body["error"];
    assert_eq!(body["status"], "success", "{error} in {expression}");
    let Value::Array(result) = body["data"]["result"].take() else {
        panic!("no list: {text}");
    };
    result
}

/// Labels and values of a vector.
pub(crate) fn vector(result: Vec<Value>) -> Vec<(Value, f64)> {
    let item = |mut item: Value| {
        let value = item["value"][1].as_str().unwrap().parse().unwrap();
        (item["metric"].take(), value)
    };
    result.into_iter().map(item).collect()
}

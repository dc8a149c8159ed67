//! Stores as separate processes on the loopback interface.

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
    program: PathBuf,
    arguments: Vec<String>,
    /// Answers with success once the process is ready.
    ready: String,
}

/// A folder for a process, and its name.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) name: String,
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

    /// Starts `program` here, and waits until the address `ready` answers with success.
    pub(crate) async fn start(
        self,
        program: &Path,
        arguments: impl Into<Vec<String>>,
        ready: String,
    ) -> Process {
        let arguments = arguments.into();
        let mut process = Process {
            child: self.spawn(program, &arguments),
            place: self,
            program: program.to_owned(),
            arguments,
            ready,
        };
        process.await_ready().await;
        process
    }

    fn spawn(&self, program: &Path, arguments: &[String]) -> Child {
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
    /// Starts it again after [`Process::kill`], in the same folder.
    async fn restart(&mut self) {
        self.child = self.place.spawn(&self.program, &self.arguments);
        self.await_ready().await;
    }

    /// The process id.
    #[allow(dead_code, reason = "for the slow tests and the measurements")]
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it; its written data stay.
    pub(crate) fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    async fn await_ready(&mut self) {
        let client = client();
        let begun = Instant::now();
        loop {
            let answer = client.get(&self.ready).send().await;
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

/// Requests are plain HTTP, but the client still needs a TLS provider.
fn client() -> reqwest::Client {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    reqwest::Client::new()
}

/// A store: its query API, and its processes, which end with it.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) name: String,
    /// The value of `prometheus.url`.
    pub(crate) url: String,
    pub(crate) processes: Vec<Process>,
    client: reqwest::Client,
}

impl Store {
    pub(crate) fn new(name: &str, url: String, processes: Vec<Process>) -> Self {
        Self {
            name: name.to_owned(),
            url,
            processes,
            client: client(),
        }
    }

    /// Debian's VictoriaMetrics with a scrape configuration.
    pub(crate) async fn victoria_metrics(scrapes: &str) -> Self {
        let name = "VictoriaMetrics";
        let place = Place::new(name);
        let config = place.write("scrapes.yml", scrapes);
        let address = format!("127.0.0.1:{}", free_port());
        let arguments = [
            format!("-httpListenAddr={address}"),
            format!("-storageDataPath={}", place.path("data").display()),
            format!("-promscrape.config={}", config.display()),
            "-retentionPeriod=100y".to_owned(),
        ];
        let url = format!("http://{address}");
        let program = Path::new("victoria-metrics");
        let process = place.start(program, arguments, format!("{url}/health"));
        Self::new(name, url, vec![process.await])
    }

    /// Kills its processes; their written data stay.
    pub(crate) fn kill(&mut self) {
        self.processes.iter_mut().for_each(Process::kill);
    }

    /// Starts it again after [`Store::kill`], with the same data and address.
    pub(crate) async fn restart(&mut self) {
        for process in &mut self.processes {
            process.restart().await;
        }
    }

    /// The vector of an expression at a time (seconds): labels and values.
    pub(crate) async fn query(&self, expression: &str, time: &str) -> Vec<(Value, f64)> {
        let result = self.ask("query", expression, &[("time", time)]).await;
        let item = |mut item: Value| {
            let value = item["value"][1].as_str().unwrap().parse().unwrap();
            (item["metric"].take(), value)
        };
        result.into_iter().map(item).collect()
    }

    /// The single value of an expression, if it has one.
    pub(crate) async fn number(&self, expression: &str, time: &str) -> Option<f64> {
        let found = self.query(expression, time).await;
        assert!(found.len() < 2, "{found:?} for {expression}");
        found.first().map(|(_, value)| *value)
    }

    /// The series of an expression between two times, at steps, all in seconds: labels,
    /// and pairs of a time and a value as text.
    pub(crate) async fn query_range(
        &self,
        expression: &str,
        (start, end, step): (&str, &str, &str),
    ) -> Vec<(Value, Value)> {
        let range = [("start", start), ("end", end), ("step", step)];
        let result = self.ask("query_range", expression, &range).await;
        let item = |mut item: Value| (item["metric"].take(), item["values"].take());
        result.into_iter().map(item).collect()
    }

    /// The result of a query by Prometheus' API; `more` are its times.
    async fn ask(&self, path: &str, expression: &str, more: &[(&str, &str)]) -> Vec<Value> {
        let form = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("query", expression), ("nocache", "1")])
            .extend_pairs(more)
            .finish();
        let (base, fixed) = self.url.split_once('?').unwrap_or((&self.url, ""));
        let base = base.trim_end_matches('/');
        let request = self
            .client
            .post(format!("{base}/api/v1/{path}?{fixed}"))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form);
        let text = request.send().await.unwrap().text().await.unwrap();
        let mut body: Value =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"));
        let error = &body["error"];
        assert_eq!(body["status"], "success", "{error} in {expression}");
        let Value::Array(result) = body["data"]["result"].take() else {
            panic!("no list: {text}");
        };
        result
    }
}

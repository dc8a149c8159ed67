//! A real Prometheus for a test: started on a free port of the loopback
//! interface, ended on drop.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::stores::store::{Place, Process, ask, vector};

const REMEDY: &str =
    "is not installed, and these tests compare with the real one: apt-get install prometheus";

/// A directory for a Prometheus' data and log. Blocks are written to it before the
/// start.
#[derive(Debug)]
pub(crate) struct Storage {
    place: Place,
    /// More arguments of a Prometheus with these data.
    flags: Vec<&'static str>,
}

impl Storage {
    pub(crate) fn new() -> Self {
        Self {
            place: Place::new("Prometheus"),
            flags: Vec::new(),
        }
    }

    /// Data with a sample at each instant of a query, and no samples between instants.
    pub(crate) fn of_instants() -> Self {
        Self {
            flags: vec!["--query.lookback-delta=1s"],
            ..Self::new()
        }
    }

    /// Data of which one query may load at most 100 samples.
    pub(crate) fn of_few_samples() -> Self {
        Self {
            flags: vec!["--query.max-samples=100"],
            ..Self::new()
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path(name)
    }

    /// Makes blocks from an OpenMetrics file, whose samples have timestamps.
    pub(crate) fn add_blocks(&self, openmetrics: &Path) {
        let create = ["tsdb", "create-blocks-from", "openmetrics"];
        let data = self.path("data");
        let paths = [openmetrics, &data].map(|it| it.to_str().unwrap());
        promtool(&[&create[..], &paths].concat());
    }
}

/// Runs promtool, which must succeed.
pub(crate) fn promtool(arguments: &[&str]) {
    let output = Command::new("promtool").args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("promtool {REMEDY} ({error})"));
    let said = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(output.status.success(), "promtool {arguments:?}: {said:?}");
}

/// A running Prometheus, ended on drop.
#[derive(Debug)]
pub(crate) struct Engine {
    process: Process,
    arguments: Vec<String>,
    url: String,
    client: reqwest::Client,
}

impl Engine {
    /// Starts a Prometheus over `storage` with a configuration in YAML; an
    /// empty one scrapes nothing.
    pub(crate) async fn start(storage: Storage, config: &str) -> Self {
        let Storage { place, flags } = storage;
        let config = place.write("prometheus.yml", config);
        let address = format!("127.0.0.1:{}", free_port());
        let mut arguments = vec![
            format!("--config.file={}", config.display()),
            format!("--storage.tsdb.path={}", place.path("data").display()),
            format!("--web.listen-address={address}"),
            // Blocks of any age are kept.
            "--storage.tsdb.retention.time=100y".to_owned(),
            // Queries of tests are long, and the machine may be busy.
            "--query.timeout=20m".to_owned(),
            "--log.level=warn".to_owned(),
        ];
        arguments.extend(flags.into_iter().map(str::to_owned));
        let process = place.start(Path::new("prometheus"), &arguments);
        // Plain HTTP, but the client still needs a TLS provider.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let mut engine = Self {
            process,
            arguments,
            url: format!("http://{address}"),
            client: reqwest::Client::new(),
        };
        engine.await_ready().await;
        engine
    }

    /// Kills it; its written data stay.
    pub(crate) fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again after [`Engine::kill`], with the same data and address.
    pub(crate) async fn restart(&mut self) {
        self.process
            .restart(Path::new("prometheus"), &self.arguments);
        self.await_ready().await;
    }

    async fn await_ready(&mut self) {
        let ready = format!("{}/-/ready", self.url);
        self.process.await_ready(&ready).await;
    }

    /// The process id.
    #[cfg(feature = "bench-peer")]
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its address.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The vector of an expression at a time (seconds): labels and values.
    pub(crate) async fn query(&self, expression: &str, time: &str) -> Vec<(Value, f64)> {
        vector(self.ask("query", expression, &[("time", time)]).await)
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

    async fn ask(&self, path: &str, expression: &str, times: &[(&str, &str)]) -> Vec<Value> {
        ask(&self.client, &self.url, path, expression, times).await
    }
}

/// Ports outside the range from which Linux assigns free ports.
const PORTS: std::ops::Range<u32> = 12_000..30_000;

/// A port without a listener that no other caller gets: it can be bound later, and again.
pub(crate) fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Other test processes begin at another port.
    let begin = std::process::id().wrapping_mul(101);
    loop {
        let next = begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(PORTS.start + next % (PORTS.end - PORTS.start)).unwrap();
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}

/// Makes blocks of OpenMetrics text: `extra` lines, and those of `write`, which ends with
/// its own `# EOF`.
pub(crate) fn blocks(
    storage: &Storage,
    extra: &str,
    write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>,
) {
    let path = storage.path("samples.om");
    let mut text = extra.as_bytes().to_vec();
    write(&mut text).unwrap();
    std::fs::write(&path, text).unwrap();
    storage.add_blocks(&path);
    std::fs::remove_file(&path).unwrap();
}

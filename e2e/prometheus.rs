//! A real Prometheus for a test: started on a free port of the loopback
//! interface, ended on drop.

use std::fs::File;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

const REMEDY: &str =
    "is not installed, and these tests compare with the real one: apt-get install prometheus";

/// How long a Prometheus may take to answer.
const START: Duration = Duration::from_secs(60);

/// A directory for a Prometheus' data and log. Blocks are written to it before the
/// start.
#[derive(Debug)]
pub(crate) struct Storage {
    dir: TempDir,
}

impl Storage {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes blocks from an OpenMetrics file, whose samples have timestamps.
    pub(crate) fn add_blocks(&self, openmetrics: &Path) {
        let output = Command::new("promtool")
            .args(["tsdb", "create-blocks-from", "openmetrics"])
            .arg(openmetrics)
            .arg(self.path("data"))
            .output()
            .unwrap_or_else(|error| panic!("promtool {REMEDY} ({error})"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "promtool makes no blocks: {said}");
    }
}

/// A running Prometheus.
#[derive(Debug)]
pub(crate) struct Engine {
    process: Child,
    port: u16,
    url: String,
    client: reqwest::Client,
    /// Removed after the process has ended.
    storage: Storage,
}

impl Engine {
    /// Starts a Prometheus over `storage` with a configuration in YAML; an
    /// empty one scrapes nothing.
    pub(crate) async fn start(storage: Storage, config: &str) -> Self {
        std::fs::write(storage.path("prometheus.yml"), config).unwrap();
        let port = free_port();
        let process = spawn(&storage, port);
        // Plain HTTP, but the client still needs a TLS provider.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let mut engine = Self {
            process,
            port,
            url: format!("http://127.0.0.1:{port}"),
            client: reqwest::Client::new(),
            storage,
        };
        engine.await_ready().await;
        engine
    }

    /// Kills it; its written data stay.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Starts it again after [`Engine::kill`], with the same data and address.
    pub(crate) async fn restart(&mut self) {
        self.process = spawn(&self.storage, self.port);
        self.await_ready().await;
    }

    async fn await_ready(&mut self) {
        let begun = Instant::now();
        let ready = format!("{}/-/ready", self.url);
        loop {
            let answer = self.client.get(&ready).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return;
            }
            let ended = self.process.try_wait().unwrap();
            if ended.is_some() || begun.elapsed() > START {
                let log = std::fs::read_to_string(self.storage.path("log")).unwrap_or_default();
                panic!("Prometheus does not get ready ({ended:?}): {log}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
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
        let form = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("query", expression)
            .append_pair("time", time)
            .finish();
        let answer = self
            .client
            .post(format!("{}/api/v1/query", self.url))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(form)
            .send()
            .await
            .unwrap();
        let text = answer.text().await.unwrap();
        let mut body: Value =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {text}"));
        assert_eq!(
            body["status"], "success",
            "{} in {expression}",
            body["error"]
        );
        let Value::Array(result) = body["data"]["result"].take() else {
            panic!("no vector: {text}");
        };
        let item = |mut item: Value| {
            let value = item["value"][1].as_str().unwrap().parse().unwrap();
            (item["metric"].take(), value)
        };
        result.into_iter().map(item).collect()
    }
}

/// Starts the process with a storage that contains its configuration.
fn spawn(storage: &Storage, port: u16) -> Child {
    let log = File::create(storage.path("log")).unwrap();
    let flag = |name: &str, path: PathBuf| format!("--{name}={}", path.display());
    Command::new("prometheus")
        .arg(flag("config.file", storage.path("prometheus.yml")))
        .arg(flag("storage.tsdb.path", storage.path("data")))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        // Blocks of any age are kept.
        .arg("--storage.tsdb.retention.time=100y")
        // The oracle's queries are long, and the machine may be busy.
        .arg("--query.timeout=20m")
        .arg("--log.level=warn")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("prometheus {REMEDY} ({error})"))
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Nothing has to be saved: its data are removed with it.
        self.kill();
    }
}

/// Ports outside the range from which Linux assigns free ports.
const PORTS: std::ops::Range<u32> = 12_000..30_000;

/// A port without a listener that is given to no other caller: it can be bound later,
/// and again.
pub(crate) fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Other test processes begin elsewhere.
    let begin = std::process::id().wrapping_mul(101);
    loop {
        let next = begin.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed));
        let port = u16::try_from(PORTS.start + next % (PORTS.end - PORTS.start)).unwrap();
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}

/// Writes OpenMetrics text into a file and makes blocks of it. `extra` lines
/// follow the output of `write`, which ends with its own `# EOF`.
pub(crate) fn blocks(
    storage: &Storage,
    extra: &str,
    write: impl FnOnce(&mut std::io::BufWriter<&File>) -> std::io::Result<()>,
) {
    const END: &str = "# EOF\n";
    let path = storage.path("samples.om");
    let file = File::create(&path).unwrap();
    let mut out = std::io::BufWriter::with_capacity(1 << 20, &file);
    write(&mut out).unwrap();
    out.flush().unwrap();
    drop(out);
    let length = file.metadata().unwrap().len();
    file.set_len(length - END.len() as u64).unwrap();
    drop(file);
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap();
    write!(file, "{extra}{END}").unwrap();
    storage.add_blocks(&path);
    std::fs::remove_file(&path).unwrap();
}

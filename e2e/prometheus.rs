//! A real Prometheus for a test: started on a free port of the loopback
//! interface, ended on drop.

use std::fmt::{Display, Write as _};
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::program::output;
use crate::stores::store::Place;
pub(crate) use crate::stores::store::Store;

/// A Prometheus that is not started yet: a directory for its data and log, and its flags.
/// Blocks are written to the directory before the start.
#[derive(Debug)]
pub(crate) struct Storage {
    place: Place,
    program: PathBuf,
    /// More arguments of a Prometheus with these data.
    flags: Vec<&'static str>,
}

impl Storage {
    /// Of Debian's Prometheus.
    pub(crate) fn new() -> Self {
        Self::of("Prometheus 2", Path::new("prometheus"))
    }

    /// Of a Prometheus with this name and program.
    pub(crate) fn of(name: &str, program: &Path) -> Self {
        Self {
            place: Place::new(name),
            program: program.to_owned(),
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
            flags: vec!["--query.max-samples=1000"],
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

    /// Starts the Prometheus with a configuration in YAML; an empty one scrapes nothing.
    pub(crate) async fn start(self, config: &str) -> Store {
        self.start_on(Ipv4Addr::LOCALHOST.into(), config).await
    }

    /// Starts it on another address of this machine.
    pub(crate) async fn start_on(self, host: IpAddr, config: &str) -> Store {
        let place = self.place;
        let config = place.write("prometheus.yml", config);
        let address = SocketAddr::new(host, free_port());
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
        arguments.extend(self.flags.into_iter().map(str::to_owned));
        let (name, url) = (place.name.clone(), format!("http://{address}"));
        let process = place.start(&self.program, arguments, format!("{url}/-/ready"));
        Store::new(&name, url, vec![process.await])
    }
}

/// Runs promtool, which must succeed.
pub(crate) fn promtool(arguments: &[&str]) {
    let said = output(Command::new("promtool").args(arguments));
    said.unwrap_or_else(|said| panic!("promtool {arguments:?}: {said}"));
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

/// Series of the past, each with samples at the same times, for a Prometheus that scrapes
/// nothing.
#[derive(Debug)]
pub(crate) struct Recording {
    /// Seconds after the epoch.
    start: i64,
    step: i64,
    count: i64,
    text: String,
}

impl Recording {
    pub(crate) fn new((start, step, count): (i64, i64, i64)) -> Self {
        Self {
            start,
            step,
            count,
            text: String::new(),
        }
    }

    /// Adds a series with its values by the seconds since the start, where it has one.
    pub(crate) fn add<V: Display>(&mut self, series: &str, value: impl Fn(i64) -> Option<V>) {
        for second in (0..self.count).map(|place| place * self.step) {
            if let Some(value) = value(second) {
                writeln!(self.text, "{series} {value} {}", self.start + second).unwrap();
            }
        }
    }

    pub(crate) async fn start(self) -> Store {
        let storage = Storage::new();
        blocks(&storage, &self.text, |out| out.write_all(b"# EOF\n"));
        storage.start("").await
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

//! Two nodes of four GPUs with readings set by the test, the program with a store,
//! and the store's own results for the same samples.

use std::time::Duration;

use tempfile::TempDir;

use super::store::Store;
use crate::asking::ApiClient;
use crate::exporters::{Exporters, SCRAPED};
use crate::program::{Program, eventually, ok_if};
use crate::served::{Answer, Served, milli};

/// A generous limit: on an idle machine each wait takes seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// The initial readings by device, each held by a separate pod. The mean of the
/// active ones is 40, the sum 280.
pub(crate) const PERCENT: [f64; 8] = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 0.0];

/// The compared metrics, with their initial values.
pub(crate) const METRICS: [(&str, &str); 2] = [
    ("cluster_gpu_memory_utilization", "40"),
    ("cluster_gpu_memory_utilization_sum", "280"),
];

/// The exporters of the nodes, with the initial readings.
pub(crate) async fn exporters() -> Exporters {
    let exporters = Exporters::start(2, 4, SCRAPED).await;
    for (device, percent) in PERCENT.into_iter().enumerate() {
        let pod = format!("train-{device}");
        exporters.controls.reassign(device, "team-a", &pod);
        exporters.controls.force_value(device, percent);
    }
    exporters
}

/// The path of an external metric.
pub(crate) fn path(metric: &str) -> String {
    format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/team-a/{metric}")
}

/// The program with a store.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) program: Program,
    pub(crate) client: ApiClient,
    pub(crate) dir: TempDir,
}

impl Reader {
    /// Starts it with the settings of `gpu`, which further keys may follow on their own lines.
    /// Waits until it listens.
    pub(crate) fn start(url: &str, gpu: &str) -> Self {
        Self::start_with(url, gpu, &[])
    }

    /// The same, with environment variables.
    pub(crate) fn start_with(url: &str, gpu: &str, variables: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("own.yaml");
        std::fs::write(&config, format!("gpu: {gpu}\n")).unwrap();
        let mut command = Program::demo(["--prometheus-url", url]);
        command.arg("--dir").arg(dir.path());
        command.arg("--config").arg(&config);
        command.envs(variables.iter().copied());
        let program = Program::start(command);
        program.await_stdout("the address", PATIENCE, |said| {
            said.contains("serving ").then_some(())
        });
        Self {
            program,
            client: ApiClient::of(&dir.path().join("kubeconfig")),
            dir,
        }
    }

    /// The value of an external metric, or the other answer as error.
    pub(crate) fn value(&self, metric: &str) -> Result<Served, String> {
        match self.client.values(&path(metric)) {
            Ok(mut served) if served.len() == 1 => Ok(served.remove(0)),
            Ok(served) => Err(format!("{served:?}")),
            Err(Answer::NotFound(message)) => Err(message),
            Err(Answer::Other(message))
                if message.contains("ServiceUnavailable") || message.starts_with("no answer") =>
            {
                Err(message)
            }
            Err(answer) => panic!("{answer:?} for {metric}"),
        }
    }

    /// Waits until all metrics have these values.
    pub(crate) fn await_values(&self, wanted: &[(&str, &str)]) {
        for (metric, value) in wanted {
            eventually(&format!("{metric} {value}"), PATIENCE, || {
                let served = self.value(metric)?;
                ok_if(served.value == *value, &served)
            });
        }
    }
}

/// F in these tests, in seconds: the default of `gpu.freshness`, which is longer than
/// three scrape intervals.
pub(crate) const FRESHNESS: u64 = 30;

/// `gpu.step`, in seconds.
const STEP: i64 = 5;

/// A metric in PromQL, over `window` seconds (docs/numbers.md). `freshness` is F in
/// seconds. Prometheus 2 includes the left end of a window, and the other stores exclude
/// it; both ranges are therefore a millisecond shorter.
fn expression(metric: &str, window: u64, freshness: u64) -> String {
    let (window, freshness) = (1000 * window - 1, 1000 * freshness - 1);
    let readings =
        format!("max by (UUID) (last_over_time(DCGM_FI_DEV_MEM_COPY_UTIL[{freshness}ms]))");
    let instant = match metric {
        "cluster_gpu_memory_utilization" => format!("avg({readings} > 0) or 0 * max({readings})"),
        "cluster_gpu_memory_utilization_sum" => format!("sum({readings})"),
        other => panic!("{other} has no expression here"),
    };
    format!("avg_over_time(({instant})[{window}ms:{STEP}s])")
}

/// The seconds in which the window of an answer may end: instants up to 15 s, a scrape
/// and a poll after its newest sample.
fn ends(served: &Served) -> impl Iterator<Item = i64> {
    let newest = served.at.as_second();
    (newest..=newest + 25).filter(|second| second % STEP == 0)
}

/// The difference between the served value and the store's own, if the store has one. The
/// window may end in the future, so the values are comparable only until readings change.
pub(crate) async fn difference(store: &Store, served: &Served, freshness: u64) -> Option<f64> {
    let expression = expression(&served.name, served.window, freshness);
    let value = milli(served) as f64 / 1000.0;
    let mut least = None;
    for end in ends(served) {
        let own = store.number(&expression, &end.to_string()).await;
        let difference = own.map(|own| (own - value).abs());
        least = least.into_iter().chain(difference).reduce(f64::min);
    }
    least
}

/// Whether the store's own value equals the served one, to a thousandth. `freshness` is F
/// in seconds.
pub(crate) async fn agrees(store: &Store, served: &Served, freshness: u64) -> Result<(), String> {
    match difference(store, served, freshness).await {
        Some(difference) if difference <= 0.001 => Ok(()),
        other => Err(format!("{served:?} is {other:?} off in {}", store.name)),
    }
}

/// Compares every metric several times, while readings are constant.
pub(crate) async fn compare(store: &Store, reader: &Reader, freshness: u64) {
    for (metric, _) in METRICS.iter().cycle().take(3 * METRICS.len()) {
        let served = eventually(metric, PATIENCE, || reader.value(metric));
        if let Err(other) = agrees(store, &served, freshness).await {
            panic!("{other}");
        }
    }
}

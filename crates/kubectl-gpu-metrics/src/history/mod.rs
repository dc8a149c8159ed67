//! The past of a store: the readings of devices, the owners of pods, and other series.

pub(crate) mod owners;
pub(crate) mod period;
pub(crate) mod rows;
mod store;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::ops::Range;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};

use apimachinery::duration::format_duration;
use apimachinery::promql::{equals, quote};
use apimachinery::time::Timestamp;
use configuration::{Config, Flags};
use gpu_metrics::batch::Batch;
use gpu_metrics::policy::DeviceValue;
use gpu_metrics::signal::{SignalId, SignalSpec, Unit};
use gpu_metrics::validity::UnitEvidence;
use prometheus_source::query::any_name;

use super::Failure;
use super::cluster::{Cluster, ClusterArgs};

use period::Period;
use rows::{Holding, Row, Rows};
use store::Store;

/// The most points of a series in one query.
const SLICE: usize = 500;

/// The fewest points that are asked for where the store refuses more.
const LEAST: usize = 30;

/// The most queries at once.
const AT_ONCE: usize = 4;

/// The shortest timeout of a query: a slice of many series takes long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Scrapes are counted over this range, 1 ms short: a range may include both its ends.
const COUNTED: Duration = Duration::from_millis(599_999);

/// The number of instants at which scrapes are counted, evenly spread over the period; the
/// last one is its end.
const LOOKS: u32 = 8;

/// A store with a past, and the server's settings for reading it.
#[derive(Debug)]
pub(crate) struct History {
    store: Store,
    pub(crate) config: Config,
    /// The cluster, if it was needed or can be reached.
    pub(crate) cluster: Option<Cluster>,
}

/// The queries for a value of devices, each with the unit of its answer.
#[derive(Debug)]
pub(crate) struct DeviceQueries {
    /// The selectors of the first query.
    selectors: Vec<String>,
    queries: Vec<String>,
    units: Vec<Unit>,
    /// The names of the fields.
    pub(crate) names: String,
}

/// The labels of series that name pods of a namespace, in each form: `pods` is a regular
/// expression.
pub(crate) fn scopes(namespace: &str, pods: &str) -> [String; 5] {
    let (namespace, pods) = (quote(namespace), quote(pods));
    [
        format!(",exported_namespace={namespace},exported_pod=~{pods}"),
        format!(",pod_namespace={namespace},pod_name=~{pods}"),
        format!(",exported_namespace={namespace},exported_pod=\"\",pod=~{pods}"),
        format!(",namespace={namespace},exported_namespace=\"\",exported_pod=~{pods}"),
        format!(",namespace={namespace},exported_namespace=\"\",exported_pod=\"\",pod=~{pods}"),
    ]
}

impl History {
    /// The store of `--prometheus-url` or `prometheus.url`; without them the one that the
    /// server reads, through kube-apiserver.
    pub(crate) async fn open(flags: &Flags, cluster: &ClusterArgs) -> Result<Self, Failure> {
        let (mut config, _) = flags.load()?;
        let cluster = cluster.connect().await;
        let store = match &mut config.prometheus {
            Some(settings) => {
                settings.timeout = settings.timeout.max(PATIENCE);
                Store::Direct(config.client()?)
            }
            None => Store::of_server(cluster.as_ref().map_err(ToString::to_string)).await?,
        };
        Ok(Self {
            store,
            config,
            cluster: cluster.ok(),
        })
    }

    /// `,label="value"` for each of `prometheus.matchers`.
    pub(crate) fn matchers(&self) -> String {
        let settings = self.config.prometheus.iter();
        let all = settings.flat_map(|settings| &settings.matchers);
        all.map(|(label, value)| format!(",{}", equals(label, value)))
            .collect()
    }

    /// The queries for a value of the devices whose series have the labels of one of
    /// `scopes`. As in the server, the profiling field is read of MIG instances.
    pub(crate) fn of_devices(&self, value: DeviceValue, scopes: &[String]) -> DeviceQueries {
        let ids = match value {
            DeviceValue::GpuUtilization => [SignalId::GPU_UTIL, SignalId::GR_ENGINE_ACTIVE],
            _ => [SignalId::MEM_COPY_UTIL, SignalId::DRAM_ACTIVE],
        };
        let specs = ids.map(|id| self.config.signals.iter().find(|spec| spec.id == id));
        let specs: Vec<&SignalSpec> = specs.into_iter().flatten().collect();
        let matchers = self.matchers();
        let selectors = |spec: &SignalSpec, more: &str| {
            let name = any_name(&[spec]);
            let scopes = scopes.iter();
            let all = scopes.map(|it| format!("{{{name}{more}{it}{matchers}}}"));
            all.collect::<Vec<_>>()
        };
        let of = |spec: &SignalSpec, more| {
            let all = selectors(spec, more).into_iter();
            let all = all.map(|it| format!("last_over_time({it}[FRESH])"));
            all.collect::<Vec<_>>().join(" or ")
        };
        let whole = r#",GPU_I_ID="",gpu_i_id="""#;
        let mut queries: Vec<String> = Vec::new();
        for spec in &specs {
            queries.push(match queries.first() {
                None => of(spec, whole),
                Some(_) => format!("({}) unless ({})", of(spec, ""), of(spec, whole)),
            });
        }
        let names = specs.iter().filter_map(|spec| spec.wire_names.first());
        DeviceQueries {
            selectors: specs.iter().flat_map(|it| selectors(it, "")).collect(),
            queries,
            units: specs.iter().map(|spec| spec.unit).collect(),
            names: names.cloned().collect::<Vec<_>>().join(" or "),
        }
    }

    /// How often the series of devices were scraped: the median over the series, from the
    /// number of scrapes in [`COUNTED`]. The instant with most scrapes counts, because scrapes
    /// are missing at the ends of the data, in gaps, and for pods that start or end.
    /// `None`: no data show it.
    pub(crate) async fn scrape_interval(
        &self,
        of: &DeviceQueries,
        [from, to]: [Timestamp; 2],
    ) -> Result<Option<Duration>, Failure> {
        let range = format_duration(COUNTED);
        let counts = of.selectors.iter();
        let counts = counts.map(|it| format!("count_over_time({it}[{range}])"));
        let counts: Vec<String> = counts.collect();
        let query = format!("quantile(0.5, {})", counts.join(" or "));
        let apart = to.since(from) / LOOKS;
        let looks = Period {
            start: to - apart * (LOOKS - 1),
            step: apart.max(Duration::from_secs(1)),
            count: LOOKS as usize,
        };
        let mut most = 0.0_f64;
        for batch in self.read(&query, looks).await? {
            let samples = batch.iter().flat_map(|series| series.samples);
            most = samples.fold(most, |most, it| most.max(it.value));
        }
        let seconds = (COUNTED.as_secs_f64() / most).round().max(1.0);
        Ok((most >= 2.0).then(|| Duration::from_secs(seconds as u64)))
    }

    /// Reads devices over a period; `take` gets the rows of each slice, in the order of time.
    /// A reading is valid for `fresh`.
    pub(crate) async fn each_of_devices(
        &self,
        of: &DeviceQueries,
        fresh: Duration,
        period: Period,
        mut take: impl FnMut(Range<usize>, BTreeMap<Holding, Row>),
    ) -> Result<(), Failure> {
        let fresh = format_duration(fresh);
        let queries = of.queries.iter().map(|it| it.replace("FRESH", &fresh));
        let mut rows = Rows {
            period,
            units: of.units.clone(),
            as_ratio: self.config.policy.percent_as_ratio,
            evidence: UnitEvidence::default(),
        };
        self.each(&queries.collect::<Vec<_>>(), period, |range, batches| {
            take(range.clone(), rows.of(&range, &batches));
        })
        .await?;
        match rows.has_unknown_unit() {
            true => Err(Failure::Failed(format!(
                "{} has values between 0 and 1, where percents are expected: set gpu.percentAsRatio in the file of --config (check --explain GM413)",
                of.names
            ))),
            false => Ok(()),
        }
    }

    /// The answers to one query, slice by slice.
    pub(crate) async fn read(&self, query: &str, period: Period) -> Result<Vec<Batch>, Failure> {
        let mut all = Vec::new();
        let queries = [query.to_owned()];
        self.each(&queries, period, |_, batches| all.extend(batches))
            .await?;
        Ok(all)
    }

    async fn each(
        &self,
        queries: &[String],
        period: Period,
        mut take: impl FnMut(Range<usize>, Vec<Batch>),
    ) -> Result<(), Failure> {
        let ranges = period.slices(SLICE);
        let is_shown = ranges.len() > 1 && io::stderr().is_terminal();
        let answers = stream::iter(ranges).map(async |range| {
            let mut batches = Vec::new();
            for query in queries {
                batches.push(self.slice(query, period, range.clone()).await?);
            }
            Ok::<_, Failure>((range, batches))
        });
        let mut answers = std::pin::pin!(answers.buffered(AT_ONCE));
        while let Some((range, batches)) = answers.try_next().await? {
            if is_shown {
                let percent = 100 * range.end / period.count;
                let end = if percent == 100 { "\r\x1b[K" } else { "" };
                // A closed output is ignored.
                let _ = write!(io::stderr(), "\rreading the past: {percent} %{end}");
            }
            take(range, batches);
        }
        Ok(())
    }

    /// The answer for some instants, in shorter queries where the store refuses it.
    async fn slice(
        &self,
        query: &str,
        period: Period,
        range: Range<usize>,
    ) -> Result<Batch, Failure> {
        let mut whole = Batch::new(SignalId(0));
        let (mut done, mut length) = (range.start, range.len());
        while done < range.end {
            let end = range.end.min(done + length);
            let ends = [period.time(done), period.time(end - 1)];
            match self.store.range(query, ends, period.step).await {
                Ok(batch) => {
                    whole.append(&batch);
                    done = end;
                }
                Err(error) if error.is_too_much && length > LEAST => {
                    length = (length / 4).max(LEAST);
                }
                Err(error) => return Err(error.failure),
            }
        }
        Ok(whole)
    }
}

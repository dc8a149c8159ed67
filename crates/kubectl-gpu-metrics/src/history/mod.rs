//! The past of a store: the readings of devices, the owners of pods, the replicas of
//! workloads, and the values of objects at any time.

pub(crate) mod autoscaler;
pub(crate) mod devices;
pub(crate) mod owners;
pub(crate) mod period;
pub(crate) mod recording;
pub(crate) mod store;

use std::io::{self, IsTerminal, Write};
use std::ops::Range;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};

use apimachinery::duration::format_duration;
use apimachinery::promql::equals;
use apimachinery::time::Timestamp;
use configuration::{Config, Flags};
use gpu_metrics::batch::Batch;

use super::Failure;
use super::cluster::{Cluster, ClusterArgs};

use period::Period;
use store::Store;

/// The most points of a series in one query.
const SLICE: usize = 500;

/// The most queries at once.
const AT_ONCE: usize = 4;

/// The shortest timeout of a query: a slice of many series takes long.
const PATIENCE: Duration = Duration::from_secs(120);

/// A store with a past, and the server's settings for reading it.
#[derive(Debug)]
pub(crate) struct History {
    store: Store,
    pub(crate) config: Config,
    /// The cluster, if it was needed or can be reached.
    pub(crate) cluster: Option<Cluster>,
}

impl History {
    /// The store of `--prometheus-url` or `prometheus.url`; without them the one that the
    /// server reads, through kube-apiserver.
    pub(crate) async fn open(flags: &Flags, cluster: &ClusterArgs) -> Result<Self, Failure> {
        Self::of(flags, cluster.connect().await).await
    }

    /// The same, of a cluster that is connected.
    pub(crate) async fn of(
        flags: &Flags,
        cluster: Result<Cluster, Failure>,
    ) -> Result<Self, Failure> {
        let (mut config, _) = flags.load()?;
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

    /// The answers to one query, slice by slice.
    pub(crate) async fn read(&self, query: &str, period: Period) -> Result<Vec<Batch>, Failure> {
        let mut all = Vec::new();
        let queries = [query.to_owned()];
        self.each(&queries, period, |_, batches| all.extend(batches))
            .await?;
        Ok(all)
    }

    /// The samples that a selector (`{pod="a"}`) has between two times, as they are stored.
    pub(crate) async fn samples(
        &self,
        selector: &str,
        [from, to]: [Timestamp; 2],
    ) -> Result<Batch, Failure> {
        let range = format_duration(to.since(from));
        self.store
            .samples(&format!("{selector}[{range}]"), to)
            .await
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
            let ends = [range.start, range.end - 1].map(|it| period.time(it));
            let mut batches = Vec::new();
            for query in queries {
                batches.push(self.store.range(query, ends, period.step).await?);
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
}

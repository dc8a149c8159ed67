//! Charts of the past of objects and autoscalers, read from the server's store. Where it
//! cannot be asked, the pages say what to grant or set.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::Range;
use std::time::Duration;

use apimachinery::duration::format_duration;
use apimachinery::time::Timestamp;
use cluster_state::clock;
use gpu_metrics::policy::DeviceValue;

use super::frame::Ask;
use super::rescales;
use crate::Failure;
use crate::devices;
use crate::document::cell::{Cell, Object, Reference, Unit};
use crate::document::series::{Line, Series};
use crate::document::{Block, Document, Fact, Severity};
use crate::explain::hpa::Decision;
use crate::history::History;
use crate::history::devices::{Holding, Reading, Row, counted_devices};
use crate::history::owners::{Named, Owners};
use crate::history::period::Period;
use crate::usage;
use crate::usage::tally::{GpuHours, Tally, at_instants};

/// The periods of charts: their word, length and step in seconds.
const PERIODS: [(&str, u64, u64); 4] = [
    ("1h", 3600, 30),
    ("6h", 21_600, 180),
    ("24h", 86_400, 600),
    ("7d", 604_800, 3600),
];

/// The resource of references to the same page with another period.
pub(super) const PERIOD: &str = "periods";

/// How long a page waits for the store.
const PATIENCE: Duration = Duration::from_secs(10);

/// The past of an object: the use of its GPUs over the requested period.
pub(super) async fn of_object(ask: &Ask, of: &Reference) -> Vec<Block> {
    let (mut blocks, period) = heading(ask);
    match ask.history().await {
        Ok(history) => blocks.extend(answered(used(&history, of, period)).await),
        Err(failure) => blocks = not_shown(&failure),
    }
    blocks
}

/// The past of an autoscaler: its metrics and replicas over the requested period.
pub(super) async fn of_autoscaler(ask: &Ask, decision: &Decision) -> Vec<Block> {
    let (mut blocks, period) = heading(ask);
    match ask.history().await {
        Ok(history) => blocks.extend(answered(rescales::charts(&history, decision, period)).await),
        Err(failure) => blocks = not_shown(&failure),
    }
    blocks
}

/// The last day of the fleet: idle GPU-hours and utilisation.
pub(super) async fn of_fleet(ask: &Ask) -> Vec<Block> {
    match ask.history().await {
        Ok(history) => answered(day(&history)).await,
        Err(failure) => not_shown(&failure),
    }
}

/// The heading of charts with links to other periods, and the requested period.
fn heading(ask: &Ask) -> (Vec<Block>, Period) {
    let word = ask.query.word("period").unwrap_or_default();
    let known = PERIODS.iter().find(|(known, ..)| *known == word);
    let (word, ..) = known.unwrap_or(&PERIODS[0]);
    let link = |(word, ..): &(&str, u64, u64)| Object {
        text: (*word).to_owned(),
        of: Reference::new(PERIOD, None, word),
    };
    let links = Cell::Objects(PERIODS.iter().map(link).collect());
    let mut document = Document::default();
    document.heading(format!("The last {word}"));
    document.facts([Fact::new("period", links)]);
    (document.blocks, period(word))
}

/// The instants of a period that ends now.
pub(super) fn period(word: &str) -> Period {
    let known = PERIODS.iter().find(|(known, ..)| *known == word);
    let (_, length, step) = known.unwrap_or(&PERIODS[0]);
    let last = clock::now().secs().div_euclid(*step as i64) * *step as i64;
    let step = Duration::from_secs(*step);
    let count = (length / step.as_secs()) as u32;
    Period {
        start: Timestamp::from_secs(last) - step * (count - 1),
        step,
        count: count as usize,
    }
}

/// What was read in time, or why nothing was.
async fn answered(read: impl Future<Output = Result<Vec<Block>, Failure>>) -> Vec<Block> {
    match tokio::time::timeout(PATIENCE, read).await {
        Ok(read) => read.unwrap_or_else(|failure| not_shown(&failure)),
        Err(_) => not_shown(&format!(
            "Prometheus has not answered within {}: choose a shorter period",
            format_duration(PATIENCE)
        )),
    }
}

fn not_shown(why: &impl Display) -> Vec<Block> {
    let mut document = Document::default();
    document.verdict(Severity::Unknown, format!("The past is not shown: {why}"));
    document.blocks
}

pub(super) fn series(
    caption: &str,
    unit: Unit,
    period: Period,
    lines: impl IntoIterator<Item = Line>,
) -> Series {
    Series {
        caption: caption.to_owned(),
        unit,
        times: (0..period.count).map(|it| period.time(it)).collect(),
        lines: lines.into_iter().collect(),
        marks: Vec::new(),
    }
}

/// The rows of devices that belong to an object.
struct Chosen<'a> {
    history: &'a History,
    period: Period,
    of: Option<&'a Reference>,
    namespace: Option<&'a str>,
    owners: Owners,
}

impl<'a> Chosen<'a> {
    /// The rows of an object, or of all devices.
    async fn of(
        history: &'a History,
        period: Period,
        of: Option<&'a Reference>,
    ) -> Result<Self, Failure> {
        let namespace = of.and_then(|of| match &*of.resource {
            "namespaces" => Some(&*of.name),
            _ => of.namespace.as_deref(),
        });
        let owners = match of {
            Some(of) if of.resource.contains('.') => {
                Owners::read(history, ends(period), namespace, None).await?
            }
            _ => Owners::default(),
        };
        Ok(Self {
            history,
            period,
            of,
            namespace,
            owners,
        })
    }

    fn has(&self, holding: &Holding, row: &Row) -> bool {
        let Some(of) = self.of else {
            return true;
        };
        let is_of_pod = |of_pod: &Named| {
            let (namespace, pod) = of_pod;
            self.namespace.is_none_or(|it| **namespace == *it)
                && match &*of.resource {
                    "namespaces" => true,
                    "pods" => **pod == *of.name,
                    resource => self.owners.of(of_pod).is_some_and(|owner| {
                        let plural = format!("{}s", owner.kind.to_lowercase());
                        *owner.name == *of.name && resource.split('.').next() == Some(&plural)
                    }),
                }
        };
        match &*of.resource {
            devices::GPUS => devices::is_named(&holding.device, &of.name),
            "nodes" => row.node.as_deref() == Some(&*of.name),
            _ => holding.pod.as_ref().is_some_and(is_of_pod),
        }
    }

    async fn read(
        &self,
        value: DeviceValue,
        mut take: impl FnMut(Range<usize>, BTreeMap<Holding, Row>),
    ) -> Result<(), Failure> {
        let (history, ends) = (self.history, ends(self.period));
        let queries = history.of_devices(value, self.namespace);
        // Without series there is nothing to read.
        if let Some(scrape) = history.scrape_interval(&queries, ends).await? {
            let take = |range, mut rows: BTreeMap<Holding, Row>| {
                rows.retain(|holding, row| self.has(holding, row));
                take(range, rows);
            };
            history
                .each_of_devices(&queries, 2 * scrape, self.period, take)
                .await?;
        }
        Ok(())
    }

    /// Utilisation, held and idle GPUs at each instant; `None` where no series was there. `also`
    /// gets the rows too.
    async fn held(
        &self,
        mut also: impl FnMut(&BTreeMap<Holding, Row>, Range<usize>),
    ) -> Result<[Series; 2], Failure> {
        let mut all: Vec<Option<GpuHours>> = Vec::new();
        self.read(DeviceValue::MemoryUtilization, |range, rows| {
            all.extend(at_instants(&rows, range.len()));
            also(&rows, range);
        })
        .await?;
        all.resize(self.period.count, None);
        let line = |name: &str, number: &dyn Fn(&GpuHours) -> Option<f64>| {
            let values = all.iter().map(|it| it.as_ref().and_then(number));
            Line::new(name, values.collect())
        };
        let busy = [line("utilisation", &GpuHours::utilization)];
        let held = [
            line("held", &|it| Some(it.held())),
            line("idle", &|it| Some(it.idle)),
        ];
        let caption = "Memory bandwidth utilisation, mean of held GPUs";
        Ok([
            self.series(caption, Unit::Percent, busy),
            self.series(
                "GPUs held, and of these idle; MIG instances by their share",
                Unit::Count,
                held,
            ),
        ])
    }

    /// The sum over devices at each instant.
    async fn sum(&self, value: DeviceValue, unit: Unit, caption: &str) -> Result<Series, Failure> {
        let mut sums = Vec::new();
        // Each instance of a GPU reports the power of the GPU.
        let by_gpu = value == DeviceValue::PowerUsage;
        let take = |range: Range<usize>, rows| sums.extend(totals(&rows, range.len(), by_gpu));
        self.read(value, take).await?;
        sums.resize(self.period.count, None);
        Ok(self.series(caption, unit, [Line::new("sum", sums)]))
    }

    fn series(&self, caption: &str, unit: Unit, lines: impl IntoIterator<Item = Line>) -> Series {
        let every = format_duration(self.period.step);
        let caption = format!("{caption} (samples every {every})");
        series(&caption, unit, self.period, lines)
    }
}

pub(super) fn ends(period: Period) -> [Timestamp; 2] {
    [period.start, period.end()]
}

/// The sum over devices, or over GPUs, at each instant; each counts once. With an invalid value,
/// the sum is unknown.
fn totals(rows: &BTreeMap<Holding, Row>, length: usize, by_gpu: bool) -> Vec<Option<f64>> {
    let devices = counted_devices(rows);
    let parts = devices.chunk_by(|a, b| by_gpu && a[0].0.device.uuid == b[0].0.device.uuid);
    let parts: Vec<_> = parts.collect();
    let sum = |place: usize| {
        let value = |(_, row): &(&Holding, &Row)| match row.readings.get(place)? {
            Reading::Silent => None,
            Reading::Invalid => Some(f64::NAN),
            Reading::Valid(value) => Some(f64::from(*value)),
        };
        // The largest number, or NaN if there is none.
        let largest = |part: &&[Vec<_>]| part.iter().flatten().filter_map(value).reduce(f64::max);
        let sum = parts.iter().filter_map(largest).reduce(|sum, it| sum + it);
        sum.filter(|it| it.is_finite())
    };
    (0..length).map(sum).collect()
}

async fn used(history: &History, of: &Reference, period: Period) -> Result<Vec<Block>, Failure> {
    let chosen = Chosen::of(history, period, Some(of)).await?;
    let [busy, held] = chosen.held(|_, _| {}).await?;
    let memory = chosen.sum(DeviceValue::MemoryUsed, Unit::Mebibytes, "Memory in use");
    let power = chosen.sum(DeviceValue::PowerUsage, Unit::Watts, "Power");
    let charts = [busy, held, memory.await?, power.await?];
    Ok(charts.into_iter().map(Block::Series).collect())
}

async fn day(history: &History) -> Result<Vec<Block>, Failure> {
    let period = period("24h");
    let chosen = Chosen::of(history, period, None).await?;
    let owners = Owners::read(history, ends(period), None, None).await?;
    let mut tally = Tally::new(period);
    let charts = chosen.held(|rows, range| tally.take(rows, range)).await?;
    let mut document = Document::default();
    document.heading("The last day");
    usage::add_worst(&mut document, &owners, period, &tally.finish());
    document.blocks.extend(charts.map(Block::Series));
    Ok(document.blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(
        uuid: &str,
        instance: Option<&str>,
        pod: &str,
        readings: &[Reading],
    ) -> (Holding, Row) {
        let holding = Holding {
            device: gpu_metrics::line::Device {
                uuid: uuid.into(),
                instance: instance.map(Into::into),
                profile: instance.map(|_| "3g.40gb".into()),
            },
            pod: (!pod.is_empty()).then(|| ("ml".into(), pod.into())),
        };
        let row = Row {
            node: None,
            model: None,
            readings: readings.to_vec(),
        };
        (holding, row)
    }

    #[test]
    fn a_shared_gpu_counts_once_and_an_invalid_value_makes_no_sum() {
        let (busy, idle) = (Reading::Valid(40.0), Reading::Valid(0.0));
        let (silent, invalid) = (Reading::Silent, Reading::Invalid);
        let rows: BTreeMap<_, _> = [
            device("a", None, "p", &[busy, idle, silent, busy]),
            device("b", None, "p", &[busy, busy, silent, invalid]),
            device("b", None, "q", &[busy, busy, silent, silent]),
        ]
        .into();
        assert_eq!(
            totals(&rows, 4, false),
            [Some(80.0), Some(40.0), None, None]
        );
        let held = at_instants(&rows, 4);
        let held: Vec<Option<f64>> = held.iter().map(|it| it.map(|it| it.held())).collect();
        assert_eq!(held, [Some(2.0), Some(2.0), None, Some(2.0)]);
        let rows = [("1", 30.0), ("2", 30.0)];
        let rows = rows.map(|(id, it)| device("c", Some(id), "p", &[Reading::Valid(it)]));
        assert_eq!(totals(&rows.clone().into(), 1, false), [Some(60.0)]);
        assert_eq!(totals(&rows.into(), 1, true), [Some(30.0)]);
    }
}

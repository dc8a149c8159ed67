//! The readings of devices by holder over a period.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::duration::format_duration;
use apimachinery::labels::Labels;
use apimachinery::promql::equals;
use apimachinery::time::Timestamp;
use gpu_metrics::batch::Batch;
use gpu_metrics::dcgm::schemes;
use gpu_metrics::line::{Device, Owner};
use gpu_metrics::policy::DeviceValue;
use gpu_metrics::signal::{SignalSpec, Unit};
use gpu_metrics::validity::{UnitEvidence, reading};
use prometheus_source::query::any_name;

use crate::Failure;

use super::History;
use super::period::Period;

/// Scrapes are counted over this range, 1 ms short: a range may include both its ends.
const COUNTED: Duration = Duration::from_millis(599_999);

/// The number of instants at which scrapes are counted, evenly spread over a period.
const LOOKS: u32 = 8;

/// What is known of a device at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Reading {
    /// It was not reported.
    #[default]
    Silent,
    /// It was reported without a valid value.
    Invalid,
    /// In the unit of the value: percent, MiB, watts.
    Valid(f32),
}

/// A device, and the pod that its series name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Holding {
    pub(crate) device: Device,
    /// Namespace and name.
    pub(crate) pod: Option<(Arc<str>, Arc<str>)>,
}

/// A device with one of its holders, or without.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) node: Option<Arc<str>>,
    pub(crate) model: Option<Arc<str>>,
    /// One for each instant of a slice.
    pub(crate) readings: Vec<Reading>,
}

/// The devices that count, each with its rows: a GPU beside its MIG instances is counted by
/// these. The devices of a GPU are adjacent.
pub(crate) fn counted_devices(rows: &BTreeMap<Holding, Row>) -> Vec<Vec<(&Holding, &Row)>> {
    let rows: Vec<(&Holding, &Row)> = rows.iter().collect();
    let mut counted = Vec::new();
    for gpu in rows.chunk_by(|(a, _), (b, _)| a.device.uuid == b.device.uuid) {
        let has_instances = gpu.iter().any(|(it, _)| it.device.instance.is_some());
        let devices = gpu.chunk_by(|(a, _), (b, _)| a.device == b.device);
        let devices = devices.filter(|it| it[0].0.device.instance.is_some() == has_instances);
        counted.extend(devices.map(<[_]>::to_vec));
    }
    counted
}

/// When each row was last seen.
#[derive(Debug, Default)]
pub(crate) struct Gaps(HashMap<Holding, usize>);

impl Gaps {
    /// The instants without a reading between two with one, of which the later is in a slice
    /// that begins at `start`.
    pub(crate) fn of(
        &mut self,
        holding: &Holding,
        readings: &[Reading],
        start: usize,
        is_seen: impl Fn(&Reading) -> bool,
    ) -> Vec<Range<usize>> {
        let mut last = self.0.get(holding).copied();
        let mut gaps = Vec::new();
        for (place, _) in (start..).zip(readings).filter(|(_, it)| is_seen(it)) {
            gaps.extend(last.map(|last| last + 1..place).filter(|it| !it.is_empty()));
            last = Some(place);
        }
        if let Some(last) = last {
            self.0.insert(holding.clone(), last);
        }
        gaps
    }
}

/// The queries for a value of devices, each with the unit of its answer.
#[derive(Debug)]
pub(crate) struct DeviceQueries {
    /// Selectors of all series.
    selectors: Vec<String>,
    queries: Vec<String>,
    units: Vec<Unit>,
    /// The namespace of the pods; `None`: of all, and free devices.
    namespace: Option<String>,
    /// The names of the fields.
    pub(crate) names: String,
}

/// The matchers of series that may name pods of a namespace, in each form; without a namespace
/// of all series.
pub(super) fn scopes(namespace: Option<&str>) -> Vec<String> {
    let Some(namespace) = namespace else {
        return vec![String::new()];
    };
    let exported = format!(",{}", equals("exported_namespace", namespace));
    let of_pod = format!(",{}", equals("pod_namespace", namespace));
    let plain = format!(
        r#",{},exported_namespace="""#,
        equals("namespace", namespace)
    );
    vec![exported, of_pod, plain]
}

impl History {
    /// The queries for a value of the devices of a namespace or of all. As in the server, the
    /// profiling field is read of MIG instances.
    pub(crate) fn of_devices(&self, value: DeviceValue, namespace: Option<&str>) -> DeviceQueries {
        let (own, profiled) = value.signals();
        let specs = [own, profiled.unwrap_or(own)]
            .map(|id| self.config.signals.iter().find(|spec| spec.id == id));
        let specs: Vec<&SignalSpec> = specs.into_iter().flatten().collect();
        let matchers = self.matchers();
        let selectors = |spec: &SignalSpec, more: &str| {
            let name = any_name(&[spec]);
            let scopes = scopes(namespace).into_iter();
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
            namespace: namespace.map(str::to_owned),
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
        let counts = counts.collect::<Vec<_>>().join(" or ");
        let looks = Period {
            start: to - to.since(from) / LOOKS * (LOOKS - 1),
            step: (to.since(from) / LOOKS).max(Duration::from_secs(1)),
            count: LOOKS as usize,
        };
        let answers = self
            .read(&format!("quantile(0.5, {counts})"), looks)
            .await?;
        let samples = answers.iter().flat_map(Batch::iter);
        let samples = samples.flat_map(|series| series.samples);
        let most = samples.fold(0.0_f64, |most, it| most.max(it.value));
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
            let mut read = rows.of(&range, &batches);
            // An exporter in the namespace may name pods of others.
            let is_of =
                |it: &Holding| it.pod.as_ref().map(|pod| &*pod.0) == of.namespace.as_deref();
            read.retain(|it, _| of.namespace.is_none() || is_of(it));
            take(range.clone(), read);
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
}

/// Reads rows from answers.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) period: Period,
    /// The unit of each query's answer.
    pub(crate) units: Vec<Unit>,
    /// `gpu.percentAsRatio`.
    pub(crate) as_ratio: Option<bool>,
    pub(crate) evidence: UnitEvidence,
}

impl Rows {
    /// The rows of a slice, the rows of a device adjacent. Of several series of a row the
    /// largest value counts: they are of several replicas of Prometheus.
    pub(crate) fn of(&mut self, range: &Range<usize>, batches: &[Batch]) -> BTreeMap<Holding, Row> {
        let mut rows = BTreeMap::new();
        for (place, batch) in batches.iter().enumerate() {
            let unit = self.units.get(place).copied().unwrap_or(Unit::Percent);
            for series in batch.iter() {
                let Ok(labels) = Labels::from_json(series.labels) else {
                    continue;
                };
                let Some(device) = schemes::device(&labels) else {
                    continue;
                };
                let owner = schemes::claim(&labels).owner;
                let pod = owner.map(|Owner { namespace, pod, .. }| (namespace, pod));
                let row = rows.entry(Holding { device, pod });
                let row = row.or_insert_with(|| new_row(&labels, range.len()));
                for sample in series.samples {
                    let seen = self.reading(unit, sample.value);
                    let place = self.period.place(sample.at);
                    let place = place.and_then(|it| it.checked_sub(range.start));
                    if let Some(cell) = place.and_then(|it| row.readings.get_mut(it)) {
                        *cell = larger(*cell, seen);
                    }
                }
            }
        }
        rows
    }

    /// Whether values between 0 and 1 contradict percents, and no unit is set.
    fn has_unknown_unit(&self) -> bool {
        self.as_ratio.is_none() && self.evidence.contradicts_percents()
    }

    fn reading(&mut self, unit: Unit, raw: f64) -> Reading {
        if unit == Unit::Percent {
            self.evidence.add(raw);
        }
        let unit = match self.as_ratio {
            Some(true) if unit == Unit::Percent => Unit::Ratio,
            _ => unit,
        };
        let value = reading(unit, raw);
        value.map_or(Reading::Invalid, |value| Reading::Valid(value as f32))
    }
}

fn new_row(labels: &Labels, length: usize) -> Row {
    Row {
        node: schemes::nodes(labels).into_iter().next(),
        model: schemes::model(labels).map(Into::into),
        readings: vec![Reading::Silent; length],
    }
}

fn larger(one: Reading, other: Reading) -> Reading {
    match (one, other) {
        (Reading::Valid(one), Reading::Valid(other)) => Reading::Valid(one.max(other)),
        (Reading::Valid(_), _) | (_, Reading::Silent) => one,
        _ => other,
    }
}

//! The past: the demand of a workload and its replicas, from the readings of its
//! GPUs.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::labels::Labels;
use apimachinery::time::{Timestamp, millis};
use gpu_metrics::batch::Batch;
use gpu_metrics::dcgm::schemes;
use gpu_metrics::signal::Unit;
use gpu_metrics::validity::{UnitEvidence, reading};

use super::plan::{MOST_REPLICAS, Plan};

/// Utilisation in percent from which a GPU is saturated, and its demand may be higher.
pub(crate) const SATURATED: f64 = 95.0;

/// The least share of a moment's GPUs that must have a reading, as for sums
/// (`gpu.minDevices`).
const ANSWERING: f64 = 0.9;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Moment {
    /// The demand in GPUs: the sum of the workload's utilisation; `None`: unknown.
    pub(crate) demand: Option<f64>,
    /// The workload's pods that held a GPU.
    pub(crate) pods: u32,
    pub(crate) gpus: u32,
    /// Whether more than half of the GPUs were saturated: the demand may have been higher.
    pub(crate) censored: bool,
    /// The ordered replicas, if recorded.
    pub(crate) ordered: Option<i32>,
    /// The sum of the utilisation of the namespace's other GPUs.
    pub(crate) rest: f64,
    /// The number of other GPUs that were active.
    pub(crate) rest_active: u32,
}

impl Moment {
    pub(crate) fn replicas(&self) -> i32 {
        let seen = i32::try_from(self.pods).unwrap_or(i32::MAX);
        self.ordered.unwrap_or(seen)
    }
}

/// The state after a sync.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tick {
    pub(crate) at: Timestamp,
    /// The demand in GPUs; `None`: unknown.
    pub(crate) demand: Option<f64>,
    /// The load of the namespace's other GPUs, in GPUs.
    pub(crate) rest: f64,
    /// Replicas ordered.
    pub replicas: i32,
    pub(crate) ready: i32,
    /// The first metric's value for the controller, as kubectl shows it.
    pub(crate) shown: Option<f64>,
}

/// Each change of the replicas, including the first.
pub(crate) fn changes(ticks: &[Tick]) -> Vec<(Timestamp, i32)> {
    let runs = ticks.chunk_by(|one, next| one.replicas == next.replicas);
    let firsts = runs.filter_map(|run| run.first());
    firsts.map(|tick| (tick.at, tick.replicas)).collect()
}

/// A period of the past.
#[derive(Clone, Debug)]
pub struct Past {
    pub(crate) start: Timestamp,
    pub(crate) step: Duration,
    pub(crate) moments: Vec<Moment>,
    /// The number of GPUs that each pod holds: the most common one.
    pub(crate) gpus_per_pod: f64,
}

impl Past {
    pub(crate) fn time(&self, index: usize) -> Timestamp {
        let index = i64::try_from(index).unwrap_or(i64::MAX);
        let offset = millis(self.step).saturating_mul(index);
        Timestamp::from_millis(self.start.millis().saturating_add(offset))
    }

    pub(crate) fn end(&self) -> Timestamp {
        self.time(self.moments.len())
    }

    pub(crate) fn at(&self, at: Timestamp) -> Option<&Moment> {
        let offset = at.millis() - self.start.millis();
        let index = usize::try_from(offset / millis(self.step).max(1)).ok()?;
        self.moments.get(index)
    }

    /// A tick with the demand at a time, and these replicas.
    pub(super) fn tick(
        &self,
        at: Timestamp,
        replicas: i32,
        ready: usize,
        shown: Option<f64>,
    ) -> Tick {
        let moment = self.at(at);
        Tick {
            at,
            demand: moment.and_then(|moment| moment.demand),
            rest: moment.map_or(0.0, |moment| moment.rest),
            replicas,
            ready: i32::try_from(ready).unwrap_or(i32::MAX),
            shown,
        }
    }

    /// The share of moments with a known demand in which it was a lower bound.
    pub(crate) fn censored(&self) -> f64 {
        let known = self.moments.iter().filter(|it| it.demand.is_some());
        let censored = known.clone().filter(|it| it.censored).count();
        censored as f64 / known.count().max(1) as f64
    }

    /// Applies another measure of the demand to the moments in which GPUs were
    /// saturated. Returns the GPU demand per unit of the measure, from the other
    /// moments; `None` if they do not determine it.
    pub(crate) fn calibrate(&mut self, measure: &[Option<f64>]) -> Option<f64> {
        let both = self.moments.iter().zip(measure);
        let free = both.filter(|(moment, _)| !moment.censored);
        let sums = free.filter_map(|(moment, other)| Some((moment.demand?, (*other)?)));
        let (demand, other) = sums.fold((0.0, 0.0), |sums, (demand, other)| {
            (sums.0 + demand, sums.1 + other)
        });
        let factor = Some(demand / other).filter(|it| it.is_finite() && *it > 0.0)?;
        for (moment, other) in self.moments.iter_mut().zip(measure) {
            if let (true, Some(demand), Some(other)) = (moment.censored, moment.demand, other) {
                moment.demand = Some(demand.max(factor * other));
                moment.censored = false;
            }
        }
        Some(factor)
    }
}

/// A pod since its first reading; times are indices of moments.
#[derive(Clone, Copy, Debug)]
struct Life {
    first: usize,
    busy: Option<usize>,
}

/// Collects the past from answers of the store, in the order of time.
#[derive(Debug)]
pub struct Gather<'p> {
    plan: &'p Plan,
    pods: HashSet<String>,
    unit: Unit,
    /// `gpu.percentAsRatio`.
    as_ratio: Option<bool>,
    shown: UnitEvidence,
    past: Past,
    lives: HashMap<Arc<str>, Life>,
}

/// The readings over a period by device: whether it is the workload's, its pod, and its
/// UUID and instance. NaN is a missing reading.
type DeviceReadings = BTreeMap<(bool, Arc<str>, String), Vec<f32>>;

impl<'p> Gather<'p> {
    /// An empty past of the plan's workload with this number of moments. `pods` are the
    /// recorded names of its pods; if empty, pods are identified by the form of their
    /// names. `as_ratio` is `gpu.percentAsRatio`.
    #[must_use]
    pub fn new(
        plan: &'p Plan,
        pods: HashSet<String>,
        (unit, as_ratio): (Unit, Option<bool>),
        (start, step): (Timestamp, Duration),
        moments: usize,
    ) -> Self {
        Self {
            plan,
            pods,
            unit,
            as_ratio,
            shown: UnitEvidence::default(),
            past: Past {
                start,
                step,
                moments: vec![Moment::default(); moments],
                gpus_per_pod: 1.0,
            },
            lives: HashMap::new(),
        }
    }

    /// The first moment, the time between moments, and their number.
    pub(crate) fn span(&self) -> (Timestamp, Duration, usize) {
        (self.past.start, self.past.step, self.past.moments.len())
    }

    /// Adds the answer for some moments. Returns whether it has readings of the
    /// workload.
    pub fn take(&mut self, batch: &Batch, range: Range<usize>) -> bool {
        let mut rows = DeviceReadings::new();
        for series in batch.iter() {
            let Ok(labels) = Labels::from_json(series.labels) else {
                continue;
            };
            let (Some(owner), Some(device)) =
                (schemes::claim(&labels).owner, schemes::device(&labels))
            else {
                continue;
            };
            if *owner.namespace != *self.plan.hpa.namespace {
                continue;
            }
            let device = format!("{}/{:?}", device.uuid, device.instance);
            let key = (self.owns(&owner.pod), owner.pod, device);
            let row = rows.entry(key);
            let row = row.or_insert_with(|| vec![f32::NAN; range.len()]);
            for sample in series.samples {
                self.shown.add(sample.value);
                let place = self.place(sample.at);
                let place = place.and_then(|it| it.checked_sub(range.start));
                if let Some(cell) = place.and_then(|it| row.get_mut(it)) {
                    let value = self.percent(sample.value).unwrap_or(f64::NAN) as f32;
                    // Series of several Prometheus replicas are one reading: the larger value.
                    *cell = cell.max(value);
                }
            }
        }
        let any = rows.keys().any(|(ours, ..)| *ours);
        self.add(&rows, range);
        any
    }

    /// Whether values between 0 and 1 contradict percents, and no unit is set.
    pub(crate) fn has_unknown_unit(&self) -> bool {
        let is_detected = self.unit == Unit::Percent && self.as_ratio.is_none();
        is_detected && self.shown.contradicts_percents()
    }

    /// Whether a pod of the namespace is the workload's.
    pub(super) fn owns(&self, pod: &str) -> bool {
        if !self.pods.is_empty() {
            return self.pods.contains(pod);
        }
        let scaled = &self.plan.hpa.scaled;
        let rest = pod.strip_prefix(scaled.name.as_str());
        let Some(rest) = rest.and_then(|rest| rest.strip_prefix('-')) else {
            return false;
        };
        let is_word = |word: &str, most: usize| {
            (1..=most).contains(&word.len()) && word.bytes().all(|it| it.is_ascii_alphanumeric())
        };
        match (scaled.kind.as_str(), rest.split_once('-')) {
            ("Deployment", Some((hash, end))) => is_word(hash, 10) && is_word(end, 5),
            ("ReplicaSet", None) => is_word(rest, 5),
            ("StatefulSet", None) => rest.bytes().all(|it| it.is_ascii_digit()),
            ("Deployment" | "ReplicaSet" | "StatefulSet", _) => false,
            _ => true,
        }
    }

    fn place(&self, at: Timestamp) -> Option<usize> {
        let step_ms = millis(self.past.step).max(1);
        usize::try_from((at.millis() - self.past.start.millis() + step_ms / 2) / step_ms).ok()
    }

    fn percent(&self, raw: f64) -> Option<f64> {
        let unit = match self.as_ratio {
            Some(true) if self.unit == Unit::Percent => Unit::Ratio,
            _ => self.unit,
        };
        reading(unit, raw)
    }

    fn add(&mut self, rows: &DeviceReadings, range: Range<usize>) {
        let mut missing = vec![0_u32; range.len()];
        let mut saturated = vec![0_u32; range.len()];
        let mut counted: Vec<Option<&str>> = vec![None; range.len()];
        for ((ours, pod, _), row) in rows {
            let known = |it: &f32| !it.is_nan();
            let first = row.iter().position(known).unwrap_or(row.len());
            let last = row.iter().rposition(known).unwrap_or(0);
            for (place, value) in row.iter().enumerate().take(last + 1).skip(first) {
                let Some(moment) = self.past.moments.get_mut(range.start + place) else {
                    break;
                };
                if value.is_nan() {
                    missing[place] += u32::from(*ours);
                    continue;
                }
                let percent = f64::from(*value);
                if !ours {
                    moment.rest += percent / 100.0;
                    moment.rest_active += u32::from(percent > 0.0);
                    continue;
                }
                *moment.demand.get_or_insert(0.0) += percent / 100.0;
                moment.gpus += 1;
                saturated[place] += u32::from(percent >= SATURATED);
                // Rows of one pod are adjacent.
                if counted[place].replace(pod) != Some(pod) {
                    moment.pods += 1;
                }
                let here = range.start + place;
                let life = self.lives.entry(Arc::clone(pod));
                let life = life.or_insert(Life {
                    first: here,
                    busy: None,
                });
                if percent > 0.0 {
                    life.busy.get_or_insert(here);
                }
            }
        }
        let moments = self.past.moments.get_mut(range).unwrap_or_default();
        for ((moment, missing), saturated) in moments.iter_mut().zip(missing).zip(saturated) {
            moment.censored = 2 * saturated > moment.gpus;
            let (seen, all) = (f64::from(moment.gpus), f64::from(moment.gpus + missing));
            moment.demand = moment.demand.filter(|_| seen >= ANSWERING * all);
        }
    }

    /// Adds the ordered replicas, by time.
    pub(crate) fn order(&mut self, replicas: impl IntoIterator<Item = (Timestamp, f64)>) {
        for (at, replicas) in replicas {
            let known = (0.0..=f64::from(MOST_REPLICAS)).contains(&replicas);
            let place = self.place(at).filter(|_| known);
            if let Some(moment) = place.and_then(|place| self.past.moments.get_mut(place)) {
                moment.ordered = Some(replicas as i32);
            }
        }
    }

    /// How long pods took from their first reading to activity: the median of the
    /// pods that started in this time, and their number.
    pub(crate) fn ready_after(&self) -> Option<(Duration, usize)> {
        let came = self.lives.values().filter(|life| life.first > 0);
        let waits = came.filter_map(|life| Some(life.busy? - life.first));
        let mut waits: Vec<usize> = waits.collect();
        waits.sort_unstable();
        let median = *waits.get(waits.len() / 2)?;
        let wait = self.past.step * u32::try_from(median).ok()?;
        Some((wait, waits.len()))
    }

    /// The collected past, and the number of moments with an unusual number of GPUs
    /// per pod.
    #[must_use]
    pub fn finish(mut self) -> (Past, usize) {
        let per_pod = |it: &Moment| (it.pods > 0).then(|| it.gpus.div_ceil(it.pods));
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for number in self.past.moments.iter().filter_map(per_pod) {
            *counts.entry(number).or_default() += 1;
        }
        let all: usize = counts.values().sum();
        let usual = counts.into_iter().max_by_key(|(_, count)| *count);
        let (usual, count) = usual.unwrap_or((1, 0));
        self.past.gpus_per_pod = f64::from(usual);
        // Without pods the demand is 0 only if no replicas were ordered.
        for moment in &mut self.past.moments {
            if moment.pods == 0 && moment.ordered == Some(0) {
                moment.demand = Some(0.0);
            }
        }
        (self.past, all - count)
    }
}

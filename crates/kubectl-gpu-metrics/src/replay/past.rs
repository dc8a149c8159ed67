//! The past: the demand of a workload and its replicas, from the readings of its
//! GPUs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use apimachinery::time::{Timestamp, millis};
use gpu_metrics::batch::Batch;

use crate::history::autoscaler::Replicas;
use crate::history::devices::{Gaps, Holding, Reading, Row};
use crate::history::owners::Owners;
use crate::history::period::Period;

use super::plan::{MOST_REPLICAS, Plan};

/// Utilisation in percent from which a GPU is saturated, and its demand may be higher.
pub(crate) const SATURATED: f64 = 95.0;

/// How long a recorded number of replicas is valid without another one, as in Prometheus.
const STALE: Duration = Duration::from_secs(300);

/// The least share of a moment's GPUs that must have a reading, as for sums.
const ANSWERING: f64 = 0.9;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Moment {
    /// The demand: the sum of the workload's utilisation in GPUs, or the value of a rule's
    /// metric; `None`: unknown.
    pub(crate) demand: Option<f64>,
    /// The workload's pods that held a GPU.
    pub(crate) pods: u32,
    pub(crate) gpus: u32,
    /// Whether more than half of the GPUs were saturated: the demand may have been higher.
    pub(crate) censored: bool,
    /// The ordered replicas, if recorded.
    pub(crate) ordered: Option<i32>,
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
    /// `None`: unknown.
    pub(crate) demand: Option<f64>,
    /// Replicas ordered.
    pub replicas: i32,
    pub(crate) ready: i32,
}

/// A period of the past.
#[derive(Clone, Debug)]
pub struct Past {
    pub(crate) period: Period,
    pub(crate) moments: Vec<Moment>,
    /// The number of GPUs that each pod holds: the most common one.
    pub(crate) gpus_per_pod: f64,
}

impl Past {
    /// A past with these demands in GPUs, one each `step`, of pods with one GPU each.
    #[must_use]
    pub fn of_demands(
        start: Timestamp,
        step: Duration,
        pods: u32,
        demands: Vec<Option<f64>>,
    ) -> Self {
        let moment = |demand| Moment {
            demand,
            pods,
            gpus: pods,
            ..Moment::default()
        };
        let count = demands.len();
        Self {
            period: Period { start, step, count },
            moments: demands.into_iter().map(moment).collect(),
            gpus_per_pod: 1.0,
        }
    }

    pub(crate) fn at(&self, at: Timestamp) -> Option<&Moment> {
        let offset = at.millis() - self.period.start.millis();
        let index = usize::try_from(offset / millis(self.period.step).max(1)).ok()?;
        self.moments.get(index)
    }

    /// Removes the time before the first and after the last known demand. Returns whether
    /// any is left.
    pub(crate) fn trim(&mut self) -> bool {
        let is_known = |moment: &Moment| moment.demand.is_some();
        let last = self.moments.iter().rposition(is_known);
        self.moments.truncate(last.map_or(0, |last| last + 1));
        let first = self.moments.iter().position(is_known).unwrap_or(0);
        self.moments.drain(..first);
        self.period.start = self.period.time(first);
        self.period.count = self.moments.len();
        !self.moments.is_empty()
    }

    /// A tick with the demand at a time, and these replicas.
    pub(super) fn tick(&self, at: Timestamp, replicas: i32, ready: usize) -> Tick {
        Tick {
            at,
            demand: self.at(at).and_then(|moment| moment.demand),
            replicas,
            ready: i32::try_from(ready).unwrap_or(i32::MAX),
        }
    }

    /// Takes a metric's values as the demand: of an object the only one, otherwise their sum.
    pub(crate) fn set_demand(&mut self, answers: &[Batch], is_of_object: bool) {
        for moment in &mut self.moments {
            (moment.demand, moment.censored) = (None, false);
        }
        let samples = answers.iter().flat_map(Batch::iter);
        for sample in samples.flat_map(|series| series.samples) {
            let place = self.period.place(sample.at);
            if let Some(moment) = place.and_then(|it| self.moments.get_mut(it)) {
                let sum = moment.demand.map_or(sample.value, |it| it + sample.value);
                let is_known = !is_of_object || moment.demand.is_none();
                moment.demand = Some(if is_known { sum } else { f64::NAN });
            }
        }
    }

    /// The share of moments with a known demand in which it was a lower bound.
    pub(crate) fn censored(&self) -> f64 {
        let known = self.moments.iter().filter(|it| it.demand.is_some());
        let censored = known.clone().filter(|it| it.censored).count();
        censored as f64 / known.count().max(1) as f64
    }
}

/// Collects the past from the rows of devices, in the order of time.
#[derive(Debug)]
pub(crate) struct Gather<'p> {
    plan: &'p Plan,
    owners: Owners,
    past: Past,
    /// The workload's GPUs of each moment that were saturated, and that were not reported.
    saturated: Vec<u32>,
    missing: Vec<u32>,
    gaps: Gaps,
    /// The pods of the workload.
    pods: BTreeSet<Arc<str>>,
}

impl<'p> Gather<'p> {
    /// An empty past of the plan's workload.
    pub(crate) fn new(plan: &'p Plan, owners: Owners, period: Period) -> Self {
        Self {
            plan,
            owners,
            past: Past {
                period,
                moments: vec![Moment::default(); period.count],
                gpus_per_pod: 1.0,
            },
            saturated: vec![0; period.count],
            missing: vec![0; period.count],
            gaps: Gaps::default(),
            pods: BTreeSet::new(),
        }
    }

    /// Adds the rows of some moments.
    pub(crate) fn take(&mut self, rows: &BTreeMap<Holding, Row>, range: Range<usize>) {
        let mut pods: BTreeMap<&Arc<str>, Vec<&Row>> = BTreeMap::new();
        for (holding, row) in rows {
            let named = holding.pod.as_ref();
            let named = named.filter(|it| *it.0 == *self.plan.hpa.namespace);
            let Some((_, pod)) = named.filter(|(_, pod)| self.owns(pod)) else {
                continue;
            };
            pods.entry(pod).or_default().push(row);
            let is_known = |it: &Reading| matches!(it, Reading::Valid(_));
            for gap in self.gaps.of(holding, &row.readings, range.start, is_known) {
                let missing = self.missing.get_mut(gap).unwrap_or_default();
                missing.iter_mut().for_each(|it| *it += 1);
            }
        }
        for (pod, rows) in pods {
            self.add(&rows, range.clone());
            self.pods.insert(Arc::clone(pod));
        }
    }

    /// Whether a pod of the namespace is the workload's.
    pub(super) fn owns(&self, pod: &Arc<str>) -> bool {
        let scaled = &self.plan.hpa.scaled;
        let named = (Arc::from(self.plan.hpa.namespace.as_str()), Arc::clone(pod));
        let owner = self.owners.of(&named);
        owner.is_some_and(|it| *it.kind == *scaled.kind && *it.name == *scaled.name)
    }

    /// The names of the workload's pods, and where owners of pods are from.
    pub(crate) fn pods(&self) -> (Vec<Arc<str>>, &'static str) {
        (self.pods.iter().cloned().collect(), self.owners.source)
    }

    /// Adds a pod of the workload.
    fn add(&mut self, rows: &[&Row], range: Range<usize>) {
        let moments = self.past.moments.get_mut(range.clone()).unwrap_or_default();
        let saturated = self.saturated.get_mut(range).unwrap_or_default();
        for (place, (moment, saturated)) in moments.iter_mut().zip(saturated).enumerate() {
            let gpus = moment.gpus;
            for row in rows {
                if let Some(Reading::Valid(percent)) = row.readings.get(place) {
                    let percent = f64::from(*percent);
                    *moment.demand.get_or_insert(0.0) += percent / 100.0;
                    moment.gpus += 1;
                    *saturated += u32::from(percent >= SATURATED);
                }
            }
            moment.pods += u32::from(moment.gpus > gpus);
        }
    }

    /// Adds the ordered replicas; each number is valid until the next one.
    pub(crate) fn order(&mut self, replicas: &Replicas) {
        let (mut left, mut last) = (replicas.iter().copied().peekable(), None);
        for (place, moment) in self.past.moments.iter_mut().enumerate() {
            let time = self.past.period.time(place);
            while let Some(next) = left.next_if(|(at, _)| *at <= time) {
                last = Some(next);
            }
            let recent = last.filter(|(at, _)| time.since(*at) < STALE);
            moment.ordered = recent.map(|(_, replicas)| replicas.min(MOST_REPLICAS));
        }
    }

    /// The collected past.
    pub(crate) fn finish(mut self) -> Past {
        let counted = self.saturated.iter().zip(&self.missing);
        for (moment, (saturated, missing)) in self.past.moments.iter_mut().zip(counted) {
            moment.censored = 2 * saturated > moment.gpus;
            let (seen, all) = (f64::from(moment.gpus), f64::from(moment.gpus + missing));
            moment.demand = moment.demand.filter(|_| seen >= ANSWERING * all);
        }
        let per_pod = |it: &Moment| (it.pods > 0).then(|| it.gpus.div_ceil(it.pods));
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for number in self.past.moments.iter().filter_map(per_pod) {
            *counts.entry(number).or_default() += 1;
        }
        let usual = counts.into_iter().max_by_key(|(_, count)| *count);
        self.past.gpus_per_pod = usual.map_or(1.0, |(gpus, _)| f64::from(gpus));
        // Without pods the demand is 0 only if no replicas were ordered.
        for moment in &mut self.past.moments {
            if moment.pods == 0 && moment.ordered == Some(0) {
                moment.demand = Some(0.0);
            }
        }
        self.past
    }
}

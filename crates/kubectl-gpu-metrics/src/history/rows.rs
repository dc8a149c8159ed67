//! The readings of devices by holder, from the answers of a store.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use apimachinery::labels::Labels;
use gpu_metrics::batch::Batch;
use gpu_metrics::dcgm::schemes;
use gpu_metrics::series::{Device, MODEL_LABELS, Owner};
use gpu_metrics::signal::Unit;
use gpu_metrics::validity::{UnitEvidence, reading};

use super::period::Period;

/// What is known of a device at an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Reading {
    /// It was not reported.
    #[default]
    Silent,
    /// It was reported without a valid value.
    Invalid,
    Percent(f32),
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
    pub(super) fn has_unknown_unit(&self) -> bool {
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
        value.map_or(Reading::Invalid, |percent| Reading::Percent(percent as f32))
    }
}

fn new_row(labels: &Labels, length: usize) -> Row {
    let models = MODEL_LABELS.iter();
    let nodes = schemes::nodes(labels);
    Row {
        node: nodes.into_iter().next().map(|node| node.name),
        model: models
            .filter_map(|name| labels.get_ignore_case(name))
            .next()
            .map(Into::into),
        readings: vec![Reading::Silent; length],
    }
}

fn larger(one: Reading, other: Reading) -> Reading {
    match (one, other) {
        (Reading::Percent(one), Reading::Percent(other)) => Reading::Percent(one.max(other)),
        (Reading::Percent(_), _) | (_, Reading::Silent) => one,
        _ => other,
    }
}

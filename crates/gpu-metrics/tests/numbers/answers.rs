//! The values of a snapshot by short names, each checked against its explanation.

use std::time::Duration;

use apimachinery::time::Timestamp;
use gpu_metrics::absence::Absence;
use gpu_metrics::explain::{Explanation, Question};
use gpu_metrics::layout::Object;
use gpu_metrics::metric::Value;
use gpu_metrics::policy::{Measure, MetricSpec};
use gpu_metrics::snapshot::Snapshot;

/// The values of a snapshot at a time.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) snapshot: Snapshot,
    pub(super) now: Timestamp,
}

impl Answers {
    pub(super) fn new(snapshot: Snapshot) -> Self {
        let now = snapshot.frame.now;
        Self { snapshot, now }
    }

    pub(super) fn metric(&self, name: &str) -> Option<(usize, &MetricSpec)> {
        let mut metrics = self.snapshot.metrics.iter().enumerate();
        metrics.find(|(_, metric)| metric.name == name)
    }

    /// The index of an object's kind, its own index, and the object: `pods n/p`, `nodes x`.
    fn object(&self, object: &str) -> Option<(usize, usize, &Object)> {
        let (resource, namespace, name) = parts(object)?;
        let (kind, table) = self.snapshot.layout.table(resource)?;
        let index = table.find(namespace, name)?;
        Some((kind, index, &table.objects[index]))
    }

    /// The devices of `pods n/p`, `namespaces n`, `nodes x`, `deployments.apps n/d`.
    pub(super) fn group(&self, object: &str) -> Option<&Object> {
        self.object(object).map(|(_, _, of)| of)
    }

    /// The value of an object or of the `cluster`, without its explanation.
    pub(super) fn value_at(&self, object: &str, metric: &str, now: Timestamp) -> Option<Value> {
        let (place, spec) = self.metric(metric)?;
        let value = if object == "cluster" || spec.measure == Measure::OriginalAverage {
            self.snapshot.cluster_value(place)
        } else {
            let (kind, index, _) = self.object(object)?;
            self.snapshot.values(kind, place)[index]
        };
        value.filter(|value| value.is_fresh(now) && value.value.is_finite())
    }

    /// The value of an object, which its explanation and its own computation must agree with.
    pub(super) fn ask(&self, object: &str, metric: &str) -> Option<Value> {
        let value = self.value_at(object, metric, self.now);
        if let Some(value) = value {
            let just_before = value.fresh_until - Duration::from_millis(1);
            assert!(value.is_fresh(just_before) && !value.is_fresh(value.fresh_until));
        }
        if let (Some((place, spec)), Some((kind, index, of))) =
            (self.metric(metric), self.object(object))
        {
            let computed = self.snapshot.evaluate(&[of], &spec.measure, None);
            assert_eq!(computed, [self.snapshot.values(kind, place)[index]]);
        }
        if let Some(explanation) = self.explain(object, metric) {
            agrees(&explanation, value);
        }
        value
    }

    pub(super) fn explain(&self, object: &str, metric: &str) -> Option<Explanation> {
        let (_, spec) = self.metric(metric)?;
        let original = spec.measure == Measure::OriginalAverage;
        let group = self.group(object).filter(|_| !original)?;
        Some(self.snapshot.explain(&Question {
            object: group,
            measure: &spec.measure,
            window: None,
            is_narrowed: false,
            names_pods: false,
            now: self.now,
        }))
    }

    pub(super) fn of(&self, object: &str, metric: &str) -> Option<f64> {
        self.ask(object, metric).map(|value| value.value)
    }

    /// Why an object has no value of a metric.
    pub(super) fn absence(&self, object: &str, metric: &str) -> Absence {
        assert_eq!(self.of(object, metric), None);
        self.snapshot.absence(self.group(object).unwrap())
    }
}

/// `pods n/p` is `("pods", Some("n"), "p")`, `nodes x` is `("nodes", None, "x")`.
fn parts(object: &str) -> Option<(&str, Option<&str>, &str)> {
    let (resource, name) = object.split_once(' ')?;
    Some(match name.split_once('/') {
        Some((namespace, name)) => (resource, Some(namespace), name),
        None => (resource, None, name),
    })
}

pub(super) fn close(actual: Option<f64>, expected: f64) {
    let near = actual.is_some_and(|actual| (actual - expected).abs() < 1e-9);
    assert!(near, "{actual:?} is not {expected}");
}

/// Checks an explanation against the served value.
fn agrees(explanation: &Explanation, served: Option<Value>) {
    let number = served.map(|value| value.value);
    for (place, instant) in explanation.instants.iter().enumerate() {
        let readings = explanation.devices.iter();
        let readings = readings.map(|device| device.readings[place]);
        let counted = readings.filter(|reading| reading.counted).count();
        let listed = !explanation.devices.is_empty() && instant.answering > 0;
        assert!(
            !listed || counted == instant.counted as usize,
            "{explanation:#?}"
        );
    }
    if let Some(number) = number {
        let numbers = explanation
            .instants
            .iter()
            .filter_map(|instant| instant.number);
        let numbers: Vec<f64> = numbers.collect();
        close(
            Some(numbers.iter().sum::<f64>() / numbers.len() as f64),
            number,
        );
    }
}

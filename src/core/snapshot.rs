//! What is served: every built-in value of every object, computed once a poll,
//! and the readings behind it for questions nobody foresaw.

use std::sync::Arc;
use std::time::Duration;

use super::aggregate::{Ask, Evaluator, Lens};
use super::frame::Frame;
use super::grid::RowId;
use super::layout::Layout;
use super::metric::Value;
use super::original;
use super::policy::{Formula, Measure, MetricSpec, Policy};
use super::time::millis;

/// The values of one kind's objects, metric by metric.
#[derive(Clone, Debug, Default)]
struct KindValues {
    /// `[metric][object]`, as in the layout's table.
    values: Vec<Box<[Option<Value>]>>,
}

/// An immutable answer book.
#[derive(Clone, Debug)]
pub struct Snapshot {
    frame: Frame,
    layout: Arc<Layout>,
    policy: Arc<Policy>,
    metrics: Arc<[MetricSpec]>,
    window: Duration,
    kinds: Vec<KindValues>,
    cluster: Vec<Option<Value>>,
}

impl Snapshot {
    /// Computes all values with the default window and formula.
    #[must_use]
    pub fn compute(
        frame: Frame,
        layout: Arc<Layout>,
        policy: Arc<Policy>,
        metrics: Arc<[MetricSpec]>,
        window: Duration,
    ) -> Self {
        let mut snapshot = Self {
            frame,
            layout,
            policy,
            metrics,
            window,
            kinds: Vec::new(),
            cluster: Vec::new(),
        };
        let metrics = snapshot.metrics.len();
        let empty = KindValues {
            values: vec![Box::default(); metrics],
        };
        let mut kinds = vec![empty; snapshot.layout.tables().len()];
        let mut cluster = vec![None; metrics];
        for family in snapshot.families() {
            snapshot.compute_family(&family, &mut kinds, &mut cluster);
        }
        snapshot.kinds = kinds;
        snapshot.cluster = cluster;
        snapshot
    }

    /// The metrics' indices, those together that read the same rows.
    fn families(&self) -> Vec<Vec<usize>> {
        let mut families: Vec<(Lens, Formula, Vec<usize>)> = Vec::new();
        for (index, metric) in self.metrics.iter().enumerate() {
            let lens = Lens::of(&metric.measure);
            let formula = formula_for(&metric.measure, self.policy.formula);
            match families
                .iter_mut()
                .find(|(of, by, _)| *of == lens && *by == formula)
            {
                Some((_, _, family)) => family.push(index),
                None => families.push((lens, formula, vec![index])),
            }
        }
        families.into_iter().map(|(_, _, family)| family).collect()
    }

    /// Computes the values of metrics that read the same rows.
    fn compute_family(
        &self,
        family: &[usize],
        kinds: &mut [KindValues],
        cluster: &mut [Option<Value>],
    ) {
        let evaluator = self.evaluator();
        let asks = |one_pod| -> Vec<Ask> {
            let metrics = family.iter().filter_map(|index| self.metrics.get(*index));
            metrics
                .map(|metric| self.default_ask(metric, one_pod))
                .collect()
        };
        let of_groups = asks(false);
        let Some(first) = of_groups.first() else {
            return;
        };
        let sight = evaluator.sight(first);
        let whole = std::iter::once(self.layout.cluster());
        let values = evaluator.values(whole, &of_groups, Some(&sight));
        for (metric, value) in family.iter().zip(values) {
            cluster[*metric] = value;
        }
        for (kind, table) in kinds.iter_mut().zip(self.layout.tables()) {
            let groups = table.objects.iter().map(|object| object.members.as_slice());
            let asks = asks(table.kind.resource.as_ref() == "pods");
            let values = evaluator.values(groups, &asks, Some(&sight));
            for (place, metric) in family.iter().enumerate() {
                let of_metric = values.iter().skip(place).step_by(family.len());
                kind.values[*metric] = of_metric.copied().collect();
            }
        }
    }

    fn evaluator(&self) -> Evaluator<'_> {
        Evaluator {
            frame: &self.frame,
            layout: &self.layout,
            policy: &self.policy,
        }
    }

    fn default_ask(&self, metric: &MetricSpec, one_pod: bool) -> Ask {
        Ask {
            measure: metric.measure,
            formula: formula_for(&metric.measure, self.policy.formula),
            window_ms: millis(self.window),
            one_pod,
        }
    }

    /// The readings.
    #[must_use]
    pub fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Which rows belong to which object.
    #[must_use]
    pub fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    /// The metrics, in the order of their values.
    #[must_use]
    pub fn metrics(&self) -> &Arc<[MetricSpec]> {
        &self.metrics
    }

    /// The default window.
    #[must_use]
    pub fn window(&self) -> Duration {
        self.window
    }

    /// The shortest window that can hold as many instants as a value needs.
    #[must_use]
    pub fn shortest_window(&self, measure: &Measure) -> Duration {
        let step_ms = match measure {
            Measure::OriginalAverage => original::STEP_MS,
            _ => self.frame.step_ms(),
        };
        let instants = i64::from(self.policy.min_samples.max(1));
        Duration::from_millis(u64::try_from(step_ms.saturating_mul(instants)).unwrap_or(0))
    }

    /// How readings are judged.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The values of a metric for all objects of a kind, in the order of the
    /// layout's table.
    #[must_use]
    pub fn values(&self, kind: usize, metric: usize) -> &[Option<Value>] {
        self.kinds
            .get(kind)
            .and_then(|kind| kind.values.get(metric))
            .map_or(&[], AsRef::as_ref)
    }

    /// The cluster's value of a metric.
    #[must_use]
    pub fn cluster_value(&self, metric: usize) -> Option<Value> {
        self.cluster.get(metric).copied().flatten()
    }

    /// Computes what was not foreseen: another window or formula, or only some
    /// of an object's rows. One value for each group.
    #[must_use]
    pub fn evaluate<'g>(
        &self,
        groups: impl Iterator<Item = &'g [RowId]> + Clone,
        question: &Question,
    ) -> Vec<Option<Value>> {
        let ask = Ask {
            measure: question.measure,
            formula: formula_for(
                &question.measure,
                question.formula.unwrap_or(self.policy.formula),
            ),
            window_ms: millis(question.window.unwrap_or(self.window)),
            one_pod: question.one_pod,
        };
        let asks = std::slice::from_ref(&ask);
        self.evaluator().values(groups, asks, None)
    }
}

/// A question beside the foreseen ones.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// What to measure.
    pub measure: Measure,
    /// Another formula than the default.
    pub formula: Option<Formula>,
    /// Another window than the default.
    pub window: Option<Duration>,
    /// Whether each group is a single pod.
    pub one_pod: bool,
}

/// Formulas other than the default speak of the active devices' mean; sums,
/// counts and amounts are always averaged over the instants.
fn formula_for(measure: &Measure, wanted: Formula) -> Formula {
    if takes_formula(measure) {
        wanted
    } else {
        Formula::MeanOfInstants
    }
}

/// Whether a formula makes a difference to a measure.
#[must_use]
pub fn takes_formula(measure: &Measure) -> bool {
    use super::policy::{Over, Reducer};
    matches!(
        measure,
        Measure::Devices {
            reducer: Reducer::Mean,
            over: Over::Active,
            ..
        }
    )
}

//! What is served: every built-in value of every object, computed once a poll,
//! and the readings behind it for questions nobody foresaw.

use std::sync::Arc;
use std::time::Duration;

use super::aggregate::{Ask, Evaluator};
use super::frame::Frame;
use super::grid::RowId;
use super::layout::{KindTable, Layout, RowFacts};
use super::metric::Value;
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
        let mut kinds = vec![KindValues::default(); snapshot.layout.tables().len()];
        let mut cluster = Vec::new();
        for metric in snapshot.metrics.iter() {
            let (whole, of_kinds) = snapshot.of_metric(metric);
            cluster.push(whole);
            for (kind, values) in kinds.iter_mut().zip(of_kinds) {
                kind.values.push(values);
            }
        }
        snapshot.kinds = kinds;
        snapshot.cluster = cluster;
        snapshot
    }

    /// A metric's value of the cluster and of all objects, kind by kind.
    fn of_metric(&self, metric: &MetricSpec) -> (Option<Value>, Vec<Box<[Option<Value>]>>) {
        let evaluator = self.evaluator();
        let ask = self.default_ask(metric, false);
        let sight = evaluator.sight(&ask);
        let cluster = std::iter::once(self.layout.cluster());
        let cluster = evaluator
            .values(cluster, &ask, Some(&sight))
            .pop()
            .flatten();
        let of_kind = |table: &KindTable| {
            let ask = self.default_ask(metric, table.kind.resource.as_ref() == "pods");
            let groups = table.objects.iter().map(|object| object.members.as_slice());
            evaluator
                .values(groups, &ask, Some(&sight))
                .into_boxed_slice()
        };
        (cluster, self.layout.tables().iter().map(of_kind).collect())
    }

    fn evaluator(&self) -> Evaluator<'_> {
        Evaluator {
            frame: &self.frame,
            layout: &self.layout,
            policy: &self.policy,
        }
    }

    fn default_ask(&self, metric: &MetricSpec, one_pod: bool) -> Ask<'static> {
        Ask {
            measure: metric.measure,
            formula: formula_for(&metric.measure, self.policy.formula),
            window_ms: millis(self.window),
            one_pod,
            rows: None,
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
    /// rows.
    #[must_use]
    pub fn evaluate(&self, members: &[RowId], question: &Question<'_>) -> Option<Value> {
        let ask = Ask {
            measure: question.measure,
            formula: formula_for(
                &question.measure,
                question.formula.unwrap_or(self.policy.formula),
            ),
            window_ms: millis(question.window.unwrap_or(self.window)),
            one_pod: question.one_pod,
            rows: question.rows,
        };
        self.evaluator().value(members, &ask)
    }
}

/// A question beside the foreseen ones.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// What to measure.
    pub measure: Measure,
    /// Another formula than the default.
    pub formula: Option<Formula>,
    /// Another window than the default.
    pub window: Option<Duration>,
    /// Whether the group is a single pod.
    pub one_pod: bool,
    /// Which rows to take.
    pub rows: Option<&'a dyn Fn(&RowFacts) -> bool>,
}

impl std::fmt::Debug for Question<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Question")
            .field("measure", &self.measure)
            .finish_non_exhaustive()
    }
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

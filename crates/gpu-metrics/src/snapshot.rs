//! What is served: every built-in value of every object, computed once a poll,
//! and the readings behind them, for values that are computed on demand.

use std::sync::Arc;
use std::time::Duration;

use super::aggregate::{
    Absence, Changes, DeviceReasons, Evaluator, IdleSince, MeasureInputs, MeasureRequest, Reasons,
    RowTarget, Span, Spanned, window_ms,
};
use super::frame::Frame;
use super::layout::{Attribution, Layout, Object, RowFacts};
use super::metric::Value;
use super::policy::{Formula, Measure, MetricSpec, Policy};
use super::threads;
use apimachinery::time::millis;

/// The values of one kind's objects: `[metric][object]`, as in the layout's table.
type KindValues = Vec<Box<[Option<Value>]>>;

/// A kind's objects as groups, in the order of their first rows, which is the order of
/// their readings in memory.
struct KindGroups<'s> {
    groups: Vec<Spanned<'s>>,
    /// The place of each in the layout's table.
    places: Vec<usize>,
}

impl KindGroups<'_> {
    /// The values of a metric by place in the layout's table.
    fn by_place(&self, values: impl Iterator<Item = Option<Value>>) -> Box<[Option<Value>]> {
        let mut placed = vec![None; self.places.len()];
        for (place, value) in self.places.iter().zip(values) {
            placed[*place] = value;
        }
        placed.into()
    }
}

/// An immutable set of values.
#[derive(Clone, Debug)]
pub struct Snapshot {
    frame: Frame,
    layout: Arc<Layout>,
    policy: Arc<Policy>,
    metrics: Arc<[MetricSpec]>,
    /// The target whose intervals apply to each row, by row number.
    targets: Vec<RowTarget>,
    /// When readings of the rows change, over the default windows.
    changes: Changes,
    /// In the order of the layout's tables; the cluster follows as a kind with one object.
    kinds: Vec<KindValues>,
}

impl Snapshot {
    /// Computes all values with the default window and formula.
    pub(crate) fn compute(
        frame: Frame,
        layout: Arc<Layout>,
        policy: Arc<Policy>,
        metrics: Arc<[MetricSpec]>,
    ) -> Self {
        let targets = RowTarget::of_rows(&frame, &layout);
        let mut snapshot = Self {
            frame,
            layout,
            policy,
            metrics,
            targets,
            changes: Changes::default(),
            kinds: Vec::new(),
        };
        (snapshot.kinds, snapshot.changes) = snapshot.all();
        snapshot
    }

    /// The values of all kinds' objects, and when readings change.
    fn all(&self) -> (Vec<KindValues>, Changes) {
        let whole = std::slice::from_ref(self.layout.cluster());
        let tables = self.layout.tables().iter();
        let objects = tables.map(|table| &table.objects[..]).chain([whole]);
        let kinds: Vec<KindGroups<'_>> = objects.map(|objects| self.groups(objects)).collect();
        let groups = || kinds.iter().flat_map(|kind| &kind.groups);
        let first = groups().filter_map(|(_, span)| Some((*span)?.first)).min();
        let last = groups().filter_map(|(_, span)| Some((*span)?.last)).max();
        // Without any window there is no instant.
        let instants = first.zip(last).unwrap_or((0, -1));
        let rules = (&*self.policy, &self.targets[..]);
        let changes = Changes::of(&self.frame, &self.layout, rules, instants);
        let evaluator = Evaluator {
            changes: &changes,
            ..self.evaluator()
        };
        let families = self.families();
        let of_family = |family: &Vec<(usize, MeasureRequest)>| {
            let asks: Vec<MeasureRequest> = family.iter().map(|(_, ask)| *ask).collect();
            let readings = asks.first();
            let readings = readings.map(|ask| evaluator.row_readings(ask, instants));
            let values = |of: &[Spanned<'_>]| evaluator.values(of, &asks, readings.as_ref());
            // The original's number is that of the cluster, whatever the object.
            let is_original = |ask: &MeasureRequest| ask.measure == Measure::OriginalAverage;
            let of_cluster = (asks.iter().any(is_original))
                .then(|| values(&[self.spanned(self.layout.cluster(), None)]));
            let of_kind = |kind: &KindGroups<'_>| match &of_cluster {
                Some(values) => values.repeat(kind.places.len()),
                None => values(&kind.groups),
            };
            kinds.iter().map(of_kind).collect::<Vec<_>>()
        };
        let threads = threads::for_rows(self.layout.facts().len());
        let computed = threads::map(&families, threads, of_family);
        let mut kept = vec![vec![Box::default(); self.metrics.len()]; kinds.len()];
        for (family, of_kinds) in families.iter().zip(computed) {
            for ((kept, kind), values) in kept.iter_mut().zip(&kinds).zip(of_kinds) {
                for (place, (metric, _)) in family.iter().enumerate() {
                    let of_metric = values.iter().skip(place).step_by(family.len());
                    kept[*metric] = kind.by_place(of_metric.copied());
                }
            }
        }
        (kept, changes)
    }

    fn groups<'s>(&self, objects: &'s [Object]) -> KindGroups<'s> {
        let mut places: Vec<usize> = (0..objects.len()).collect();
        places.sort_by_key(|place| objects[*place].members.first());
        let group = |place: &usize| self.spanned(&objects[*place], None);
        KindGroups {
            groups: places.iter().map(group).collect(),
            places,
        }
    }

    fn spanned<'g>(&self, group: &'g Object, window_ms: Option<i64>) -> Spanned<'g> {
        (group, self.evaluator().span(group, window_ms))
    }

    /// The metrics by index, grouped into families that read the same rows.
    fn families(&self) -> Vec<Vec<(usize, MeasureRequest)>> {
        let key = |ask: &MeasureRequest| {
            let is_original = ask.measure == Measure::OriginalAverage;
            (MeasureInputs::of(&ask.measure), ask.formula, is_original)
        };
        let mut families: Vec<Vec<(usize, MeasureRequest)>> = Vec::new();
        for (index, metric) in self.metrics.iter().enumerate() {
            let ask = self.ask(&metric.measure, None);
            let is_alike = |(_, other): &(usize, MeasureRequest)| key(other) == key(&ask);
            let mut known = families.iter_mut();
            match known.find(|family| family.first().is_some_and(is_alike)) {
                Some(family) => family.push((index, ask)),
                None => families.push(vec![(index, ask)]),
            }
        }
        families
    }

    fn evaluator(&self) -> Evaluator<'_> {
        Evaluator {
            frame: &self.frame,
            layout: &self.layout,
            policy: &self.policy,
            targets: &self.targets,
            changes: &self.changes,
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

    /// The default window; groups of slower targets have a longer one.
    #[must_use]
    pub fn window(&self) -> Duration {
        Duration::from_millis(window_ms(&self.policy, None, 0).unsigned_abs())
    }

    /// How readings become values.
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
            .and_then(|kind| kind.get(metric))
            .map_or(&[], AsRef::as_ref)
    }

    #[must_use]
    pub fn cluster_value(&self, metric: usize) -> Option<Value> {
        let of_cluster = self.values(self.layout.tables().len(), metric);
        of_cluster.first().copied().flatten()
    }

    /// Computes other values: another window or formula, or only some of an object's
    /// rows; `None` is the default. One value for each group.
    #[must_use]
    pub fn evaluate(
        &self,
        groups: &[&Object],
        measure: &Measure,
        formula: Option<Formula>,
        window: Option<Duration>,
    ) -> Vec<Option<Value>> {
        let asks = [self.ask(measure, formula)];
        let window_ms = window.map(millis);
        if *measure == Measure::OriginalAverage {
            // The number of the whole cluster, whatever the group.
            let whole = self.spanned(self.layout.cluster(), window_ms);
            let values = self.evaluator().values(&[whole], &asks, None);
            return values.repeat(groups.len());
        }
        let groups = groups.iter();
        let groups: Vec<Spanned<'_>> = groups.map(|group| self.spanned(group, window_ms)).collect();
        self.evaluator().values(&groups, &asks, None)
    }

    /// Explains the value of a group: [`Snapshot::evaluate`] with reasons.
    #[must_use]
    pub fn reasons(
        &self,
        group: &Object,
        measure: &Measure,
        formula: Option<Formula>,
        window: Option<Duration>,
    ) -> Option<Reasons<'_>> {
        let ask = self.ask(measure, formula);
        let spanned = self.spanned(group, window.map(millis));
        self.evaluator().reasons(spanned, &ask)
    }

    /// Since when a device of the group has not been in use.
    pub(crate) fn idle(
        &self,
        device: &DeviceReasons<'_>,
        of: (&Object, &Span),
        measure: &Measure,
    ) -> Option<IdleSince> {
        let ask = self.ask(measure, None);
        self.evaluator().idle(device, of, &ask)
    }

    fn ask(&self, measure: &Measure, formula: Option<Formula>) -> MeasureRequest {
        MeasureRequest {
            measure: *measure,
            formula: formula_for(measure, formula.unwrap_or(self.policy.formula)),
        }
    }

    /// The GPUs of live pods that `is_wanted` selects.
    fn held(&self, is_wanted: impl Fn(&RowFacts) -> bool) -> Vec<&RowFacts> {
        let rows = self.layout.facts().flatten();
        let held = rows.filter(|facts| facts.attribution == Attribution::Held);
        held.filter(|facts| is_wanted(facts)).collect()
    }

    /// The GPUs of live pods whose exporters are silent.
    #[must_use]
    pub fn silent(&self) -> Vec<&RowFacts> {
        let evaluator = self.evaluator();
        let is_silent = |facts: &RowFacts| evaluator.is_silent(facts);
        self.held(|facts| is_silent(facts) && !evaluator.is_frozen(facts))
    }

    /// The GPUs of live pods that their exporters have not reported for longer than a
    /// window, though they report other GPUs.
    #[must_use]
    pub fn lost(&self) -> Vec<&RowFacts> {
        let (_, span) = self.spanned(self.layout.cluster(), None);
        let is_lost = |facts: &RowFacts, span: Span| {
            let window_ms = span.window_ms;
            self.evaluator().is_lost(facts.id, window_ms)
        };
        self.held(|facts| span.is_some_and(|span| is_lost(facts, span)))
    }

    /// The GPUs of live pods that exporters have reported without their pods for longer
    /// than a window.
    #[must_use]
    pub fn without_labels(&self) -> Vec<&RowFacts> {
        let (_, span) = self.spanned(self.layout.cluster(), None);
        let evaluator = self.evaluator();
        self.held(|facts| {
            let named = self.frame.sample_times(facts.id);
            let times = named.zip(evaluator.without_labels(facts)).zip(span);
            times.is_some_and(|((named, newest), span)| {
                newest.millis() - named.newest.millis() > span.window_ms
            })
        })
    }

    /// Why a group has no value.
    #[must_use]
    pub fn absence(&self, group: &Object) -> Absence {
        let (group, span) = self.spanned(group, None);
        self.evaluator().absence(group, span.as_ref())
    }
}

/// Formulas other than the default apply only to the mean over active devices. All other
/// measures are averaged over the instants.
fn formula_for(measure: &Measure, wanted: Formula) -> Formula {
    if takes_formula(measure) {
        wanted
    } else {
        Formula::MeanOfInstants
    }
}

/// Whether a formula changes the value of a measure.
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

//! Answers one query from one snapshot. The values were computed with the snapshot, are
//! cached, or are computed now.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::narrow::Narrowed;
use super::served::{ServedSnapshot, StoredValues};
use super::{
    CustomValue, ExternalValue, MetricValues, ObjectSelection, ProviderError, Query, Which,
};
use apimachinery::labels::Labels;
use apimachinery::selector::Selector;
use apimachinery::time::{Timestamp, millis};
use gpu_metrics::aggregate::Reasons;
use gpu_metrics::grid::RowId;
use gpu_metrics::inventory::ObjectKind;
use gpu_metrics::layout::{KindTable, Object};
use gpu_metrics::metric::Value;
use gpu_metrics::policy::{Measure, MetricSpec};
use gpu_metrics::snapshot::Snapshot;

/// `windowSeconds` is in whole seconds. A window with too few samples is extended when it
/// is evaluated.
const SHORTEST_WINDOW: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub(super) enum Subject<'a> {
    Objects {
        kind: &'a ObjectKind,
        /// The objects with GPUs, and the place of their table; `None`: there are none.
        table: Option<(usize, &'a KindTable)>,
        selection: &'a ObjectSelection,
    },
    /// An external metric of the devices of a namespace.
    Namespace(&'a str),
    /// An external metric of all devices.
    Cluster,
}

/// A query with its metric and settings resolved.
#[derive(Debug)]
pub(super) struct Lookup<'a> {
    pub(super) current: &'a Arc<ServedSnapshot>,
    pub(super) snapshot: &'a Snapshot,
    pub(super) subject: Subject<'a>,
    /// The name of the metric as in discovery.
    pub(super) name: Cow<'a, str>,
    metric: usize,
    pub(super) spec: &'a MetricSpec,
    pub(super) narrowed: Narrowed,
    pub(super) now: Timestamp,
    /// The most looks at rows; `u64::MAX`: no limit.
    looks: u64,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(
        current: &'a Arc<ServedSnapshot>,
        subject: Subject<'a>,
        (metric, spec): (usize, &'a MetricSpec),
        query: &Query,
        looks: u64,
    ) -> Result<Self, ProviderError> {
        let snapshot = &*current.snapshot;
        let windows = SHORTEST_WINDOW..=longest_window(snapshot);
        Ok(Self {
            current,
            snapshot,
            subject,
            name: Cow::Borrowed(&spec.name),
            metric,
            spec,
            narrowed: Narrowed::read(&query.selector, &spec.measure, windows)?,
            now: query.now,
            looks,
        })
    }

    /// Sets the window, unless the selector sets one.
    pub(super) fn prefer(&mut self, window: Duration) {
        let longest = longest_window(self.snapshot);
        self.narrowed.window.get_or_insert(window.min(longest));
    }

    /// Fails if the query needs more looks than the limit.
    pub(super) fn allow(&self, looks: u64) -> Result<(), ProviderError> {
        match looks <= self.looks {
            true => Ok(()),
            false => Err(ProviderError::TooMuchWork),
        }
    }

    fn fresh(&self, value: Option<Value>) -> Option<Value> {
        value.filter(|value| value.is_fresh(self.now) && value.value.is_finite())
    }

    /// The values of the subject.
    ///
    /// # Errors
    /// When there are none, or they need more looks than the limit.
    pub(super) fn result(&self) -> Result<MetricValues, ProviderError> {
        let (kind, table, selection) = match self.subject {
            Subject::Objects {
                kind,
                table,
                selection,
            } => (kind, table, selection),
            Subject::Namespace(namespace) => {
                let table = self.snapshot.layout().table("namespaces");
                let value = self.of_object(table, None, namespace)?;
                return self.one_external(value, Some(namespace));
            }
            Subject::Cluster => return self.one_external(self.of_cluster()?, None),
        };
        if self.spec.measure == Measure::OriginalAverage {
            return self.original_of_namespaces(kind, &selection.which);
        }
        let namespace = selection.namespace.as_deref();
        let values = match &selection.which {
            Which::Named(name) => {
                let value = self.of_object(table, namespace, name)?;
                let values = value.map(|value| CustomValue {
                    kind: kind.clone(),
                    namespace: namespace.map(Arc::from),
                    name: name.as_str().into(),
                    value,
                });
                values.map(|value| MetricValues::Custom(vec![value]))
            }
            Which::Matching(selector) => match table {
                Some(table) => self.list(table, namespace, selector)?,
                None => None,
            },
        };
        values.ok_or_else(|| self.no_value())
    }

    fn one_external(
        &self,
        value: Option<Value>,
        namespace: Option<&str>,
    ) -> Result<MetricValues, ProviderError> {
        let value = value.ok_or_else(|| self.no_value())?;
        let pinned = self.narrowed.pinned();
        let own = namespace.filter(|_| pinned.get("namespace").is_none());
        let own = own.map(|namespace| ("namespace", namespace));
        let labels = pinned.iter().map(|(name, value)| (&**name, &**value));
        Ok(MetricValues::External(vec![ExternalValue {
            metric: (&*self.name).into(),
            labels: Labels::from_pairs(labels.chain(own)),
            value,
        }]))
    }

    /// The values of the matching objects; `None`: there are none.
    fn list(
        &self,
        (kind, table): (usize, &KindTable),
        namespace: Option<&str>,
        selector: &Selector,
    ) -> Result<Option<MetricValues>, ProviderError> {
        let (start, objects) = table.within(namespace);
        self.allow((objects.len() * selector.requirements().len()) as u64)?;
        let everything = selector.is_everything();
        // The pods of a workload follow each other and share one label set.
        let mut before: Option<(&Labels, bool)> = None;
        let mut is_chosen = |labels| match before {
            Some((known, matches)) if known.is_copy_of(labels) => matches,
            _ => before.insert((labels, selector.matches(labels))).1,
        };
        let chosen = (start..)
            .zip(objects)
            .filter(|(_, object)| everything || is_chosen(&object.labels));
        if self.narrowed.is_default() {
            return Ok(self.stored(kind, chosen.map(|(index, _)| index)));
        }
        let chosen: Vec<&Object> = chosen.map(|(_, object)| object).collect();
        let values = self.values(&chosen)?;
        let found = chosen.into_iter().zip(values);
        let found = found.filter_map(|(object, value)| {
            Some(CustomValue {
                kind: table.kind.clone(),
                namespace: object.namespace.clone(),
                name: Arc::clone(&object.name),
                value: value?,
            })
        });
        let found: Vec<CustomValue> = found.collect();
        Ok((!found.is_empty()).then_some(MetricValues::Custom(found)))
    }

    /// The fresh values of these objects that were computed together with the snapshot.
    fn stored(&self, kind: usize, objects: impl Iterator<Item = usize>) -> Option<MetricValues> {
        let values = self.snapshot.values(kind, self.metric);
        let is_fresh = |object: &usize| {
            let value = values.get(*object).copied().flatten();
            self.fresh(value).is_some()
        };
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for object in objects.filter(is_fresh) {
            match ranges.last_mut() {
                Some(range) if range.end == object => range.end += 1,
                _ => ranges.push(object..object + 1),
            }
        }
        (!ranges.is_empty()).then(|| {
            MetricValues::Stored(StoredValues {
                current: Arc::clone(self.current),
                kind,
                metric: self.metric,
                objects: ranges,
            })
        })
    }

    /// The original's average, the same value for every namespace.
    fn original_of_namespaces(
        &self,
        kind: &ObjectKind,
        which: &Which,
    ) -> Result<MetricValues, ProviderError> {
        let value = self.of_cluster()?.ok_or_else(|| self.no_value())?;
        let names: Vec<Arc<str>> = match which {
            Which::Named(name) => vec![name.as_str().into()],
            Which::Matching(selector) => {
                let all = self.snapshot.layout().inventory().namespaces.iter();
                let chosen = all.filter(|namespace| selector.matches(&namespace.labels));
                chosen.map(|it| Arc::clone(&it.name)).collect()
            }
        };
        if names.is_empty() {
            let reason = "no namespace matches the selector".to_owned();
            return Err(ProviderError::NoValue(reason));
        }
        let values = names.into_iter().map(|name| CustomValue {
            kind: kind.clone(),
            namespace: None,
            name,
            value,
        });
        Ok(MetricValues::Custom(values.collect()))
    }

    /// The value of an object of a kind.
    fn of_object(
        &self,
        table: Option<(usize, &KindTable)>,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, ProviderError> {
        let found =
            table.and_then(|(kind, table)| Some((kind, table, table.find(namespace, name)?)));
        let Some((kind, table, index)) = found else {
            return Ok(None);
        };
        if self.narrowed.is_default() {
            let values = self.snapshot.values(kind, self.metric);
            return Ok(self.fresh(values.get(index).copied().flatten()));
        }
        let values = self.values(table.objects.get(index).as_slice())?;
        Ok(values.into_iter().next().flatten())
    }

    fn of_cluster(&self) -> Result<Option<Value>, ProviderError> {
        if self.narrowed.is_default() {
            return Ok(self.fresh(self.snapshot.cluster_value(self.metric)));
        }
        let cluster = [self.snapshot.layout().cluster()];
        let answer = self
            .current
            .of_cluster((self.metric, self.narrowed.clone()));
        if answer.get().is_none() {
            self.allow_rows(&cluster)?;
        }
        // Autoscalers with the same selector cause one computation: the first request
        // computes the value, and the others wait for it. Values of objects are computed
        // for each request.
        let compute = || self.compute(&cluster).into_iter().next().flatten();
        Ok(self.fresh(*answer.get_or_init(compute)))
    }

    /// Fails if values of these groups need more looks than the limit.
    fn allow_rows(&self, groups: &[&Object]) -> Result<(), ProviderError> {
        let rows: usize = groups.iter().map(|group| group.members.len()).sum();
        self.allow(rows as u64 * self.looks_per_row())
    }

    /// Values that are not in the snapshot.
    fn values(&self, groups: &[&Object]) -> Result<Vec<Option<Value>>, ProviderError> {
        self.allow_rows(groups)?;
        let values = self.compute(groups).into_iter();
        Ok(values.map(|value| self.fresh(value)).collect())
    }

    pub(super) fn looks_per_row(&self) -> u64 {
        if self.spec.measure == Measure::OriginalAverage {
            return 0;
        }
        let window = self.narrowed.window.unwrap_or(self.snapshot.window());
        self.narrowed.cost() + self.instants(window)
    }

    fn instants(&self, window: Duration) -> u64 {
        let instants = millis(window) / self.snapshot.frame().step_ms().max(1);
        u64::try_from(instants).unwrap_or(u64::MAX)
    }

    /// The number of instants in the longest window.
    pub(super) fn instants_held(&self) -> u64 {
        self.instants(longest_window(self.snapshot))
    }

    /// Computes values. Each row is checked once, whatever the number of instants.
    fn compute(&self, groups: &[&Object]) -> Vec<Option<Value>> {
        let (measure, narrowed) = (&self.spec.measure, &self.narrowed);
        let evaluate = |groups: &[&Object]| {
            self.snapshot
                .evaluate(groups, measure, narrowed.formula, narrowed.window)
        };
        if !narrowed.has_labels() {
            return evaluate(groups);
        }
        let admitted: Vec<Object> = groups.iter().map(|group| self.admitted(group)).collect();
        evaluate(&admitted.iter().collect::<Vec<_>>())
    }

    /// A group with only the rows that have the requested labels. Devices without samples
    /// are not expected in it.
    fn admitted(&self, group: &Object) -> Object {
        let layout = self.snapshot.layout();
        let admits = |row: &RowId| {
            let facts = layout.fact(*row);
            facts.is_some_and(|facts| self.narrowed.admits(facts))
        };
        let members = group.members.iter().copied();
        Object {
            members: members.filter(admits).collect(),
            unseen: Vec::new(),
            ..group.clone()
        }
    }

    /// The explanation of the value of a group.
    pub(super) fn reasons(&self, group: &Object) -> Option<Reasons<'a>> {
        let (measure, narrowed) = (&self.spec.measure, &self.narrowed);
        let admitted = narrowed.has_labels().then(|| self.admitted(group));
        let group = admitted.as_ref().unwrap_or(group);
        self.snapshot
            .reasons(group, measure, narrowed.formula, narrowed.window)
    }
}

fn longest_window(snapshot: &Snapshot) -> Duration {
    snapshot.policy().max_window.max(snapshot.window())
}

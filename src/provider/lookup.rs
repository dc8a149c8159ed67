//! Answers one query from one snapshot. The values were computed with the snapshot, are
//! cached, or are computed now.

use std::ops::Range;
use std::sync::Arc;

use super::gpu::GpuProvider;
use super::narrow::Narrowed;
use super::served::{ServedSnapshot, StoredValues};
use super::{CustomValue, ExternalValue, MetricValues, ObjectSelection, Query, ValuesOf};
use aggregated_apiserver::refusal::Refusal;
use apimachinery::labels::Labels;
use gpu_metrics::explain::{Explanation, Question};
use gpu_metrics::inventory::ObjectKind;
use gpu_metrics::layout::{KindTable, Member, Object};
use gpu_metrics::metric::Value;
use gpu_metrics::policy::{Measure, MetricSpec};
use gpu_metrics::snapshot::Snapshot;

/// The most requirements of a label selector that are checked on the thread of the request.
const MOST_AT_HAND: usize = 8;

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

/// An object with devices, and the places of its values in the snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group<'a> {
    kind: usize,
    place: usize,
    pub(super) object: &'a Object,
}

/// A query with its metric and settings resolved.
#[derive(Debug)]
pub(super) struct Lookup<'a> {
    pub(super) provider: &'a GpuProvider,
    pub(super) current: &'a Arc<ServedSnapshot>,
    pub(super) snapshot: &'a Snapshot,
    pub(super) query: &'a Query,
    pub(super) subject: Subject<'a>,
    /// The place of the metric in the snapshot.
    pub(super) metric: usize,
    /// The metric, by its name in discovery.
    pub(super) spec: &'a MetricSpec,
    pub(super) narrowed: Narrowed,
}

impl<'a> Lookup<'a> {
    /// Whether the answer needs no computation that a large fleet makes long.
    pub(super) fn is_at_hand(&self) -> bool {
        let requirements = match &self.query.of {
            ValuesOf::Objects(objects) => objects.selector.requirements().len(),
            ValuesOf::Namespace(_) => 0,
        };
        self.narrowed.is_default() && requirements <= MOST_AT_HAND
    }

    /// The values of the subject.
    ///
    /// # Errors
    /// When there are none.
    pub(super) fn result(&self) -> Result<MetricValues, Refusal> {
        let values = match self.subject {
            Subject::Objects {
                kind,
                table,
                selection,
            } => match &selection.name {
                Some(name) => self.value().map(|value| {
                    MetricValues::Custom(vec![CustomValue {
                        kind: kind.clone(),
                        namespace: selection.namespace.as_deref().map(Arc::from),
                        name: name.as_str().into(),
                        value,
                    }])
                }),
                None => table.and_then(|(kind, table)| self.list(kind, table, selection)),
            },
            Subject::Namespace(_) | Subject::Cluster => self.value().map(|value| {
                MetricValues::External(vec![ExternalValue {
                    metric: (&*self.spec.name).into(),
                    labels: Labels::default(),
                    value,
                }])
            }),
        };
        values.ok_or_else(|| Refusal::NoValue(self.absence()))
    }

    /// The devices of the subject; `None`: it has none, or it is a list. The original's average
    /// is one value for the whole cluster.
    pub(super) fn group(&self) -> Option<Group<'a>> {
        let layout = &self.snapshot.layout;
        let (table, namespace, name) = match self.subject {
            _ if self.spec.measure == Measure::OriginalAverage => return Some(self.cluster()),
            Subject::Cluster => return Some(self.cluster()),
            Subject::Namespace(name) => (layout.table("namespaces"), None, name),
            Subject::Objects {
                table, selection, ..
            } => (
                table,
                selection.namespace.as_deref(),
                selection.name.as_deref()?,
            ),
        };
        let (kind, table) = table?;
        let place = table.find(namespace, name)?;
        let object = table.objects.get(place)?;
        Some(Group {
            kind,
            place,
            object,
        })
    }

    fn cluster(&self) -> Group<'a> {
        let layout = &self.snapshot.layout;
        Group {
            kind: layout.tables.len(),
            place: 0,
            object: &layout.cluster,
        }
    }

    /// The value of the only subject.
    pub(super) fn value(&self) -> Option<Value> {
        let group = self.group().filter(|group| !group.object.is_starting)?;
        let compute = || self.compute(&[group.object]).into_iter().next().flatten();
        let value = if self.narrowed.is_default() {
            let values = self.snapshot.values(group.kind, self.metric);
            values.get(group.place).copied().flatten()
        } else if matches!(self.subject, Subject::Cluster) {
            let of = (self.metric, self.narrowed.clone());
            self.current.of_cluster(of, compute)
        } else {
            compute()
        };
        value.filter(|value| self.is_served(value))
    }

    fn is_served(&self, value: &Value) -> bool {
        value.is_fresh(self.query.now) && value.value.is_finite()
    }

    /// Whether the objects of the query with devices are pods that have never been Ready.
    pub(super) fn are_starting(&self) -> bool {
        let Subject::Objects {
            table: Some((_, table)),
            selection,
            ..
        } = self.subject
        else {
            return false;
        };
        let is_named = |name| selection.name.as_deref().is_none_or(|named| named == name);
        let objects = chosen(table, selection).filter(|(_, object)| is_named(&*object.name));
        let mut starting = objects.map(|(_, object)| object.is_starting).peekable();
        starting.peek().is_some() && starting.all(|it| it)
    }

    /// Whether an object of the query has devices.
    pub(super) fn has_devices(&self) -> bool {
        match self.subject {
            Subject::Objects {
                table: Some((_, table)),
                selection,
                ..
            } if selection.name.is_none() => chosen(table, selection).next().is_some(),
            _ => self.group().is_some(),
        }
    }

    /// The values of the matching objects; `None`: there are none.
    fn list(
        &self,
        kind: usize,
        table: &KindTable,
        selection: &ObjectSelection,
    ) -> Option<MetricValues> {
        let chosen = chosen(table, selection).filter(|(_, object)| !object.is_starting);
        if self.narrowed.is_default() {
            return self.stored(kind, chosen.map(|(place, _)| place));
        }
        let chosen: Vec<&Object> = chosen.map(|(_, object)| object).collect();
        let values = self.compute(&chosen).into_iter();
        let values = values.map(|value| value.filter(|value| self.is_served(value)));
        let found = chosen.into_iter().zip(values);
        let found =
            found.filter_map(|(object, value)| Some(CustomValue::of(&table.kind, object, value?)));
        let found: Vec<CustomValue> = found.collect();
        (!found.is_empty()).then_some(MetricValues::Custom(found))
    }

    /// The fresh values of these objects that were computed together with the snapshot.
    fn stored(&self, kind: usize, objects: impl Iterator<Item = usize>) -> Option<MetricValues> {
        let values = self.snapshot.values(kind, self.metric);
        let is_served = |object: &usize| {
            let value = values.get(*object).copied().flatten();
            value.is_some_and(|value| self.is_served(&value))
        };
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for object in objects.filter(is_served) {
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

    /// Computes values that are not in the snapshot.
    fn compute(&self, groups: &[&Object]) -> Vec<Option<Value>> {
        let (measure, narrowed) = (&self.spec.measure, &self.narrowed);
        let evaluate =
            |groups: &[&Object]| self.snapshot.evaluate(groups, measure, narrowed.window);
        if !narrowed.has_labels() {
            return evaluate(groups);
        }
        let admitted: Vec<Object> = groups.iter().map(|group| self.admitted(group)).collect();
        evaluate(&admitted.iter().collect::<Vec<_>>())
    }

    /// A group with only the devices that have the requested labels. GPUs that no series
    /// names are not expected in it.
    fn admitted(&self, group: &Object) -> Object {
        let admits = |member: &Member| {
            let mut lines = self.snapshot.present_lines(*member);
            lines.any(|line| self.narrowed.admits(line))
        };
        let members = group.members.iter().copied();
        Object {
            members: members.filter(admits).collect(),
            pods: Vec::new(),
            ..group.clone()
        }
    }

    /// The explanation of the value of a group.
    pub(super) fn explained(&self, group: &Object, names_pods: bool) -> Explanation {
        let is_narrowed = self.narrowed.has_labels();
        let admitted = is_narrowed.then(|| self.admitted(group));
        self.snapshot.explain(&Question {
            object: admitted.as_ref().unwrap_or(group),
            measure: &self.spec.measure,
            window: self.narrowed.window,
            is_narrowed,
            names_pods,
            now: self.query.now,
        })
    }
}

/// The selected objects, with their places in the table.
fn chosen<'t>(
    table: &'t KindTable,
    selection: &ObjectSelection,
) -> impl Iterator<Item = (usize, &'t Object)> {
    let (start, objects) = table.within(selection.namespace.as_deref());
    let selector = &selection.selector;
    let everything = selector.is_everything();
    // The pods of a workload follow each other and share one label set.
    let mut before: Option<(&Labels, bool)> = None;
    let mut is_chosen = move |labels| match before {
        Some((known, matches)) if known.is_copy_of(labels) => matches,
        _ => before.insert((labels, selector.matches(labels))).1,
    };
    (start..)
        .zip(objects)
        .filter(move |(_, object)| everything || is_chosen(&object.labels))
}

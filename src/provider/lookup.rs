//! Answers one query from one snapshot. The values were computed with the snapshot, are
//! cached, or are computed now.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

use super::encoded::{EncodedTable, StoredItems};
use super::narrow::Narrowed;
use super::{ObjectSelection, ProviderError, Query, Which};
use apimachinery::labels::Labels;
use apimachinery::time::{Timestamp, millis};
use gpu_metrics::aggregate::{Absence, Missing, Reasons};
use gpu_metrics::grid::RowId;
use gpu_metrics::inventory::InventoryOrigin;
use gpu_metrics::layout::{KindTable, Object};
use gpu_metrics::metric::Value;
use gpu_metrics::policy::{Measure, MetricSpec};
use gpu_metrics::snapshot::Snapshot;

/// `windowSeconds` is in whole seconds. A window with too few samples is extended when it
/// is evaluated.
const SHORTEST_WINDOW: Duration = Duration::from_secs(1);

/// The most cached values of the cluster. One more drops all of them.
const MOST_CACHED: usize = 256;

/// The place of a value of the cluster. The first request for it computes it.
type CachedValue = Arc<OnceLock<Option<Value>>>;

/// A snapshot, and what was computed from it for requests.
#[derive(Debug)]
pub(super) struct ServedSnapshot {
    pub(super) snapshot: Arc<Snapshot>,
    /// Values of the cluster, by metric and selector.
    of_cluster: Mutex<HashMap<(usize, Narrowed), CachedValue>>,
    /// Encoded items: for each kind, those of each metric.
    encoded: Box<[OnceLock<EncodedTable>]>,
    /// Why values may be missing; `None`: the source works.
    pub(super) trouble: Option<String>,
    /// The resource names by which pods request GPUs, as text.
    pub(super) gpus: Arc<str>,
}

/// A query with its metric and settings resolved.
#[derive(Debug)]
pub(super) struct Lookup<'a> {
    pub(super) snapshot: &'a Snapshot,
    current: &'a ServedSnapshot,
    metric: usize,
    pub(super) spec: &'a MetricSpec,
    pub(super) narrowed: Narrowed,
    pub(super) now: Timestamp,
    /// The most looks at rows; `u64::MAX`: no limit.
    looks: u64,
}

impl ServedSnapshot {
    pub(super) fn new(snapshot: Arc<Snapshot>, trouble: Option<String>, gpus: Arc<str>) -> Self {
        let tables = snapshot.layout().tables().len() * snapshot.metrics().len();
        Self {
            snapshot,
            of_cluster: Mutex::default(),
            encoded: (0..tables).map(|_| OnceLock::new()).collect(),
            trouble,
            gpus,
        }
    }

    pub(super) fn lookup<'a>(
        &'a self,
        metric: usize,
        spec: &'a MetricSpec,
        query: &Query,
        looks: u64,
    ) -> Result<Lookup<'a>, ProviderError> {
        let snapshot = &*self.snapshot;
        let windows = SHORTEST_WINDOW..=longest_window(snapshot);
        Ok(Lookup {
            snapshot,
            current: self,
            metric,
            spec,
            narrowed: Narrowed::read(&query.selector, &spec.measure, windows)?,
            now: query.now,
            looks,
        })
    }

    /// The place of the cluster's value of a metric for a selector.
    fn of_cluster(&self, of: (usize, Narrowed)) -> CachedValue {
        let mut known = self.of_cluster.lock();
        if known.len() >= MOST_CACHED && !known.contains_key(&of) {
            known.clear();
        }
        known.entry(of).or_default().clone()
    }
}

impl<'a> Lookup<'a> {
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

    pub(super) fn fresh(&self, value: Option<Value>) -> Option<Value> {
        value.filter(|value| self.is_fresh(value))
    }

    /// Whether a value may be served.
    pub(super) fn is_fresh(&self, value: &Value) -> bool {
        value.is_fresh(self.now) && value.value.is_finite()
    }

    /// Whether the values were computed together with the snapshot.
    pub(super) fn is_foreseen(&self) -> bool {
        self.narrowed.is_default()
    }

    /// The value of an object of a kind that was computed together with the snapshot.
    fn foreseen(&self, kind: usize, object: usize) -> Option<Value> {
        let values = self.snapshot.values(kind, self.metric);
        self.fresh(values.get(object).copied().flatten())
    }

    /// The values of a kind that were computed together with the snapshot; none is chosen.
    pub(super) fn stored(&self, kind: usize, table: &'a KindTable) -> Option<StoredItems<'a>> {
        let metrics = self.snapshot.metrics().len();
        let encoded = self.current.encoded.get(kind * metrics + self.metric)?;
        Some(StoredItems {
            table,
            values: self.snapshot.values(kind, self.metric),
            encoded: encoded.get_or_init(|| EncodedTable::new(table.objects.len())),
            objects: 0..0,
        })
    }

    /// The value of the object at this index of a kind's table.
    pub(super) fn of_object(
        &self,
        kind: usize,
        table: &KindTable,
        index: usize,
    ) -> Result<Option<Value>, ProviderError> {
        if self.is_foreseen() {
            return Ok(self.foreseen(kind, index));
        }
        let object = table.objects.get(index);
        let values = self.values(object.as_slice())?;
        Ok(values.into_iter().next().flatten())
    }

    /// The table of namespaces with its index, and the index of a namespace in it.
    fn namespace(&self, name: &str) -> Option<(usize, &'a KindTable, usize)> {
        let (kind, table) = self.snapshot.layout().table("namespaces")?;
        Some((kind, table, table.find(None, name)?))
    }

    pub(super) fn of_namespace(&self, namespace: &str) -> Result<Option<Value>, ProviderError> {
        match self.namespace(namespace) {
            Some((kind, table, index)) => self.of_object(kind, table, index),
            None => Ok(None),
        }
    }

    /// The object of an external metric as text, and its devices.
    pub(super) fn external_group(
        &self,
        in_namespace: bool,
        namespace: &str,
    ) -> (String, Option<&'a Object>) {
        if !in_namespace {
            let group = self.snapshot.layout().cluster();
            return ("the cluster".to_owned(), Some(group));
        }
        let layout = self.snapshot.layout();
        let group = layout.object("namespaces", None, namespace);
        (format!("namespace {namespace}"), group)
    }

    pub(super) fn of_cluster(&self) -> Result<Option<Value>, ProviderError> {
        if self.is_foreseen() {
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
    pub(super) fn values(&self, groups: &[&Object]) -> Result<Vec<Option<Value>>, ProviderError> {
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

    /// The error that `of` has no value. `group` are its devices, if there are any.
    pub(super) fn no_value(&self, of: &str, group: Option<&Object>) -> ProviderError {
        let metric = &self.spec.name;
        if self.narrowed.has_labels() {
            return self.unmatched(of, group.map_or(&[], |group| &group.members));
        }
        let absence = group.map(|group| self.snapshot.absence(group));
        let reason = match (absence.and_then(why), &self.current.trouble) {
            (_, Some(trouble)) => {
                format!("no GPU of {of} has enough fresh samples for {metric}: {trouble}")
            }
            (Some(why), None) => format!("no value of {metric} for {of}: {why}"),
            (None, None) => format!(
                "no GPU of {of} has enough fresh samples for {metric}: check that its pods hold GPUs, \
                 that dcgm-exporter is up and that its series reach Prometheus with pod labels"
            ),
        };
        ProviderError::NoValue(reason)
    }

    /// The error that none of these rows, the GPUs of `of`, has the requested labels.
    fn unmatched(&self, of: &str, rows: &[RowId]) -> ProviderError {
        let metric = &self.spec.name;
        let layout = self.snapshot.layout();
        let facts = rows.iter().filter_map(|row| layout.fact(*row));
        let models: Vec<String> = self.narrowed.other_models(facts).into_iter().collect();
        let reason = match models.as_slice() {
            [] => format!(
                "no GPU of {of} with fresh samples for {metric} matches the metric selector"
            ),
            models => format!(
                "no GPU of {of} is of the model that the metric selector names: there are {}",
                models.join(", ")
            ),
        };
        ProviderError::NoValue(reason)
    }

    fn rows_of(&self, objects: &ObjectSelection) -> Vec<RowId> {
        let Some((_, table)) = self.snapshot.layout().table(&objects.resource) else {
            return Vec::new();
        };
        let (_, within) = table.within(objects.namespace.as_deref());
        let chosen = within
            .iter()
            .filter(|object| is_asked(&objects.which, &object.name, &object.labels));
        chosen.flat_map(|object| object.members.clone()).collect()
    }

    /// Whether the objects are pods and none of them requests a GPU.
    fn request_none(&self, objects: &ObjectSelection) -> bool {
        let inventory = self.snapshot.layout().inventory();
        if objects.resource != "pods" || inventory.authority != InventoryOrigin::Cluster {
            return false;
        }
        let pods = inventory.pods_in(objects.namespace.as_deref()).iter();
        let mut pods =
            pods.filter(|pod| pod.is_live() && is_asked(&objects.which, &pod.name, &pod.labels));
        pods.clone().next().is_some() && pods.all(|pod| !pod.requests_gpu())
    }

    /// The error that objects have no value. Some reasons need a connected cluster.
    pub(super) fn no_object(
        &self,
        of: &str,
        group: Option<&Object>,
        objects: &ObjectSelection,
    ) -> ProviderError {
        let by_labels =
            matches!(&objects.which, Which::Matching(selector) if !selector.is_everything());
        let by_owner = !["pods", "namespaces", "nodes"].contains(&&*objects.resource);
        let alone = self.snapshot.layout().inventory().authority == InventoryOrigin::Series;
        if alone && (by_labels || by_owner) {
            return ProviderError::NoValue(
                "no cluster is connected, so labels and owners of pods are not known: \
                 ask for pods by name, for all pods, namespaces or nodes"
                    .to_owned(),
            );
        }
        let rows = self.rows_of(objects);
        if rows.is_empty() && self.request_none(objects) {
            let (metric, gpus) = (&self.spec.name, &self.current.gpus);
            let reason = format!("no value of {metric} for {of}: the pods request no {gpus}");
            return ProviderError::NoValue(reason);
        }
        match self.narrowed.has_labels() {
            true => self.unmatched(of, &rows),
            false => self.no_value(of, group),
        }
    }
}

fn is_asked(which: &Which, name: &str, labels: &Labels) -> bool {
    match which {
        Which::Named(asked) => asked == name,
        Which::Matching(selector) => selector.matches(labels),
    }
}

fn longest_window(snapshot: &Snapshot) -> Duration {
    snapshot.policy().max_window.max(snapshot.window())
}

/// The reason why a group with GPUs has no value, and what to check; `None`: it has no GPU.
fn why(absence: Absence) -> Option<String> {
    Some(match absence {
        Absence::NoDevice => return None,
        Absence::StoreBehind { newest } => format!(
            "Prometheus has had no new samples since {}: check that it scrapes dcgm-exporter, or the remote \
             write before it",
            newest.whole_second().date()
        ),
        Absence::Missing { why, devices, of } => {
            let exporters = "check dcgm-exporter on their nodes";
            let frozen = "restart dcgm-exporter on their nodes";
            let xid = "look for Xid errors on their nodes";
            let (what, since, remedy) = match why {
                Missing::Silent(since) => ("have been silent", Some(since), exporters),
                Missing::Frozen(since) => ("have unchanged readings", Some(since), frozen),
                Missing::Lost(since) => ("are left out by their exporters", Some(since), xid),
                Missing::Unseen => ("that its pods request have no samples", None, exporters),
            };
            let since = since.map(|since| format!(" since {}", since.whole_second().date()));
            let since = since.unwrap_or_default();
            format!("{devices} of {of} GPUs {what}{since}: {remedy}")
        }
        Absence::HandedOver { since } => format!(
            "its GPUs have been reported for another pod, or for none, since {}: check the pod labels of \
             dcgm-exporter's series",
            since.whole_second().date()
        ),
        Absence::TooFewReadings => {
            "the window holds too few readings of it: values come with the next scrapes, \
                                    or the exporter does not report the field"
                .to_owned()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::tests::explained::shared_gpu;

    #[test]
    fn equal_requests_share_one_value_and_cached_values_are_limited() {
        let snapshot = shared_gpu().0.snapshot().unwrap();
        let current = ServedSnapshot::new(snapshot, None, "".into());
        let value = |metric| current.of_cluster((metric, Narrowed::default()));
        assert!(Arc::ptr_eq(&value(0), &value(0)));
        assert!(!Arc::ptr_eq(&value(0), &value(1)));
        for metric in 0..1000 {
            value(metric);
            assert!(current.of_cluster.lock().len() <= MOST_CACHED);
        }
    }
}

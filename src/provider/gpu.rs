//! Answers about GPUs, from the latest snapshot. A request for values of the default window
//! takes no lock and sends no other request.

pub(super) mod external;

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};

use super::encoded::StoredItems;
use super::lookup::{Lookup, ServedSnapshot};
use super::{
    CustomItem, CustomMetric, Item, ListedMetrics, ObjectSelection, ProviderError, Query,
    ValueSink, ValuesOf, Which,
};
use apimachinery::labels::Labels;
use apimachinery::selector::Selector;
use findings::{Report, source};
use gpu_metrics::external::ExternalMetrics;
use gpu_metrics::inventory::ObjectKind;
use gpu_metrics::layout::{KindTable, Object};
use gpu_metrics::policy::{Measure, MetricSpec};
use gpu_metrics::resources::GpuResources;
use gpu_metrics::snapshot::Snapshot;

/// Workload kinds that are listed even if the cluster has none. Other kinds are served when
/// a pod has an owner of the kind.
const WORKLOADS: [(&str, &str, &str); 6] = [
    ("cronjobs.batch", "CronJob", "batch/v1"),
    ("daemonsets.apps", "DaemonSet", "apps/v1"),
    ("deployments.apps", "Deployment", "apps/v1"),
    ("jobs.batch", "Job", "batch/v1"),
    ("replicasets.apps", "ReplicaSet", "apps/v1"),
    ("statefulsets.apps", "StatefulSet", "apps/v1"),
];

pub(super) fn workloads() -> [ObjectKind; 6] {
    WORKLOADS.map(|(resource, kind, version)| ObjectKind::new(resource, kind, version, true))
}

/// The kinds for which every metric is served, except the original's average.
fn kinds() -> Vec<ObjectKind> {
    let mut kinds = vec![
        ObjectKind::pod(),
        ObjectKind::namespace(),
        ObjectKind::node(),
    ];
    kinds.extend(workloads());
    kinds
}

/// Why there are no values if the server may not list the cluster's objects.
const NOT_LISTED: &str = "the server may not list pods";

/// The values of GPU metrics, without I/O and threads. [`super::composite`] makes a
/// [`super::Provider`] of it.
///
/// The work for a query is limited in looks. A look is at the value of a row at an instant,
/// or at a label of a row. A query that needs more looks fails with
/// [`ProviderError::TooMuchWork`]; `u64::MAX` means no limit.
#[derive(Debug)]
pub struct GpuProvider {
    metrics: Arc<[MetricSpec]>,
    listed: Arc<ListedMetrics>,
    named: ExternalMetrics,
    kinds: Vec<ObjectKind>,
    pub(super) current: ArcSwapOption<ServedSnapshot>,
    /// The resource names by which pods request GPUs, as text.
    gpus: Arc<str>,
    findings: ArcSwap<Report>,
}

impl GpuProvider {
    /// A provider of these metrics. It has no values before [`GpuProvider::publish`].
    pub fn new(metrics: &[MetricSpec]) -> Self {
        let kinds = kinds();
        let mut custom: Vec<CustomMetric> = Vec::new();
        for kind in &kinds {
            let offered = metrics
                .iter()
                .filter(|metric| is_offered(&metric.measure, kind));
            custom.extend(offered.map(|metric| CustomMetric {
                resource: Arc::clone(&kind.resource),
                metric: metric.name.as_str().into(),
                namespaced: kind.namespaced,
            }));
        }
        custom.sort();
        let metrics: Arc<[MetricSpec]> = metrics.into();
        let named = ExternalMetrics::new(Arc::clone(&metrics));
        let external = named.names().to_vec();
        Self {
            listed: Arc::new(ListedMetrics { custom, external }),
            named,
            kinds,
            current: ArcSwapOption::empty(),
            gpus: GpuResources::default().words().into(),
            findings: ArcSwap::from_pointee(unknown(&metrics)),
            metrics,
        }
    }

    /// Sets the resource names by which pods request GPUs.
    pub(crate) fn requested_by(self, resources: &GpuResources) -> Self {
        Self {
            gpus: resources.words().into(),
            ..self
        }
    }

    /// Reports that there are no values because the server may not list the cluster's
    /// objects: why, with the remedy.
    pub(crate) fn tell_forbidden(&self, why: &str) {
        self.tell(Arc::new(unseen(NOT_LISTED, why)));
    }

    /// The error before the first values.
    pub(super) fn not_ready(&self) -> ProviderError {
        let told = self.findings.load();
        ProviderError::NotReady(
            match told.skipped.iter().any(|it| it.reason == NOT_LISTED) {
                true => "the server may not list pods: its log names the right that is missing",
                false => "the first poll of the metrics backend has not ended",
            },
        )
    }

    /// Replaces the findings about the data.
    pub(crate) fn tell(&self, report: Arc<Report>) {
        self.findings.store(report);
    }

    /// Makes a new snapshot the current one.
    pub fn publish(&self, snapshot: Arc<Snapshot>) {
        self.publish_despite(snapshot, None);
    }

    /// The same while the source may fail. Then errors for missing values contain the reason.
    pub(crate) fn publish_despite(&self, snapshot: Arc<Snapshot>, trouble: Option<String>) {
        let gpus = Arc::clone(&self.gpus);
        let served = ServedSnapshot::new(snapshot, trouble, gpus);
        self.current.store(Some(Arc::new(served)));
    }

    /// Why the source fails; `None`: it works.
    pub(crate) fn trouble(&self) -> Option<String> {
        let current = self.current.load();
        current.as_ref()?.trouble.clone()
    }

    pub(crate) fn snapshot(&self) -> Option<Arc<Snapshot>> {
        let current = self.current.load();
        current
            .as_ref()
            .map(|current| Arc::clone(&current.snapshot))
    }

    pub(super) fn metric(&self, name: &str) -> Option<(usize, &MetricSpec)> {
        let mut metrics = self.metrics.iter().enumerate();
        metrics.find(|(_, metric)| metric.name == name)
    }
}

/// The report before the first poll, or if GPU metrics are off.
fn unknown(metrics: &[MetricSpec]) -> Report {
    match metrics {
        [] => unseen("GPU metrics are off", "set gpu.enabled: true"),
        _ => unseen("the first round of queries has not ended", "look again"),
    }
}

fn unseen(reason: &str, remedy: &str) -> Report {
    Report {
        skipped: [source::unseen(reason, remedy)].into(),
        ..Report::default()
    }
}

/// Whether a kind has a metric. The original's average is one value for the whole cluster.
/// It is served only for namespaces, so that an Object metric can refer to it.
fn is_offered(measure: &Measure, kind: &ObjectKind) -> bool {
    *measure != Measure::OriginalAverage || kind.resource.as_ref() == "namespaces"
}

impl GpuProvider {
    pub(crate) fn listed(&self) -> Arc<ListedMetrics> {
        Arc::clone(&self.listed)
    }

    pub(crate) fn findings(&self) -> Arc<Report> {
        self.findings.load_full()
    }

    /// Passes every value to `sink`. On an error nothing is passed.
    pub(crate) fn values(
        &self,
        query: &Query,
        looks: u64,
        sink: &mut dyn ValueSink,
    ) -> Result<(), ProviderError> {
        self.values_at(self.current.load().as_deref(), query, looks, sink)
    }

    /// [`GpuProvider::values`] for one snapshot.
    pub(super) fn values_at(
        &self,
        current: Option<&ServedSnapshot>,
        query: &Query,
        looks: u64,
        sink: &mut dyn ValueSink,
    ) -> Result<(), ProviderError> {
        match &query.of {
            ValuesOf::Objects(objects) => self.custom(current, objects, query, looks, sink),
            ValuesOf::Namespace(namespace) => self.external(current, namespace, query, looks, sink),
        }
    }

    fn custom(
        &self,
        current: Option<&ServedSnapshot>,
        objects: &ObjectSelection,
        query: &Query,
        looks: u64,
        sink: &mut dyn ValueSink,
    ) -> Result<(), ProviderError> {
        let metric = self.metric(&query.metric);
        let (metric, spec) = metric.ok_or(ProviderError::NoSuchMetric)?;
        let table = current.and_then(|current| current.snapshot.layout().table(&objects.resource));
        let known = self
            .kinds
            .iter()
            .find(|kind| *kind.resource == *objects.resource);
        let kind = table
            .map(|(_, table)| &table.kind)
            .or(known)
            .ok_or(ProviderError::NoSuchMetric)?;
        if !is_offered(&spec.measure, kind) {
            return Err(ProviderError::NoSuchMetric);
        }
        if kind.namespaced != objects.namespace.is_some() {
            return Err(ProviderError::WrongScope);
        }
        let current = current.ok_or_else(|| self.not_ready())?;
        let lookup = current.lookup(metric, spec, query, looks)?;
        if spec.measure == Measure::OriginalAverage {
            return original_of_namespaces(&lookup, kind, &objects.which, sink);
        }
        let namespace = objects.namespace.as_deref();
        match &objects.which {
            Which::Named(name) => {
                let found = table.and_then(|(kind, table)| {
                    let index = table.find(namespace, name)?;
                    Some((kind, table, index))
                });
                let value = match found {
                    Some((kind, table, index)) => lookup.of_object(kind, table, index)?,
                    None => None,
                };
                let value = value.ok_or_else(|| {
                    let group = found.and_then(|(_, table, index)| table.objects.get(index));
                    lookup.no_object(&format!("{} {name}", objects.resource), group, objects)
                })?;
                sink.item(Item::Custom(CustomItem {
                    kind,
                    namespace,
                    name,
                    value,
                }));
                Ok(())
            }
            Which::Matching(selector) => list(&lookup, table, namespace, selector, sink)?
                .then_some(())
                .ok_or_else(|| {
                    lookup.no_object(&format!("the {} selected", objects.resource), None, objects)
                }),
        }
    }
}

/// Passes the values of the matching objects to `sink`. Returns whether there was one.
fn list(
    lookup: &Lookup<'_>,
    table: Option<(usize, &KindTable)>,
    namespace: Option<&str>,
    selector: &Selector,
    sink: &mut dyn ValueSink,
) -> Result<bool, ProviderError> {
    let Some((kind, table)) = table else {
        return Ok(false);
    };
    let (start, objects) = table.within(namespace);
    lookup.allow((objects.len() * selector.requirements().len()) as u64)?;
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
    if lookup.is_foreseen() {
        let chosen = chosen.map(|(index, _)| index);
        return Ok(pass_stored(
            lookup,
            lookup.stored(kind, table),
            chosen,
            sink,
        ));
    }
    let chosen: Vec<&Object> = chosen.map(|(_, object)| object).collect();
    let values = lookup.values(&chosen)?;
    let mut any = false;
    for (object, value) in chosen.into_iter().zip(values) {
        let Some(value) = value else { continue };
        any = true;
        sink.item(Item::Custom(CustomItem {
            kind: &table.kind,
            namespace,
            name: &object.name,
            value,
        }));
    }
    Ok(any)
}

/// Passes the fresh values of these objects to `sink`, adjacent ones together. Returns whether
/// there was one.
fn pass_stored(
    lookup: &Lookup<'_>,
    stored: Option<StoredItems<'_>>,
    objects: impl Iterator<Item = usize>,
    sink: &mut dyn ValueSink,
) -> bool {
    let Some(mut stored) = stored else {
        return false;
    };
    let values = stored.values;
    let is_fresh = |object: &usize| {
        let value = values.get(*object).and_then(Option::as_ref);
        value.is_some_and(|value| lookup.is_fresh(value))
    };
    let mut pass = |stored: &StoredItems<'_>| {
        if !stored.objects.is_empty() {
            sink.stored(stored);
        }
    };
    for object in objects.filter(is_fresh) {
        if object != stored.objects.end {
            pass(&stored);
            stored.objects.start = object;
        }
        stored.objects.end = object + 1;
    }
    pass(&stored);
    !stored.objects.is_empty()
}

/// The original's average, the same value for every namespace.
fn original_of_namespaces(
    lookup: &Lookup<'_>,
    kind: &ObjectKind,
    which: &Which,
    sink: &mut dyn ValueSink,
) -> Result<(), ProviderError> {
    let value = lookup
        .of_cluster()?
        .ok_or_else(|| lookup.no_value("the cluster", Some(lookup.snapshot.layout().cluster())))?;
    let mut item = |name: &str| {
        sink.item(Item::Custom(CustomItem {
            kind,
            namespace: None,
            name,
            value,
        }));
    };
    let selector = match which {
        Which::Named(name) => {
            item(name);
            return Ok(());
        }
        Which::Matching(selector) => selector,
    };
    let layout = lookup.snapshot.layout();
    let namespaces = &layout.inventory().namespaces;
    let mut found = false;
    for namespace in namespaces
        .iter()
        .filter(|namespace| selector.matches(&namespace.labels))
    {
        item(&namespace.name);
        found = true;
    }
    found
        .then_some(())
        .ok_or_else(|| lookup.no_value("the namespaces selected", None))
}

//! GPU metrics, from the latest snapshot. Values of the default window need no lock and no
//! other request.

use std::borrow::Cow;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};

use super::lookup::{Lookup, Subject};
use super::served::ServedSnapshot;
use super::{
    CustomMetric, ListedMetrics, MetricValues, ObjectSelection, ProviderError, Query, ValuesOf,
};
use findings::{Report, source};
use gpu_metrics::external::{CLUSTER_PREFIX, ExternalMetrics, FLEET_WINDOW, Reach};
use gpu_metrics::inventory::ObjectKind;
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

/// The kinds for which every metric is served, except the original's average.
fn kinds() -> Vec<ObjectKind> {
    let mut kinds = vec![
        ObjectKind::pod(),
        ObjectKind::namespace(),
        ObjectKind::node(),
    ];
    let workload = |(resource, kind, version)| ObjectKind::new(resource, kind, version, true);
    kinds.extend(WORKLOADS.map(workload));
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
    external: ExternalMetrics,
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
        let external = ExternalMetrics::new(Arc::clone(&metrics));
        let names = external.names().to_vec();
        Self {
            listed: Arc::new(ListedMetrics {
                custom,
                external: names,
            }),
            external,
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

    pub(crate) fn tell(&self, report: Arc<Report>) {
        self.findings.store(report);
    }

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

    /// The values of the metric of a query, if `looks` suffice.
    pub fn values(&self, query: &Query, looks: u64) -> Result<MetricValues, ProviderError> {
        let current = self.current.load_full();
        self.lookup(current.as_ref(), query, looks)?.result()
    }

    /// Resolves the names of a query for one snapshot.
    pub(super) fn lookup<'a>(
        &'a self,
        current: Option<&'a Arc<ServedSnapshot>>,
        query: &'a Query,
        looks: u64,
    ) -> Result<Lookup<'a>, ProviderError> {
        match &query.of {
            ValuesOf::Objects(objects) => self.custom(current, objects, query, looks),
            ValuesOf::Namespace(namespace) => self.external(current, namespace, query, looks),
        }
    }

    fn custom<'a>(
        &'a self,
        current: Option<&'a Arc<ServedSnapshot>>,
        objects: &'a ObjectSelection,
        query: &Query,
        looks: u64,
    ) -> Result<Lookup<'a>, ProviderError> {
        let metric = self.metric(&query.metric);
        let (metric, spec) = metric.ok_or(ProviderError::NoSuchMetric)?;
        let table = current.and_then(|current| current.snapshot.layout().table(&objects.resource));
        let mut known = self.kinds.iter();
        let kind = match table {
            Some((_, table)) => Some(&table.kind),
            None => known.find(|kind| *kind.resource == *objects.resource),
        };
        let kind = kind.filter(|kind| is_offered(&spec.measure, kind));
        let kind = kind.ok_or(ProviderError::NoSuchMetric)?;
        if kind.namespaced != objects.namespace.is_some() {
            return Err(ProviderError::WrongScope);
        }
        let current = current.ok_or_else(|| self.not_ready())?;
        let subject = Subject::Objects {
            kind,
            table,
            selection: objects,
        };
        Lookup::new(current, subject, (metric, spec), query, looks)
    }

    fn external<'a>(
        &'a self,
        current: Option<&'a Arc<ServedSnapshot>>,
        namespace: &'a str,
        query: &Query,
        looks: u64,
    ) -> Result<Lookup<'a>, ProviderError> {
        let metric = self.external.named(&query.metric);
        let (metric, spec, reach) = metric.ok_or(ProviderError::NoSuchMetric)?;
        let current = current.ok_or_else(|| self.not_ready())?;
        let subject = match reach {
            Reach::Namespace => Subject::Namespace(namespace),
            Reach::Cluster | Reach::Prefixed | Reach::Fleet => Subject::Cluster,
        };
        let mut lookup = Lookup::new(current, subject, (metric, spec), query, looks)?;
        match reach {
            Reach::Fleet => lookup.prefer(FLEET_WINDOW),
            Reach::Prefixed => lookup.name = Cow::Owned(format!("{CLUSTER_PREFIX}{}", spec.name)),
            Reach::Namespace | Reach::Cluster => {}
        }
        Ok(lookup)
    }
}

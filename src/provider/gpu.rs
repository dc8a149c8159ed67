//! GPU metrics, from the latest snapshot. Values of the default window need no lock and no
//! other request.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};

use super::lookup::{Lookup, Subject};
use super::narrow::Narrowed;
use super::served::ServedSnapshot;
use super::{CustomMetric, ListedMetrics, MetricValues, ObjectSelection, Query, ValuesOf};
use aggregated_apiserver::refusal::Refusal;
use findings::codes::{GM301, GM401};
use findings::{Finding, Report, source};
use gpu_metrics::external::ExternalMetrics;
use gpu_metrics::inventory::ObjectKind;
use gpu_metrics::policy::{Measure, MetricSpec};
use gpu_metrics::snapshot::Snapshot;

const OF_ALL_NAMESPACES: &str = "a metric of the whole cluster cannot be narrowed by labels of pods, \
                                 namespaces or containers: use the metric of the namespace";

/// The kinds for which every metric is listed, except the original's average, even if the
/// cluster has no such object: resource, kind, version and scope. Others are served when a pod
/// has an owner of the kind.
const KINDS: [(&str, &str, &str, bool); 9] = [
    ("cronjobs.batch", "CronJob", "batch/v1", true),
    ("daemonsets.apps", "DaemonSet", "apps/v1", true),
    ("deployments.apps", "Deployment", "apps/v1", true),
    ("jobs.batch", "Job", "batch/v1", true),
    ("namespaces", "Namespace", "v1", false),
    ("nodes", "Node", "v1", false),
    ("pods", "Pod", "v1", true),
    ("replicasets.apps", "ReplicaSet", "apps/v1", true),
    ("statefulsets.apps", "StatefulSet", "apps/v1", true),
];

/// The error before the first values.
pub(super) const NOT_READY: Refusal =
    Refusal::NotReady("the first poll of the metrics backend has not ended");

/// The values of GPU metrics, without I/O and threads. [`super::composite`] makes a
/// [`super::Provider`] of it.
#[derive(Debug)]
pub struct GpuProvider {
    metrics: Arc<[MetricSpec]>,
    listed: Arc<ListedMetrics>,
    external: ExternalMetrics,
    kinds: Vec<ObjectKind>,
    pub(super) current: ArcSwapOption<ServedSnapshot>,
    findings: ArcSwap<Report>,
}

impl GpuProvider {
    /// A provider of these metrics. It has no values before [`GpuProvider::publish`].
    pub fn new(metrics: &[MetricSpec]) -> Self {
        let kinds = KINDS.map(|(resource, kind, version, namespaced)| {
            ObjectKind::new(resource, kind, version, namespaced)
        });
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
        let external = ExternalMetrics::new(&metrics);
        let mut names: Vec<Arc<str>> = external.names().map(Arc::from).collect();
        names.sort();
        Self {
            listed: Arc::new(ListedMetrics {
                custom,
                external: names,
                usage: false,
            }),
            external,
            kinds: kinds.into(),
            current: ArcSwapOption::empty(),
            findings: ArcSwap::from_pointee(unknown(&metrics)),
            metrics,
        }
    }

    pub(crate) fn tell(&self, report: Arc<Report>) {
        self.findings.store(report);
    }

    pub fn publish(&self, snapshot: Arc<Snapshot>) {
        let served = ServedSnapshot::new(snapshot);
        self.current.store(Some(Arc::new(served)));
    }

    /// Why values may be missing: a fault of Prometheus as a whole.
    pub(super) fn trouble(&self) -> Option<String> {
        let report = self.findings.load();
        let mut found = report.findings.iter();
        let of_source = |it: &&Finding| it.code == GM301.id || it.code == GM401.id;
        let found = found.find(|it| of_source(it) && it.object == source::PROMETHEUS)?;
        Some(format!("{}: {}", found.object, found.message))
    }

    /// The newest values; `None` before the first round.
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
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
    let (reason, remedy) = match metrics {
        [] => ("GPU metrics are off", "set gpu.enabled: true"),
        _ => ("the first round of queries has not ended", "look again"),
    };
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

    /// The values of the metric of a query; `None`: they need a computation, which may take
    /// long.
    pub(super) fn values_at_hand(&self, query: &Query) -> Result<Option<MetricValues>, Refusal> {
        let current = self.current.load_full();
        let lookup = self.lookup(current.as_ref(), query)?;
        lookup.is_at_hand().then(|| lookup.result()).transpose()
    }

    /// The values of the metric of a query.
    pub fn values(&self, query: &Query) -> Result<MetricValues, Refusal> {
        let current = self.current.load_full();
        self.lookup(current.as_ref(), query)?.result()
    }

    /// Resolves the names of a query for one snapshot.
    pub(super) fn lookup<'a>(
        &'a self,
        current: Option<&'a Arc<ServedSnapshot>>,
        query: &'a Query,
    ) -> Result<Lookup<'a>, Refusal> {
        let mut window = None;
        let (metric, spec, subject) = match &query.of {
            ValuesOf::Objects(selection) => {
                let metric = self.metric(&query.metric);
                let (metric, spec) = metric.ok_or(Refusal::NoSuchPath)?;
                (metric, spec, self.objects(current, selection, spec)?)
            }
            ValuesOf::Namespace(namespace) => {
                let metric = self.external.named(&query.metric);
                let metric = metric.ok_or(Refusal::NoSuchPath)?;
                window = metric.window;
                let subject = match metric.is_of_cluster {
                    true => Subject::Cluster,
                    false => Subject::Namespace(namespace),
                };
                (metric.place, &metric.spec, subject)
            }
        };
        let current = current.ok_or(NOT_READY)?;
        let snapshot = &*current.snapshot;
        let longest = snapshot.policy.max_window.max(snapshot.window());
        let mut narrowed = Narrowed::read(&query.selector, &spec.measure, longest)?;
        if matches!(subject, Subject::Cluster) && narrowed.names_owners() {
            // The right to a metric in one namespace is none to the pods of another.
            return Err(Refusal::Malformed(OF_ALL_NAMESPACES.to_owned()));
        }
        narrowed.window = narrowed.window.or(window.map(|it| it.min(longest)));
        Ok(Lookup {
            provider: self,
            current,
            snapshot,
            query,
            subject,
            metric,
            spec,
            narrowed,
        })
    }

    fn objects<'a>(
        &'a self,
        current: Option<&'a Arc<ServedSnapshot>>,
        selection: &'a ObjectSelection,
        spec: &MetricSpec,
    ) -> Result<Subject<'a>, Refusal> {
        let resource = &selection.resource;
        let table = current.and_then(|current| current.snapshot.layout.table(resource));
        let mut known = self.kinds.iter();
        let kind = match table {
            Some((_, table)) => Some(&table.kind),
            None => known.find(|kind| *kind.resource == **resource),
        };
        let kind = kind.filter(|kind| is_offered(&spec.measure, kind));
        let kind = kind.ok_or(Refusal::NoSuchPath)?;
        selection.check_scope(kind.namespaced)?;
        Ok(Subject::Objects {
            kind,
            table,
            selection,
        })
    }
}

//! Answers about GPUs, from the latest snapshot. A request takes no lock and
//! asks nobody.

use std::sync::Arc;

use arc_swap::ArcSwapOption;

use super::narrow::Narrowed;
use super::{
    CustomItem, CustomMetric, CustomQuery, Error, ExternalItem, ExternalQuery, Objects, Provider,
};
use crate::core::grid::RowId;
use crate::core::inventory::{Authority, ObjectKind};
use crate::core::labels::Labels;
use crate::core::layout::{KindTable, RowFacts};
use crate::core::metric::Value;
use crate::core::policy::{Measure, MetricSpec};
use crate::core::selector::Selector;
use crate::core::snapshot::{Question, Snapshot};
use crate::core::time::Timestamp;

/// Prefix of external metrics that look at the whole cluster.
const CLUSTER_PREFIX: &str = "cluster_";

/// Workload kinds that are listed whether or not the cluster has any. Others
/// are served as soon as a pod has such an owner.
const WORKLOADS: [(&str, &str, &str); 7] = [
    ("cronjobs.batch", "CronJob", "batch/v1"),
    ("daemonsets.apps", "DaemonSet", "apps/v1"),
    ("deployments.apps", "Deployment", "apps/v1"),
    ("jobs.batch", "Job", "batch/v1"),
    ("replicasets.apps", "ReplicaSet", "apps/v1"),
    ("services", "Service", "v1"),
    ("statefulsets.apps", "StatefulSet", "apps/v1"),
];

/// The kinds every metric is offered on.
fn kinds() -> Vec<ObjectKind> {
    let workloads =
        WORKLOADS.map(|(resource, kind, version)| ObjectKind::new(resource, kind, version, true));
    let mut kinds = vec![
        ObjectKind::pod(),
        ObjectKind::namespace(),
        ObjectKind::node(),
    ];
    kinds.extend(workloads);
    kinds
}

/// The provider of GPU metrics.
#[derive(Debug)]
pub struct GpuProvider {
    metrics: Arc<[MetricSpec]>,
    custom: Arc<[CustomMetric]>,
    external: Arc<[Arc<str>]>,
    kinds: Vec<ObjectKind>,
    snapshot: ArcSwapOption<Snapshot>,
}

impl GpuProvider {
    /// A provider of these metrics, without values until
    /// [`GpuProvider::publish`] is called.
    #[must_use]
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
        let clusterwide = metrics
            .iter()
            .filter(|metric| metric.measure != Measure::OriginalAverage);
        let mut external: Vec<Arc<str>> = metrics
            .iter()
            .map(|metric| metric.name.as_str().into())
            .chain(clusterwide.map(|metric| format!("{CLUSTER_PREFIX}{}", metric.name).into()))
            .collect();
        external.sort();
        Self {
            metrics: metrics.into(),
            custom: custom.into(),
            external: external.into(),
            kinds,
            snapshot: ArcSwapOption::empty(),
        }
    }

    /// Puts a new snapshot in force.
    pub fn publish(&self, snapshot: Arc<Snapshot>) {
        self.snapshot.store(Some(snapshot));
    }

    /// The snapshot in force.
    #[must_use]
    pub fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.load_full()
    }

    fn metric(&self, matches: impl Fn(&str) -> bool) -> Option<(usize, &MetricSpec)> {
        self.metrics
            .iter()
            .enumerate()
            .find(|(_, metric)| matches(&metric.name))
    }
}

/// The original's number is one for the whole cluster: it is offered on
/// namespaces only, so that an Object metric can name it.
fn is_offered(measure: &Measure, kind: &ObjectKind) -> bool {
    *measure != Measure::OriginalAverage || kind.resource.as_ref() == "namespaces"
}

/// A question with everything looked up.
struct Lookup<'a> {
    snapshot: &'a Snapshot,
    metric: usize,
    spec: &'a MetricSpec,
    narrowed: Narrowed,
    now: Timestamp,
}

impl<'a> Lookup<'a> {
    fn new(
        snapshot: &'a Snapshot,
        (metric, spec): (usize, &'a MetricSpec),
        selector: &Selector,
        now: Timestamp,
    ) -> Result<Self, Error> {
        let longest = snapshot.policy().max_window.max(snapshot.window());
        let shortest = snapshot.shortest_window(&spec.measure).min(longest);
        Ok(Self {
            snapshot,
            metric,
            spec,
            narrowed: Narrowed::read(selector, &spec.measure, shortest..=longest)?,
            now,
        })
    }

    fn fresh(&self, value: Option<Value>) -> Option<Value> {
        value.filter(|value| value.fresh_until > self.now && value.value.is_finite())
    }

    /// The value of a group that has no foreseen answer.
    fn evaluate(&self, members: &[RowId], one_pod: bool) -> Option<Value> {
        let admits = |facts: &RowFacts| self.narrowed.admits(facts);
        let rows: Option<&dyn Fn(&RowFacts) -> bool> = if self.narrowed.has_labels() {
            Some(&admits)
        } else {
            None
        };
        let question = Question {
            measure: self.spec.measure,
            formula: self.narrowed.formula,
            window: self.narrowed.window,
            one_pod,
            rows,
        };
        self.fresh(self.snapshot.evaluate(members, &question))
    }

    /// The value of the `index`th object of a kind.
    fn of_object(&self, kind: usize, table: &KindTable, index: usize) -> Option<Value> {
        if self.narrowed.is_default() {
            let values = self.snapshot.values(kind, self.metric);
            return self.fresh(values.get(index).copied().flatten());
        }
        let one_pod = table.kind.resource.as_ref() == "pods";
        self.evaluate(&table.objects.get(index)?.members, one_pod)
    }

    /// The value over the whole cluster.
    fn of_cluster(&self) -> Option<Value> {
        if self.narrowed.is_default() {
            return self.fresh(self.snapshot.cluster_value(self.metric));
        }
        self.evaluate(self.snapshot.layout().cluster(), false)
    }

    fn no_value(&self, of: &str) -> Error {
        let metric = &self.spec.name;
        let reason = if self.narrowed.has_labels() {
            format!("no GPU of {of} with fresh samples for {metric} matches the metric selector")
        } else {
            format!(
                "no GPU of {of} has enough fresh samples for {metric}: check that its pods hold GPUs, \
                 that dcgm-exporter is up and that its series reach Prometheus with pod labels"
            )
        };
        Error::NoValue { reason }
    }

    /// The same for objects, where the question may need what only a cluster
    /// knows.
    fn no_object(&self, of: &str, query: &CustomQuery<'_>) -> Error {
        let by_labels =
            matches!(query.objects, Objects::Matching(selector) if !selector.is_everything());
        let by_owner = !["pods", "namespaces", "nodes"].contains(&query.resource);
        let alone = self.snapshot.layout().inventory().authority == Authority::Series;
        if alone && (by_labels || by_owner) {
            return Error::NoValue {
                reason: "no cluster is connected, so labels and owners of pods are not known: \
                         ask for pods by name, for all pods, namespaces or nodes"
                    .to_owned(),
            };
        }
        self.no_value(of)
    }
}

impl Provider for GpuProvider {
    fn custom_metrics(&self) -> Arc<[CustomMetric]> {
        Arc::clone(&self.custom)
    }

    fn external_metrics(&self) -> Arc<[Arc<str>]> {
        Arc::clone(&self.external)
    }

    fn custom(
        &self,
        query: &CustomQuery<'_>,
        sink: &mut dyn FnMut(CustomItem<'_>),
    ) -> Result<(), Error> {
        let (metric, spec) = self
            .metric(|name| name == query.metric)
            .ok_or(Error::NoSuchMetric)?;
        let loaded = self.snapshot.load();
        let table = loaded
            .as_ref()
            .and_then(|snapshot| snapshot.layout().table(query.resource));
        let known = self
            .kinds
            .iter()
            .find(|kind| kind.resource.as_ref() == query.resource);
        let kind = table
            .map(|(_, table)| &table.kind)
            .or(known)
            .ok_or(Error::NoSuchMetric)?;
        if !is_offered(&spec.measure, kind) {
            return Err(Error::NoSuchMetric);
        }
        if kind.namespaced != query.namespace.is_some() {
            return Err(Error::WrongScope);
        }
        let snapshot = loaded.as_ref().ok_or(Error::NotReady)?;
        let lookup = Lookup::new(snapshot, (metric, spec), query.metric_selector, query.now)?;
        if spec.measure == Measure::OriginalAverage {
            return original_of_namespaces(&lookup, kind, query, sink);
        }
        match query.objects {
            Objects::Named(name) => {
                let value = table.and_then(|(kind, table)| {
                    let index = table.find(query.namespace, name)?;
                    lookup.of_object(kind, table, index)
                });
                let value = value.ok_or_else(|| {
                    lookup.no_object(&format!("{} {name}", query.resource), query)
                })?;
                sink(CustomItem {
                    kind,
                    namespace: query.namespace,
                    name,
                    value,
                });
                Ok(())
            }
            Objects::Matching(selector) => {
                let matches =
                    |labels: &Labels| selector.is_everything() || selector.matches(labels);
                list(&lookup, table, query.namespace, &matches, sink)
                    .then_some(())
                    .ok_or_else(|| {
                        lookup.no_object(&format!("the {} selected", query.resource), query)
                    })
            }
        }
    }

    fn external(
        &self,
        query: &ExternalQuery<'_>,
        sink: &mut dyn FnMut(ExternalItem<'_>),
    ) -> Result<(), Error> {
        let is_asked = |name: &str| name.eq_ignore_ascii_case(query.metric);
        let prefix = query.metric.get(..CLUSTER_PREFIX.len());
        let clusterwide = prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(CLUSTER_PREFIX));
        let bare = if clusterwide {
            &query.metric[CLUSTER_PREFIX.len()..]
        } else {
            query.metric
        };
        // A configured metric may itself begin with the prefix.
        let own = self.metric(is_asked);
        let wide = || self.metric(|name| clusterwide && name.eq_ignore_ascii_case(bare));
        let (metric, spec) = own
            .or_else(|| wide().filter(|(_, spec)| spec.measure != Measure::OriginalAverage))
            .ok_or(Error::NoSuchMetric)?;
        let clusterwide = own.is_none() || spec.measure == Measure::OriginalAverage;
        let loaded = self.snapshot.load();
        let snapshot = loaded.as_ref().ok_or(Error::NotReady)?;
        let lookup = Lookup::new(snapshot, (metric, spec), query.selector, query.now)?;
        let value = if clusterwide {
            lookup.of_cluster()
        } else {
            snapshot
                .layout()
                .table("namespaces")
                .and_then(|(kind, table)| {
                    let index = table.find(None, query.namespace)?;
                    lookup.of_object(kind, table, index)
                })
        };
        let of = if clusterwide {
            "the cluster".to_owned()
        } else {
            format!("namespace {}", query.namespace)
        };
        let value = value.ok_or_else(|| lookup.no_value(&of))?;
        let name = if own.is_some() {
            spec.name.clone()
        } else {
            format!("{CLUSTER_PREFIX}{}", spec.name)
        };
        let mut labels: Vec<(Arc<str>, Arc<str>)> = lookup
            .narrowed
            .pinned()
            .iter()
            .map(|(name, value)| (Arc::clone(name), Arc::clone(value)))
            .collect();
        if !clusterwide && !labels.iter().any(|(name, _)| name.as_ref() == "namespace") {
            labels.push(("namespace".into(), query.namespace.into()));
            labels.sort();
        }
        sink(ExternalItem {
            metric: &name,
            labels: &labels,
            value,
        });
        Ok(())
    }
}

/// Hands out the values of the matching objects; whether there was one.
fn list(
    lookup: &Lookup<'_>,
    table: Option<(usize, &KindTable)>,
    namespace: Option<&str>,
    matches: &dyn Fn(&Labels) -> bool,
    sink: &mut dyn FnMut(CustomItem<'_>),
) -> bool {
    let Some((kind, table)) = table else {
        return false;
    };
    let (start, objects) = table.within(namespace);
    let mut any = false;
    let default = lookup.narrowed.is_default();
    let values = lookup.snapshot.values(kind, lookup.metric);
    for (index, object) in (start..).zip(objects) {
        if !matches(&object.labels) {
            continue;
        }
        let value = if default {
            lookup.fresh(values.get(index).copied().flatten())
        } else {
            lookup.of_object(kind, table, index)
        };
        if let Some(value) = value {
            any = true;
            sink(CustomItem {
                kind: &table.kind,
                namespace,
                name: &object.name,
                value,
            });
        }
    }
    any
}

/// The original's number, the same on every namespace.
fn original_of_namespaces(
    lookup: &Lookup<'_>,
    kind: &ObjectKind,
    query: &CustomQuery<'_>,
    sink: &mut dyn FnMut(CustomItem<'_>),
) -> Result<(), Error> {
    let value = lookup
        .of_cluster()
        .ok_or_else(|| lookup.no_value("the cluster"))?;
    let mut item = |name: &str| {
        sink(CustomItem {
            kind,
            namespace: None,
            name,
            value,
        });
    };
    let selector = match query.objects {
        Objects::Named(name) => {
            item(name);
            return Ok(());
        }
        Objects::Matching(selector) => selector,
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
        .ok_or_else(|| lookup.no_value("the namespaces selected"))
}

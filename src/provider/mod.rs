//! The queries of autoscalers for values, and the providers that answer them.
//!
//! GPU metrics are answered from memory (`gpu`), and prometheus-adapter's rules from
//! Prometheus' results of their queries (`rules`). `composite` selects the provider and the
//! thread. CPU and memory usage of pods and nodes is a separate query ([`usage`]).
//!
//! A provider has no HTTP, encoding or authorization. It waits for Prometheus itself, and
//! runs long work on another thread.

mod absence;
pub mod composite;
pub(crate) mod compute;
pub mod devices;
mod explain;
pub mod gpu;
mod lookup;
pub mod narrow;
pub mod rule_conditions;
pub mod rules;
pub(crate) mod served;
#[cfg(test)]
pub(crate) mod tests;
pub mod usage;

use std::future::ready;
use std::sync::Arc;

use aggregated_apiserver::refusal::Refusal;
use apimachinery::labels::Labels;
use apimachinery::selector::Selector;
use apimachinery::time::Timestamp;
use devices::DevicesQuery;
use findings::Report;
use futures_util::future::BoxFuture;
use gpu_metrics::devices::DeviceList;
use gpu_metrics::explain::Explanation;
use gpu_metrics::inventory::ObjectKind;
use gpu_metrics::layout::Object;
use gpu_metrics::metric::Value;
use prometheus_source::cache::Purpose;
use served::StoredValues;
use usage::{Usage, UsageQuery};

/// A custom metric as discovery lists it: `pods/gpu_memory_utilization`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CustomMetric {
    /// `pods`, `deployments.apps`.
    pub resource: Arc<str>,
    pub metric: Arc<str>,
    /// Whether the described objects are namespaced.
    pub namespaced: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedMetrics {
    /// Sorted by resource and metric, without duplicates.
    pub custom: Vec<CustomMetric>,
    /// The names of external metrics, sorted.
    pub external: Vec<Arc<str>>,
    /// Whether the usage of pods and nodes is served.
    pub usage: bool,
}

#[derive(Clone, Debug)]
pub struct ObjectSelection {
    /// `pods`, `deployments.apps`: as in the path.
    pub resource: String,
    /// `None` for a cluster-scoped kind.
    pub namespace: Option<String>,
    /// `None`: all objects whose labels match.
    pub name: Option<String>,
    pub selector: Selector,
}

impl ObjectSelection {
    pub fn named(resource: &str, namespace: Option<&str>, name: &str) -> Self {
        Self {
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: Some(name.to_owned()),
            selector: Selector::everything(),
        }
    }

    pub(crate) fn selects(&self, name: &str, labels: &Labels) -> bool {
        match &self.name {
            Some(wanted) => wanted == name,
            None => self.selector.matches(labels),
        }
    }

    /// Fails if objects of the kind are not in the scope of the path.
    pub(crate) fn check_scope(&self, is_namespaced: bool) -> Result<(), Refusal> {
        match is_namespaced == self.namespace.is_some() {
            true => Ok(()),
            false => Err(Refusal::NoSuchPath),
        }
    }
}

#[derive(Clone, Debug)]
pub enum ValuesOf {
    /// For a custom metric: these objects.
    Objects(ObjectSelection),
    /// For an external metric: this namespace, which was authorized.
    Namespace(String),
}

impl ValuesOf {
    /// In words: `pods ml/train-0`, `namespace ml`.
    fn described(&self) -> String {
        match self {
            Self::Namespace(namespace) => format!("namespace {namespace}"),
            Self::Objects(objects) => match (&objects.namespace, &objects.name) {
                (_, None) => format!("the {} selected", objects.resource),
                (None, Some(name)) => format!("{} {name}", objects.resource),
                (Some(namespace), Some(name)) => {
                    format!("{} {namespace}/{name}", objects.resource)
                }
            },
        }
    }
}

#[derive(Clone, Debug)]
pub struct Query {
    pub of: ValuesOf,
    /// A custom metric matches exactly. An external one ignores case, because the HPA
    /// controller sends it in lower case.
    pub metric: String,
    /// Selects series. May contain the reserved keys of docs/numbers.md, "Metrics".
    pub selector: Selector,
    /// The time of the request. Values that are stale at this time are left out.
    pub now: Timestamp,
    /// The user of the request, who has a share of the queries to Prometheus.
    pub user: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreQuery {
    pub promql: Arc<str>,
    /// The key of the query in the configuration: `rules[3].metricsQuery`.
    pub key: Arc<str>,
    /// The query as the configuration has it.
    pub template: Arc<str>,
    pub purpose: Purpose,
}

/// A value of a custom metric, with the object that it describes.
#[derive(Clone, Debug, PartialEq)]
pub struct CustomValue {
    pub kind: ObjectKind,
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
    pub value: Value,
}

impl CustomValue {
    fn of(kind: &ObjectKind, object: &Object, value: Value) -> Self {
        Self {
            kind: kind.clone(),
            namespace: object.namespace.clone(),
            name: Arc::clone(&object.name),
            value,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct ExternalValue {
    /// The metric's name as configured, not as requested.
    pub metric: Arc<str>,
    pub labels: Labels,
    pub value: Value,
}

/// The values of a query. Those of a custom metric are in the order of the objects' names.
#[derive(Debug)]
pub enum MetricValues {
    Custom(Vec<CustomValue>),
    /// Those of a custom metric that a snapshot has, with their encoded items.
    Stored(StoredValues),
    External(Vec<ExternalValue>),
}

/// The refusal when Prometheus did not answer. The log contains the reason once.
pub(crate) const UNFETCHED: Refusal = Refusal::Unavailable("unable to fetch metrics");

/// The refusal when too many queries are in flight to fetch the answer.
pub(crate) const SATURATED: Refusal = Refusal::Saturated(
    "too many queries of rules are in flight (prometheus.maxConcurrentQueries), try again later",
);

pub type ProviderFuture<'a, T> = BoxFuture<'a, Result<T, Refusal>>;

/// Answers queries. Dropping a future cancels the query.
pub trait Provider: Send + Sync + std::fmt::Debug {
    /// All metrics. They do not depend on the state of any backend. Another list is another
    /// allocation.
    fn listed(&self) -> Arc<ListedMetrics>;

    /// The values of a metric. Objects without a value are left out. A named object
    /// has at most one.
    fn values<'a>(&'a self, query: &'a Query) -> ProviderFuture<'a, MetricValues>;

    /// Explains the value of an external metric, or of one object by name. The user must
    /// have the right to read the value; the explanation needs no further right. A missing
    /// value is explained, and is no error. `names_pods`: the user may list the pods of all
    /// namespaces.
    fn explain<'a>(&'a self, _: &'a Query, _names_pods: bool) -> ProviderFuture<'a, Explanation> {
        Box::pin(ready(Err(Refusal::NoSuchPath)))
    }

    /// The findings about the data and the server itself. They contain no name of a pod,
    /// and no namespace except the server's own.
    fn findings(&self) -> Arc<Report> {
        Arc::default()
    }

    /// The devices of the GPU metrics, by the objects that hold or request them.
    fn devices<'a>(&'a self, _: &'a DevicesQuery) -> ProviderFuture<'a, DeviceList> {
        Box::pin(ready(Ok(DeviceList::default())))
    }

    /// The usage of objects. Objects without data are left out.
    fn usage<'a>(&'a self, _: &'a UsageQuery) -> ProviderFuture<'a, Vec<Usage>> {
        Box::pin(ready(Err(Refusal::NoSuchPath)))
    }

    /// Whether values are fetched for each query: of the custom metric of this resource, or
    /// of an external metric (`None`).
    fn is_fetched(&self, _resource: Option<&str>, _metric: &str) -> bool {
        false
    }
}

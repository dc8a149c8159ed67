//! The requests of an autoscaler for values, and the providers that answer them.
//!
//! GPU metrics are answered from memory (`gpu`), prometheus-adapter's rules from
//! Prometheus' answers to their queries (`rules`). `composite` chooses between the two, and
//! the thread. CPU and memory use of pods and nodes is a separate query ([`usage`]).
//!
//! A provider has no HTTP, encoding or authorization. It waits for Prometheus itself, and
//! moves long work off the thread that asks. Values are passed to a sink one by one, so
//! that an encoder can write them without an intermediate copy.

pub mod composite;
pub(crate) mod compute;
pub mod devices;
mod explain;
pub mod gpu;
mod lookup;
mod matchers;
mod memo;
pub mod narrow;
pub mod rules;
#[cfg(test)]
pub(crate) mod tests;
pub mod usage;

use std::future::ready;
use std::sync::Arc;

use adapter_rules::answer::Purpose;
use apimachinery::selector::Selector;
use apimachinery::time::Timestamp;
use devices::DevicesQuery;
use findings::Report;
use futures_util::future::BoxFuture;
use gpu_metrics::devices::DeviceList;
use gpu_metrics::explain::Explanation;
use gpu_metrics::inventory::ObjectKind;
use gpu_metrics::metric::Value;
use usage::{UsageAnswer, UsageQuery};

/// A custom metric as discovery lists it: `pods/gpu_memory_utilization`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CustomMetric {
    /// `pods`, `deployments.apps`.
    pub resource: Arc<str>,
    /// The metric's name.
    pub metric: Arc<str>,
    /// Whether the described objects are namespaced.
    pub namespaced: bool,
}

/// The objects of a query for a custom metric.
#[derive(Clone, Debug)]
pub struct ObjectSelection {
    /// `pods`, `deployments.apps`: as in the path.
    pub resource: String,
    /// The namespace; `None` for a cluster-scoped kind.
    pub namespace: Option<String>,
    /// Selects among them.
    pub which: Which,
}

impl ObjectSelection {
    /// One object.
    pub fn named(resource: &str, namespace: Option<&str>, name: &str) -> Self {
        Self {
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
            which: Which::Named(name.to_owned()),
        }
    }

    /// The name of the one object.
    pub(crate) fn name(&self) -> Option<&str> {
        match &self.which {
            Which::Named(name) => Some(name),
            Which::Matching(_) => None,
        }
    }
}

/// Which objects of a kind.
#[derive(Clone, Debug)]
pub enum Which {
    /// Exactly this object.
    Named(String),
    /// All objects whose labels match.
    Matching(Selector),
}

/// What values are of.
#[derive(Clone, Debug)]
pub enum ValuesOf {
    /// A custom metric's: these objects.
    Objects(ObjectSelection),
    /// An external metric's: this namespace, which is the one that was authorized.
    Namespace(String),
}

/// A query for the values of a metric.
#[derive(Clone, Debug)]
pub struct Query {
    /// What the values are of.
    pub of: ValuesOf,
    /// The metric. A custom metric has its exact case; an external one any case,
    /// because the HPA lower-cases it.
    pub metric: String,
    /// Selects series (and contains the keys of docs/numbers.md, "Formulas").
    pub selector: Selector,
    /// The time of the request. Values that have become stale since they were
    /// computed are left out.
    pub now: Timestamp,
    /// The user of the request: the user gets a share of the queries to Prometheus.
    pub user: String,
}

/// A query to Prometheus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreQuery {
    /// The query.
    pub promql: Arc<str>,
    /// The rule whose query it is, for the log: `rules[3]`.
    pub rule: Arc<str>,
    /// Its purpose.
    pub purpose: Purpose,
}

/// One value of a custom metric.
#[derive(Clone, Copy, Debug)]
pub struct CustomItem<'a> {
    /// The described object's kind.
    pub kind: &'a ObjectKind,
    /// Its namespace, if it has one.
    pub namespace: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
    /// The value.
    pub value: Value,
}

/// One value of an external metric.
#[derive(Clone, Copy, Debug)]
pub struct ExternalItem<'a> {
    /// The metric's name as configured, not as requested.
    pub metric: &'a str,
    /// The labels of the value, sorted by name.
    pub labels: &'a [(Arc<str>, Arc<str>)],
    /// The value.
    pub value: Value,
}

/// One value.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// Of a custom metric.
    Custom(CustomItem<'a>),
    /// Of an external metric.
    External(ExternalItem<'a>),
}

impl Item<'_> {
    /// The value.
    pub(crate) const fn value(&self) -> Value {
        match self {
            Self::Custom(item) => item.value,
            Self::External(item) => item.value,
        }
    }
}

/// Takes values one by one.
pub type Sink<'a> = dyn FnMut(Item<'_>) + Send + 'a;

/// Why a query has no answer. Independent of HTTP; `api::failure` maps it. Texts are for
/// the client, and stay the same as long as the reason does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// No such metric for that kind of object (or no such external metric).
    #[error("no such metric")]
    NoSuchMetric,
    /// The kind is served in the other scope: a cluster-scoped kind was requested in
    /// a namespace, or the reverse.
    #[error("wrong scope")]
    WrongScope,
    /// The named object has no value now: the reason and remedy, in one line.
    #[error("{0}")]
    NoValue(String),
    /// The metric selector is not supported: the key and its possible values.
    #[error("{0}")]
    BadSelector(String),
    /// The answer takes more work than is allowed here, or than other requests leave.
    #[error("the answer exceeds the permitted amount of work")]
    TooMuchWork,
    /// No values were computed yet: what they wait for.
    #[error("no data yet: {0}")]
    NotReady(&'static str),
    /// The objects may not be listed. The log names the missing permission once.
    #[error("{0}")]
    Unlisted(&'static str),
    /// Too many queries are under way for the answer to be fetched.
    #[error("too many queries are in flight")]
    Saturated,
    /// Prometheus does not give the answer; the log has its error message.
    #[error("unable to fetch metrics")]
    Unavailable,
}

/// Answers questions. Dropping a future gives up the question.
pub trait Provider: Send + Sync + std::fmt::Debug {
    /// All custom metrics, sorted by resource and metric, each pair once. Does
    /// not depend on the state of any backend.
    fn custom_metrics(&self) -> Arc<[CustomMetric]>;

    /// The names of all external metrics, sorted.
    fn external_metrics(&self) -> Arc<[Arc<str>]>;

    /// Passes every value to `sink`: of a custom metric in the order of the objects'
    /// names. Objects without a value are left out. With [`Which::Named`] at most one item
    /// is passed.
    fn values<'a>(
        &'a self,
        query: &'a Query,
        sink: &'a mut Sink<'a>,
    ) -> BoxFuture<'a, Result<(), ProviderError>>;

    /// Explains the value of an external metric, or of one object by name. The user has
    /// the right to read the value; the rest of the explanation needs no further right.
    /// A missing value is no error, but explained.
    fn explain<'a>(&'a self, _: &'a Query) -> BoxFuture<'a, Result<Explanation, ProviderError>> {
        Box::pin(ready(Err(ProviderError::NoSuchMetric)))
    }

    /// The findings about the data and the server itself. They name no pod, and no
    /// namespace but the server's own.
    fn findings(&self) -> Arc<Report> {
        Arc::default()
    }

    /// The devices of the GPU metrics, by the objects that have or request some.
    fn devices<'a>(
        &'a self,
        _: &'a DevicesQuery,
    ) -> BoxFuture<'a, Result<DeviceList, ProviderError>> {
        Box::pin(ready(Ok(DeviceList::default())))
    }

    /// Whether it knows what pods and nodes use.
    fn knows_usage(&self) -> bool {
        false
    }

    /// What objects use. Objects without data are left out.
    fn usage<'a>(&'a self, _: &'a UsageQuery) -> BoxFuture<'a, Result<UsageAnswer, ProviderError>> {
        Box::pin(ready(Err(ProviderError::NoSuchMetric)))
    }

    /// Whether values of a metric are fetched for each query: of a custom metric of
    /// this resource, or of an external metric.
    fn is_fetched(&self, _resource: Option<&str>, _metric: &str) -> bool {
        false
    }
}

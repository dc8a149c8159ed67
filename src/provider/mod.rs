//! The requests of an autoscaler for values, and the providers that answer them.
//!
//! GPU metrics are answered from memory (`gpu`), and prometheus-adapter's rules from
//! Prometheus' answers to their queries (`rules`); `composite` asks the rules first.
//! CPU and memory use of pods and nodes is a separate query ([`usage`]).
//!
//! A provider has no HTTP, encoding or authorization. Values are passed to a sink one
//! by one, so that an encoder can write them without an intermediate copy.

pub mod composite;
mod explain;
pub mod gpu;
mod lookup;
mod matchers;
mod memo;
pub mod narrow;
pub mod rules;
#[cfg(test)]
mod tests;
pub mod usage;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use adapter_rules::answer::{Answer, Purpose};
use apimachinery::kinds::Kind;
use apimachinery::selector::Selector;
use apimachinery::time::Timestamp;
use findings::Report;
use gpu_metrics::explain::Explanation;
use gpu_metrics::inventory::{Inventory, ObjectKind};
use gpu_metrics::metric::Value;
use usage::{Usage, UsageQuery};

/// The client does not get Prometheus' error message.
pub(crate) const NO_METRICS: &str = "unable to fetch metrics";

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
#[derive(Clone, Copy, Debug)]
pub struct Objects<'a> {
    /// `pods`, `deployments.apps`: as in the path.
    pub resource: &'a str,
    /// The namespace; `None` for a cluster-scoped kind.
    pub namespace: Option<&'a str>,
    /// Selects among them.
    pub which: Which<'a>,
}

/// Which objects of a kind.
#[derive(Clone, Copy, Debug)]
pub enum Which<'a> {
    /// Exactly this object.
    Named(&'a str),
    /// All objects whose labels match.
    Matching(&'a Selector),
}

/// The value to explain.
#[derive(Clone, Copy, Debug)]
pub enum Described<'a> {
    /// The value of one object.
    Object {
        /// `pods`, `deployments.apps`: as in the path.
        resource: &'a str,
        /// The namespace; `None` for a cluster-scoped kind.
        namespace: Option<&'a str>,
        /// Its name.
        name: &'a str,
    },
    /// The value of an external metric in this namespace.
    External(&'a str),
}

/// How much work a query may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// Some hundred microseconds, for threads that serve other requests too. More
    /// work gives [`Error::TakesWork`].
    AtHand,
    /// Unlimited.
    #[default]
    Full,
}

/// A query, without the objects or the namespace.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The metric. A custom metric has its exact case; an external one any case,
    /// because the HPA lower-cases it.
    pub metric: &'a str,
    /// Selects series (and contains the keys of docs/numbers.md, "Reserved keys").
    pub selector: &'a Selector,
    /// The time of the request. Values that have become stale since they were
    /// computed are left out.
    pub now: Timestamp,
    /// How much work the query may cost.
    pub effort: Effort,
    /// What was fetched for this query.
    pub fetched: Option<&'a Fetched>,
}

/// What a query needs and is not in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The objects of this kind.
    Objects(Box<Kind>),
    /// Prometheus' answers to all of these.
    Answers(Vec<Ask>),
}

/// A query to Prometheus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The query.
    pub promql: Arc<str>,
    /// The rule whose query it is, for the log: `rules[3]`.
    pub rule: Arc<str>,
    /// Its purpose.
    pub purpose: Purpose,
    /// The objects that it names, if the request is about objects.
    pub names: Arc<[Arc<str>]>,
}

/// What was fetched for a query.
#[derive(Clone, Debug, Default)]
pub struct Fetched {
    /// Prometheus' answers, by query.
    pub answers: HashMap<Arc<str>, Arc<Answer>>,
    /// The inventory when Prometheus was asked: where a pod always comes or goes
    /// meanwhile, a list of all pods would otherwise rarely be answered.
    pub inventory: Arc<Inventory>,
    /// The objects of the query, for the same reason.
    pub names: Arc<[Arc<str>]>,
}

impl Fetched {
    /// The answer to a query.
    #[must_use]
    pub fn answer(&self, promql: &str) -> Option<&Answer> {
        self.answers.get(promql).map(AsRef::as_ref)
    }
}

/// A future answer.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Meaning of an answer without values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// An error: the autoscaler is told that there is no value.
    Missing,
    /// An answer: the objects exist and have no values.
    Answer,
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

/// Why a query has no answer. Independent of HTTP; `api::status` maps it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such metric for that kind of object (or no such external metric).
    #[error("no such metric")]
    NoSuchMetric,
    /// The kind is served in the other scope: a cluster-scoped kind was requested in
    /// a namespace, or the reverse.
    #[error("wrong scope")]
    WrongScope,
    /// The named object has no value now. The text has the reason and remedy, in one
    /// line that stays the same as long as the reason does.
    #[error("{reason}")]
    NoValue {
        /// For the client.
        reason: String,
    },
    /// The metric selector is not supported. The text has the key and its possible
    /// values.
    #[error("{reason}")]
    BadSelector {
        /// For the client.
        reason: String,
    },
    /// The answer needs more work than [`Effort::AtHand`] allows.
    #[error("the answer takes more work than is allowed here")]
    TakesWork,
    /// No values were computed yet: what they wait for.
    #[error("no data yet: {0}")]
    NotReady(&'static str),
    /// The answer needs something that is not in memory, to be
    /// [fetched](Provider::fetch).
    #[error("not in memory")]
    Lacks(Lack),
    /// The objects may not be listed. The log names the missing permission once.
    #[error("{what}")]
    Unlisted {
        /// For the client.
        what: &'static str,
    },
    /// Too many queries are under way for the answer to be fetched.
    #[error("too many queries are under way")]
    Saturated,
    /// What the answer needs is not available; the log has the reason.
    #[error("{what}")]
    Unavailable {
        /// For the client.
        what: &'static str,
    },
}

/// Answers questions.
pub trait Provider: Send + Sync + std::fmt::Debug {
    /// All custom metrics, sorted by resource and metric, each pair once. Does
    /// not depend on the state of any backend.
    fn custom_metrics(&self) -> Arc<[CustomMetric]>;

    /// The names of all external metrics, sorted.
    fn external_metrics(&self) -> Arc<[Arc<str>]>;

    /// Passes every matching object's value to `sink`, in the order of their names.
    /// Objects without a value are left out. With [`Which::Named`] exactly one item
    /// is passed.
    ///
    /// # Errors
    /// See [`Error`].
    fn custom(
        &self,
        objects: Objects<'_>,
        query: &Query<'_>,
        sink: &mut dyn FnMut(CustomItem<'_>),
    ) -> Result<Empty, Error>;

    /// Passes every value of an external metric to `sink`; the namespace is the one
    /// that was authorized.
    ///
    /// # Errors
    /// See [`Error`].
    fn external(
        &self,
        namespace: &str,
        query: &Query<'_>,
        sink: &mut dyn FnMut(ExternalItem<'_>),
    ) -> Result<Empty, Error>;

    /// Explains a value. The user has the right to read the value; the rest of the
    /// explanation needs no further right.
    ///
    /// # Errors
    /// See [`Error`]; a missing value is no error, but explained.
    fn explain(&self, _: Described<'_>, _: &Query<'_>) -> Result<Explanation, Error> {
        Err(Error::NoSuchMetric)
    }

    /// The findings about the data and the server itself. They name no pod, and no
    /// namespace but the server's own.
    fn findings(&self) -> Arc<Report> {
        Arc::default()
    }

    /// Whether it knows what pods and nodes use.
    fn knows_usage(&self) -> bool {
        false
    }

    /// Passes the use of each object to `sink`, in the order of their namespaces and
    /// names. Objects without data are left out. With [`Which::Named`] exactly one is
    /// passed.
    ///
    /// # Errors
    /// See [`Error`].
    fn usage(&self, _: &UsageQuery<'_>, _: &mut dyn FnMut(Usage<'_>)) -> Result<(), Error> {
        Err(Error::NoSuchMetric)
    }

    /// Whether values of a metric are fetched for each query: of a custom metric of
    /// this resource, or of an external metric.
    fn is_fetched(&self, _resource: Option<&str>, _metric: &str) -> bool {
        false
    }

    /// Fetches what a user's query lacks. `None`: it is in memory now.
    ///
    /// # Errors
    /// [`Error::Saturated`], or [`Error::Unavailable`] when it is not available.
    fn fetch<'a>(&'a self, _: Lack, _: &'a str) -> Pending<'a, Result<Option<Fetched>, Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

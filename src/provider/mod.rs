//! The requests of an autoscaler for values, and the providers that answer them.
//!
//! GPUs are answered about from memory (`gpu`), prometheus-adapter's rules with
//! what Prometheus answers to their queries (`rules`); `composite` asks the
//! rules first. What pods and nodes use of processors and memory is a question
//! of its own ([`usage`]).
//!
//! A provider knows metrics and objects; it knows no HTTP, no encoding and no
//! authorization. Answers are handed out item by item to a sink, so that an
//! encoder can write them without a copy in between.

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

/// The client is not told what Prometheus said.
pub(crate) const NO_METRICS: &str = "unable to fetch metrics";

/// A custom metric as discovery lists it: `pods/gpu_memory_utilization`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CustomMetric {
    /// `pods`, `deployments.apps`.
    pub resource: Arc<str>,
    /// The metric's name.
    pub metric: Arc<str>,
    /// Whether the described objects live in a namespace.
    pub namespaced: bool,
}

/// The objects a custom metric is asked of.
#[derive(Clone, Copy, Debug)]
pub struct Objects<'a> {
    /// `pods`, `deployments.apps`: as in the path.
    pub resource: &'a str,
    /// The namespace; `None` for a cluster-scoped kind.
    pub namespace: Option<&'a str>,
    /// Which of them.
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

/// Whose value is to be explained.
#[derive(Clone, Copy, Debug)]
pub enum Described<'a> {
    /// That of one object.
    Object {
        /// `pods`, `deployments.apps`: as in the path.
        resource: &'a str,
        /// The namespace; `None` for a cluster-scoped kind.
        namespace: Option<&'a str>,
        /// Its name.
        name: &'a str,
    },
    /// That of an external metric, asked in this namespace.
    External(&'a str),
}

/// How much work an answer may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// Some hundred microseconds: for threads that serve others too. What
    /// takes longer is [`Error::TakesWork`].
    AtHand,
    /// As much as it takes.
    #[default]
    Full,
}

/// What is asked of a provider, beside the objects or the namespace.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The metric. A custom metric in its exact spelling, an external one in any
    /// case: the HPA lower-cases it.
    pub metric: &'a str,
    /// Selects series (and carries the keys of docs/numbers.md, "Reserved
    /// keys").
    pub selector: &'a Selector,
    /// The time of the request: values that went stale since they were
    /// computed are left out.
    pub now: Timestamp,
    /// How much work it may cost.
    pub effort: Effort,
    /// What was fetched for this question.
    pub fetched: Option<&'a Fetched>,
}

/// What a question needs that is not in memory.
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
    /// What it is for.
    pub purpose: Purpose,
    /// The objects that it names, where the question was about objects.
    pub names: Arc<[Arc<str>]>,
}

/// What was fetched for a question.
#[derive(Clone, Debug, Default)]
pub struct Fetched {
    /// Prometheus' answers, by query.
    pub answers: HashMap<Arc<str>, Arc<Answer>>,
    /// The cluster when it was asked: a list of all pods would hardly ever be
    /// answered where there is always one that comes or goes meanwhile.
    pub inventory: Arc<Inventory>,
    /// The objects that were asked about, for the same reason.
    pub names: Arc<[Arc<str>]>,
}

impl Fetched {
    /// The answer to a query.
    #[must_use]
    pub fn answer(&self, promql: &str) -> Option<&Answer> {
        self.answers.get(promql).map(AsRef::as_ref)
    }
}

/// What comes later.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What an answer without values is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Empty {
    /// None: the autoscaler is told that there is no value.
    Missing,
    /// An answer: the objects are there and have no values.
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
    /// The metric's name as configured, not as asked.
    pub metric: &'a str,
    /// The labels of the value, sorted by name.
    pub labels: &'a [(Arc<str>, Arc<str>)],
    /// The value.
    pub value: Value,
}

/// Why a question has no answer. Knows no HTTP; `api::status` maps it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such metric for that kind of object (or no such external metric).
    #[error("no such metric")]
    NoSuchMetric,
    /// The kind is served in the other scope: cluster-scoped asked within a
    /// namespace or the reverse.
    #[error("wrong scope")]
    WrongScope,
    /// The named object has no value now; the text says why and what to do,
    /// in one line that stays the same as long as the reason does.
    #[error("{reason}")]
    NoValue {
        /// For the client.
        reason: String,
    },
    /// The metric selector cannot be honoured; the text says which key and
    /// what it may be.
    #[error("{reason}")]
    BadSelector {
        /// For the client.
        reason: String,
    },
    /// The answer takes more work than [`Effort::AtHand`] allows.
    #[error("the answer takes more work than is allowed here")]
    TakesWork,
    /// Nothing was computed yet: what is waited for.
    #[error("no data yet: {0}")]
    NotReady(&'static str),
    /// The answer needs what is not in memory: it is to be
    /// [fetched](Provider::fetch).
    #[error("not in memory")]
    Lacks(Lack),
    /// The objects are not to be seen. The log has said once which right is
    /// missing.
    #[error("{what}")]
    Unlisted {
        /// For the client.
        what: &'static str,
    },
    /// Too many queries are under way for the answer to be fetched.
    #[error("too many queries are under way")]
    Saturated,
    /// What the answer needs could not be had; the log says why.
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

    /// Hands every matching object's value to `sink`, objects in order of
    /// their names. Objects without a value are left out. With
    /// [`Which::Named`] exactly one item is handed over.
    ///
    /// # Errors
    /// See [`Error`].
    fn custom(
        &self,
        objects: Objects<'_>,
        query: &Query<'_>,
        sink: &mut dyn FnMut(CustomItem<'_>),
    ) -> Result<Empty, Error>;

    /// Hands every value of an external metric to `sink`; the namespace is the
    /// one that was authorized.
    ///
    /// # Errors
    /// See [`Error`].
    fn external(
        &self,
        namespace: &str,
        query: &Query<'_>,
        sink: &mut dyn FnMut(ExternalItem<'_>),
    ) -> Result<Empty, Error>;

    /// How a value came to be. The asker may read the value; what else is told
    /// goes no further than that.
    ///
    /// # Errors
    /// See [`Error`]; a value that is missing is none: that is explained.
    fn explain(&self, _: Described<'_>, _: &Query<'_>) -> Result<Explanation, Error> {
        Err(Error::NoSuchMetric)
    }

    /// What is wrong with the data and with the server itself. No pod and no
    /// namespace but the server's own is named.
    fn findings(&self) -> Arc<Report> {
        Arc::default()
    }

    /// Whether it knows what pods and nodes use.
    fn knows_usage(&self) -> bool {
        false
    }

    /// Hands what each object uses to `sink`, objects in order of their
    /// namespaces and names. Objects without data are left out. With
    /// [`Which::Named`] exactly one is handed over.
    ///
    /// # Errors
    /// See [`Error`].
    fn usage(&self, _: &UsageQuery<'_>, _: &mut dyn FnMut(Usage<'_>)) -> Result<(), Error> {
        Err(Error::NoSuchMetric)
    }

    /// Whether values of a metric have to be fetched for each question: of a custom
    /// metric of this resource, or of an external one.
    fn is_fetched(&self, _resource: Option<&str>, _metric: &str) -> bool {
        false
    }

    /// Fetches what a user's question lacks. `None`: it is in memory now.
    ///
    /// # Errors
    /// [`Error::Saturated`], or [`Error::Unavailable`] when it cannot be had.
    fn fetch<'a>(&'a self, _: Lack, _: &'a str) -> Pending<'a, Result<Option<Fetched>, Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

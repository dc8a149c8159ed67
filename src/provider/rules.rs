//! Answers by prometheus-adapter's rules. The list of metrics is in memory; values
//! are Prometheus' answers to the rules' queries.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::usage::{Usage, UsageQuery, Usages};
use super::{
    Ask, CustomItem, CustomMetric, Described, Empty, Error, ExternalItem, Fetched, Lack,
    NO_METRICS, Objects, Pending, Provider, Query, Which,
};
use adapter_rules::answer::{Answer, Purpose, Sample};
use adapter_rules::query::Unanswerable;
use adapter_rules::registry::Registry;
use adapter_rules::rule::{ResourceRules, Rule};
use apimachinery::kinds::{Kind, Kinds};
use apimachinery::selector::Selector;
use apimachinery::time::Timestamp;
use gpu_metrics::explain::Explanation;
use gpu_metrics::inventory::{Inventory, ObjectKind};
use gpu_metrics::metric::Value;

/// The client does not get kube-apiserver's error message.
const NO_OBJECTS: &str = "unable to list matching resources";

/// How many queries of one request run concurrently.
const SIDE_BY_SIDE: usize = 8;

/// Why the objects of a kind are not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unlisted {
    /// No request has named this kind so far.
    NotFollowed,
    /// They cannot be listed; the log says why.
    Forbidden,
}

/// The cluster's objects, by name.
pub trait ObjectNames: Send + Sync + std::fmt::Debug {
    /// The names of a kind's objects whose labels match, in order; with a namespace,
    /// only those in it.
    ///
    /// # Errors
    /// See [`Unlisted`].
    fn matching(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &Selector,
    ) -> Result<Vec<Arc<str>>, Unlisted>;

    /// The objects that are always known: pods and nodes with their labels.
    fn inventory(&self) -> Arc<Inventory>;

    /// Starts to follow a kind, and waits a little for its objects.
    fn follow(&self, kind: Kind) -> Pending<'_, ()>;
}

/// Fetches answers of Prometheus, or returns cached ones.
pub trait Answers: Send + Sync + std::fmt::Debug {
    /// The answer to a query, for a request of this user.
    ///
    /// [`Error::Saturated`], or [`Error::Unavailable`]; the log has the reason and
    /// the query's rule.
    fn fetch<'a>(&'a self, ask: &'a Ask, user: &'a str) -> Pending<'a, Result<Arc<Answer>, Error>>;
}

/// The metrics in force.
#[derive(Debug, Default)]
pub struct InForce {
    /// The usable `rules`.
    pub rules: Vec<Rule>,
    /// The usable `externalRules`.
    pub external_rules: Vec<Rule>,
    /// The metrics that the rules found.
    pub registry: Registry,
    /// The kinds of the cluster.
    pub kinds: Kinds,
}

/// The metrics in force, with the lists for discovery.
#[derive(Debug)]
struct Current {
    of: InForce,
    custom: Arc<[CustomMetric]>,
    external: Arc<[Arc<str>]>,
}

impl From<InForce> for Current {
    fn from(of: InForce) -> Self {
        let custom = of
            .registry
            .custom
            .iter()
            .map(|((resource, metric), custom)| CustomMetric {
                resource: Arc::clone(resource),
                metric: Arc::clone(metric),
                namespaced: custom.kind.namespaced,
            });
        Self {
            custom: custom.collect(),
            external: of.registry.external.keys().cloned().collect(),
            of,
        }
    }
}

/// The provider of rules' metrics.
#[derive(Debug)]
pub struct RuleProvider {
    current: ArcSwap<Current>,
    objects: Box<dyn ObjectNames>,
    answers: Box<dyn Answers>,
    usages: ArcSwapOption<Usages>,
}

impl RuleProvider {
    /// A provider without metrics until [`RuleProvider::publish`] is called.
    #[must_use]
    pub fn new(objects: Box<dyn ObjectNames>, answers: Box<dyn Answers>) -> Self {
        let current = ArcSwap::from_pointee(InForce::default().into());
        Self {
            current,
            objects,
            answers,
            usages: ArcSwapOption::empty(),
        }
    }

    /// Answers for the use of pods and nodes by these rules from now on; `None`: not
    /// at all.
    pub fn tell_usage(&self, rules: Option<ResourceRules>) {
        let usages = rules.map(Usages::new).map(Arc::new);
        self.usages.store(usages);
    }

    /// Replaces the metrics in force.
    pub fn publish(&self, in_force: InForce) {
        let mut next: Current = in_force.into();
        let before = self.current.load();
        // The lists for discovery are replaced only when they change.
        if before.custom == next.custom {
            next.custom = Arc::clone(&before.custom);
        }
        if before.external == next.external {
            next.external = Arc::clone(&before.external);
        }
        self.current.store(Arc::new(next));
    }

    /// The place of a metric's rule, `rules[3]`, and its `seriesQuery`.
    pub(super) fn rule_of(&self, resource: &str, metric: &str) -> Option<(String, String)> {
        let current = self.current.load();
        let kind = current.of.kinds.of_request(resource)?;
        let key = (kind.resource(), Arc::from(metric));
        let custom = current.of.registry.custom.get(&key)?;
        current.of.rules.get(custom.rule).map(told)
    }

    /// The place and `seriesQuery` of an external metric's rule.
    pub(super) fn external_rule(&self, metric: &str) -> Option<(String, String)> {
        let current = self.current.load();
        let mut all = current.of.registry.external.iter();
        let (_, external) = all.find(|(name, _)| name.eq_ignore_ascii_case(metric))?;
        current.of.external_rules.get(external.rule).map(told)
    }

    fn names(&self, kind: &Kind, objects: Objects<'_>) -> Result<Vec<Arc<str>>, Error> {
        match objects.which {
            Which::Named(name) => Ok(vec![name.into()]),
            Which::Matching(selector) => {
                let names = self.objects.matching(kind, objects.namespace, selector);
                let names = names.map_err(|unlisted| match unlisted {
                    Unlisted::NotFollowed => Error::Lacks(Lack::Objects(Box::new(kind.clone()))),
                    Unlisted::Forbidden => Error::Unlisted { what: NO_OBJECTS },
                })?;
                if names.is_empty() {
                    return Err(Error::NoValue {
                        reason: "no object matches".to_owned(),
                    });
                }
                Ok(names)
            }
        }
    }
}

fn told(rule: &Rule) -> (String, String) {
    (rule.place.clone(), rule.series_query.clone())
}

/// The answer to this query, if it was fetched.
fn answer<'f>(
    query: &Query<'f>,
    promql: String,
    rule: Option<&Rule>,
    names: &[Arc<str>],
) -> Result<&'f Answer, Error> {
    let fetched = query.fetched.and_then(|fetched| fetched.answer(&promql));
    fetched.ok_or_else(|| {
        Error::Lacks(Lack::Answers(vec![Ask {
            promql: promql.into(),
            rule: rule.map_or("", |rule| &rule.place).into(),
            purpose: Purpose::Metric,
            names: names.into(),
        }]))
    })
}

/// An error in the client's selector, or in the rule, which was logged when the rule
/// was read.
fn unanswerable(error: Unanswerable) -> Error {
    match error {
        Unanswerable::Selector(reason) => Error::BadSelector { reason },
        error @ Unanswerable::Name(_) => Error::NoValue {
            reason: error.to_string(),
        },
        Unanswerable::Rule(_) => Error::NoValue {
            reason: "the rule's query cannot be filled in".to_owned(),
        },
    }
}

/// Prometheus evaluates at the time of the question: its answers do not go
/// stale here, and the window of a query is not known.
const fn value(value: f64, at: Timestamp) -> Value {
    Value {
        value,
        at,
        fresh_until: Timestamp::MAX,
        window_secs: 0,
    }
}

impl Provider for RuleProvider {
    fn custom_metrics(&self) -> Arc<[CustomMetric]> {
        Arc::clone(&self.current.load().custom)
    }

    fn external_metrics(&self) -> Arc<[Arc<str>]> {
        Arc::clone(&self.current.load().external)
    }

    fn custom(
        &self,
        objects: Objects<'_>,
        query: &Query<'_>,
        sink: &mut dyn FnMut(CustomItem<'_>),
    ) -> Result<Empty, Error> {
        let current = self.current.load();
        let InForce {
            rules,
            registry,
            kinds,
            ..
        } = &current.of;
        let kind = kinds
            .of_request(objects.resource)
            .ok_or(Error::NoSuchMetric)?;
        let key = (kind.resource(), Arc::from(query.metric));
        let custom = registry.custom.get(&key).ok_or(Error::NoSuchMetric)?;
        if kind.namespaced != objects.namespace.is_some() {
            return Err(Error::WrongScope);
        }
        let names = self.names(kind, objects)?;
        // An object that is new is in the next answer, one that has gone in none.
        let asked = query.fetched.map_or(&names[..], |fetched| &fetched.names);
        let of: Vec<&str> = asked.iter().map(|name| &**name).collect();
        let promql = custom
            .query(rules, objects.namespace, &of, query.selector)
            .map_err(unanswerable)?;
        let rule = rules.get(custom.rule);
        let Answer::Vector(samples) = answer(query, promql, rule, asked)? else {
            return Err(Error::Unavailable { what: NO_METRICS });
        };
        // As upstream, the last of several samples of one object counts.
        let by_name: HashMap<&str, &Sample> = samples
            .iter()
            .filter_map(|sample| Some((sample.labels.get(custom.label())?, sample)))
            .collect();
        let described = ObjectKind::new(
            &kind.resource(),
            &kind.kind,
            &kind.api_version(),
            kind.namespaced,
        );
        for name in &names {
            if let Some(sample) = by_name.get(&**name) {
                sink(CustomItem {
                    kind: &described,
                    namespace: objects.namespace,
                    name,
                    value: value(sample.value, sample.at),
                });
            }
        }
        Ok(match objects.which {
            Which::Named(_) => Empty::Missing,
            Which::Matching(_) => Empty::Answer,
        })
    }

    fn external(
        &self,
        namespace: &str,
        query: &Query<'_>,
        sink: &mut dyn FnMut(ExternalItem<'_>),
    ) -> Result<Empty, Error> {
        let current = self.current.load();
        let InForce {
            external_rules,
            registry,
            ..
        } = &current.of;
        let exact = registry.external.get_key_value(query.metric);
        // The HPA controller asks in lower case.
        let found = exact.or_else(|| {
            let mut all = registry.external.iter();
            all.find(|(name, _)| name.eq_ignore_ascii_case(query.metric))
        });
        let (metric, external) = found.ok_or(Error::NoSuchMetric)?;
        let promql = external
            .query(external_rules, namespace, query.selector)
            .map_err(|error| match error {
                // As upstream, for each request.
                Unanswerable::Rule(_) => Error::Unavailable { what: NO_METRICS },
                error => unanswerable(error),
            })?;
        let rule = external_rules.get(external.rule);
        match answer(query, promql, rule, &[])? {
            Answer::Vector(samples) => {
                for sample in samples {
                    let labels: Vec<(Arc<str>, Arc<str>)> = sample
                        .labels
                        .iter()
                        .map(|(name, value)| (Arc::clone(name), Arc::clone(value)))
                        .collect();
                    let value = value(sample.value, sample.at);
                    sink(ExternalItem {
                        metric,
                        labels: &labels,
                        value,
                    });
                }
            }
            Answer::Scalar(number, at) => {
                sink(ExternalItem {
                    metric,
                    labels: &[],
                    value: value(*number, *at),
                });
            }
            Answer::Other(_) => return Err(Error::Unavailable { what: NO_METRICS }),
        }
        Ok(Empty::Answer)
    }

    fn explain(&self, of: Described<'_>, query: &Query<'_>) -> Result<Explanation, Error> {
        self.explained(of, query)
    }

    fn knows_usage(&self) -> bool {
        self.usages.load().is_some()
    }

    fn usage(&self, query: &UsageQuery<'_>, sink: &mut dyn FnMut(Usage<'_>)) -> Result<(), Error> {
        let usages = self.usages.load();
        let usages = usages.as_ref().ok_or(Error::NoSuchMetric)?;
        let inventory = match query.fetched {
            Some(fetched) => Arc::clone(&fetched.inventory),
            None => self.objects.inventory(),
        };
        usages.tell(&inventory, query, sink)
    }

    fn is_fetched(&self, resource: Option<&str>, metric: &str) -> bool {
        let rule = match resource {
            Some(resource) => self.rule_of(resource, metric),
            None => self.external_rule(metric),
        };
        rule.is_some()
    }

    fn fetch<'a>(
        &'a self,
        lack: Lack,
        user: &'a str,
    ) -> Pending<'a, Result<Option<Fetched>, Error>> {
        Box::pin(async move {
            match lack {
                Lack::Objects(kind) => {
                    self.objects.follow(*kind).await;
                    Ok(None)
                }
                Lack::Answers(asks) => {
                    let inventory = self.objects.inventory();
                    let names = asks.first().map(|ask| Arc::clone(&ask.names));
                    let asks = asks.into_iter().map(|ask| async move {
                        let answer = self.answers.fetch(&ask, user).await?;
                        Ok((ask.promql, answer))
                    });
                    let asks: Vec<_> = asks.collect();
                    let asks = stream::iter(asks).buffer_unordered(SIDE_BY_SIDE);
                    Ok(Some(Fetched {
                        answers: asks.try_collect().await?,
                        inventory,
                        names: names.unwrap_or_default(),
                    }))
                }
            }
        })
    }
}

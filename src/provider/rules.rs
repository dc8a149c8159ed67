//! Answers for prometheus-adapter's rules. The list of metrics is in memory. Values are
//! Prometheus' answers to the rules' queries.

#[cfg(test)]
pub(crate) mod tests;
mod workloads;

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::compute::ComputeLimit;
use super::explain::{Sum, explained_by_rule};
use super::rule_conditions::RuleConditions;
use super::usage::{UsageAnswer, UsageQuery};
use super::{
    Answering, CustomItem, CustomMetric, ExternalItem, Item, ListedMetrics, ObjectSelection,
    ProviderError, Query, Sink, StoreQuery, ValuesOf, Which,
};
use adapter_rules::answer::{Answer, Purpose, VectorSample};
use adapter_rules::query::Unanswerable;
use adapter_rules::registry::{Custom, External, Registry};
use adapter_rules::resource::ResourceRules;
use adapter_rules::rule::Rule;
use apimachinery::kinds::{Kind, Kinds};
use apimachinery::selector::Selector;
use apimachinery::time::Timestamp;
use gpu_metrics::explain::Explanation;
use gpu_metrics::inventory::{Inventory, ObjectKind};
use gpu_metrics::metric::Value;

/// The message for clients, without kube-apiserver's error.
const NO_OBJECTS: &str = "unable to list matching resources";

/// The most concurrent queries of one request.
const SIDE_BY_SIDE: usize = 8;

/// The names of the cluster's objects.
pub trait ObjectNames: Send + Sync + std::fmt::Debug {
    /// The names of a kind's objects whose labels match, in order; with a namespace, only
    /// those in it. `None`: they cannot be listed; the log has the reason.
    fn matching<'a>(
        &'a self,
        kind: &'a Kind,
        namespace: Option<&'a str>,
        selector: &'a Selector,
    ) -> BoxFuture<'a, Option<Vec<Arc<str>>>>;

    /// The inventory, which always has the pods and nodes with their labels.
    fn inventory(&self) -> Arc<Inventory>;
}

/// Fetches answers of Prometheus, or returns cached ones.
pub trait StoreAnswers: Send + Sync + std::fmt::Debug {
    /// The answer to a query, for a request of this user.
    ///
    /// The errors are [`ProviderError::Saturated`] and [`ProviderError::Unavailable`]. The
    /// log has the reason and the query's rule.
    fn fetch<'a>(&'a self, ask: &'a StoreQuery, user: &'a str) -> Answering<'a, Arc<Answer>>;
}

/// The metrics in force.
#[derive(Debug, Default)]
pub struct InForce {
    /// The usable `rules`.
    pub rules: Vec<Rule>,
    /// The usable `externalRules`.
    pub external_rules: Vec<Rule>,
    /// The metrics that the rules give.
    pub registry: Registry,
    /// The kinds of the cluster.
    pub kinds: Kinds,
}

impl InForce {
    /// The custom metric of a resource in the spelling of a request.
    fn custom(&self, resource: &str, metric: &str) -> Option<&Custom> {
        let kind = self.kinds.of_request(resource)?;
        let key = (kind.resource(), Arc::from(metric));
        self.registry.custom.get(&key)
    }

    /// The rule of a metric.
    fn rule(&self, query: &Query) -> Option<&Rule> {
        let metric = &query.metric;
        match &query.of {
            ValuesOf::Objects(objects) => {
                let custom = self.custom(&objects.resource, metric);
                let of_workloads = || self.of_workloads(&objects.resource, metric);
                let rule = custom.map(|it| it.rule);
                self.rules
                    .get(rule.or_else(|| Some(of_workloads()?.rule()))?)
            }
            ValuesOf::Namespace(_) => {
                let (_, external) = self.external(metric)?;
                self.external_rules.get(external.rule)
            }
        }
    }

    /// The metrics for discovery.
    fn listed(&self) -> ListedMetrics {
        let custom = self.registry.custom.iter();
        let custom = custom.map(|((resource, metric), custom)| CustomMetric {
            resource: Arc::clone(resource),
            metric: Arc::clone(metric),
            namespaced: custom.kind.namespaced,
        });
        ListedMetrics {
            custom: custom.chain(self.workload_metrics()).collect(),
            external: self.registry.external.keys().cloned().collect(),
        }
    }

    /// The external metric, with its configured name.
    fn external(&self, metric: &str) -> Option<(&Arc<str>, &External)> {
        let external = &self.registry.external;
        // The HPA controller requests it in lower case.
        external.get_key_value(metric).or_else(|| {
            let mut all = external.iter();
            all.find(|(name, _)| name.eq_ignore_ascii_case(metric))
        })
    }
}

/// The provider of the rules' metrics.
#[derive(Debug)]
pub struct RuleProvider {
    current: ArcSwap<InForce>,
    listed: ArcSwap<ListedMetrics>,
    objects: Box<dyn ObjectNames>,
    answers: Box<dyn StoreAnswers>,
    resource_rules: Option<Arc<ResourceRules>>,
    /// The limit of work for the usage of many pods.
    usage: Arc<ComputeLimit>,
    conditions: Arc<RuleConditions>,
}

/// A query, and Prometheus' answer to it.
type Answered = (StoreQuery, Arc<Answer>);

impl RuleProvider {
    /// A provider without metrics before [`RuleProvider::publish`].
    pub(crate) fn new(
        objects: Box<dyn ObjectNames>,
        answers: Box<dyn StoreAnswers>,
        conditions: Arc<RuleConditions>,
    ) -> Self {
        // The error has no Retry-After, which would block a worker of the HPA controller.
        let usage = ComputeLimit::beside_values(ProviderError::Saturated);
        Self {
            current: ArcSwap::default(),
            listed: ArcSwap::default(),
            objects,
            answers,
            resource_rules: None,
            usage: Arc::new(usage),
            conditions,
        }
    }

    /// The same provider, with rules for the usage of pods and nodes; `None`: it is not
    /// served.
    #[must_use]
    pub(crate) fn with_usage(self, rules: Option<ResourceRules>) -> Self {
        Self {
            resource_rules: rules.map(Arc::new),
            ..self
        }
    }

    /// Replaces the metrics in force.
    pub(crate) fn publish(&self, in_force: InForce) {
        let listed = in_force.listed();
        self.current.store(Arc::new(in_force));
        // The documents of discovery are made again only for another list.
        if **self.listed.load() != listed {
            self.listed.store(Arc::new(listed));
        }
    }

    pub(super) fn listed(&self) -> Arc<ListedMetrics> {
        self.listed.load_full()
    }

    /// Whether a rule gives the custom metric of this resource; `None`: the external metric.
    pub(super) fn has(&self, resource: Option<&str>, metric: &str) -> bool {
        let in_force = self.current.load();
        match resource {
            Some(resource) => {
                in_force.custom(resource, metric).is_some()
                    || in_force.of_workloads(resource, metric).is_some()
            }
            None => in_force.external(metric).is_some(),
        }
    }

    /// Whether the usage of pods and nodes is served.
    pub(crate) fn knows_usage(&self) -> bool {
        self.resource_rules.is_some()
    }

    async fn names(
        &self,
        kind: &Kind,
        objects: &ObjectSelection,
    ) -> Result<Vec<Arc<str>>, ProviderError> {
        let selector = match &objects.which {
            Which::Named(name) => return Ok(vec![name.as_str().into()]),
            Which::Matching(selector) => selector,
        };
        let namespace = objects.namespace.as_deref();
        let names = self.objects.matching(kind, namespace, selector).await;
        let names = names.ok_or(ProviderError::Unlisted(NO_OBJECTS))?;
        if names.is_empty() {
            return Err(ProviderError::NoValue("no object matches".to_owned()));
        }
        Ok(names)
    }

    /// Passes the values of the answer to `sink`.
    pub(super) async fn answered(
        &self,
        query: &Query,
        sink: &mut Sink<'_>,
    ) -> Result<Answered, ProviderError> {
        match &query.of {
            ValuesOf::Objects(objects) => self.custom(objects, query, sink).await,
            ValuesOf::Namespace(namespace) => self.external(namespace, query, sink).await,
        }
    }

    async fn custom(
        &self,
        objects: &ObjectSelection,
        query: &Query,
        sink: &mut Sink<'_>,
    ) -> Result<Answered, ProviderError> {
        let current = self.current.load_full();
        let custom = current.custom(&objects.resource, &query.metric);
        let Some(custom) = custom else {
            return self.workloads(&current, objects, query, sink).await;
        };
        let (rules, namespace) = (&current.rules, objects.namespace.as_deref());
        if custom.kind.namespaced != namespace.is_some() {
            return Err(ProviderError::WrongScope);
        }
        let names = self.names(&custom.kind, objects).await?;
        let of: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let promql = custom
            .query(rules, namespace, &of, &query.selector)
            .map_err(unanswerable)?;
        let (ask, answer) = self.fetch(promql, rules.get(custom.rule), query).await?;
        pass_objects(custom, namespace, &names, &answer, sink)?;
        Ok((ask, answer))
    }

    async fn external(
        &self,
        namespace: &str,
        query: &Query,
        sink: &mut Sink<'_>,
    ) -> Result<Answered, ProviderError> {
        let current = self.current.load_full();
        let found = current.external(&query.metric);
        let (metric, external) = found.ok_or(ProviderError::NoSuchMetric)?;
        let rules = &current.external_rules;
        let promql =
            external
                .query(rules, namespace, &query.selector)
                .map_err(|error| match error {
                    // As upstream, an external metric of a faulty rule is unavailable.
                    Unanswerable::Rule(_) => ProviderError::Unavailable,
                    error => unanswerable(error),
                })?;
        let (ask, answer) = self.fetch(promql, rules.get(external.rule), query).await?;
        pass_series(metric, &answer, sink)?;
        Ok((ask, answer))
    }

    async fn fetch(
        &self,
        promql: String,
        rule: Option<&Rule>,
        query: &Query,
    ) -> Result<Answered, ProviderError> {
        let ask = store_query(promql, rule);
        let answer = self.answers.fetch(&ask, &query.user).await?;
        Ok((ask, answer))
    }

    /// The answers to these queries, in their order.
    async fn fetch_all(
        &self,
        asks: &[StoreQuery],
        user: &str,
    ) -> Result<Vec<Arc<Answer>>, ProviderError> {
        let answers = asks.iter().map(|ask| self.answers.fetch(ask, user));
        let answers = stream::iter(answers.collect::<Vec<_>>()).buffered(SIDE_BY_SIDE);
        answers.try_collect().await
    }

    pub(super) async fn explained(&self, query: &Query) -> Result<Explanation, ProviderError> {
        let mut sum = Sum::default();
        let mut add = |item: Item<'_>| sum.add(item.value());
        let answered = self.answered(query, &mut add).await;
        let current = self.current.load();
        explained_by_rule(query, current.rule(query), answered, sum)
    }

    pub(super) async fn used(&self, query: &UsageQuery) -> Result<UsageAnswer, ProviderError> {
        let queries = self.resource_rules.clone();
        let usage = UsageAnswer {
            queries: queries.ok_or(ProviderError::NoSuchMetric)?,
            inventory: self.objects.inventory(),
            query: query.clone(),
            answers: Vec::new(),
            limit: Arc::clone(&self.usage),
            conditions: Arc::clone(&self.conditions),
        };
        let (mut usage, asks) = usage.worked(UsageAnswer::asks).await?;
        usage.answers = self.fetch_all(&asks, &query.user).await?;
        Ok(usage)
    }
}

/// The query of a rule for a metric.
fn store_query(promql: String, rule: Option<&Rule>) -> StoreQuery {
    StoreQuery {
        promql: promql.into(),
        key: rule.map_or_else(Arc::default, |rule| {
            format!("{}.metricsQuery", rule.place).into()
        }),
        template: rule.map(Rule::metrics_query).unwrap_or_default(),
        purpose: Purpose::Metric,
    }
}

/// Maps an error in the client's selector or names, or in the rule. The latter was logged
/// when the rule was parsed.
fn unanswerable(error: Unanswerable) -> ProviderError {
    match error {
        Unanswerable::Selector(reason) => ProviderError::BadSelector(reason),
        error @ Unanswerable::Name(_) => ProviderError::NoValue(error.to_string()),
        Unanswerable::Rule(_) => {
            ProviderError::NoValue("the rule's query cannot be filled in".to_owned())
        }
    }
}

/// Prometheus evaluates at the time of the request, so its values cannot become stale here.
/// The window of a query is unknown.
const fn value(value: f64, at: Timestamp) -> Value {
    Value {
        value,
        at,
        fresh_until: Timestamp::MAX,
        window_secs: 0,
    }
}

/// Passes the values of the objects with these names to `sink`.
fn pass_objects(
    custom: &Custom,
    namespace: Option<&str>,
    names: &[Arc<str>],
    answer: &Answer,
    sink: &mut Sink<'_>,
) -> Result<(), ProviderError> {
    let Answer::Vector(samples) = answer else {
        return Err(ProviderError::Unavailable);
    };
    // As upstream, the last of several samples of an object counts.
    let by_name: HashMap<&str, &VectorSample> = samples
        .iter()
        .filter_map(|sample| Some((sample.labels.get(custom.label())?, sample)))
        .collect();
    let kind = &custom.kind;
    let described = ObjectKind::new(
        &kind.resource(),
        &kind.kind,
        &kind.api_version(),
        kind.namespaced,
    );
    for name in names {
        if let Some(sample) = by_name.get(&**name) {
            sink.item(Item::Custom(CustomItem {
                kind: &described,
                namespace,
                name,
                value: value(sample.value, sample.at),
            }));
        }
    }
    Ok(())
}

/// Passes the values of an external metric to `sink`.
fn pass_series(metric: &str, answer: &Answer, sink: &mut Sink<'_>) -> Result<(), ProviderError> {
    let mut item = |labels: &[_], value| {
        sink.item(Item::External(ExternalItem {
            metric,
            labels,
            value,
        }));
    };
    match answer {
        Answer::Vector(samples) => {
            for sample in samples {
                let labels = sample.labels.iter();
                let labels = labels.map(|(name, value)| (Arc::clone(name), Arc::clone(value)));
                let labels: Vec<_> = labels.collect();
                item(&labels, value(sample.value, sample.at));
            }
        }
        Answer::Scalar(number, at) => item(&[], value(*number, *at)),
        Answer::Other(_) => return Err(ProviderError::Unavailable),
    }
    Ok(())
}

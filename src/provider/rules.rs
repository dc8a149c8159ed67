//! The metrics of prometheus-adapter's rules. Their list is in memory. Values are
//! Prometheus' results of the rules' queries.

#[cfg(test)]
pub(crate) mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt, TryStreamExt};

use super::compute::ComputeLimit;
use super::rule_conditions::RuleConditions;
use super::usage::{Usage, UsageQuery, UsageRequest};
use super::{
    CustomMetric, CustomValue, ExternalValue, ListedMetrics, MetricValues, ObjectSelection,
    ProviderFuture, Query, StoreQuery, UNFETCHED, ValuesOf,
};
use adapter_rules::query::Unanswerable;
use adapter_rules::registry::{Custom, External, Registry};
use adapter_rules::resource::ResourceRules;
use adapter_rules::rule::Rule;
use aggregated_apiserver::refusal::Refusal;
use apimachinery::kinds::Kind;
use apimachinery::quantity;
use apimachinery::selector::Selector;
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::{Inventory, ObjectKind, Startup};
use gpu_metrics::metric::Value;
use prometheus_source::VectorSample;
use prometheus_source::cache::Purpose;

/// The message for clients, without kube-apiserver's error.
const NO_OBJECTS: &str = "unable to list matching resources";

/// The most concurrent queries of one request.
const SIDE_BY_SIDE: usize = 8;

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

/// Fetches results from Prometheus, or returns cached ones.
pub trait RuleStore: Send + Sync + std::fmt::Debug {
    /// The result of a query, for a request of this user.
    ///
    /// The errors are `SATURATED` and [`Refusal::Unavailable`], whose
    /// reason is a condition of the rule.
    fn fetch<'a>(
        &'a self,
        ask: &'a StoreQuery,
        user: &'a str,
    ) -> ProviderFuture<'a, Arc<[VectorSample]>>;
}

/// A metric of a rule.
#[derive(Debug)]
pub(super) enum RuleMetric {
    Custom(Custom),
    /// With its configured name.
    External(Arc<str>, External),
}

/// Values of a rule, the query for them, and its result.
#[derive(Debug)]
pub(super) struct RuleValues {
    pub(super) values: MetricValues,
    pub(super) query: StoreQuery,
    pub(super) result: Arc<[VectorSample]>,
}

/// The metrics of rules for discovery, with those that are built in.
fn listed(registry: &Registry, built_in: &ListedMetrics) -> ListedMetrics {
    let of_rules = registry.custom.iter();
    let of_rules = of_rules.map(|((resource, metric), custom)| CustomMetric {
        resource: Arc::clone(resource),
        metric: Arc::clone(metric),
        namespaced: custom.kind.namespaced,
    });
    let mut custom: Vec<_> = of_rules.chain(built_in.custom.iter().cloned()).collect();
    let external = registry.external.keys().chain(&built_in.external);
    let mut external: Vec<Arc<str>> = external.cloned().collect();
    custom.sort();
    custom.dedup();
    external.sort();
    external.dedup();
    ListedMetrics {
        custom,
        external,
        usage: built_in.usage,
    }
}

impl RuleMetric {
    pub(super) const fn rule(&self) -> &Arc<Rule> {
        match self {
            Self::Custom(custom) => &custom.external.rule,
            Self::External(_, external) => &external.rule,
        }
    }

    /// The query for the metric's values.
    fn store_query(&self, promql: String) -> StoreQuery {
        let rule = self.rule();
        StoreQuery {
            promql: promql.into(),
            key: format!("{}.metricsQuery", rule.place).into(),
            template: rule.metrics_query(),
            purpose: Purpose::Metric,
        }
    }
}

#[derive(Debug)]
pub struct RuleProvider {
    current: ArcSwap<Registry>,
    listed: ArcSwap<ListedMetrics>,
    /// The metrics that are served besides those of rules.
    built_in: ListedMetrics,
    objects: Box<dyn ObjectNames>,
    store: Box<dyn RuleStore>,
    resource_rules: Option<Arc<ResourceRules>>,
    /// The limit of work for the usage of pods, of which a cluster has many.
    usage: ComputeLimit,
    pub(super) conditions: Arc<RuleConditions>,
}

impl RuleProvider {
    /// A provider without metrics of rules before [`RuleProvider::publish`]. It lists those of
    /// `built_in` too, and serves usage if there are rules for it.
    pub(crate) fn new(
        objects: Box<dyn ObjectNames>,
        store: Box<dyn RuleStore>,
        conditions: Arc<RuleConditions>,
        built_in: &ListedMetrics,
        resource_rules: Option<ResourceRules>,
    ) -> Self {
        let built_in = ListedMetrics {
            usage: resource_rules.is_some(),
            ..built_in.clone()
        };
        Self {
            current: ArcSwap::default(),
            listed: ArcSwap::from_pointee(built_in.clone()),
            built_in,
            objects,
            store,
            resource_rules: resource_rules.map(Arc::new),
            usage: ComputeLimit::new(1),
            conditions,
        }
    }

    pub(crate) fn publish(&self, registry: Registry) {
        let listed = listed(&registry, &self.built_in);
        self.current.store(Arc::new(registry));
        // The documents of discovery are made again only for another list.
        if **self.listed.load() != listed {
            self.listed.store(Arc::new(listed));
        }
    }

    pub(super) fn listed(&self) -> Arc<ListedMetrics> {
        self.listed.load_full()
    }

    /// The custom metric of a resource, or the external metric (`None`), if a rule gives it.
    pub(super) fn find(&self, resource: Option<&str>, metric: &str) -> Option<RuleMetric> {
        let registry = self.current.load();
        let Some(resource) = resource else {
            let (name, external) = registry.find_external(metric)?;
            return Some(RuleMetric::External(Arc::clone(name), external.clone()));
        };
        let custom = registry.find_custom(resource, metric)?;
        Some(RuleMetric::Custom(custom.clone()))
    }

    async fn names(
        &self,
        kind: &Kind,
        objects: &ObjectSelection,
    ) -> Result<Vec<Arc<str>>, Refusal> {
        if let Some(name) = &objects.name {
            return Ok(vec![name.as_str().into()]);
        }
        let (namespace, selector) = (objects.namespace.as_deref(), &objects.selector);
        let names = self.objects.matching(kind, namespace, selector).await;
        let names = names.ok_or(Refusal::Unavailable(NO_OBJECTS))?;
        if names.is_empty() {
            return Err(Refusal::NoValue("no object matches".to_owned()));
        }
        Ok(names)
    }

    /// The values of a metric.
    pub(super) async fn values(
        &self,
        metric: &RuleMetric,
        query: &Query,
    ) -> Result<RuleValues, Refusal> {
        let (mut names, mut place) = (Vec::new(), None);
        let promql = match (metric, &query.of) {
            (RuleMetric::Custom(custom), ValuesOf::Objects(objects)) => {
                objects.check_scope(custom.kind.namespaced)?;
                names = self.names(&custom.kind, objects).await?;
                place = objects.namespace.as_deref();
                let of: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
                let promql = custom.query(place, &of, &query.selector);
                promql.map_err(unanswerable)?
            }
            (RuleMetric::External(_, external), ValuesOf::Namespace(namespace)) => {
                let promql = external.query(namespace, &query.selector);
                promql.map_err(|error| match error {
                    // As upstream, an external metric of a faulty rule is unavailable.
                    Unanswerable::Rule(_) => UNFETCHED,
                    error => unanswerable(error),
                })?
            }
            _ => return Err(Refusal::NoSuchPath),
        };
        let store_query = metric.store_query(promql);
        let result = self.store.fetch(&store_query, &query.user).await?;
        let values = match metric {
            RuleMetric::Custom(custom) => {
                if metric.rule().leaves_out_starting && &*custom.kind.resource() == "pods" {
                    self.leave_out_starting(place, &mut names);
                }
                MetricValues::Custom(custom_values(custom, place, &names, &result))
            }
            RuleMetric::External(name, external) => {
                MetricValues::External(external_values(name, external, &result))
            }
        };
        Ok(RuleValues {
            values,
            query: store_query,
            result,
        })
    }

    /// Drops the names of pods that have never been Ready.
    fn leave_out_starting(&self, namespace: Option<&str>, names: &mut Vec<Arc<str>>) {
        let inventory = self.objects.inventory();
        let pod = |name: &str| inventory.pod(namespace?, name);
        names.retain(|name| pod(name).is_none_or(|pod| pod.startup != Startup::Starting));
    }

    pub(super) async fn usage(&self, query: &UsageQuery) -> Result<Vec<Usage>, Refusal> {
        let rules = self.resource_rules.clone();
        let rules = rules.ok_or(Refusal::NoSuchPath)?;
        let (asked, inventory) = (query.clone(), self.objects.inventory());
        let request = move || UsageRequest::new(rules, asked, &inventory);
        let request = self.usage.run(request).await?;
        let queries = request.queries.iter();
        let results = queries.map(|it| self.store.fetch(it, &query.user));
        let results: Vec<_> = results.collect();
        let results = stream::iter(results).buffered(SIDE_BY_SIDE);
        let results: Vec<Arc<[VectorSample]>> = results.try_collect().await?;
        let conditions = Arc::clone(&self.conditions);
        self.usage
            .run(move || request.usage(&results, &conditions))
            .await
    }
}

/// Maps an error in the client's selector or names, or in the rule. The latter was logged
/// when the rule was parsed.
fn unanswerable(error: Unanswerable) -> Refusal {
    match error {
        Unanswerable::Selector(reason) => Refusal::Malformed(reason),
        error @ Unanswerable::Name(_) => Refusal::NoValue(error.to_string()),
        Unanswerable::Rule(_) => {
            Refusal::NoValue("the rule's query cannot be filled in".to_owned())
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

/// The values of the objects with these names.
fn custom_values(
    custom: &Custom,
    namespace: Option<&str>,
    names: &[Arc<str>],
    samples: &[VectorSample],
) -> Vec<CustomValue> {
    // As upstream, the last of several samples of an object counts. An object of several
    // spellings has no value.
    let mut by_name: HashMap<&str, Option<(usize, &VectorSample)>> = HashMap::new();
    for sample in samples {
        let Some((spelling, name)) = custom.object(&sample.labels) else {
            continue;
        };
        let found = Some((spelling, sample));
        let former = by_name.entry(name).or_insert(found);
        *former = found.filter(|_| former.is_some_and(|(of, _)| of == spelling));
    }
    let Kind {
        kind, namespaced, ..
    } = &custom.kind;
    let (resource, version) = (custom.kind.resource(), custom.kind.api_version());
    let kind = ObjectKind::new(&resource, kind, &version, *namespaced);
    let namespace: Option<Arc<str>> = namespace.map(Arc::from);
    let values = names.iter().filter_map(|name| {
        let (_, sample) = (*by_name.get(&**name)?)?;
        // What is no quantity is no value.
        quantity::milli_from_f64(sample.value)?;
        Some(CustomValue {
            kind: kind.clone(),
            namespace: namespace.clone(),
            name: Arc::clone(name),
            value: value(sample.value, sample.at),
        })
    });
    values.collect()
}

/// The values of an external metric: none if series name the namespace in several spellings.
fn external_values(
    metric: &Arc<str>,
    external: &External,
    samples: &[VectorSample],
) -> Vec<ExternalValue> {
    let mut spellings = samples.iter().map(|it| external.spelling(&it.labels));
    let first = spellings.next();
    if spellings.any(|it| Some(it) != first) {
        return Vec::new();
    }
    let values = samples.iter().map(|sample| ExternalValue {
        metric: Arc::clone(metric),
        labels: sample.labels.clone(),
        value: value(sample.value, sample.at),
    });
    values.collect()
}

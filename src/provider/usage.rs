//! CPU and memory usage of pods and nodes, for `kubectl top`, from Prometheus' answers to the
//! queries of `resourceRules`. Upstream: prometheus-adapter `pkg/resourceprovider/provider.go`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::compute::ComputeLimit;
use super::rule_conditions::{RuleConditions, RuleFailure};
use super::{ProviderError, StoreQuery, Which};
use adapter_rules::answer::{Answer, Purpose, VectorSample};
use adapter_rules::resource::{ResourceRule, ResourceRules};
use apimachinery::field_selector::FieldSelector;
use apimachinery::labels::Labels;
use apimachinery::quantity;
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::{Inventory, PodPhase};

#[cfg(test)]
pub(crate) mod tests;

/// How long a pod may run without samples: a store has them after some scrapes.
const SETTLED: Duration = Duration::from_secs(300);

/// The most pods among which to select on the thread of the request.
const MOST_AT_HAND: usize = 2_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measured {
    /// With a value per container.
    Pods,
    Nodes,
}

impl Measured {
    /// The resource: `pods`.
    pub(crate) const fn resource(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Nodes => "nodes",
        }
    }
}

#[derive(Clone, Debug)]
pub struct UsageQuery {
    pub measured: Measured,
    /// The namespace of pods; `None`: all namespaces.
    pub namespace: Option<String>,
    pub which: Which,
    pub fields: FieldSelector,
    pub now: Timestamp,
    /// The user of the request, who has a share of the queries to Prometheus.
    pub user: String,
}

/// The usage of one container or node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// CPU, in thousandths of a core.
    pub cpu: i64,
    /// Memory, in thousandths of a byte.
    pub memory: i64,
}

#[derive(Clone, Copy, Debug)]
pub struct Usage<'a> {
    pub namespace: Option<&'a str>,
    pub name: &'a str,
    pub labels: &'a Labels,
    /// Time of the earliest sample.
    pub at: Timestamp,
    /// The window of the queries, as configured.
    pub window: Duration,
    /// A pod's containers in the order of their names. For a node, one entry with an empty name.
    pub parts: &'a [(&'a str, Amounts)],
}

struct Object<'a> {
    namespace: Option<&'a str>,
    name: &'a str,
    labels: &'a Labels,
    /// Whether Prometheus should have samples of it.
    is_settled: bool,
}

/// Prometheus' samples for a query for usage.
#[derive(Debug)]
pub struct UsageSamples {
    pub(super) rules: Arc<ResourceRules>,
    /// The objects at the time of the query to Prometheus, because pods may change meanwhile.
    pub(super) inventory: Arc<Inventory>,
    pub(super) query: UsageQuery,
    /// Prometheus' results of the queries, in their order.
    pub(super) results: Vec<Arc<Answer>>,
    /// The limit of the work for many objects.
    pub(super) limit: Arc<ComputeLimit>,
    pub(super) conditions: Arc<RuleConditions>,
}

/// The message for clients, without kube-apiserver's error.
const NO_NODES: &str = "unable to list nodes";

/// A sample, and its value in thousandths. `None`: the value is no usage.
#[derive(Clone, Copy)]
struct UsageSample<'a> {
    sample: &'a VectorSample,
    milli: Option<i64>,
}

type ByObject<'a> = HashMap<&'a str, Vec<UsageSample<'a>>>;

impl UsageSamples {
    /// The result of `work` on the samples. In a large cluster it runs on another thread.
    ///
    /// # Errors
    /// Those of `work`, or [`ProviderError::Saturated`] if other such work leaves no room.
    pub(crate) async fn worked<T, W>(self, work: W) -> Result<(Self, T), ProviderError>
    where
        T: Send + 'static,
        W: FnOnce(&Self) -> Result<T, ProviderError> + Send + 'static,
    {
        let is_large = self.inventory.pods.len() > MOST_AT_HAND;
        let limit = Arc::clone(&self.limit);
        let work = move || work(&self).map(|made| (self, made));
        match is_large {
            true => limit.run(work).await,
            false => work(),
        }
    }

    /// The queries to Prometheus: CPU and memory for each namespace.
    pub(super) fn store_queries(&self) -> Result<Vec<StoreQuery>, ProviderError> {
        let query = &self.query;
        if query.measured == Measured::Nodes && self.inventory.nodes.is_empty() {
            // Every cluster has nodes, so an empty list means that the server may not list them.
            return Err(ProviderError::Unlisted(NO_NODES));
        }
        let chosen = chosen(&self.inventory, query);
        if matches!(query.which, Which::Named(_)) && chosen.is_empty() {
            let resource = query.measured.resource().trim_end_matches('s');
            return Err(ProviderError::NoValue(format!(
                "no such {resource} is running"
            )));
        }
        let queries = by_namespace(&chosen).map(|group| self.queries_of(group));
        Ok(queries.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Passes the usage of each object to `sink`, in the order of their namespaces and
    /// names. With [`Which::Named`] exactly one is passed.
    pub(crate) fn pass(&self, sink: &mut dyn FnMut(Usage<'_>)) -> Result<(), ProviderError> {
        let chosen = chosen(&self.inventory, &self.query);
        let (mut told, mut named) = (false, [false; 2]);
        for (group, results) in by_namespace(&chosen).zip(self.results.chunks_exact(2)) {
            let cpu = by_object(&results[0], self.label(&self.rules.cpu))?;
            let memory = by_object(&results[1], self.label(&self.rules.memory))?;
            for (named, by_object) in named.iter_mut().zip([&cpu, &memory]) {
                *named |= group.iter().any(|it| by_object.contains_key(it.name));
            }
            for object in group {
                let (Some(cpu), Some(memory)) = (cpu.get(object.name), memory.get(object.name))
                else {
                    continue;
                };
                let Some(parts) = self.parts(cpu, memory) else {
                    continue;
                };
                told = true;
                let samples = cpu.iter().chain(memory);
                let at = samples.map(|usage| usage.sample.at).min();
                sink(Usage {
                    namespace: object.namespace,
                    name: object.name,
                    labels: object.labels,
                    at: at.unwrap_or_default(),
                    window: self.rules.window,
                    parts: &parts,
                });
            }
        }
        self.record(&chosen, named);
        if matches!(self.query.which, Which::Named(_)) && !told {
            let reason = "Prometheus has no CPU or no memory of it, or of one of its containers";
            return Err(ProviderError::NoValue(reason.to_owned()));
        }
        Ok(())
    }

    /// Records the rules without a sample of any object of a list. `named` is whether samples
    /// for CPU and for memory name objects.
    fn record(&self, chosen: &[Object<'_>], named: [bool; 2]) {
        let is_list = matches!(self.query.which, Which::Matching(_));
        if !is_list || !chosen.iter().any(|it| it.is_settled) {
            return;
        }
        let rules = [&self.rules.cpu, &self.rules.memory];
        for (rule, _) in rules.into_iter().zip(named).filter(|(_, named)| !named) {
            let (key, query) = self.configured(rule);
            let (label, resource) = (self.label(rule), self.query.measured.resource());
            let failure = RuleFailure {
                fault: format!("no sample names one of the {resource} in its label {label}"),
                remedy: format!(
                    "look for series with this label in Prometheus, and correct {}.resources",
                    rule.place
                ),
                query: Arc::clone(query),
                detail: None,
            };
            self.conditions.failed(&key, failure, self.query.now);
        }
    }

    /// The key and the text of a query in the configuration.
    fn configured<'q>(&self, rule: &'q ResourceRule) -> (String, &'q Arc<str>) {
        let (key, query) = match self.query.measured {
            Measured::Pods => ("containerQuery", rule.container_query()),
            Measured::Nodes => ("nodeQuery", rule.node_query()),
        };
        (format!("{}.{key}", rule.place), query)
    }

    /// The queries to Prometheus for objects of one namespace.
    fn queries_of(&self, group: &[Object<'_>]) -> Result<[StoreQuery; 2], ProviderError> {
        let names: Vec<&str> = group.iter().map(|object| object.name).collect();
        let namespace = group.first().and_then(|object| object.namespace);
        let query = |rule: &ResourceRule| {
            let promql = match self.query.measured {
                Measured::Pods => rule.of_pods(namespace.unwrap_or_default(), &names),
                Measured::Nodes => rule.of_nodes(&names),
            };
            // The rule's error was logged when the rule was parsed.
            let promql = promql.map_err(|_| ProviderError::Unavailable)?;
            let (key, template) = self.configured(rule);
            Ok(StoreQuery {
                promql: promql.into(),
                key: key.into(),
                template: Arc::clone(template),
                purpose: Purpose::Resource,
            })
        };
        Ok([query(&self.rules.cpu)?, query(&self.rules.memory)?])
    }

    fn label<'q>(&self, rule: &'q ResourceRule) -> &'q str {
        match self.query.measured {
            Measured::Pods => &rule.pod,
            Measured::Nodes => &rule.node,
        }
    }

    /// The usage of a node or of each container of a pod; the last of several samples counts.
    /// `None`: a value is missing. The object is then left out, as metrics-server does,
    /// because an autoscaler would take a part for the whole.
    fn parts<'a>(
        &self,
        cpu: &[UsageSample<'a>],
        memory: &[UsageSample<'a>],
    ) -> Option<Vec<(&'a str, Amounts)>> {
        let mut memory = self.by_container(memory, &self.rules.memory);
        let mut parts = Vec::new();
        for (container, cpu) in self.by_container(cpu, &self.rules.cpu) {
            let amounts = Amounts {
                cpu: cpu?,
                memory: memory.remove(container)??,
            };
            parts.push((container, amounts));
        }
        memory.is_empty().then_some(parts)
    }

    /// The values of one object by container; those of a node have no name.
    fn by_container<'a>(
        &self,
        samples: &[UsageSample<'a>],
        rule: &ResourceRule,
    ) -> BTreeMap<&'a str, Option<i64>> {
        let has_containers = self.query.measured == Measured::Pods;
        let of_container = |usage: &UsageSample<'a>| {
            let container = usage.sample.labels.get(&rule.container_label);
            let container = container.filter(|_| has_containers);
            (container.unwrap_or_default(), usage.milli)
        };
        samples.iter().map(of_container).collect()
    }
}

/// Groups the objects by namespace. Objects of a namespace are adjacent.
fn by_namespace<'c>(chosen: &'c [Object<'c>]) -> impl Iterator<Item = &'c [Object<'c>]> {
    chosen.chunk_by(|one, other| one.namespace == other.namespace)
}

/// The selected running pods or nodes, in the order of the inventory.
fn chosen<'a>(inventory: &'a Inventory, query: &UsageQuery) -> Vec<Object<'a>> {
    let is_chosen = |object: &Object<'_>| {
        let namespace = object.namespace.unwrap_or_default();
        query.which.selects(object.name, object.labels)
            && query.namespace.as_ref().is_none_or(|it| it == namespace)
            && query.fields.matches(namespace, object.name)
    };
    match query.measured {
        Measured::Pods => {
            let pods = inventory.pods_in(query.namespace.as_deref()).iter();
            let running = pods.filter(|pod| pod.phase == PodPhase::Running);
            let objects = running.map(|pod| Object {
                namespace: Some(&pod.namespace),
                name: &pod.name,
                labels: &pod.labels,
                is_settled: pod
                    .running_since
                    .is_some_and(|since| query.now.since(since) > SETTLED),
            });
            objects.filter(is_chosen).collect()
        }
        Measured::Nodes => {
            let objects = inventory.nodes.iter().map(|node| Object {
                namespace: None,
                name: &node.name,
                labels: &node.labels,
                is_settled: true,
            });
            objects.filter(is_chosen).collect()
        }
    }
}

/// The samples of a result by object. NaN, negative values and those beyond the largest
/// quantity are no usage.
fn by_object<'a>(result: &'a Answer, label: &str) -> Result<ByObject<'a>, ProviderError> {
    let Answer::Vector(samples) = result else {
        return Err(ProviderError::Unavailable);
    };
    let mut by_object = ByObject::new();
    for sample in samples {
        let value = Some(sample.value).filter(|value| *value >= 0.0);
        let milli = value.and_then(quantity::milli_from_f64);
        if let Some(name) = sample.labels.get(label) {
            let samples = by_object.entry(name).or_default();
            samples.push(UsageSample { sample, milli });
        }
    }
    Ok(by_object)
}

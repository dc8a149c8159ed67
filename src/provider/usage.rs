//! CPU and memory usage of pods and nodes, for `kubectl top`, from Prometheus' answers to the
//! queries of `resourceRules`. Upstream: prometheus-adapter `pkg/resourceprovider/provider.go`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::rule_conditions::{RuleConditions, RuleFailure};
use super::{StoreQuery, UNFETCHED};
use adapter_rules::resource::{ResourceRule, ResourceRules};
use aggregated_apiserver::refusal::Refusal;
use apimachinery::field_selector::FieldSelector;
use apimachinery::labels::Labels;
use apimachinery::quantity;
use apimachinery::selector::Selector;
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::{Inventory, PodPhase};
use prometheus_source::VectorSample;
use prometheus_source::cache::Purpose;

#[cfg(test)]
pub(crate) mod tests;

/// How long a pod may run without samples: a store has them after some scrapes.
const SETTLED: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Measured {
    /// With a value per container.
    Pods,
    Nodes,
}

impl Measured {
    pub(crate) const fn resource(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Nodes => "nodes",
        }
    }

    /// The label that names the objects in the samples of a rule.
    fn label(self, rule: &ResourceRule) -> &str {
        match self {
            Self::Pods => &rule.pod,
            Self::Nodes => &rule.node,
        }
    }

    /// The key and the text of the query of a rule in the configuration.
    fn query(self, rule: &ResourceRule) -> (String, &Arc<str>) {
        let (key, query) = match self {
            Self::Pods => ("containerQuery", rule.container_query()),
            Self::Nodes => ("nodeQuery", rule.node_query()),
        };
        (format!("{}.{key}", rule.place), query)
    }
}

#[derive(Clone, Debug)]
pub struct UsageQuery {
    pub measured: Measured,
    /// The namespace of pods; `None`: all namespaces.
    pub namespace: Option<String>,
    /// `None`: all objects that the selectors match.
    pub name: Option<String>,
    pub labels: Selector,
    pub fields: FieldSelector,
    pub now: Timestamp,
    /// The user of the request, who has a share of the queries to Prometheus.
    pub user: String,
}

impl UsageQuery {
    fn selects(&self, namespace: &str, name: &str, labels: &Labels) -> bool {
        self.name.as_ref().is_none_or(|wanted| wanted == name)
            && self.labels.matches(labels)
            && self.fields.matches(namespace, name)
    }
}

/// The usage of one container or node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// CPU, in thousandths of a core.
    pub cpu: i64,
    /// Memory, in thousandths of a byte.
    pub memory: i64,
}

/// A running pod or a node.
#[derive(Clone, Debug)]
pub struct MeasuredObject {
    pub namespace: Option<Arc<str>>,
    pub name: Arc<str>,
    pub labels: Labels,
}

#[derive(Debug)]
pub struct Usage {
    pub object: MeasuredObject,
    /// Time of the earliest sample.
    pub at: Timestamp,
    /// The window of the queries, as configured.
    pub window: Duration,
    /// A pod's containers in the order of their names. For a node, one entry with an empty name.
    pub parts: Vec<(String, Amounts)>,
}

/// The values of an object in the result of a query, in thousandths, by container; those of
/// a node have no name. `None`: the value is no usage.
struct ObjectSamples<'a> {
    earliest: Timestamp,
    values: BTreeMap<&'a str, Option<i64>>,
}

type SamplesByName<'a> = HashMap<&'a str, ObjectSamples<'a>>;

/// A query for usage, with the objects at that time, because pods may change meanwhile.
#[derive(Debug)]
pub(super) struct UsageRequest {
    rules: Arc<ResourceRules>,
    query: UsageQuery,
    objects: Vec<MeasuredObject>,
    /// Whether Prometheus should have samples of some object.
    is_settled: bool,
    /// CPU and memory for each namespace.
    pub(super) queries: Vec<StoreQuery>,
}

impl UsageRequest {
    pub(super) fn new(
        rules: Arc<ResourceRules>,
        query: UsageQuery,
        inventory: &Inventory,
    ) -> Result<Self, Refusal> {
        let mut request = Self {
            rules,
            query,
            objects: Vec::new(),
            is_settled: false,
            queries: Vec::new(),
        };
        match request.query.measured {
            Measured::Pods => request.choose_pods(inventory),
            Measured::Nodes => request.choose_nodes(inventory)?,
        }
        let resource = request.query.measured.resource().trim_end_matches('s');
        if request.query.name.is_some() && request.objects.is_empty() {
            let reason = format!("no such {resource} is running");
            return Err(Refusal::NoValue(reason));
        }
        let queries = by_namespace(&request.objects).flat_map(|objects| {
            let rules = [&request.rules.cpu, &request.rules.memory];
            rules.map(|rule| request.store_query(rule, objects))
        });
        request.queries = queries.collect::<Result<_, _>>()?;
        Ok(request)
    }

    fn choose_pods(&mut self, inventory: &Inventory) {
        let query = &self.query;
        let pods = inventory.pods_in(query.namespace.as_deref()).iter();
        let running = pods.filter(|pod| pod.phase == PodPhase::Running);
        for pod in running.filter(|it| query.selects(&it.namespace, &it.name, &it.labels)) {
            let since = pod.running_since;
            self.is_settled |= since.is_some_and(|since| query.now.since(since) > SETTLED);
            self.objects.push(MeasuredObject {
                namespace: Some(Arc::clone(&pod.namespace)),
                name: Arc::clone(&pod.name),
                labels: pod.labels.clone(),
            });
        }
    }

    fn choose_nodes(&mut self, inventory: &Inventory) -> Result<(), Refusal> {
        if inventory.nodes.is_empty() {
            // Every cluster has nodes, so an empty list means that the server may not list them.
            return Err(Refusal::Unavailable("unable to list nodes"));
        }
        let nodes = inventory.nodes.iter();
        let chosen = nodes.filter(|it| self.query.selects("", &it.name, &it.labels));
        self.objects.extend(chosen.map(|node| MeasuredObject {
            namespace: None,
            name: Arc::clone(&node.name),
            labels: node.labels.clone(),
        }));
        self.is_settled = !self.objects.is_empty();
        Ok(())
    }

    /// The query to Prometheus for objects of one namespace.
    fn store_query(
        &self,
        rule: &ResourceRule,
        objects: &[MeasuredObject],
    ) -> Result<StoreQuery, Refusal> {
        let names: Vec<&str> = objects.iter().map(|object| &*object.name).collect();
        let namespace = objects.first().and_then(|it| it.namespace.as_deref());
        let promql = match namespace {
            Some(namespace) => rule.of_pods(namespace, &names),
            None => rule.of_nodes(&names),
        };
        let (key, template) = self.query.measured.query(rule);
        Ok(StoreQuery {
            // The rule's error was logged when the rule was parsed.
            promql: promql.map_err(|_| UNFETCHED)?.into(),
            key: key.into(),
            template: Arc::clone(template),
            purpose: Purpose::Resource,
        })
    }

    /// The usage of each object, in the order of namespaces and names, from the results of
    /// the queries. A query for one object has exactly one.
    pub(super) fn usage(
        self,
        results: &[Arc<[VectorSample]>],
        conditions: &RuleConditions,
    ) -> Result<Vec<Usage>, Refusal> {
        let rules = [&self.rules.cpu, &self.rules.memory];
        let (mut all, mut named) = (Vec::new(), [false; 2]);
        for (objects, results) in by_namespace(&self.objects).zip(results.chunks_exact(2)) {
            let cpu = self.samples(&results[0], rules[0]);
            let memory = self.samples(&results[1], rules[1]);
            for (named, samples) in named.iter_mut().zip([&cpu, &memory]) {
                *named |= objects.iter().any(|it| samples.contains_key(&*it.name));
            }
            let usage = |object| self.of_object(object, &cpu, &memory);
            all.extend(objects.iter().filter_map(usage));
        }
        let is_list = self.query.name.is_none();
        let unnamed = rules.into_iter().zip(named).filter(|(_, named)| !named);
        for (rule, _) in unnamed.filter(|_| is_list && self.is_settled) {
            self.record(rule, conditions);
        }
        if all.is_empty() && !is_list {
            let reason = "Prometheus has no CPU or no memory of it, or of one of its containers";
            return Err(Refusal::NoValue(reason.to_owned()));
        }
        Ok(all)
    }

    /// Records that no sample for a rule names any object of a list.
    fn record(&self, rule: &ResourceRule, conditions: &RuleConditions) {
        let measured = self.query.measured;
        let (key, query) = measured.query(rule);
        let (label, resource) = (measured.label(rule), measured.resource());
        let failure = RuleFailure {
            fault: format!("no sample names one of the {resource} in its label {label}"),
            remedy: format!(
                "look for series with this label in Prometheus, and correct {}.resources",
                rule.place
            ),
            query: Arc::clone(query),
            ..RuleFailure::default()
        };
        conditions.failed(&key, failure, self.query.now);
    }

    /// The samples of a result by the name of their object. As upstream, the last of several
    /// samples of a container counts, and the first of a node. NaN, negative values and those
    /// beyond the largest quantity are no usage.
    fn samples<'a>(&self, samples: &'a [VectorSample], rule: &ResourceRule) -> SamplesByName<'a> {
        let mut by_name = SamplesByName::new();
        for sample in samples {
            let Some(name) = sample.labels.get(self.query.measured.label(rule)) else {
                continue;
            };
            let value = Some(sample.value).filter(|value| *value >= 0.0);
            let milli = value.and_then(quantity::milli_from_f64);
            let known = by_name.entry(name).or_insert_with(|| ObjectSamples {
                earliest: sample.at,
                values: BTreeMap::new(),
            });
            match self.query.measured {
                Measured::Pods => {
                    let container = sample.labels.get(&rule.container_label);
                    known.earliest = known.earliest.min(sample.at);
                    known.values.insert(container.unwrap_or_default(), milli);
                }
                Measured::Nodes => drop(known.values.entry("").or_insert(milli)),
            }
        }
        by_name
    }

    /// The usage of an object. `None`: a value is missing. The object is then left out, as
    /// metrics-server does, because an autoscaler would take a part for the whole.
    fn of_object(
        &self,
        object: &MeasuredObject,
        cpu: &SamplesByName<'_>,
        memory: &SamplesByName<'_>,
    ) -> Option<Usage> {
        let (cpu, memory) = (cpu.get(&*object.name)?, memory.get(&*object.name)?);
        if !cpu.values.keys().eq(memory.values.keys()) {
            return None;
        }
        let values = cpu.values.iter().zip(memory.values.values());
        let parts = values.map(|((container, cpu), memory)| {
            let (cpu, memory) = ((*cpu)?, (*memory)?);
            Some(((*container).to_owned(), Amounts { cpu, memory }))
        });
        Some(Usage {
            object: object.clone(),
            at: cpu.earliest.min(memory.earliest),
            window: self.rules.window,
            parts: parts.collect::<Option<_>>()?,
        })
    }
}

/// Groups the objects by namespace. Objects of a namespace are adjacent.
fn by_namespace(objects: &[MeasuredObject]) -> impl Iterator<Item = &[MeasuredObject]> {
    objects.chunk_by(|one, other| one.namespace == other.namespace)
}

//! Values of workloads, from rules whose series have pod labels. The query is that of the
//! namespace, restricted to the pods of the workload.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Answered, InForce, RuleProvider, store_query, unanswerable, value};
use crate::provider::gpu::workloads;
use crate::provider::{
    CustomItem, CustomMetric, Item, ObjectSelection, ProviderError, Query, Sink, StoreQuery, Which,
};
use adapter_rules::answer::Answer;
use adapter_rules::registry::Custom;
use apimachinery::kinds::Kind;
use apimachinery::selector::{Operator, Requirement};
use gpu_metrics::inventory::{Inventory, Workload};

/// A metric of workloads of a kind.
#[derive(Clone, Copy)]
pub(super) struct OfWorkloads<'a> {
    kind: &'a Kind,
    pods: &'a Custom,
    namespaces: &'a Custom,
}

/// A workload and the names of its live pods, sorted.
type WithPods<'a> = (&'a Workload, Vec<String>);

impl InForce {
    /// The metric of pods and that of namespaces; `None`: no single rule for workloads has both.
    fn for_workloads(&self, metric: &str) -> Option<(&Custom, &Custom)> {
        let pods = self.custom("pods", metric)?;
        let namespaces = self.custom("namespaces", metric)?;
        let rule = self.rules.get(pods.rule)?;
        (rule.of_workloads && namespaces.rule == pods.rule).then_some((pods, namespaces))
    }

    /// The metric of a resource in the spelling of a request; `None`: it is not computed
    /// from pods.
    pub(super) fn of_workloads(&self, resource: &str, metric: &str) -> Option<OfWorkloads<'_>> {
        let kind = self.kinds.of_request(resource)?;
        let (pods, namespaces) = self.for_workloads(metric)?;
        kind.namespaced.then_some(OfWorkloads {
            kind,
            pods,
            namespaces,
        })
    }

    /// The metrics of workloads, for discovery.
    pub(super) fn workload_metrics(&self) -> impl Iterator<Item = CustomMetric> {
        let of_pods = |(resource, _): &&(Arc<str>, Arc<str>)| **resource == *"pods";
        let metrics = self.registry.custom.keys().filter(of_pods);
        let metrics = metrics.filter(|(_, metric)| self.for_workloads(metric).is_some());
        metrics.flat_map(|(_, metric)| {
            workloads().map(|kind| CustomMetric {
                resource: kind.resource,
                metric: Arc::clone(metric),
                namespaced: kind.namespaced,
            })
        })
    }
}

impl OfWorkloads<'_> {
    /// The index of the rule.
    pub(super) const fn rule(&self) -> usize {
        self.pods.rule
    }

    /// The requested workloads that have live pods, by name.
    fn found<'i>(
        &self,
        inventory: &'i Inventory,
        namespace: &str,
        which: &Which,
    ) -> Vec<WithPods<'i>> {
        let resource = self.kind.resource();
        let is_wanted = |workload: &&Workload| {
            workload.kind.resource == resource
                && match which {
                    Which::Named(name) => *workload.name == **name,
                    Which::Matching(selector) => selector.matches(&workload.labels),
                }
        };
        let mut found = BTreeMap::<&str, WithPods<'i>>::new();
        let pods = inventory.pods_in(Some(namespace)).iter();
        for pod in pods.filter(|pod| pod.is_live()) {
            let owners = pod.owners.iter();
            let owners = owners.filter_map(|owner| inventory.workloads.get(*owner as usize));
            for workload in owners.filter(is_wanted) {
                let of = found.entry(&workload.name);
                let (_, names) = of.or_insert((workload, Vec::new()));
                names.push(pod.name.to_string());
            }
        }
        found.into_values().collect()
    }

    /// The query for these pods, with the aggregation of the rule.
    fn ask(
        &self,
        current: &InForce,
        namespace: &str,
        pods: &[String],
        query: &Query,
    ) -> Result<StoreQuery, ProviderError> {
        let rules = &current.rules;
        let selector = query.selector.clone().and(Requirement {
            key: self.pods.label().to_owned(),
            operator: Operator::In(pods.to_vec()),
        });
        let promql = self.namespaces.query(rules, None, &[namespace], &selector);
        let promql = promql.map_err(unanswerable)?;
        Ok(store_query(promql, rules.get(self.rule())))
    }

    /// Passes the value of a workload to `sink`, if the answer contains one.
    fn pass(
        &self,
        workload: &Workload,
        answer: &Answer,
        sink: &mut Sink<'_>,
    ) -> Result<(), ProviderError> {
        let Answer::Vector(samples) = answer else {
            return Err(ProviderError::Unavailable);
        };
        let namespace = &*workload.namespace;
        let label = self.namespaces.label();
        let sample = samples
            .iter()
            .find(|sample| sample.labels.get(label) == Some(namespace));
        if let Some(sample) = sample {
            sink.item(Item::Custom(CustomItem {
                kind: &workload.kind,
                namespace: Some(namespace),
                name: &workload.name,
                value: value(sample.value, sample.at),
            }));
        }
        Ok(())
    }
}

impl RuleProvider {
    /// Passes the values of workloads to `sink`. Each workload needs a query.
    pub(super) async fn workloads(
        &self,
        current: &InForce,
        objects: &ObjectSelection,
        query: &Query,
        sink: &mut Sink<'_>,
    ) -> Result<Answered, ProviderError> {
        let metric = current.of_workloads(&objects.resource, &query.metric);
        let metric = metric.ok_or(ProviderError::NoSuchMetric)?;
        let namespace = objects.namespace.as_deref();
        let namespace = namespace.ok_or(ProviderError::WrongScope)?;
        let inventory = self.objects.inventory();
        let found = metric.found(&inventory, namespace, &objects.which);
        let asks = found.iter();
        let asks = asks.map(|(_, pods)| metric.ask(current, namespace, pods, query));
        let asks: Vec<StoreQuery> = asks.collect::<Result<_, _>>()?;
        let answers = self.fetch_all(&asks, &query.user).await?;
        for ((workload, _), answer) in found.iter().zip(&answers) {
            metric.pass(workload, answer, sink)?;
        }
        let last = asks.into_iter().zip(answers).last();
        last.ok_or_else(|| ProviderError::NoValue("it has no pods".to_owned()))
    }
}

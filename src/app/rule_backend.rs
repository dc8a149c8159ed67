//! The data behind the answers of rules: the cluster's objects and Prometheus' answers.

use std::future::ready;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use crate::provider::rule_conditions::{RuleConditions, RuleFailure};
use crate::provider::rules;
use crate::provider::{ProviderFuture, SATURATED, StoreQuery, UNFETCHED};
use apimachinery::kinds::Kind;
use apimachinery::selector::Selector;
use cluster_state::client::Client;
use cluster_state::error::CallError;
use cluster_state::{clock, names};
use gpu_metrics::inventory::{ClusterObject, Inventory};
use prometheus_source::cache::{QueryCache, QueryFailure};
use prometheus_source::{Error, VectorSample};

/// Lists objects and fetches answers, and records what fails. Clones share the cache.
#[derive(Clone, Debug)]
pub(super) struct RuleBackend {
    pub(super) inventory: watch::Receiver<Arc<Inventory>>,
    pub(super) client: Client,
    pub(super) cache: QueryCache,
    pub(super) conditions: Arc<RuleConditions>,
}

impl RuleBackend {
    /// The names of objects that are not in the inventory.
    async fn listed(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &Selector,
    ) -> Option<Vec<Arc<str>>> {
        let names = names::matching(&self.client, kind, namespace, selector).await;
        let failed = |error: &CallError| {
            let key = format!("objects of {}", kind.resource());
            self.conditions.failed(&key, unlisted(error), clock::now());
        };
        names.inspect_err(failed).ok()
    }
}

/// The failure of a list at kube-apiserver that rules need.
pub(super) fn unlisted(error: &CallError) -> RuleFailure {
    RuleFailure {
        fault: "kube-apiserver does not list them".to_owned(),
        remedy: "read the server's log".to_owned(),
        detail: Some(error.to_string()),
        ..RuleFailure::default()
    }
}

fn names_of(objects: &[ClusterObject], selector: &Selector) -> Vec<Arc<str>> {
    let matching = objects
        .iter()
        .filter(|object| selector.matches(&object.labels));
    matching.map(|object| Arc::clone(&object.name)).collect()
}

/// Names of objects in the inventory; each request lists others.
impl rules::ObjectNames for RuleBackend {
    fn matching<'a>(
        &'a self,
        kind: &'a Kind,
        namespace: Option<&'a str>,
        selector: &'a Selector,
    ) -> BoxFuture<'a, Option<Vec<Arc<str>>>> {
        let inventory = self.inventory();
        let known = match &*kind.resource() {
            "pods" => {
                let pods = inventory.pods_in(namespace).iter();
                let matching = pods.filter(|pod| selector.matches(&pod.labels));
                Some(matching.map(|pod| Arc::clone(&pod.name)).collect())
            }
            "namespaces" => Some(names_of(&inventory.namespaces, selector)),
            // Every cluster has nodes, so an empty list means that the server may not list them.
            "nodes" if inventory.nodes.is_empty() => None,
            "nodes" => Some(names_of(&inventory.nodes, selector)),
            _ => return Box::pin(self.listed(kind, namespace, selector)),
        };
        Box::pin(ready(known))
    }

    fn inventory(&self) -> Arc<Inventory> {
        Arc::clone(&self.inventory.borrow())
    }
}

/// The failure of a query of a rule that Prometheus does not answer.
pub(super) fn refused(error: &Error, query: Arc<str>) -> RuleFailure {
    let (how, remedy) = error.finding();
    RuleFailure {
        fault: format!("Prometheus does not answer its query ({how})"),
        remedy: remedy.to_owned(),
        query,
        detail: Some(error.to_string()),
        ..RuleFailure::default()
    }
}

impl rules::RuleStore for RuleBackend {
    fn fetch<'a>(
        &'a self,
        query: &'a StoreQuery,
        user: &'a str,
    ) -> ProviderFuture<'a, Arc<[VectorSample]>> {
        Box::pin(async move {
            match self.cache.fetch(&query.promql, query.purpose, user).await {
                Ok(samples) => Ok(samples),
                // Too many concurrent queries are no fault of the rule.
                Err(QueryFailure::Saturated) => Err(SATURATED),
                Err(QueryFailure::Failed(error)) => {
                    let failure = refused(&error, Arc::clone(&query.template));
                    self.conditions.failed(&query.key, failure, clock::now());
                    Err(UNFETCHED)
                }
            }
        })
    }
}

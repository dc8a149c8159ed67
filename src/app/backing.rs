//! The data behind the answers of rules: the cluster's objects and Prometheus' answers.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use crate::provider::rules;
use crate::provider::{Answering, ProviderError, StoreQuery};
use adapter_rules::answer::Answer;
use apimachinery::kinds::Kind;
use apimachinery::selector::Selector;
use cluster_state::inventory::WatchedNames;
use gpu_metrics::inventory::{ClusterObject, Inventory};
use limits::line_limit::LineLimit;
use prometheus_source::cache::{QueryCache, QueryFailure};

/// Names of objects: of those in the inventory, and of others, which have their own watches.
#[derive(Debug)]
pub(super) struct ClusterNames {
    pub(super) inventory: watch::Receiver<Arc<Inventory>>,
    pub(super) others: WatchedNames,
}

fn names_of(objects: &[ClusterObject], selector: &Selector) -> Vec<Arc<str>> {
    let matching = objects
        .iter()
        .filter(|object| selector.matches(&object.labels));
    matching.map(|object| Arc::clone(&object.name)).collect()
}

impl rules::ObjectNames for ClusterNames {
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
            _ => return Box::pin(self.others.matching(kind, namespace, selector)),
        };
        Box::pin(ready(known))
    }

    fn inventory(&self) -> Arc<Inventory> {
        Arc::clone(&self.inventory.borrow())
    }
}

/// The period in which at most one failed query of each rule is logged.
const RULE_PERIOD: Duration = Duration::from_secs(600);

/// Fetches answers, and logs failed queries.
#[derive(Debug)]
pub(super) struct LoggedAnswers {
    answers: Arc<QueryCache>,
    /// By the rule's place in the file.
    lines: LineLimit<Arc<str>>,
}

impl LoggedAnswers {
    pub(super) fn new(answers: Arc<QueryCache>) -> Self {
        let lines = LineLimit::new(1, RULE_PERIOD, |rule, left_out| {
            tracing::warn!("{rule}: {left_out} more queries failed in ten minutes");
        });
        Self { answers, lines }
    }

    fn tell(&self, rule: &Arc<str>, reason: &str) {
        if self.lines.admit(Arc::clone(rule)) {
            tracing::warn!("{rule}: its query failed: {reason}");
        }
    }
}

impl rules::StoreAnswers for LoggedAnswers {
    fn fetch<'a>(&'a self, ask: &'a StoreQuery, user: &'a str) -> Answering<'a, Arc<Answer>> {
        Box::pin(async move {
            match self.answers.fetch(&ask.promql, ask.purpose, user).await {
                Ok(answer) => {
                    if let Answer::Other(kind) = &*answer {
                        let remedy = "write a query that gives an instant vector";
                        self.tell(&ask.rule, &format!("it gives a {kind}: {remedy}"));
                    }
                    Ok(answer)
                }
                // Too many concurrent queries are no fault of the rule.
                Err(QueryFailure::Saturated) => Err(ProviderError::Saturated),
                Err(QueryFailure::Failed(error)) => {
                    self.tell(&ask.rule, &error.to_string());
                    Err(ProviderError::Unavailable)
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aggregated_apiserver::testing::log::logging;
    use cluster_state::clock;
    use prometheus_source::settings::{PrometheusSettings, parse_url};
    use prometheus_source::{KeyHasher, Prometheus};

    #[tokio::test(start_paused = true)]
    async fn a_rule_that_always_fails_does_not_flood_the_log() {
        let (log, _guard) = logging(tracing::Level::INFO);
        let prometheus = PrometheusSettings::new(parse_url("http://p").unwrap());
        let prometheus = Prometheus::new(prometheus, KeyHasher::new()).unwrap();
        let prometheus = Arc::new(prometheus.promql());
        let answers = QueryCache::new(prometheus, clock::now, Duration::ZERO);
        let asked = LoggedAnswers::new(Arc::new(answers));
        for _ in 0..100 {
            asked.tell(&"rules[1]".into(), "one");
        }
        asked.tell(&"rules[2]".into(), "its own");
        tokio::time::sleep(2 * RULE_PERIOD).await;
        let text = log.text();
        assert_eq!(text.lines().count(), 3, "{text}");
        for line in ["[1]: its query failed: one", "[1]: 99 more", "[2]: its"] {
            assert!(text.contains(&format!("rules{line}")), "{text}");
        }
    }
}

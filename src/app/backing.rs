//! The data behind the answers of rules: the cluster's objects and Prometheus' answers.

use std::collections::HashMap;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;

use crate::provider::rules;
use crate::provider::{ProviderError, StoreQuery};
use adapter_rules::answer::Answer;
use apimachinery::condition::Condition;
use apimachinery::kinds::Kind;
use apimachinery::selector::Selector;
use cluster_state::inventory::WatchedNames;
use gpu_metrics::inventory::{ClusterObject, Inventory};
use limits::line_limit::LineLimit;
use prometheus_source::answers::{AnswerCache, QueryFailure};

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
                let is_there = |place: &Arc<str>| namespace.is_none_or(|it| *it == **place);
                let pods = inventory.pods.iter();
                let matching =
                    pods.filter(|pod| is_there(&pod.namespace) && selector.matches(&pod.labels));
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

/// The most log lines about one rule in [`RULE_PERIOD`]: enough to report two faults that
/// alternate without flooding the log.
const RULE_LINES: u64 = 4;

const RULE_PERIOD: Duration = Duration::from_secs(600);

/// The limit of log lines for each rule, by its place in the file.
pub(super) fn rule_lines() -> LineLimit<Arc<str>> {
    LineLimit::new(RULE_LINES, RULE_PERIOD, |rule, left_out| {
        tracing::warn!("{rule}: {left_out} more lines about it were suppressed in ten minutes");
    })
}

/// Fetches answers, and logs failed queries.
#[derive(Debug)]
pub(super) struct LoggedAnswers {
    pub(super) answers: Arc<AnswerCache>,
    /// Whether the query of each rule fails, by the rule's place in the file.
    conditions: Mutex<HashMap<Arc<str>, Condition<String, ()>>>,
    lines: LineLimit<Arc<str>>,
}

impl LoggedAnswers {
    pub(super) fn new(answers: Arc<AnswerCache>) -> Self {
        Self {
            answers,
            conditions: Mutex::default(),
            lines: rule_lines(),
        }
    }

    /// Logs once for each rule why its query failed, and once that it succeeds again. The
    /// limit of log lines applies if these alternate.
    fn tell(&self, rule: &Arc<str>, outcome: Result<(), String>) {
        let conditions = self.conditions.lock();
        let mut conditions = conditions.unwrap_or_else(PoisonError::into_inner);
        let condition = conditions.entry(Arc::clone(rule)).or_default();
        if condition.set(outcome.err(), ()).is_some() && self.lines.admit(Arc::clone(rule)) {
            match condition.state().reason() {
                Some(reason) => tracing::warn!("{rule}: its query failed: {reason}"),
                None => tracing::info!("{rule}: its query succeeds again"),
            }
        }
    }
}

impl rules::StoreAnswers for LoggedAnswers {
    fn fetch<'a>(
        &'a self,
        ask: &'a StoreQuery,
        user: &'a str,
    ) -> BoxFuture<'a, Result<Arc<Answer>, ProviderError>> {
        Box::pin(async move {
            let fetched = self.answers.fetch(&ask.promql, ask.purpose, user).await;
            let outcome = match &fetched {
                Ok(answer) => match &**answer {
                    Answer::Vector(_) | Answer::Scalar(..) => Ok(()),
                    Answer::Other(kind) => Err(format!(
                        "it gives a {kind}: write a query that gives an instant vector"
                    )),
                },
                // Too many concurrent queries are no fault of the rule.
                Err(QueryFailure::Saturated) => return Err(ProviderError::Saturated),
                Err(QueryFailure::Failed(error)) => Err(error.to_string()),
            };
            self.tell(&ask.rule, outcome);
            fetched.map_err(|_| ProviderError::Unavailable)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aggregated_apiserver::testing::log::logging;
    use cluster_state::clock;
    use prometheus_source::prometheus::promql::PromqlClient;
    use prometheus_source::settings::{PrometheusSettings, parse_url};

    #[tokio::test(start_paused = true)]
    async fn a_rule_with_alternating_faults_does_not_flood_the_log() {
        let (log, _guard) = logging(tracing::Level::INFO);
        let prometheus = PrometheusSettings::new(parse_url("http://p").unwrap());
        let prometheus = Arc::new(PromqlClient::alone(prometheus).unwrap());
        let answers = AnswerCache::new(prometheus, clock::now, Duration::ZERO);
        let asked = LoggedAnswers::new(Arc::new(answers));
        let [odd, fine]: [Arc<str>; 2] = ["rules[1]".into(), "rules[2]".into()];
        for _ in 0..100 {
            asked.tell(&odd, Err("one".to_owned()));
            asked.tell(&odd, Err("another".to_owned()));
            asked.tell(&odd, Ok(()));
        }
        asked.tell(&fine, Err("its own".to_owned()));
        tokio::time::sleep(2 * RULE_PERIOD).await;
        let text = log.text();
        let lines = |of: &str| text.lines().filter(|line| line.contains(of)).count();
        assert_eq!(lines("rules[1]"), 5, "{text}");
        assert!(text.contains("rules[1]: 296 more lines"), "{text}");
        assert_eq!(lines("rules[2]: its query failed: its own"), 1, "{text}");
    }
}

//! What rules are answered with: the cluster's objects and Prometheus' answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

use crate::cluster::names::{self, ObjectNames};
use crate::core::inventory::{ClusterObject, Inventory};
use crate::core::selector::Selector;
use crate::provider::Pending;
use crate::provider::rules::{self, Unlisted};
use crate::rules::answer::Answer;
use crate::rules::kinds::Kind;
use crate::source::answers::Answers;

/// The objects that are watched anyway, and others by watches of their own.
#[derive(Debug)]
pub(super) struct Objects {
    pub(super) inventory: watch::Receiver<Arc<Inventory>>,
    pub(super) others: ObjectNames,
}

fn names_of(objects: &[ClusterObject], selector: &Selector) -> Vec<Arc<str>> {
    let matching = objects
        .iter()
        .filter(|object| selector.matches(&object.labels));
    matching.map(|object| Arc::clone(&object.name)).collect()
}

impl rules::ObjectNames for Objects {
    fn matching(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &Selector,
    ) -> Result<Vec<Arc<str>>, Unlisted> {
        match &*kind.resource() {
            "pods" => {
                let inventory = self.inventory();
                let is_there = |place: &Arc<str>| namespace.is_none_or(|it| *it == **place);
                let pods = inventory.pods.iter();
                let matching =
                    pods.filter(|pod| is_there(&pod.namespace) && selector.matches(&pod.labels));
                Ok(matching.map(|pod| Arc::clone(&pod.name)).collect())
            }
            "namespaces" => Ok(names_of(&self.inventory().namespaces, selector)),
            "nodes" => Ok(names_of(&self.inventory().nodes, selector)),
            _ => self
                .others
                .matching(kind, namespace, selector)
                .map_err(|error| match error {
                    names::Unlisted::NotFollowed => Unlisted::NotFollowed,
                    names::Unlisted::Trouble(_) => Unlisted::Forbidden,
                }),
        }
    }

    fn inventory(&self) -> Arc<Inventory> {
        Arc::clone(&self.inventory.borrow())
    }

    fn follow(&self, kind: Kind) -> Pending<'_, ()> {
        Box::pin(async move { self.others.follow(&kind).await })
    }
}

/// Answers, with a word in the log about those that failed.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) answers: Arc<Answers>,
    /// What the log has heard, by rule.
    told: Mutex<HashMap<Arc<str>, String>>,
}

impl Asked {
    pub(super) fn new(answers: Arc<Answers>) -> Self {
        Self {
            answers,
            told: Mutex::default(),
        }
    }

    /// Says once for each rule why its query failed, and that it works again.
    fn tell(&self, rule: &Arc<str>, outcome: Result<(), String>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Err(reason) if told.get(rule) != Some(&reason) => {
                tracing::warn!("{rule}: its query failed: {reason}");
                told.insert(Arc::clone(rule), reason);
            }
            Ok(()) if told.remove(rule).is_some() => {
                tracing::info!("{rule}: its query is answered again");
            }
            _ => {}
        }
    }
}

impl rules::Answers for Asked {
    fn fetch(&self, promql: Arc<str>, rule: Arc<str>) -> Pending<'_, Option<Arc<Answer>>> {
        Box::pin(async move {
            let fetched = self.answers.fetch(promql).await;
            let outcome = match &fetched {
                Ok(answer) => match &**answer {
                    Answer::Vector(_) | Answer::Scalar(..) => Ok(()),
                    Answer::Other(kind) => Err(format!(
                        "it gives a {kind}: write a query that gives an instant vector"
                    )),
                },
                Err(error) => Err(error.to_string()),
            };
            self.tell(&rule, outcome);
            fetched.ok()
        })
    }
}

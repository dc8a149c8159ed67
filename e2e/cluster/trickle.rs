//! A client that repeats its requests, also after errors, and records the answers.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::lab::APISERVICES;
use crate::asking::ApiClient;
use crate::served::{Served, read, unix_seconds};

/// A repeated request.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) name: &'static str,
    pub(super) path: String,
    pub(super) every: Duration,
    /// The error in an answer, if any.
    pub(super) judge: fn(&str) -> Option<String>,
}

/// One request.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    subject: &'static str,
    /// Time since the first request.
    pub(super) at: Duration,
    /// The time of the request, in seconds.
    pub(super) unix: f64,
    pub(super) trouble: Option<String>,
    body: String,
}

impl Seen {
    /// The values in the answer.
    pub(super) fn values(&self) -> Vec<Served> {
        read(&self.body)
    }
}

/// All clients, ended on drop.
#[derive(Debug)]
pub(super) struct Trickle {
    begun: Instant,
    seen: Arc<Mutex<Vec<Seen>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Trickle {
    pub(super) fn start(subjects: impl IntoIterator<Item = (ApiClient, Subject)>) -> Self {
        let begun = Instant::now();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let tasks = subjects.into_iter().map(|(api_client, subject)| {
            let seen = Arc::clone(&seen);
            tokio::spawn(async move {
                let mut turns = tokio::time::interval(subject.every);
                turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    turns.tick().await;
                    let next = ask(&api_client, &subject, begun).await;
                    seen.lock().unwrap().push(next);
                }
            })
        });
        Self {
            begun,
            tasks: tasks.collect(),
            seen,
        }
    }

    /// The time since the start.
    pub(super) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The number of requests so far.
    pub(super) fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// The answers since a time, in order.
    pub(super) fn since(&self, from: Duration, subject: &str) -> Vec<Seen> {
        let seen = self.seen.lock().unwrap();
        let wanted = |seen: &&Seen| seen.subject == subject && seen.at >= from;
        let mut found: Vec<Seen> = seen.iter().filter(wanted).cloned().collect();
        found.sort_by_key(|seen| seen.at);
        found
    }

    /// Asserts that every answer to these requests since a time was good.
    pub(super) fn assert_answered(&self, from: Duration, subjects: &[&'static str]) {
        for subject in subjects {
            let seen = self.since(from, subject);
            let lost = seen.iter().find(|seen| seen.trouble.is_some());
            assert!(lost.is_none(), "the first of {}: {lost:?}", seen.len());
        }
    }

    /// The last answer to a request that was sent after `from`; its error, if it has
    /// one.
    pub(super) fn last(&self, from: Duration, subject: &str) -> Result<Seen, String> {
        let last = self.since(from, subject).pop();
        let last = last.ok_or_else(|| format!("{subject}: nothing yet"))?;
        match &last.trouble {
            None => Ok(last),
            Some(trouble) => Err(format!("{subject}: {trouble}")),
        }
    }
}

impl Drop for Trickle {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn ask(api_client: &ApiClient, subject: &Subject, begun: Instant) -> Seen {
    let (at, unix) = (begun.elapsed(), unix_seconds());
    let reply = api_client.get(&subject.path).await;
    Seen {
        subject: subject.name,
        at,
        unix,
        trouble: reply.trouble().or_else(|| (subject.judge)(&reply.body)),
        body: reply.body,
    }
}

/// The error, unless the body is a list with items.
pub(super) fn some_values(body: &str) -> Option<String> {
    read(body).is_empty().then(|| "an empty list".to_owned())
}

/// The error, unless all APIServices are available.
pub(super) fn all_available(body: &str) -> Option<String> {
    let list: Value = serde_json::from_str(body).ok()?;
    let items = list["items"].as_array()?;
    let ours = |item: &&Value| {
        let name = item["metadata"]["name"].as_str();
        name.is_some_and(|name| APISERVICES.contains(&name))
    };
    let troubles: Vec<String> = items
        .iter()
        .filter(ours)
        .flat_map(|item| item["status"]["conditions"].as_array())
        .flatten()
        .filter(|it| it["type"] == "Available" && it["status"] != "True")
        .map(|it| it["reason"].to_string())
        .collect();
    (!troubles.is_empty()).then(|| troubles.join(", "))
}

//! A service of two pods with busy GPUs, and a client that requests their values all
//! the time, as an autoscaler does.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::json;

use super::lab::{APP, Lab, PATIENCE, TEAM};
use super::trickle::{Seen, Subject, Trickle, all_available, some_values};
use crate::asking::ApiClient;
use crate::program::{eventually, ok_if};
use crate::served::milli;

/// The interval of requests.
const EVERY: Duration = Duration::from_millis(200);

/// The largest age of the newest sample of a value, in seconds. The tests of
/// `gpu-metrics` assert the exact bound in virtual time. Here scrapes and
/// polls may be as late as a busy machine makes them.
const FRESH: f64 = 60.0;

/// The utilization of each pod's GPU.
pub(super) const PODS: &str = "pods";
/// The GPUs that the Deployment holds.
pub(super) const HELD: &str = "held";
/// The sum for the namespace, in the other group.
pub(super) const SUM: &str = "sum";
/// Whether kube-apiserver reports the APIServices as available.
pub(super) const AVAILABLE: &str = "APIServices";

pub(super) const NUMBERS: [&str; 3] = [PODS, HELD, SUM];
pub(super) const ALL: [&str; 4] = [PODS, HELD, SUM, AVAILABLE];

/// The number of the service's pods; each holds one GPU.
const REPLICAS: u32 = 2;

/// Everything that runs. Fields end from top to bottom.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) trickle: Trickle,
    pub(super) lab: Lab,
    /// A client with only the right to read metrics.
    pub(super) reader: ApiClient,
    pods: BTreeSet<String>,
    /// The time since which values are those of the load: means over a window in which the
    /// GPUs were not held yet have to grow first.
    pub(super) settled: Duration,
}

impl Scene {
    /// Starts everything, and waits until the values are those of GPUs with this load
    /// for some time.
    pub(super) async fn start(percent: u32) -> Self {
        let lab = Lab::start().await;
        lab.deploy(REPLICAS);
        lab.gpus.work(percent);
        let reader = reader(&lab);
        let admin = ApiClient::of(lab.plane.kubeconfig());
        let asked = |(name, path): (&'static str, String)| Subject {
            name,
            path,
            every: EVERY,
            judge: some_values,
        };
        let mut subjects: Vec<(ApiClient, Subject)> = paths()
            .into_iter()
            .map(|question| (reader.clone(), asked(question)))
            .collect();
        let available = Subject {
            name: AVAILABLE,
            path: "/apis/apiregistration.k8s.io/v1/apiservices".to_owned(),
            every: EVERY,
            judge: all_available,
        };
        subjects.push((admin, available));
        let mut scene = Self {
            trickle: Trickle::start(subjects),
            lab,
            reader,
            pods: BTreeSet::new(),
            settled: Duration::ZERO,
        };
        let from = scene.trickle.now();
        scene.await_percent(from, percent);
        scene.pods = scene.served_pods(from);
        scene.await_ready().await;
        scene.settled = scene.trickle.now();
        scene
    }

    fn served_pods(&self, from: Duration) -> BTreeSet<String> {
        let last = self.trickle.last(from, PODS).unwrap();
        last.values()
            .into_iter()
            .map(|served| served.name)
            .collect()
    }

    /// Waits until all values are there and match this load.
    pub(super) fn await_percent(&self, from: Duration, percent: u32) {
        let wanted = u64::from(percent) * 1000;
        self.await_answers(from, &ALL);
        eventually(&format!("{percent} percent"), PATIENCE, || {
            let of = |subject| -> Result<Vec<u64>, String> {
                let last = self.trickle.last(from, subject)?;
                Ok(last.values().iter().map(milli).collect())
            };
            let found = (of(PODS)?, of(HELD)?, of(SUM)?);
            let count = u64::from(REPLICAS);
            let right = (
                vec![wanted; REPLICAS as usize],
                vec![count * 1000],
                vec![count * wanted],
            );
            ok_if(found == right, &found)
        });
    }

    /// Waits until the server has measured the usual delay of its data. That takes a
    /// minute if a slow machine scrapes irregularly.
    async fn await_ready(&self) {
        let api_client = ApiClient::direct(self.lab.port, None);
        api_client.until_code("/readyz?verbose", 200).await;
    }

    /// Waits until the last answer to each request is good.
    pub(super) fn await_answers(&self, from: Duration, subjects: &[&'static str]) {
        for subject in subjects {
            eventually("an answer", PATIENCE, || self.trickle.last(from, subject));
        }
    }

    /// Waits until no request is answered any more.
    pub(super) fn await_silence(&self, from: Duration, subjects: &[&'static str]) {
        for subject in subjects {
            eventually("the end of answers", PATIENCE, || {
                match self.trickle.last(from, subject) {
                    Err(_) => Ok(()),
                    Ok(seen) => Err(format!("{subject}: {:?}", seen.values())),
                }
            });
        }
    }

    /// Asserts that every value served since a time was correct and current.
    pub(super) fn assert_right(&self, from: Duration, percent: &RangeInclusive<u64>) {
        let count = u64::from(REPLICAS);
        let times = |factor: u64| factor * percent.start() * 1000..=factor * percent.end() * 1000;
        for subject in NUMBERS {
            for seen in self.trickle.since(from, subject) {
                if seen.trouble.is_some() {
                    continue;
                }
                self.assert_now(&seen);
                let right = match subject {
                    PODS => times(1),
                    SUM => times(count),
                    _ => count * 1000..=count * 1000,
                };
                for served in seen.values() {
                    assert!(right.contains(&milli(&served)), "{seen:?}: {right:?}");
                    let known = subject != PODS || self.pods.contains(&served.name);
                    assert!(known, "{seen:?}: {:?}", self.pods);
                }
            }
        }
    }

    fn assert_now(&self, seen: &Seen) {
        for served in seen.values() {
            // Timestamps in answers have no fractions.
            let newest = served.at.as_second() as f64 + 1.0;
            assert!(newest > seen.unix - FRESH, "stale: {seen:?}");
        }
    }

    /// Asserts that every answer to these requests since then was good.
    pub(super) fn assert_answered(&self, from: Duration, subjects: &[&'static str]) {
        self.trickle.assert_answered(from, subjects);
    }
}

fn paths() -> [(&'static str, String); 3] {
    let custom = format!("/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}");
    let external = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{TEAM}");
    let pods = format!("{custom}/pods/%2A/gpu_memory_utilization?labelSelector=app%3D{APP}");
    let held = format!("{custom}/deployments.apps/{APP}/gpu_held_count");
    let sum = format!("{external}/gpu_memory_utilization_sum");
    [(PODS, pods), (HELD, held), (SUM, sum)]
}

/// A client with only the right to read metrics.
pub(super) fn reader(lab: &Lab) -> ApiClient {
    let group = "metrics-readers";
    let rule = json!({
        "apiGroups": ["custom.metrics.k8s.io", "external.metrics.k8s.io"],
        "resources": ["*"], "verbs": ["get", "list"],
    });
    lab.plane.grant(group, &rule, &format!("--group={group}"));
    ApiClient::of(&lab.plane.user_kubeconfig("autoscaler", Some(group)))
}

/// Waits until a path has this value.
pub(super) async fn await_value(api_client: &ApiClient, path: &str, value: &str) {
    let wanted = format!("\"value\":\"{value}\"");
    api_client.until(path, |reply| reply.has(&wanted)).await;
}

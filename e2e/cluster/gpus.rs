//! GPUs held by the real pods, and their load.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Method;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use simulator::live::Controls;
use tokio::task::JoinHandle;

use super::lab::{APP, TEAM};
use crate::asking::ApiClient;

/// Assigns GPUs to the pods of the service as they are created and deleted.
#[derive(Debug)]
pub(super) struct Gpus {
    work: Arc<Mutex<Work>>,
    /// Pods by the place of their GPU, in [`device`]'s order.
    held: Arc<Mutex<BTreeMap<usize, String>>>,
    controls: Arc<Controls>,
    places: Places,
    task: JoinHandle<()>,
}

/// The load of held GPUs; GPUs that are not held are idle.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// The first ones have this load each, in percent; the others are idle.
    First(usize, u32),
    /// Those of each Deployment share this load evenly.
    Each(u32),
    /// Those of Ready pods share this load evenly. A pod loads a model for this time: it is not
    /// Ready, and its GPU is at 100.
    Ready(u32, Duration),
}

impl Work {
    /// The load of the GPU at a place among the held ones, in percent.
    fn of(self, place: usize, held: &[&str], loading: &BTreeSet<String>) -> f64 {
        let (percent, among) = match self {
            Self::First(busy, percent) if place < busy => (percent, 1),
            Self::First(..) => return 0.0,
            Self::Each(percent) => {
                let ours = deployment(held[place]);
                let among = held.iter().filter(|pod| deployment(pod) == ours);
                (percent, among.count())
            }
            Self::Ready(..) if loading.contains(held[place]) => return 100.0,
            Self::Ready(percent, _) => {
                let among = held.iter().filter(|pod| !loading.contains(**pod));
                (percent, among.count())
            }
        };
        (f64::from(percent) / among as f64).min(100.0)
    }
}

/// The Deployment's name in a pod's name.
fn deployment(pod: &str) -> &str {
    pod.rsplitn(3, '-').last().unwrap_or(pod)
}

/// The order of assignment of GPUs: one of each node, then the second of each node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) nodes: usize,
}

impl Places {
    pub(super) fn all(self) -> Range<usize> {
        0..4 * self.nodes
    }

    /// The device at a place.
    fn device(self, place: usize) -> usize {
        place % self.nodes * 4 + place / self.nodes
    }
}

impl Gpus {
    /// `api_client` sends to kube-apiserver: a kubectl for each read would take a third of a core.
    pub(super) fn start(api_client: ApiClient, controls: Arc<Controls>, places: Places) -> Self {
        let work = Arc::new(Mutex::new(Work::First(0, 0)));
        let held: Arc<Mutex<BTreeMap<usize, String>>> = Arc::default();
        let task = {
            let (work, held) = (Arc::clone(&work), Arc::clone(&held));
            let controls = Arc::clone(&controls);
            tokio::spawn(async move {
                let mut loading = BTreeSet::new();
                loop {
                    let work = *work.lock().unwrap();
                    if let Some(pods) = pods(&api_client).await {
                        let names: Vec<String> = pods.iter().map(name).collect();
                        hand_out(&mut held.lock().unwrap(), &names, &controls, places);
                        if let Work::Ready(_, time) = work {
                            loading = load(&api_client, &pods, time).await;
                        }
                    }
                    share_out(work, &held.lock().unwrap(), &loading, &controls, places);
                    tokio::time::sleep(Duration::from_millis(250)).await;
                }
            })
        };
        Self {
            work,
            held,
            controls,
            places,
            task,
        }
    }

    /// Sets the load of every held GPU.
    pub(super) fn work(&self, percent: u32) {
        self.concentrate(usize::MAX, percent);
    }

    /// Sets the load of the first GPUs; the others are idle.
    pub(super) fn concentrate(&self, busy: usize, percent: u32) {
        *self.work.lock().unwrap() = Work::First(busy, percent);
    }

    /// Divides this load among the GPUs of each Deployment.
    pub(super) fn share(&self, percent: u32) {
        *self.work.lock().unwrap() = Work::Each(percent);
    }

    /// Divides this load among the GPUs of Ready pods, and lets pods load a model for this
    /// time before they are Ready.
    pub(super) fn serve(&self, percent: u32, loading: Duration) {
        *self.work.lock().unwrap() = Work::Ready(percent, loading);
    }

    /// The pods that hold a GPU, in the order of load.
    pub(super) fn holders(&self) -> Vec<String> {
        self.held.lock().unwrap().values().cloned().collect()
    }

    /// Silences the exporter of a node until it resumes. The first pods with a GPU
    /// are on different nodes.
    pub(super) fn silence(&self, node: usize) {
        self.controls.silence(node);
    }

    /// Resumes all exporters.
    pub(super) fn resume(&self) {
        (0..self.places.nodes).for_each(|node| self.controls.resume(node));
    }
}

impl Drop for Gpus {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Gives every GPU its load.
fn share_out(
    work: Work,
    held: &BTreeMap<usize, String>,
    loading: &BTreeSet<String>,
    controls: &Controls,
    places: Places,
) {
    let pods: Vec<&str> = held.values().map(String::as_str).collect();
    for place in places.all() {
        let rank = held.keys().position(|held| *held == place);
        let percent = rank.map_or(0.0, |rank| work.of(rank, &pods, loading));
        controls.force_value(places.device(place), percent);
    }
}

/// The service's running pods; `None` while kube-apiserver does not answer.
async fn pods(api_client: &ApiClient) -> Option<Vec<Value>> {
    let path = format!("/api/v1/namespaces/{TEAM}/pods?labelSelector=app%3D{APP}");
    let reply = api_client.get(&path).await;
    let mut list: Value = serde_json::from_str(&reply.body).ok()?;
    let running = |pod: &&Value| {
        pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null()
    };
    let Value::Array(items) = list["items"].take() else {
        return None;
    };
    Some(items.into_iter().filter(|pod| running(&pod)).collect())
}

fn name(pod: &Value) -> String {
    let name = pod["metadata"]["name"].as_str();
    name.unwrap_or_default().to_owned()
}

/// Writes the condition Ready of pods as a kubelet does with a readiness probe that fails for
/// this time. Returns the pods that are not Ready.
async fn load(api_client: &ApiClient, pods: &[Value], time: Duration) -> BTreeSet<String> {
    let mut loading = BTreeSet::new();
    for pod in pods {
        let started = pod["status"]["startTime"].as_str().unwrap_or_default();
        let end = started.parse::<Timestamp>().map(|it| it + time);
        let now = Timestamp::now();
        let is_ready = end.is_ok_and(|end| end <= now);
        if !is_ready {
            loading.insert(name(pod));
        }
        let status = if is_ready { "True" } else { "False" };
        let conditions = pod["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        if conditions.any(|it| it["type"] == "Ready" && it["status"] == status) {
            continue;
        }
        let since = if is_ready { &now.to_string() } else { started };
        let change = json!({"status": {"conditions": [
            {"type": "Ready", "status": status, "lastTransitionTime": since},
        ]}});
        let path = format!("/api/v1/namespaces/{TEAM}/pods/{}/status", name(pod));
        api_client.write(Method::PATCH, &path, &change).await;
    }
    loading
}

fn hand_out(
    held: &mut BTreeMap<usize, String>,
    pods: &[String],
    controls: &Controls,
    places: Places,
) {
    held.retain(|place, name| {
        let stays = pods.contains(name);
        if !stays {
            controls.release(places.device(*place));
        }
        stays
    });
    for name in pods {
        let free = places.all().find(|place| !held.contains_key(place));
        if let (false, Some(place)) = (held.values().any(|holder| holder == name), free) {
            controls.reassign(places.device(place), TEAM, name);
            held.insert(place, name.clone());
        }
    }
}

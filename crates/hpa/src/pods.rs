//! The pods behind the scale target, and which of them count.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1 as api;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use super::ControllerFlags;
use super::printed::counted;
use apimachinery::quantity::parse_milli;
use apimachinery::time::Timestamp;

/// The fields of a pod that the controller reads.
#[derive(Clone, Debug, PartialEq)]
pub struct ScaledPod {
    /// Its name, by which its value is found.
    pub name: String,
    /// `status.phase`.
    pub phase: ScaledPodPhase,
    /// Whether it is being deleted.
    pub deleted: bool,
    /// `status.startTime`.
    pub started: Option<Timestamp>,
    /// The condition `Ready`.
    pub ready: Option<Readiness>,
    /// The requests of its containers and then of its restartable init containers, in
    /// thousandths.
    pub containers: Vec<(String, ResourceRequests)>,
    /// The pod-level request, if the pod has one.
    pub whole: Option<ResourceRequests>,
}

/// Thousandths by resource name.
pub type ResourceRequests = BTreeMap<String, i64>;

/// `status.phase`, as far as the controller reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaledPodPhase {
    /// Not started.
    Pending,
    /// Started.
    Running,
    /// Completed: still selected, and missing when it has no value.
    Succeeded,
    /// Failed.
    Failed,
    /// Its node does not answer.
    Unknown,
}

/// The condition `Ready` of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readiness {
    /// `None` is the status `Unknown`.
    pub ready: Option<bool>,
    /// `lastTransitionTime`.
    pub since: Timestamp,
}

/// The value of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodMetric {
    /// Thousandths.
    pub milli: i64,
    /// The time of the value.
    pub at: Timestamp,
    /// The window of the mean; one minute if the API does not report it.
    pub window: Duration,
}

/// Pods by the controller's groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Groups {
    /// Pods that count, with their values.
    pub(crate) ready: Vec<String>,
    /// Pods whose values do not count yet; they count as 0 when the replicas are to grow.
    pub(crate) unready: Vec<UncountedPod>,
    /// Pods without a value, which a conservative one replaces.
    pub(crate) missing: Vec<UncountedPod>,
    /// Pods that are not counted; their values are ignored.
    pub(crate) ignored: Vec<UncountedPod>,
    /// Pods that have values but are not selected. Their values count, except in a
    /// utilization, because their requests are unknown.
    strangers: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct UncountedPod {
    pub(crate) pod: String,
    why: &'static str,
}

impl ScaledPod {
    /// Whether it is running and ready, as a target of type `Value` counts pods.
    pub(crate) fn is_running_and_ready(&self) -> bool {
        self.phase == ScaledPodPhase::Running
            && self.ready.is_some_and(|ready| ready.ready == Some(true))
    }

    /// Its request for a resource, in thousandths. The error is the controller's message
    /// about a missing request, without which a utilization is undefined.
    pub(crate) fn request(
        &self,
        resource: &str,
        container: Option<&str>,
        flags: &ControllerFlags,
    ) -> Result<i64, String> {
        let name = &self.name;
        if let (true, None, Some(whole)) = (flags.pod_level_requests, container, &self.whole) {
            let request = whole.get(resource).copied();
            return request
                .ok_or_else(|| format!("missing pod-level request for {resource} in Pod {name}"));
        }
        let mut sum = 0_i64;
        let mut found = container.is_none();
        for (own, requests) in &self.containers {
            if container.is_some_and(|container| container != own) {
                continue;
            }
            found = true;
            let request = requests.get(resource);
            sum = sum.wrapping_add(*request.ok_or_else(|| {
                format!("missing request for {resource} in container {own} of Pod {name}")
            })?);
        }
        match container {
            Some(container) if !found => {
                Err(format!("container {container} not found in Pod {name}"))
            }
            _ => Ok(sum),
        }
    }

    /// Why its CPU reading does not count yet; `None` if it does.
    fn starting(
        &self,
        sample: &PodMetric,
        flags: &ControllerFlags,
        now: Timestamp,
    ) -> Option<&'static str> {
        let (Some(ready), Some(started)) = (self.ready, self.started) else {
            return Some("no start or no Ready condition");
        };
        let is_unready = ready.ready == Some(false);
        if started + flags.cpu_initialization > now {
            if is_unready {
                return Some("not ready, and started a short time ago");
            }
            let half = sample.at < ready.since + sample.window;
            return half.then_some("its window began before it was ready");
        }
        let never = is_unready && started + flags.initial_readiness > ready.since;
        never.then_some("was never ready")
    }
}

/// Groups pods. Readiness and times matter only for `cpu`.
pub(crate) fn group(
    pods: &[ScaledPod],
    samples: &BTreeMap<String, PodMetric>,
    cpu: bool,
    flags: &ControllerFlags,
    now: Timestamp,
) -> Groups {
    let mut groups = Groups::default();
    for pod in pods {
        let left = |why| UncountedPod {
            pod: pod.name.clone(),
            why,
        };
        let sample = samples.get(&pod.name);
        match (pod.phase, sample) {
            _ if pod.deleted => groups.ignored.push(left("being deleted")),
            (ScaledPodPhase::Failed, _) => groups.ignored.push(left("failed")),
            (ScaledPodPhase::Pending, _) => groups.unready.push(left("pending")),
            (ScaledPodPhase::Succeeded, None) => {
                groups.missing.push(left("ended, and still selected"));
            }
            (_, None) => groups.missing.push(left("no value")),
            (_, Some(sample)) if cpu => match pod.starting(sample, flags, now) {
                Some(why) => groups.unready.push(left(why)),
                None => groups.ready.push(pod.name.clone()),
            },
            (_, Some(_)) => groups.ready.push(pod.name.clone()),
        }
    }
    let known: HashSet<&str> = pods.iter().map(|pod| pod.name.as_str()).collect();
    let strangers = samples.keys().filter(|name| !known.contains(name.as_str()));
    groups.strangers = strangers.cloned().collect();
    groups
}

impl fmt::Display for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let selected =
            self.ready.len() + self.unready.len() + self.missing.len() + self.ignored.len();
        write!(
            f,
            "{} selected: {} answered",
            counted(selected, "pod"),
            self.ready.len()
        )?;
        for (what, left) in [
            ("missing", &self.missing),
            ("not ready", &self.unready),
            ("ignored", &self.ignored),
        ] {
            if let Some(first) = left.first() {
                write!(f, ", {} {what} ({}: {}", left.len(), first.pod, first.why)?;
                f.write_str(if left.len() > 1 { ", …)" } else { ")" })?;
            }
        }
        if let Some(first) = self.strangers.first() {
            let count = self.strangers.len();
            write!(
                f,
                "; {count} values of pods not selected ({first}) count too"
            )?;
        }
        Ok(())
    }
}

impl From<&api::Pod> for ScaledPod {
    fn from(pod: &api::Pod) -> Self {
        let status = pod.status.clone().unwrap_or_default();
        let mut conditions = status.conditions.iter().flatten();
        let ready = conditions.find(|condition| condition.type_ == "Ready");
        let ready = ready.map(|condition| {
            let since = condition.last_transition_time.as_ref();
            Readiness {
                ready: match condition.status.as_str() {
                    "True" => Some(true),
                    "False" => Some(false),
                    _ => None,
                },
                // Go's zero time, if absent.
                since: since.map_or(Timestamp::MIN, timestamp),
            }
        });
        Self {
            name: pod.metadata.name.clone().unwrap_or_default(),
            phase: match status.phase.as_deref() {
                Some("Pending") => ScaledPodPhase::Pending,
                Some("Running") => ScaledPodPhase::Running,
                Some("Succeeded") => ScaledPodPhase::Succeeded,
                Some("Failed") => ScaledPodPhase::Failed,
                _ => ScaledPodPhase::Unknown,
            },
            deleted: pod.metadata.deletion_timestamp.is_some(),
            started: status.start_time.as_ref().map(timestamp),
            ready,
            containers: pod.spec.as_ref().map(containers).unwrap_or_default(),
            whole: pod.spec.as_ref().and_then(whole),
        }
    }
}

pub(crate) fn timestamp(time: &Time) -> Timestamp {
    Timestamp::from_millis(time.0.as_millisecond())
}

fn containers(spec: &api::PodSpec) -> Vec<(String, ResourceRequests)> {
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|init| init.restart_policy.as_deref() == Some("Always"));
    let all = spec.containers.iter().chain(sidecars);
    let all = all.map(|container| {
        let given = container
            .resources
            .as_ref()
            .and_then(|it| it.requests.as_ref());
        (
            container.name.clone(),
            given.map(requests).unwrap_or_default(),
        )
    });
    all.collect()
}

/// The pod-level request, if there is one: for each resource that of the pod, or else the
/// sum of its containers, plus the overhead of the runtime.
fn whole(spec: &api::PodSpec) -> Option<ResourceRequests> {
    let own = requests(spec.resources.as_ref()?.requests.as_ref()?);
    if own.is_empty() {
        return None;
    }
    let mut sum = ResourceRequests::new();
    let add = |sum: &mut ResourceRequests, more: ResourceRequests| {
        for (resource, milli) in more {
            let sum = sum.entry(resource).or_default();
            *sum = sum.saturating_add(milli);
        }
    };
    for (_, requests) in containers(spec) {
        add(&mut sum, requests);
    }
    sum.extend(own);
    add(
        &mut sum,
        spec.overhead.as_ref().map(requests).unwrap_or_default(),
    );
    Some(sum)
}

fn requests(given: &BTreeMap<String, Quantity>) -> ResourceRequests {
    let read =
        |(name, quantity): (&String, &Quantity)| Some((name.clone(), parse_milli(&quantity.0)?));
    given.iter().filter_map(read).collect()
}

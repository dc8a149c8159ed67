//! One sync as data: every step with its numbers, and a sentence for each.

use std::time::Duration;

use serde::Serialize;

use super::metric::MetricTrace;
use super::policy::Limited;
use super::printed::counted;
use super::stabilise::{History, PastReplicas, Stabilised};
use super::{ControllerFlags, Hpa};
use apimachinery::time::Timestamp;

/// The condition in which the controller records that it scaled the target to zero.
pub const SCALED_TO_ZERO: &str = "ScaledToZero";

/// The longest window or period in a specification.
const LONGEST_WINDOW: Duration = Duration::from_secs(3600);

/// The result of one sync.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// `spec.replicas` of the scale; `None` when it could not be read.
    pub current: Option<i32>,
    /// Why metrics were not read, if the current replicas alone decided the sync.
    pub(crate) shortcut: Option<&'static str>,
    /// Each metric, in the order of the specification.
    pub metrics: Vec<MetricTrace>,
    /// The highest proposal.
    pub(crate) proposal: Option<i32>,
    pub(crate) stabilised: Option<Stabilised>,
    pub(crate) limited: Option<Limited>,
    /// `status.desiredReplicas`; `None` leaves it as it was.
    pub desired: Option<i32>,
    /// The reason in the event `SuccessfulRescale`; `None` when the scale is not written.
    pub(crate) rescale: Option<String>,
    /// The conditions that this sync sets.
    pub conditions: Vec<HpaCondition>,
    /// The failure that the controller reports, whether it scaled or not.
    pub(crate) error: Option<String>,
}

/// A condition of the autoscaler's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HpaCondition {
    /// `AbleToScale`, `ScalingActive`, `ScalingLimited` or `ScaledToZero`.
    #[serde(rename = "type")]
    pub type_: &'static str,
    /// Whether it holds.
    pub status: bool,
    /// In one word.
    pub reason: &'static str,
    /// In the controller's words.
    pub message: String,
}

impl Trace {
    /// Adds this sync to the controller's memory, and drops entries outside of every
    /// window.
    pub fn remember(
        &self,
        history: &mut History,
        hpa: &Hpa,
        flags: &ControllerFlags,
        now: Timestamp,
    ) {
        if let (Some(current), Some(desired), Some(_), Some(_)) =
            (self.current, self.desired, &self.rescale, &hpa.behavior)
        {
            history.scaled(current, desired, now);
        }
        let mut conditions = self.conditions.iter();
        if let Some(condition) = conditions.find(|it| it.type_ == SCALED_TO_ZERO) {
            history.scaled_to_zero = condition.status;
        }
        self.recommend(history, flags, now);
    }

    /// Adds only the recommendation, for an observer that records scale changes itself.
    pub fn recommend(&self, history: &mut History, flags: &ControllerFlags, now: Timestamp) {
        let Some(current) = self.current else {
            return;
        };
        let past = |replicas| PastReplicas { replicas, at: now };
        if history.recommendations.is_empty() {
            history.recommendations.push(past(current));
        }
        let proposed = self.stabilised.as_ref().map(|it| past(it.proposed));
        history.recommendations.extend(proposed);
        let start = now - flags.downscale_stabilisation.max(LONGEST_WINDOW);
        let newest = history.recommendations.last().copied();
        for events in [
            &mut history.recommendations,
            &mut history.ups,
            &mut history.downs,
        ] {
            events.retain(|event| event.at >= start);
        }
        // An empty memory would make the next sync start from the current replicas.
        if history.recommendations.is_empty() {
            history.recommendations.extend(newest);
        }
    }

    /// The whole sync in sentences.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let mut told = Vec::new();
        let now = |current| format!("{} now", counted(current, "replica"));
        told.extend(self.current.map(now));
        told.extend(self.shortcut.map(str::to_owned));
        told.extend(self.metrics.iter().flat_map(MetricTrace::sentences));
        let mut proposals = self.metrics.iter().map(MetricTrace::replicas);
        match self.proposal {
            Some(replicas) => {
                let mut metrics = self.metrics.iter().filter(|_| replicas > 0);
                let first = metrics.find(|metric| metric.replicas() == Some(replicas));
                let name = first.map_or("no metric", |metric| metric.name.as_str());
                let replicas = counted(replicas, "replica");
                told.push(format!("{replicas} asked for by {name}"));
                told.extend(self.error.clone());
            }
            None if self.metrics.is_empty() => told.extend(self.error.clone()),
            None if proposals.any(|it| it.is_some()) => {
                let why = "a metric that fails forbids scaling down: nothing is changed";
                told.push(why.to_owned());
            }
            None => told.push("no metric can be used: nothing is changed".to_owned()),
        }
        told.extend(self.stabilised.as_ref().map(ToString::to_string));
        if let Some(limited) = &self.limited {
            told.extend(limited.policies.iter().map(ToString::to_string));
            told.push(limited.to_string());
        }
        told.extend(self.desired.map(|desired| {
            let what = self.rescale.as_ref().map_or("stays at", |_| "scaled to");
            format!("{what} {}", counted(desired, "replica"))
        }));
        told
    }
}

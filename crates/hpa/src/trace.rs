//! One sync as data: every step with its numbers, and a sentence for each.

use std::time::Duration;

use serde::Serialize;

use super::metric::{MetricOutcome, MetricTrace};
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
    pub(crate) shortcut: Option<Shortcut>,
    /// Each metric, in the order of the specification.
    pub metrics: Vec<MetricTrace>,
    pub(crate) proposal: Option<Proposal>,
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
    /// What keeps replicas from the metrics' proposal.
    pub(crate) held_by: Vec<ScalingLimit>,
}

/// Why metrics were not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Shortcut {
    /// No replicas, and the minimum is not zero: scaling is switched off.
    Disabled,
    /// No replicas and a minimum of zero, and the autoscaler did not scale to zero itself:
    /// scaling is switched off.
    ZeroByOthers,
    AboveMaximum,
    BelowMinimum,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Proposal {
    pub(crate) replicas: i32,
    /// The index of its metric; `None` when no metric proposes more than zero.
    pub(crate) metric: Option<usize>,
    pub(crate) invalid: usize,
}

/// A limit between the proposal and the replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ScalingLimit {
    NoScale,
    Selector,
    Disabled,
    /// No metric can be used, or one cannot and the others propose less.
    FailedMetrics,
    Stabilisation,
    Rate,
    Maximum,
    Minimum,
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
        told.extend(self.shortcut.map(|shortcut| shortcut.sentence().to_owned()));
        told.extend(self.metrics.iter().flat_map(MetricTrace::sentences));
        if let Some(proposal) = &self.proposal {
            let name = proposal.metric.and_then(|index| self.metrics.get(index));
            let name = name.map_or("no metric", |metric| metric.name.as_str());
            told.push(format!(
                "{} asked for by {name}",
                counted(proposal.replicas, "replica")
            ));
        }
        if self.held_by.contains(&ScalingLimit::FailedMetrics) {
            let usable = |metric: &MetricTrace| matches!(metric.outcome, MetricOutcome::Asks(_));
            let why = if self.metrics.iter().any(usable) {
                "a metric that fails forbids scaling down: nothing is changed"
            } else {
                "no metric can be used: nothing is changed"
            };
            told.push(why.to_owned());
        } else {
            told.extend(self.error.clone());
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

impl Shortcut {
    const fn sentence(self) -> &'static str {
        match self {
            Self::Disabled => "no replicas and a minimum above zero: scaling is switched off",
            Self::ZeroByOthers => {
                "no replicas, and the controller did not scale to zero itself (condition ScaledToZero): scaling is switched off"
            }
            Self::AboveMaximum => "more than the maximum: set to it, no metric is read",
            Self::BelowMinimum => "fewer than the minimum: set to it, no metric is read",
        }
    }
}

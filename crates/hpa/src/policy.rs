//! How fast replicas may change, and within which bounds.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::behavior::{Behavior, ScalingPolicy, ScalingRules, Select};
use super::printed::counted;
use super::ratio::to_i32;
use super::stabilise::{History, PastReplicas};
use apimachinery::time::Timestamp;

/// Without `behavior`, a scale-up to this number of replicas is always allowed.
const FREE_REPLICAS: f64 = 4.0;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PolicyStep {
    policy: ScalingPolicy,
    /// Replicas added in its period.
    added: i32,
    /// Replicas removed in its period.
    removed: i32,
    /// The replicas at the start of the period, on which the policy is based.
    period_start: i32,
    /// The number of replicas up to which it allows a change.
    limit: i32,
}

/// How the stabilised number was limited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Limited {
    /// The number before.
    stabilised: i32,
    /// Each policy of the direction; empty without `behavior`.
    pub(crate) policies: Vec<PolicyStep>,
    /// Which policy applies; `None` without `behavior`.
    select: Option<Select>,
    /// The number of replicas up to which the rate allows a change; `None` where no rate
    /// applies.
    rate: Option<i32>,
    /// The number after.
    pub(crate) replicas: i32,
    /// The reason of `ScalingLimited`.
    pub(crate) reason: &'static str,
    pub(crate) message: &'static str,
}

impl Limited {
    /// Whether the condition `ScalingLimited` is true.
    pub(crate) fn is_limited(&self) -> bool {
        self.replicas != self.stabilised
    }

    /// Without `behavior`: at most twice the replicas, or four.
    pub(super) fn plain(current: i32, stabilised: i32, min: i32, max: i32) -> Self {
        let rate = to_i32((2.0 * f64::from(current)).max(FREE_REPLICAS));
        let (replicas, (reason, message)) = if stabilised < min {
            (min, TOO_FEW)
        } else if stabilised > max.min(rate) {
            let why = if max > rate { UP_LIMIT } else { TOO_MANY };
            (max.min(rate), why)
        } else {
            (stabilised, WITHIN)
        };
        Self {
            stabilised,
            policies: Vec::new(),
            select: None,
            rate: Some(rate),
            replicas,
            reason,
            message,
        }
    }

    /// With `behavior`: applies the rules and the bound (`max` or `min`) of the direction.
    /// An unchanged number is not limited.
    pub(super) fn with_behavior(
        behavior: &Behavior,
        history: &History,
        current: i32,
        stabilised: i32,
        (min, max): (i32, i32),
        now: Timestamp,
    ) -> Self {
        let up = stabilised > current;
        let rules = if up { &behavior.up } else { &behavior.down };
        let mut limited = Self {
            stabilised,
            policies: Vec::new(),
            select: Some(rules.select),
            rate: None,
            replicas: stabilised,
            reason: WITHIN.0,
            message: WITHIN.1,
        };
        if stabilised == current {
            return limited;
        }
        limited.policies = steps(rules, history, current, now, up);
        let limits = limited.policies.iter().map(|step| step.limit);
        let rate = match rules.select {
            Select::Disabled => current,
            select if (select == Select::Max) == up => limits.max().unwrap_or(i32::MIN),
            _ => limits.min().unwrap_or(i32::MAX),
        };
        // Earlier events can put the limit on the other side of the current replicas.
        let (rate, why) = if up {
            let rate = rate.max(current);
            limited.replicas = stabilised.min(max).min(rate);
            (rate, if max > rate { UP_LIMIT } else { TOO_MANY })
        } else {
            let rate = rate.min(current);
            limited.replicas = stabilised.max(min).max(rate);
            (rate, if min < rate { DOWN_LIMIT } else { TOO_FEW })
        };
        limited.rate = Some(rate);
        if limited.is_limited() {
            (limited.reason, limited.message) = why;
        }
        limited
    }
}

const WITHIN: (&str, &str) = (
    "DesiredWithinRange",
    "the desired count is within the acceptable range",
);
const UP_LIMIT: (&str, &str) = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
);
const DOWN_LIMIT: (&str, &str) = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
);
const TOO_MANY: (&str, &str) = (
    "TooManyReplicas",
    "the desired replica count is more than the maximum replica count",
);
const TOO_FEW: (&str, &str) = (
    "TooFewReplicas",
    "the desired replica count is less than the minimum replica count",
);

fn steps(
    rules: &ScalingRules,
    history: &History,
    current: i32,
    now: Timestamp,
    up: bool,
) -> Vec<PolicyStep> {
    if rules.select == Select::Disabled {
        return Vec::new();
    }
    let step = |policy: &ScalingPolicy| {
        let period = Duration::from_secs(u64::try_from(policy.period).unwrap_or(0));
        let changed = |events: &[PastReplicas]| {
            let inside = events.iter().filter(|event| event.at > now - period);
            inside.fold(0_i32, |sum, event| sum.wrapping_add(event.replicas))
        };
        let (added, removed) = (changed(&history.ups), changed(&history.downs));
        let start = current.wrapping_sub(added).wrapping_add(removed);
        let share = f64::from(policy.value) / 100.0;
        PolicyStep {
            policy: *policy,
            added,
            removed,
            period_start: start,
            limit: match (policy.percent, up) {
                // Rounded up: a small percentage would otherwise never add a pod.
                (true, true) => to_i32((f64::from(start) * (1.0 + share)).ceil()),
                (true, false) => to_i32(f64::from(start) * (1.0 - share)),
                (false, true) => start.wrapping_add(policy.value),
                (false, false) => start.wrapping_sub(policy.value),
            },
        }
    };
    rules.policies.iter().map(step).collect()
}

impl fmt::Display for PolicyStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ScalingPolicy { value, period, .. } = self.policy;
        let (added, removed, limit) = (self.added, self.removed, self.limit);
        let start = counted(self.period_start, "replica");
        let value = match self.policy.percent {
            true => format!("{value} %"),
            false => counted(value, "pod"),
        };
        write!(
            f,
            "policy {value} per {period} s: {start} at the start of \
             the period (+{added} and -{removed} since), so as far as {limit}"
        )
    }
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (replicas, reason, message) = (self.replicas, self.reason, self.message);
        match self.is_limited() {
            false => write!(f, "no limit applies: {replicas}"),
            true => write!(
                f,
                "{} becomes {replicas}: {message} ({reason})",
                self.stabilised
            ),
        }
    }
}

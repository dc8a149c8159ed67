//! How fast replicas may change, and within which bounds.

use std::time::Duration;

use super::behavior::{ScalingRules, Select};
use super::ratio::rounded_up;
use super::stabilise::PastReplicas;
use super::{Situation, counted};

/// What prevents a change of the replicas, or makes it smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `minReplicas`.
    Minimum,
    /// `maxReplicas`.
    Maximum,
    /// The rate of a scale-up.
    UpRate,
    /// The rate of a scale-down.
    DownRate,
}

impl Limit {
    /// The reason of the controller's condition `ScalingLimited`.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Minimum => "TooFewReplicas",
            Self::Maximum => "TooManyReplicas",
            Self::UpRate => "ScaleUpLimit",
            Self::DownRate => "ScaleDownLimit",
        }
    }
}

/// The replicas within bounds and rate, and what limited them.
pub(super) fn limit(of: &Situation<'_>, to: i32, steps: &mut Vec<String>) -> (i32, Option<Limit>) {
    let (current, min, max) = (of.scale.spec_replicas, of.hpa.min, of.hpa.max);
    let (limited, limit) = match &of.hpa.behavior {
        None if to < min => (min, Limit::Minimum),
        Some(behavior) if to < current => {
            let rate = rate(&behavior.down, false, of, steps);
            let is_rate = min < rate;
            let by = if is_rate {
                Limit::DownRate
            } else {
                Limit::Minimum
            };
            (to.max(min).max(rate), by)
        }
        behavior => {
            let rate = match behavior {
                // At most twice the replicas, or four.
                None => current.saturating_mul(2).max(4),
                Some(behavior) if to > current => rate(&behavior.up, true, of, steps),
                Some(_) => current,
            };
            let is_rate = max > rate;
            let by = if is_rate {
                Limit::UpRate
            } else {
                Limit::Maximum
            };
            (to.min(max).min(rate), by)
        }
    };
    let limit = (limited != to).then_some(limit);
    steps.extend(limit.map(|it| format!("{} makes it {limited}", it.reason())));
    (limited, limit)
}

/// The replicas up to which the rules of a direction allow a change.
fn rate(rules: &ScalingRules, up: bool, of: &Situation<'_>, steps: &mut Vec<String>) -> i32 {
    let current = of.scale.spec_replicas;
    if rules.select == Select::Disabled {
        steps.push("selectPolicy: Disabled allows no change".to_owned());
        return current;
    }
    let ends = rules.policies.iter().map(|policy| {
        let (percent, value, period) = (policy.percent, policy.value, policy.period);
        let begun = of.now - Duration::from_secs(u64::try_from(period).unwrap_or(0));
        let changed = |events: &[PastReplicas]| {
            let inside = events.iter().filter(|event| event.at > begun);
            inside.fold(0_i32, |sum, event| sum.wrapping_add(event.replicas))
        };
        let (added, removed) = (changed(&of.history.ups), changed(&of.history.downs));
        let start = current.wrapping_sub(added).wrapping_add(removed);
        let share = f64::from(value) / 100.0;
        let end = match (percent, up) {
            // Rounded up: a small percentage would otherwise never add a pod.
            (true, true) => rounded_up(f64::from(start) * (1.0 + share)),
            (true, false) => (f64::from(start) * (1.0 - share)) as i32,
            (false, true) => start.wrapping_add(value),
            (false, false) => start.wrapping_sub(value),
        };
        let change = match percent {
            true => format!("{value} %"),
            false => counted(value, "pod"),
        };
        steps.push(format!(
            "policy {change} in {period} s: from {start} at its start to {end}"
        ));
        end
    });
    let ends = match (rules.select == Select::Max) == up {
        true => ends.max(),
        false => ends.min(),
    };
    // Earlier changes can put the end on the other side of the current replicas.
    let end = ends.unwrap_or(current);
    if up {
        end.max(current)
    } else {
        end.min(current)
    }
}

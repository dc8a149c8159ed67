//! Computes replicas from one value or the sum of a list.

use std::fmt;

use serde::Serialize;

use super::measure::NO_PODS;
use super::printed::counted;
use super::ratio::{Milli, ReplicaDecision, Tolerances, four_decimals, to_i64};
use super::{ScaledPod, TargetScale};

/// A value of an object, or a sum of external values, compared with the target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TotalStep {
    value: Milli,
    values: usize,
    /// `status.replicas` of the scale, by which the target is multiplied. `None` for a
    /// target of type `Value`.
    shared_by: Option<i32>,
    /// The value divided by the target, and by `shared_by` if set.
    ratio: f64,
    /// Pods running and ready, where they were counted.
    ready: Option<usize>,
    /// The value that kubectl shows: the value, or the value for each replica.
    pub(crate) shown: Milli,
    pub(crate) verdict: ReplicaDecision,
    pub(crate) replicas: i32,
}

impl TotalStep {
    /// A target of type `Value`: the ratio multiplies the ready pods. The error is in the
    /// controller's words.
    pub(super) fn whole(
        (value, values): (i64, usize),
        target: Milli,
        tolerances: Tolerances,
        scale: &TargetScale,
        pods: &[ScaledPod],
    ) -> Result<Self, String> {
        let ratio = value as f64 / target.0 as f64;
        let step = |ready, verdict, replicas| Self {
            value: Milli(value),
            values,
            shared_by: None,
            ratio,
            ready,
            shown: Milli(value),
            verdict,
            replicas,
        };
        if scale.spec_replicas == 0 {
            let (verdict, replicas) = ReplicaDecision::scaled(ratio, false);
            return Ok(step(None, verdict, replicas));
        }
        if tolerances.hold(ratio) {
            return Ok(step(
                None,
                ReplicaDecision::WithinTolerance,
                scale.spec_replicas,
            ));
        }
        if pods.is_empty() {
            return Err(format!("unable to calculate ready pods: {NO_PODS}"));
        }
        let ready = pods.iter().filter(|pod| pod.is_running_and_ready()).count();
        let (verdict, replicas) = ReplicaDecision::scaled(ratio * ready as f64, true);
        Ok(step(Some(ready), verdict, replicas))
    }

    /// A target of type `AverageValue`: the value is divided by the replicas of the
    /// status, ready or not. Sums of external metrics are guarded against overflow.
    pub(super) fn shared(
        (value, values): (i64, usize),
        target: Milli,
        tolerances: Tolerances,
        replicas: i32,
        is_guarded: bool,
    ) -> Self {
        let (total, target) = (value as f64, target.0 as f64);
        let ratio = total / (target * f64::from(replicas));
        let (verdict, proposed) = match tolerances.hold(ratio) {
            true => (ReplicaDecision::WithinTolerance, replicas),
            false => ReplicaDecision::scaled(total / target, is_guarded),
        };
        let shown = match is_guarded && total >= i64::MAX as f64 {
            true => i64::MAX,
            false => to_i64((total / f64::from(replicas)).ceil()),
        };
        Self {
            value: Milli(value),
            values,
            shared_by: Some(replicas),
            ratio,
            ready: None,
            shown: Milli(shown),
            verdict,
            replicas: proposed,
        }
    }
}

/// The sum of values, at most `i64::MAX`. A sum that is too small wraps, as in Go.
pub(super) fn sum(values: &[i64]) -> i64 {
    let mut sum = 0_i64;
    for value in values {
        if *value > 0 && sum > i64::MAX - value {
            return i64::MAX;
        }
        sum = sum.wrapping_add(*value);
    }
    sum
}

/// The sum for a target of type `AverageValue`. The controller takes a negative
/// intermediate sum for an overflow: the result is then the largest number.
pub(super) fn sum_shared(values: &[i64]) -> i64 {
    let mut sum = 0_i64;
    for value in values {
        sum = sum.wrapping_add(*value);
        if sum < 0 {
            return i64::MAX;
        }
    }
    sum
}

impl fmt::Display for TotalStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, ratio) = (self.value, four_decimals(self.ratio));
        write!(f, "{value}")?;
        if self.values > 1 {
            write!(f, ", the sum of {} values,", self.values)?;
        }
        if let Some(replicas) = self.shared_by {
            write!(f, " shared by {}", counted(replicas, "replica"))?;
        }
        write!(f, " is {ratio} of the target")?;
        if let Some(ready) = self.ready {
            write!(f, ", times {} running and ready", counted(ready, "pod"))?;
        }
        Ok(())
    }
}

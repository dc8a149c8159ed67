//! Computes one sync of the HorizontalPodAutoscaler controller: from an autoscaler, its
//! pods, the answers of the metrics APIs and the controller's memory to the replicas that
//! it writes.
//!
//! The arithmetic is that of `pkg/controller/podautoscaler` of Kubernetes 1.33 to 1.37 for
//! metrics of type Pods, Object and External, with integers where the controller has
//! integers. A sync is a pure function of its [`Situation`]. `tests/recorded.json` has what
//! a real controller wrote in many situations.

#![deny(missing_docs)]

mod behavior;
pub mod health;
pub mod hpa;
pub mod manifest;
mod metric;
pub mod pods;
mod policy;
pub mod ratio;
pub mod stabilise;
mod sync;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use hpa::Hpa;
pub use metric::{MetricTrace, MetricsAnswer, Proposal};
pub use pods::ScaledPod;
pub use policy::Limit;
pub use stabilise::History;
pub use sync::Trace;

use self::ratio::Tolerances;
use apimachinery::time::Timestamp;

/// The newest minor version of Kubernetes 1 that the tests run.
pub const NEWEST: u32 = 37;

/// The condition in which the controller records that it scaled the target to zero.
pub const SCALED_TO_ZERO: &str = "ScaledToZero";

/// The flags of kube-controller-manager. They cannot be read where a
/// provider runs the control plane; the defaults are assumed there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ControllerFlags {
    /// The minor version of Kubernetes 1.
    pub minor: u32,
    /// `--horizontal-pod-autoscaler-tolerance`.
    pub tolerance: f64,
    /// `--horizontal-pod-autoscaler-downscale-stabilization`.
    pub downscale_stabilisation: Duration,
    /// `--horizontal-pod-autoscaler-sync-period`: the interval of syncs.
    pub sync_period: Duration,
}

impl ControllerFlags {
    /// The defaults of Kubernetes 1.`minor`.
    #[must_use]
    pub const fn of_version(minor: u32) -> Self {
        Self {
            minor,
            tolerance: 0.1,
            downscale_stabilisation: Duration::from_secs(300),
            sync_period: Duration::from_secs(15),
        }
    }

    /// Whether the controller records in the condition `ScaledToZero` that it scaled to
    /// zero, and scales up from zero only then.
    #[must_use]
    pub const fn records_zero(&self) -> bool {
        self.minor >= 36
    }

    /// The tolerances in force for an autoscaler, which can have its own since 1.35.
    #[must_use]
    pub fn tolerances(&self, hpa: &Hpa) -> Tolerances {
        let behavior = hpa.behavior.as_ref();
        let own = behavior.filter(|_| self.minor >= 35);
        let or_flag = |own: Option<f64>| own.unwrap_or(self.tolerance);
        Tolerances {
            down: or_flag(own.and_then(|own| own.down.tolerance)),
            up: or_flag(own.and_then(|own| own.up.tolerance)),
        }
    }
}

/// A number of things: `1 pod`, `2 pods`.
#[must_use]
pub fn counted(number: impl std::fmt::Display, thing: &str) -> String {
    let number = number.to_string();
    let ending = if number == "1" { "" } else { "s" };
    format!("{number} {thing}{ending}")
}

/// The scale of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetScale {
    /// `spec.replicas`: the current replicas.
    pub spec_replicas: i32,
    /// `status.replicas`: the divisor of `AverageValue`.
    pub status_replicas: i32,
}

/// All inputs of one sync.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The autoscaler.
    pub hpa: &'a Hpa,
    /// The scale of the target.
    pub scale: TargetScale,
    /// The pods that the scale's selector selects.
    pub pods: &'a [ScaledPod],
    /// One answer for each metric, in the order of the specification.
    pub answers: &'a [MetricsAnswer],
    /// The flags of the controller.
    pub flags: &'a ControllerFlags,
    /// The controller's memory.
    pub history: &'a History,
    /// The time of the sync.
    pub now: Timestamp,
}

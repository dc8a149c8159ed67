//! Computes one sync of the HorizontalPodAutoscaler controller, step by step: from its
//! specification, pods, metrics and memory to the replicas and conditions that it writes.
//!
//! The arithmetic and the messages are those of `pkg/controller/podautoscaler` of
//! Kubernetes 1.33 to 1.37, with integers where the controller has integers. One sync is a
//! pure function of its [`Situation`] and uses no clock and no network.

#![deny(missing_docs)]

mod behavior;
pub mod health;
pub mod hpa;
pub mod manifest;
mod measure;
mod metric;
pub mod pods;
mod policy;
mod printed;
pub mod ratio;
pub mod stabilise;
mod sync;
#[cfg(test)]
mod tests;
mod total;
pub mod trace;

use std::time::Duration;

pub use hpa::Hpa;
pub use metric::{MetricTrace, MetricsAnswer};
pub use pods::ScaledPod;
pub use stabilise::History;
pub use trace::Trace;

use self::ratio::Tolerances;
use apimachinery::time::Timestamp;

/// The newest minor version of Kubernetes 1 that the tests run.
pub const NEWEST: u32 = 37;

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
    /// `--horizontal-pod-autoscaler-cpu-initialization-period`.
    pub cpu_initialization: Duration,
    /// `--horizontal-pod-autoscaler-initial-readiness-delay`.
    pub initial_readiness: Duration,
    /// `--horizontal-pod-autoscaler-sync-period`: the interval of syncs.
    pub sync_period: Duration,
    /// The feature gate `HPAConfigurableTolerance`.
    pub configurable_tolerance: bool,
    /// The feature gate `PodLevelResources`.
    pub pod_level_requests: bool,
}

impl ControllerFlags {
    /// The defaults of Kubernetes 1.`minor`.
    #[must_use]
    pub const fn of_version(minor: u32) -> Self {
        Self {
            minor,
            tolerance: 0.1,
            downscale_stabilisation: Duration::from_secs(300),
            cpu_initialization: Duration::from_secs(300),
            initial_readiness: Duration::from_secs(30),
            sync_period: Duration::from_secs(15),
            configurable_tolerance: minor >= 35,
            pod_level_requests: minor >= 34,
        }
    }

    /// Whether the controller records in the condition `ScaledToZero` that it scaled to
    /// zero, and scales up from zero only then.
    #[must_use]
    pub const fn records_zero(&self) -> bool {
        self.minor >= 36
    }

    /// Whether the feature gate `HPAScaleToZero` is on by default.
    #[must_use]
    pub const fn scales_to_zero(&self) -> bool {
        self.minor >= 37
    }

    /// The tolerances in force for an autoscaler.
    #[must_use]
    pub fn tolerances(&self, hpa: &Hpa) -> Tolerances {
        let behavior = hpa.behavior.as_ref();
        let own = behavior.filter(|_| self.configurable_tolerance);
        let or_flag = |own: Option<f64>| own.unwrap_or(self.tolerance);
        Tolerances {
            down: or_flag(own.and_then(|own| own.down.tolerance)),
            up: or_flag(own.and_then(|own| own.up.tolerance)),
        }
    }
}

/// The scale of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TargetScale {
    /// `spec.replicas`: the current replicas.
    pub spec_replicas: i32,
    /// `status.replicas`: the divisor of objects' `AverageValue`.
    pub status_replicas: i32,
}

/// Whether the pods behind the scale can be selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The selector is valid and selects pods of no other autoscaler.
    Clear,
    /// `status.selector` of the scale is empty.
    Missing,
    /// `status.selector` cannot be parsed; the reason.
    Invalid(String),
    /// Other autoscalers select some of the pods.
    Ambiguous {
        /// The selector.
        selector: String,
        /// All autoscalers that select these pods, as `namespace/name`.
        autoscalers: Vec<String>,
    },
}

/// All inputs of one sync.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The autoscaler.
    pub hpa: &'a Hpa,
    /// The scale of the target, or why it could not be read.
    pub scale: Result<&'a TargetScale, &'a str>,
    /// Whether the selector is usable.
    pub selection: &'a Selection,
    /// The selected pods.
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

impl Situation<'_> {
    /// Computes one sync.
    #[must_use]
    pub fn sync(&self) -> Trace {
        sync::sync(self)
    }
}

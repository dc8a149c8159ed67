//! What the HorizontalPodAutoscaler's controller computes in one sync, step by
//! step: from its specification, pods, metrics and memory to the replicas and
//! conditions that it writes.
//!
//! The same arithmetic as `pkg/controller/podautoscaler` of Kubernetes 1.35:
//! integers where it has integers, and its words. Nothing here reads a clock
//! or a network: one sync is a function of its [`Situation`].

pub mod hpa;
pub mod manifest;
pub mod measure;
pub mod metric;
pub mod pods;
pub mod policy;
pub mod ratio;
pub mod stabilise;
mod sync;
#[cfg(test)]
mod tests;
pub mod total;
pub mod trace;
mod words;

use std::time::Duration;

pub use hpa::Hpa;
pub use metric::Answer;
pub use pods::Pod;
pub use stabilise::History;
pub use trace::Trace;

use self::ratio::Tolerances;
use apimachinery::time::Timestamp;

/// The flags of kube-controller-manager. They cannot be read where a
/// provider runs the control plane; the defaults are assumed there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flags {
    /// `--horizontal-pod-autoscaler-tolerance`.
    pub tolerance: f64,
    /// `--horizontal-pod-autoscaler-downscale-stabilization`.
    pub downscale_stabilisation: Duration,
    /// `--horizontal-pod-autoscaler-cpu-initialization-period`.
    pub cpu_initialization: Duration,
    /// `--horizontal-pod-autoscaler-initial-readiness-delay`.
    pub initial_readiness: Duration,
    /// `--horizontal-pod-autoscaler-sync-period`: how often this is computed.
    pub sync_period: Duration,
    /// The feature gate `HPAConfigurableTolerance`.
    pub configurable_tolerance: bool,
    /// The feature gate `PodLevelResources`.
    pub pod_level_requests: bool,
}

impl Flags {
    /// The defaults of Kubernetes 1.`minor`.
    #[must_use]
    pub const fn of_version(minor: u32) -> Self {
        Self {
            tolerance: 0.1,
            downscale_stabilisation: Duration::from_secs(300),
            cpu_initialization: Duration::from_secs(300),
            initial_readiness: Duration::from_secs(30),
            sync_period: Duration::from_secs(15),
            configurable_tolerance: minor >= 35,
            pod_level_requests: minor >= 34,
        }
    }
}

/// The scale of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// `spec.replicas`: the current replicas of an autoscaler.
    pub spec_replicas: i32,
    /// `status.replicas`: what `AverageValue` of objects divides by.
    pub status_replicas: i32,
}

/// Whether the pods behind the scale can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// They can.
    Clear,
    /// `status.selector` of the scale is empty.
    Missing,
    /// It cannot be parsed, and why.
    Invalid(String),
    /// Other autoscalers have pods among them.
    Ambiguous {
        /// The selector.
        selector: String,
        /// Namespace and name of all that select these pods.
        autoscalers: Vec<(String, String)>,
    },
}

/// Everything that one sync depends on.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The specification.
    pub hpa: &'a Hpa,
    /// The scale of the target, or why it could not be read.
    pub scale: Result<&'a Scale, &'a str>,
    /// Whether the selector is usable.
    pub selection: &'a Selection,
    /// The pods that it takes.
    pub pods: &'a [Pod],
    /// One for each metric of the specification, in its order.
    pub answers: &'a [Answer],
    /// The flags of the controller.
    pub flags: &'a Flags,
    /// What it remembers.
    pub history: &'a History,
    /// When this is.
    pub now: Timestamp,
}

impl Situation<'_> {
    /// The tolerances in force for this autoscaler.
    #[must_use]
    pub fn tolerances(&self) -> Tolerances {
        let flag = self.flags.tolerance;
        let behavior = self.hpa.behavior.as_ref();
        let own = behavior.filter(|_| self.flags.configurable_tolerance);
        Tolerances {
            down: own.and_then(|own| own.down.tolerance).unwrap_or(flag),
            up: own.and_then(|own| own.up.tolerance).unwrap_or(flag),
        }
    }

    /// Computes one sync.
    #[must_use]
    pub fn sync(&self) -> Trace {
        sync::sync(self)
    }
}

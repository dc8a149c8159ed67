//! The pods behind the scale target, and which of them count.

use k8s_openapi::api::core::v1 as api;

/// The fields of a pod that the controller reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaledPod {
    /// Its name, by which its value is found.
    pub name: String,
    /// How its value counts.
    pub counts: PodCounts,
    /// Whether it is running and ready: a target of type `Value` counts only such pods.
    pub is_ready: bool,
}

/// How the value of a pod counts in a metric of type Pods. Readiness does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodCounts {
    /// Its value counts; without one it is missing.
    Yes,
    /// It is pending: it counts as 0 where replicas would be added.
    Pending,
    /// It failed or is being deleted: its value is ignored.
    No,
}

impl From<&api::Pod> for ScaledPod {
    fn from(pod: &api::Pod) -> Self {
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        Self {
            name: pod.metadata.name.clone().unwrap_or_default(),
            counts: match phase {
                _ if pod.metadata.deletion_timestamp.is_some() => PodCounts::No,
                Some("Failed") => PodCounts::No,
                Some("Pending") => PodCounts::Pending,
                _ => PodCounts::Yes,
            },
            is_ready: phase == Some("Running")
                && conditions.any(|it| it.type_ == "Ready" && it.status == "True"),
        }
    }
}

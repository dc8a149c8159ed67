//! When the containers of a pod started, and whether it has been Ready since.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition};

use super::objects::timestamp;
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::Startup;

/// How long after its readiness a sample may show a pod before it: exporters read GPUs every
/// 30 s by default.
pub const READ_EVERY: Duration = Duration::from_secs(30);

/// When the first container started that still runs.
pub(super) fn running_since(containers: &[ContainerStatus]) -> Option<Timestamp> {
    let states = containers.iter().filter_map(|it| it.state.as_ref());
    let running = states.filter_map(|state| state.running.as_ref());
    let starts = running.filter_map(|running| running.started_at.as_ref());
    starts.map(timestamp).min()
}

/// Whether a pod with these conditions and containers has been Ready. In a pod that has never
/// been, the condition is as old as the containers; in one that loses its readiness it is
/// younger.
#[must_use]
pub fn startup(conditions: &[PodCondition], containers: &[ContainerStatus]) -> Startup {
    let ready = conditions.iter().find(|it| it.type_ == "Ready");
    let since = ready.and_then(|it| it.last_transition_time.as_ref());
    let (Some(ready), Some(since)) = (ready, since.map(timestamp)) else {
        return Startup::Unknown;
    };
    let is_as_old = || running_since(containers).is_some_and(|running| since <= running);
    match &*ready.status {
        "True" if is_as_old() => Startup::ReadySince(since),
        "True" => Startup::ReadySince(since + READ_EVERY),
        "False" if is_as_old() => Startup::Starting,
        _ => Startup::Unknown,
    }
}

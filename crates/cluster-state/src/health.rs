//! State of the watches, for readiness, metrics and the log.
//!
//! The log has a line when a watch breaks or fails with another kind of error, and one when it
//! works again.

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::error::CallError;
use apimachinery::condition::Condition;

/// Whether readiness depends on a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// The server is not ready until the watch has been complete once.
    Required,
    /// As `Required`, until kube-apiserver forbids the watch. From then on as `Optional`,
    /// because waiting does not grant the permission.
    WhereAllowed,
    /// Readiness does not depend on it.
    Optional,
}

/// State of one watch.
#[derive(Clone, Debug)]
pub struct WatchHealth {
    /// What is watched: `pods`, `deployments.apps`, a ConfigMap's name.
    pub name: Arc<str>,
    /// Whether readiness depends on it.
    pub need: Need,
    /// Whether it has ever been complete. While it is broken its objects stay.
    pub complete: bool,
    /// The error of the last call, if it failed.
    pub(super) condition: Condition<CallError, Instant>,
    /// Time of the last message from the server: an object, a bookmark, a list. `None`: never.
    pub last_contact: Option<Instant>,
}

/// The states of all watches, by name. Clones share one registry.
#[derive(Clone, Debug, Default)]
pub struct WatchRegistry(Arc<Mutex<BTreeMap<Arc<str>, WatchHealth>>>);

impl WatchRegistry {
    /// Every watch, by name.
    #[must_use]
    pub fn watches(&self) -> Vec<WatchHealth> {
        self.0.lock().values().cloned().collect()
    }

    /// Whether every required watch has been complete once. A watch that broke later keeps its
    /// objects, and the server stays ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let watches = self.0.lock();
        let mut watches = watches.values();
        watches.all(|watch| watch.need == Need::Optional || watch.complete)
    }

    /// Registers a watch; dropping the reporter removes it.
    pub(super) fn enter(&self, name: &str, need: Need) -> Reporter {
        let name: Arc<str> = name.into();
        let health = WatchHealth {
            name: Arc::clone(&name),
            need,
            complete: false,
            condition: Condition::default(),
            last_contact: None,
        };
        self.0.lock().insert(Arc::clone(&name), health);
        Reporter {
            registry: self.clone(),
            name,
        }
    }
}

#[derive(Debug)]
pub(super) struct Reporter {
    registry: WatchRegistry,
    name: Arc<str>,
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.registry.0.lock().remove(&self.name);
    }
}

impl Reporter {
    /// Changes the watch's entry, which exists as long as the reporter.
    fn change<T>(&self, change: impl FnOnce(&mut WatchHealth) -> T) -> Option<T> {
        self.registry.0.lock().get_mut(&self.name).map(change)
    }

    pub(super) fn well(&self) {
        let now = Instant::now();
        let former = self.change(|watch| {
            watch.complete = true;
            watch.last_contact = Some(now);
            watch.condition.set(None, now)
        });
        let failed_since = former.flatten().and_then(|former| former.since());
        if let Some(since) = failed_since {
            let secs = since.elapsed().as_secs();
            tracing::info!(watch = &*self.name, "recovered after {secs} s");
        }
    }

    pub(super) fn failed(&self, error: &CallError) {
        let former = self.change(|watch| {
            if watch.need == Need::WhereAllowed && error.is_forbidden() {
                watch.need = Need::Optional;
            }
            watch.condition.set(Some(error.clone()), Instant::now())
        });
        let Some(former) = former.flatten() else {
            return;
        };
        if former.reason().map(discriminant) != Some(discriminant(error)) {
            let watch = &*self.name;
            tracing::warn!(watch, "{error}; retrying, the known objects are kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aggregated_apiserver::testing::log::logging;

    fn away() -> CallError {
        CallError::Unreachable("https://a: refused".into())
    }

    #[test]
    fn the_server_is_ready_once_each_required_watch_has_been_complete() {
        let registry = WatchRegistry::default();
        let pods = registry.enter("pods", Need::Required);
        let _jobs = registry.enter("jobs.batch", Need::Optional);
        assert!(!registry.is_ready());
        pods.failed(&away());
        assert!(!registry.is_ready());
        pods.well();
        assert!(registry.is_ready());
        pods.failed(&away());
        // What is known is kept, and served.
        assert!(registry.is_ready());
    }

    #[test]
    fn readiness_waits_for_a_forbidden_watch_only_if_it_is_required() {
        let registry = WatchRegistry::default();
        let pods = registry.enter("pods", Need::Required);
        let nodes = registry.enter("nodes", Need::WhereAllowed);
        let forbidden = CallError::Forbidden {
            text: "no".to_owned(),
            remedy: "a rule".to_owned(),
        };
        pods.well();
        nodes.failed(&away());
        assert!(!registry.is_ready(), "an outage ends");
        nodes.failed(&forbidden);
        assert!(registry.is_ready());
        let namespaces = registry.enter("namespaces", Need::Required);
        namespaces.failed(&forbidden);
        assert!(!registry.is_ready());
    }

    #[test]
    fn an_error_is_logged_again_only_after_another_kind_or_when_the_watch_has_worked() {
        let (log, _guard) = logging(tracing::Level::WARN);
        let registry = WatchRegistry::default();
        let pods = registry.enter("pods", Need::Required);
        let lines = || log.text().lines().count();
        let status = |code| CallError::Status(code, String::new());
        for (error, count) in [(status(500), 1), (status(503), 1), (away(), 2), (away(), 2)] {
            pods.failed(&error);
            assert_eq!(lines(), count, "{error}");
        }
        pods.well();
        pods.failed(&away());
        assert_eq!(lines(), 3);
    }

    #[test]
    fn a_watch_that_ends_is_removed_from_the_registry() {
        let registry = WatchRegistry::default();
        let reporter = registry.enter("rayclusters.ray.io", Need::Optional);
        assert_eq!(registry.watches().len(), 1);
        drop(reporter);
        assert!(registry.watches().is_empty());
    }
}

//! State of the watches, for readiness, metrics and the log.
//!
//! The log has one line when a failure begins, at most one for each kind of error of a watch,
//! and one when it ends. An outage of kube-apiserver is one failure, however many watches it
//! breaks.

use std::collections::{BTreeMap, HashSet};
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::bindings::Binding;
use super::error::CallError;
use apimachinery::condition::{Condition, State};

/// What a single ClusterRoleBinding allows the server to read.
const INVENTORY: [&str; 3] = ["pods", "namespaces", "nodes"];

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
    condition: Condition<CallError, Instant>,
    /// The kinds of errors since it last worked.
    kinds: HashSet<Discriminant<CallError>>,
    /// Time of the last message from the server: an object, a bookmark, a list, an
    /// accepted watch. `None`: never.
    pub last_contact: Option<Instant>,
    /// Objects kept.
    pub objects: usize,
    /// Calls that failed.
    pub failures: u64,
    /// Objects left out because they are invalid.
    pub left_out: u64,
}

impl WatchHealth {
    /// Why it does not work, with the remedy if there is one; `None`: it works.
    #[must_use]
    pub fn trouble(&self) -> Option<String> {
        match self.condition.state().reason() {
            Some(error) => Some(error.to_string()),
            None if self.complete => None,
            None => Some("waiting for kube-apiserver".to_owned()),
        }
    }

    /// Time since the last message from the server; `None`: never.
    #[must_use]
    pub fn age(&self, now: Instant) -> Option<Duration> {
        self.last_contact
            .map(|last| now.saturating_duration_since(last))
    }
}

#[derive(Debug, Default)]
struct WatchStates {
    watches: BTreeMap<Arc<str>, WatchHealth>,
    /// Whether kube-apiserver answers.
    outage: Condition<(), Instant>,
}

/// The states of all watches, by name. Clones share one registry.
#[derive(Clone, Debug, Default)]
pub struct WatchRegistry(Arc<Mutex<WatchStates>>);

impl WatchRegistry {
    /// Every watch, by name.
    #[must_use]
    pub fn watches(&self) -> Vec<WatchHealth> {
        self.0.lock().watches.values().cloned().collect()
    }

    /// The required watches that were never complete, each with its reason: the
    /// failed readiness checks. A watch that broke later keeps its objects, and the
    /// server stays ready.
    #[must_use]
    pub fn unready(&self) -> Vec<(Arc<str>, String)> {
        self.troubles(|watch| watch.need != Need::Optional && !watch.complete)
    }

    /// Every watch that is broken now, with the reason. Values are still served.
    #[must_use]
    pub fn unwell(&self) -> Vec<(Arc<str>, String)> {
        self.troubles(|_| true)
    }

    fn troubles(&self, is_wanted: fn(&WatchHealth) -> bool) -> Vec<(Arc<str>, String)> {
        let watches = self.watches().into_iter().filter(is_wanted);
        let mut troubles: Vec<(Arc<str>, String)> = watches
            .filter_map(|watch| Some((Arc::clone(&watch.name), watch.trouble()?)))
            .collect();
        // One missing ClusterRoleBinding breaks all these watches: report it once.
        if let Some(why) = self.unbound() {
            let all = troubles.len();
            troubles.retain(|(name, _)| !INVENTORY.contains(&&**name));
            if troubles.len() < all {
                troubles.push(("inventory".into(), why));
            }
        }
        troubles
    }

    /// The message about the missing ClusterRoleBinding, with its remedy. `None`: not every
    /// watch of the inventory is forbidden.
    #[must_use]
    pub fn unbound(&self) -> Option<String> {
        let watches = self.watches();
        let refusal = |name: &&str| {
            let watch = watches.iter().find(|watch| *watch.name == **name)?;
            let reason = watch.condition.state().reason()?;
            reason.is_forbidden().then_some(reason)
        };
        let refusals: Option<Vec<&CallError>> = INVENTORY.iter().map(refusal).collect();
        let remedy = Binding::Inventory.remedy(&refusals?.last()?.to_string())?;
        Some(format!(
            "the server may list none of {}: {remedy}",
            INVENTORY.join(", ")
        ))
    }

    /// Sets the numbers of kept objects, by watch.
    pub(super) fn count(&self, sizes: Vec<(String, usize)>) {
        let mut states = self.0.lock();
        for (name, objects) in sizes {
            if let Some(watch) = states.watches.get_mut(&*name) {
                watch.objects = objects;
            }
        }
    }

    /// Registers a watch; dropping the reporter removes it.
    pub(super) fn enter(&self, name: &str, need: Need) -> Reporter {
        let name: Arc<str> = name.into();
        let health = WatchHealth {
            name: Arc::clone(&name),
            need,
            complete: false,
            condition: Condition::default(),
            kinds: HashSet::new(),
            last_contact: None,
            objects: 0,
            failures: 0,
            left_out: 0,
        };
        self.0.lock().watches.insert(Arc::clone(&name), health);
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
        self.registry.0.lock().watches.remove(&self.name);
    }
}

impl Reporter {
    /// Changes the watch's entry, which exists as long as the reporter.
    fn change<T>(&self, change: impl FnOnce(&mut WatchHealth) -> T) -> Option<T> {
        let mut states = self.registry.0.lock();
        states.watches.get_mut(&self.name).map(change)
    }

    pub(super) fn contact(&self) {
        self.change(|watch| watch.last_contact = Some(Instant::now()));
    }

    pub(super) fn well(&mut self) {
        let now = Instant::now();
        let outage = self.registry.0.lock().outage.set(None, now);
        let former = self.change(|watch| {
            watch.complete = true;
            watch.last_contact = Some(now);
            watch.kinds.clear();
            watch.condition.set(None, now)
        });
        if let Some(State::Failing { since, .. }) = outage {
            let secs = since.elapsed().as_secs();
            tracing::info!("kube-apiserver answers after {secs} s");
        } else if let Some(Some(State::Failing { reason, since })) = former
            && !reason.is_outage()
        {
            let secs = since.elapsed().as_secs();
            tracing::info!(watch = &*self.name, "recovered after {secs} s");
        }
    }

    pub(super) fn failed(&mut self, error: &CallError) {
        if self.begins(error) {
            tracing::warn!(
                watch = &*self.name,
                "{error}; retrying, the known objects are kept"
            );
        }
    }

    /// Records a failed call. Returns whether to log it: it is the first error of its kind
    /// since the watch last worked, and not part of a known outage.
    fn begins(&self, error: &CallError) -> bool {
        let now = Instant::now();
        let is_new = self.change(|watch| {
            watch.failures += 1;
            if watch.need == Need::WhereAllowed && error.is_forbidden() {
                watch.need = Need::Optional;
            }
            watch.condition.set(Some(error.clone()), now);
            watch.kinds.insert(discriminant(error))
        });
        let begins_outage = || self.registry.0.lock().outage.set(Some(()), now).is_some();
        is_new == Some(true) && (!error.is_outage() || begins_outage())
    }

    /// Counts an object that was left out. Only the first one of a watch is logged.
    pub(super) fn left_out(&mut self, why: &str) {
        let count = self.change(|watch| {
            watch.left_out += 1;
            watch.left_out
        });
        if count == Some(1) {
            tracing::warn!(
                watch = &*self.name,
                "an object is skipped (later ones are only counted): it cannot be read: {why}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> CallError {
        CallError::Unreachable("https://a".into(), "refused".into())
    }

    #[test]
    fn a_required_watch_is_unready_with_its_reason_until_it_has_been_complete_once() {
        let registry = WatchRegistry::default();
        let mut pods = registry.enter("pods", Need::Required);
        let _jobs = registry.enter("jobs.batch", Need::Optional);
        assert_eq!(registry.unready().len(), 1);
        pods.failed(&away());
        let unready = registry.unready();
        assert_eq!(&*unready[0].0, "pods");
        assert!(unready[0].1.contains("https://a"), "{unready:?}");
        pods.well();
        assert!(registry.unready().is_empty());
        pods.failed(&away());
        // What is known is kept, and served.
        assert!(registry.unready().is_empty());
        let unwell = || registry.unwell().into_iter().map(|(watch, _)| watch);
        let both: Vec<_> = unwell().collect();
        assert_eq!(both, ["jobs.batch".into(), "pods".into()]);
        pods.well();
        assert_eq!(unwell().collect::<Vec<_>>(), ["jobs.batch".into()]);
    }

    #[test]
    fn readiness_waits_for_a_forbidden_watch_only_if_it_is_required() {
        let registry = WatchRegistry::default();
        let mut pods = registry.enter("pods", Need::Required);
        let mut nodes = registry.enter("nodes", Need::WhereAllowed);
        let unready = || registry.unready().into_iter().map(|(watch, _)| watch);
        nodes.failed(&away());
        assert_eq!(unready().count(), 2, "an outage ends");
        let forbidden = CallError::Forbidden {
            text: "no".to_owned(),
            remedy: "a rule".to_owned(),
        };
        pods.failed(&forbidden);
        nodes.failed(&forbidden);
        assert_eq!(unready().collect::<Vec<_>>(), ["pods".into()]);
        let unwell = registry.unwell().len();
        assert_eq!(unwell, 2, "and it is reported nevertheless");
    }

    #[test]
    fn one_missing_binding_is_reported_once_and_not_for_each_watch() {
        let registry = WatchRegistry::default();
        let mut watches = INVENTORY.map(|name| registry.enter(name, Need::Required));
        let user = "system:serviceaccount:gpu:server";
        let forbidden = |name: &str| CallError::Forbidden {
            text: format!("{name} is forbidden: User \"{user}\" cannot list"),
            remedy: "a rule".to_owned(),
        };
        for (watch, name) in watches.iter_mut().zip(INVENTORY).skip(1) {
            watch.failed(&forbidden(name));
        }
        assert_eq!(registry.unbound(), None, "a rule is missing, no binding");
        watches[0].failed(&forbidden("pods"));
        let unready = registry.unready();
        assert_eq!(unready.len(), 1, "{unready:?}");
        let words = "kubectl create clusterrolebinding server:inventory ";
        assert!(unready[0].1.contains(words), "{unready:?}");
        watches[0].well();
        assert_eq!(registry.unbound(), None);
        assert_eq!(registry.unready().len(), 2);
    }

    #[test]
    fn an_outage_is_logged_once_for_all_watches_and_ends_with_the_first_answer() {
        let registry = WatchRegistry::default();
        let mut pods = registry.enter("pods", Need::Required);
        let mut nodes = registry.enter("nodes", Need::Required);
        let late = CallError::Timeout("https://a".into(), Duration::from_secs(60));
        assert!(pods.begins(&away()));
        let outage = || registry.0.lock().outage.state().since();
        let begun = outage();
        assert!(!nodes.begins(&away()) && !nodes.begins(&late));
        assert!(begun.is_some() && outage() == begun);
        nodes.well();
        assert_eq!(outage(), None);
        assert_eq!(registry.watches()[1].failures, 1);
        pods.well();
        assert!(nodes.begins(&late));
    }

    #[test]
    fn errors_that_alternate_are_logged_once_until_the_watch_works() {
        let registry = WatchRegistry::default();
        let mut pods = registry.enter("pods", Need::Required);
        let status = |code| CallError::Status("https://a".into(), code, String::new());
        let cut = CallError::Cut("https://a".into(), String::new());
        for is_new in [true, false, false] {
            assert_eq!(pods.begins(&status(500)), is_new);
            assert_eq!(pods.begins(&cut), is_new);
            assert!(!pods.begins(&status(503)));
        }
        pods.well();
        assert!(pods.begins(&cut));
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

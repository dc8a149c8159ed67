//! Selection of the kinds to follow, without I/O.
//!
//! A kind is followed while a GPU pod has an owner of this kind, directly or through other
//! owners. A kind whose objects are requested by rules is followed from the first request on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use super::objects::KeptObject;
use super::pool::KindName;
use super::table::Table;
use gpu_metrics::inventory::ObjectKind;

/// How long a kind is followed after the last GPU pod with an owner of this kind is gone.
const UNUSED: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
pub(super) enum KindWatch {
    /// The kind is to be looked up in discovery.
    #[default]
    Missing,
    /// Discovery does not have the kind, or it cannot be watched.
    NotServed,
    /// The task of the watch. It ends when the kind is no longer served.
    Task(AbortHandle),
}

#[derive(Debug, Default)]
pub(super) struct FollowedKind {
    pub(super) watch: KindWatch,
    /// The resource as in discovery; `None`: not looked up yet, or not served.
    pub(super) resource: Option<ObjectKind>,
    pub(super) objects: Table<KeptObject>,
    /// Whether rules request its objects.
    pub(super) requested: bool,
    /// Since when no GPU pod has an owner of this kind; `None`: it is in use.
    unused: Option<Instant>,
}

impl Drop for FollowedKind {
    fn drop(&mut self) {
        if let KindWatch::Task(task) = &self.watch {
            task.abort();
        }
    }
}

impl FollowedKind {
    /// The resource, if its objects are in namespaces, so that they may own pods.
    pub(super) fn of_owners(&self) -> Option<&ObjectKind> {
        self.resource.as_ref().filter(|kind| kind.namespaced)
    }

    fn is_missing(&self) -> bool {
        match &self.watch {
            KindWatch::Missing => true,
            KindWatch::NotServed => false,
            KindWatch::Task(task) => task.is_finished(),
        }
    }
}

pub(super) type Uses = BTreeSet<KindName>;

#[derive(Debug, Default)]
pub(super) struct Kinds(BTreeMap<KindName, FollowedKind>);

impl Kinds {
    pub(super) fn get(&self, name: &KindName) -> Option<&FollowedKind> {
        self.0.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &KindName) -> Option<&mut FollowedKind> {
        self.0.get_mut(name)
    }

    /// The kinds that are to be looked up and watched.
    pub(super) fn missing(&self) -> Vec<KindName> {
        let missing = self.0.iter().filter(|(_, kind)| kind.is_missing());
        missing.map(|(name, _)| name.clone()).collect()
    }

    /// Makes the kinds that were not served be looked up again.
    pub(super) fn look_again(&mut self) {
        for kind in self.0.values_mut() {
            if let KindWatch::NotServed = kind.watch {
                kind.watch = KindWatch::Missing;
            }
        }
    }

    pub(super) fn are_settled(&self) -> bool {
        self.0.values().all(|kind| kind.objects.settled)
    }

    pub(super) fn is_settled(&self, name: &KindName) -> bool {
        self.get(name).is_none_or(|kind| kind.objects.settled)
    }

    /// Follows a kind that rules request. Returns whether the request is the first.
    pub(super) fn request(&mut self, name: &KindName) -> bool {
        let kind = self.0.entry(name.clone()).or_default();
        if kind.requested {
            return false;
        }
        (kind.requested, kind.unused) = (true, None);
        // Objects outside of namespaces are watched only on request.
        if let KindWatch::NotServed = kind.watch {
            (kind.watch, kind.objects.settled) = (KindWatch::Missing, false);
        }
        true
    }

    /// Sets the kinds in use. Returns whether new kinds are followed.
    pub(super) fn set_used(&mut self, mut used: Uses, now: Instant) -> bool {
        self.0.retain(|name, kind| {
            if used.remove(name) || kind.requested {
                kind.unused = None;
            } else {
                kind.unused.get_or_insert(now);
            }
            let unused = kind.unused;
            unused.is_none_or(|since| now.saturating_duration_since(since) < UNUSED)
        });
        let is_new = !used.is_empty();
        self.0
            .extend(used.into_iter().map(|name| (name, FollowedKind::default())));
        is_new
    }
}

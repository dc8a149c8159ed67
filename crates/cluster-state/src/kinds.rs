//! Selection of the kinds to follow, without I/O.
//!
//! A kind is followed while a GPU pod has an owner of this kind, directly or through other
//! owners. A kind whose objects are requested by rules is followed from the first request on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::objects::KeptObject;
use super::pool::KindName;
use super::table::Table;
use gpu_metrics::inventory::ObjectKind;

/// How long a kind is followed after the last GPU pod with an owner of this kind is gone.
const UNUSED: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(super) struct FollowedKind {
    /// Differs from the number of an earlier entry for the same kind.
    number: u64,
    /// The resource as in discovery; `None`: not looked up yet, or not served.
    pub(super) resource: Option<ObjectKind>,
    pub(super) objects: Table<KeptObject>,
    /// Whether rules request its objects.
    pub(super) requested: bool,
    /// Whether it was logged that it is not served.
    pub(super) told: bool,
    /// Since when no GPU pod has an owner of this kind; `None`: it is in use.
    unused: Option<Instant>,
}

impl FollowedKind {
    /// The resource, if its objects are in namespaces, so that they may own pods.
    pub(super) fn of_owners(&self) -> Option<&ObjectKind> {
        self.resource.as_ref().filter(|kind| kind.namespaced)
    }
}

pub(super) type Uses = BTreeSet<Arc<KindName>>;

#[derive(Debug, Default)]
pub(super) struct Kinds {
    followed: BTreeMap<Arc<KindName>, FollowedKind>,
    /// The last number assigned.
    number: u64,
}

impl Kinds {
    pub(super) fn get(&self, name: &KindName) -> Option<&FollowedKind> {
        self.followed.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &KindName) -> Option<&mut FollowedKind> {
        self.followed.get_mut(name)
    }

    /// All followed kinds, by their numbers.
    pub(super) fn names(&self) -> BTreeMap<u64, Arc<KindName>> {
        let followed = self.followed.iter();
        followed
            .map(|(name, kind)| (kind.number, Arc::clone(name)))
            .collect()
    }

    pub(super) fn are_settled(&self) -> bool {
        self.followed.values().all(|kind| kind.objects.settled)
    }

    pub(super) fn is_settled(&self, name: &KindName) -> bool {
        self.get(name).is_none_or(|kind| kind.objects.settled)
    }

    /// Follows a kind that rules request. Returns whether the request is the first.
    pub(super) fn request(&mut self, name: &KindName) -> bool {
        let known = self.followed.get(name);
        if known.is_some_and(|kind| kind.requested) {
            return false;
        }
        // Objects outside of namespaces are watched only on request.
        if known.is_none_or(|kind| kind.resource.is_none()) {
            self.follow(Arc::new(name.clone()));
        }
        if let Some(kind) = self.followed.get_mut(name) {
            (kind.requested, kind.unused) = (true, None);
        }
        true
    }

    fn follow(&mut self, name: Arc<KindName>) {
        self.number += 1;
        let kind = FollowedKind {
            number: self.number,
            resource: None,
            objects: Table::default(),
            requested: false,
            told: false,
            unused: None,
        };
        self.followed.insert(name, kind);
    }

    /// Sets the kinds in use. Returns whether the set of followed kinds has changed.
    pub(super) fn set_used(&mut self, mut used: Uses, now: Instant) -> bool {
        for (name, kind) in &mut self.followed {
            if used.remove(name) || kind.requested {
                kind.unused = None;
            } else {
                kind.unused.get_or_insert(now);
            }
        }
        let before = self.followed.len();
        self.followed.retain(|_, kind| {
            let unused = kind.unused;
            unused.is_none_or(|since| now.saturating_duration_since(since) < UNUSED)
        });
        let changed = self.followed.len() != before || !used.is_empty();
        for name in used {
            self.follow(name);
        }
        changed
    }
}

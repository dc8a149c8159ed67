//! Selection of the kinds to follow, without I/O.
//!
//! A kind is followed while a GPU pod has an owner of it, directly or further
//! up. Those that come with Kubernetes always have a place; of the others,
//! which users with the right to write pods can invent, the first by name have one.
//! A kind whose objects rules ask for is followed from the first request on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::objects::KeptObject;
use super::pool::KindName;
use super::table::Table;
use gpu_metrics::inventory::ObjectKind;

/// The most kinds of owners followed at once, not counting [built-in](is_built_in) ones,
/// and the most kinds that rules ask for.
pub(super) const MOST_KINDS: usize = 64;

/// How long a kind is followed after the last GPU pod with such an owner.
const UNUSED: Duration = Duration::from_secs(600);

/// The controllers that come with Kubernetes
/// (`kubernetes.io/docs/concepts/workloads/controllers`).
const BUILT_IN: [(&str, &str); 7] = [
    ("", "ReplicationController"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("batch", "CronJob"),
    ("batch", "Job"),
];

/// Whether a kind comes with Kubernetes: users cannot invent more of these.
fn is_built_in(name: &KindName) -> bool {
    BUILT_IN.contains(&(&*name.group, &*name.kind))
}

/// A followed kind.
#[derive(Debug)]
pub(super) struct FollowedKind {
    /// Differs from the number of an earlier entry for the same kind.
    number: u64,
    /// The resource by discovery; `None`: not looked up yet, or not served.
    pub(super) resource: Option<ObjectKind>,
    pub(super) objects: Table<KeptObject>,
    /// Whether rules ask for its objects.
    pub(super) requested: bool,
    /// When the last GPU pod with such an owner was gone.
    unused: Option<Instant>,
}

impl FollowedKind {
    /// The resource, if its objects are in namespaces, so that they may own pods.
    pub(super) fn of_owners(&self) -> Option<&ObjectKind> {
        self.resource.as_ref().filter(|kind| kind.namespaced)
    }
}

/// The kinds in use.
pub(super) type Uses = BTreeSet<Arc<KindName>>;

/// The followed kinds.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    followed: BTreeMap<Arc<KindName>, FollowedKind>,
    /// Kinds in use that exceed the limit.
    left_out: Uses,
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

    /// Kinds in use that exceed the limit.
    pub(super) const fn left_out(&self) -> &Uses {
        &self.left_out
    }

    /// Whether the first list of every kind has ended.
    pub(super) fn are_settled(&self) -> bool {
        self.followed.values().all(|kind| kind.objects.settled)
    }

    /// Whether the first list of a kind has ended.
    pub(super) fn is_settled(&self, name: &KindName) -> bool {
        self.get(name).is_none_or(|kind| kind.objects.settled)
    }

    /// Follows a kind that rules ask for. Returns whether that is new; `None`: there are
    /// too many of them.
    pub(super) fn request(&mut self, name: &KindName) -> Option<bool> {
        let known = self.followed.get(name);
        if known.is_some_and(|kind| kind.requested) {
            return Some(false);
        }
        let requested = self.followed.values().filter(|kind| kind.requested);
        if requested.count() >= MOST_KINDS {
            return None;
        }
        // Objects outside of namespaces are watched only on request.
        if known.is_none_or(|kind| kind.resource.is_none()) {
            self.follow(Arc::new(name.clone()));
        }
        let kind = self.followed.get_mut(name)?;
        (kind.requested, kind.unused) = (true, None);
        Some(true)
    }

    fn follow(&mut self, name: Arc<KindName>) {
        self.number += 1;
        let kind = FollowedKind {
            number: self.number,
            resource: None,
            objects: Table::default(),
            requested: false,
            unused: None,
        };
        self.followed.insert(name, kind);
    }

    /// Sets the kinds in use. Returns whether other kinds are to be followed.
    pub(super) fn set_used(&mut self, used: Uses, now: Instant) -> bool {
        let (mut wanted, others): (Uses, Uses) =
            used.into_iter().partition(|name| is_built_in(name));
        let mut others = others.into_iter();
        wanted.extend(others.by_ref().take(MOST_KINDS));
        let left_out: Uses = others.collect();
        let mut changed = left_out != self.left_out;
        self.left_out = left_out;
        for (name, kind) in &mut self.followed {
            if wanted.remove(name) || kind.requested {
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
        changed |= self.followed.len() != before || !wanted.is_empty();
        for name in wanted {
            self.follow(name);
        }
        changed
    }
}

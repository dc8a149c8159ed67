//! Selection of the kinds of owners to follow, without I/O.
//!
//! A kind is followed while a GPU pod has an owner of it, directly or further
//! up. Those that come with Kubernetes always have a place; of the others,
//! which users with the right to write pods can invent, the first by name have one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::objects::KeptObject;
use super::pool::{KindKey, KindName};
use super::table::Table;
use gpu_metrics::inventory::ObjectKind;

/// The most kinds followed at once, not counting [built-in](is_built_in) ones.
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
fn is_built_in((group, kind): &KindKey) -> bool {
    BUILT_IN.contains(&(&**group, &**kind))
}

/// A followed kind.
#[derive(Debug)]
pub(super) struct OwnerKind {
    /// Differs from the number of an earlier entry for the same kind.
    number: u64,
    name: Arc<KindName>,
    /// The resource by discovery; `None`: not looked up yet, or not served.
    pub(super) resource: Option<ObjectKind>,
    pub(super) objects: Table<KeptObject>,
    /// When the last GPU pod with such an owner was gone.
    unused: Option<Instant>,
}

/// The kinds in use.
pub(super) type Uses = BTreeMap<KindKey, Arc<KindName>>;

/// The followed kinds.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    followed: BTreeMap<KindKey, OwnerKind>,
    /// Kinds in use that exceed the limit.
    left_out: BTreeSet<Arc<KindName>>,
    /// The last number assigned.
    number: u64,
}

impl Kinds {
    pub(super) fn get(&self, key: &KindKey) -> Option<&OwnerKind> {
        self.followed.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &KindKey) -> Option<&mut OwnerKind> {
        self.followed.get_mut(key)
    }

    /// All followed kinds, each with its number.
    pub(super) fn names(&self) -> impl Iterator<Item = (u64, &Arc<KindName>)> {
        self.followed.values().map(|kind| (kind.number, &kind.name))
    }

    /// Kinds in use that exceed the limit.
    pub(super) const fn left_out(&self) -> &BTreeSet<Arc<KindName>> {
        &self.left_out
    }

    /// Whether the first list of every kind has ended.
    pub(super) fn is_settled(&self) -> bool {
        self.followed.values().all(|kind| kind.objects.settled)
    }

    /// Sets the kinds in use. Returns whether other kinds are to be followed.
    pub(super) fn set_used(&mut self, used: Uses, now: Instant) -> bool {
        let (mut wanted, others): (Uses, Uses) =
            used.into_iter().partition(|(key, _)| is_built_in(key));
        let mut others = others.into_iter();
        wanted.extend(others.by_ref().take(MOST_KINDS));
        let left_out: BTreeSet<_> = others.map(|(_, name)| name).collect();
        let mut changed = left_out != self.left_out;
        self.left_out = left_out;
        let in_use = wanted.keys().filter(|key| !is_built_in(key)).count();
        for (key, kind) in &mut self.followed {
            if wanted.remove(key).is_some() {
                kind.unused = None;
            } else {
                kind.unused.get_or_insert(now);
            }
        }
        changed |= self.let_go(MOST_KINDS - in_use, now) || !wanted.is_empty();
        for (key, name) in wanted {
            self.number += 1;
            let kind = OwnerKind {
                number: self.number,
                name,
                resource: None,
                objects: Table::default(),
                unused: None,
            };
            self.followed.insert(key, kind);
        }
        changed
    }

    /// Drops kinds that have been unused for long, or exceed the room, the longest
    /// unused first. Returns whether any was dropped.
    fn let_go(&mut self, room: usize, now: Instant) -> bool {
        let custom = self.followed.iter().filter(|(key, _)| !is_built_in(key));
        let mut unused: Vec<Instant> = custom.filter_map(|(_, kind)| kind.unused).collect();
        unused.sort_by_key(|since| Reverse(*since));
        let last = unused.get(room).copied();
        let before = self.followed.len();
        self.followed.retain(|key, kind| {
            kind.unused.is_none_or(|since| {
                let crowded = !is_built_in(key) && last.is_some_and(|last| since <= last);
                !crowded && now.saturating_duration_since(since) < UNUSED
            })
        });
        self.followed.len() != before
    }
}

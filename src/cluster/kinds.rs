//! Which kinds of owners are followed: the rules, without I/O.
//!
//! A kind is followed while a GPU pod has an owner of it, directly or further
//! up. Those that come with Kubernetes always have a place; of the others,
//! which whoever may write pods invents at will, the first by name have one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::objects::KeptObject;
use super::pool::{KindKey, KindName};
use super::table::Table;
use crate::core::inventory::ObjectKind;

/// Most kinds followed at once, [built-in](is_built_in) ones apart.
pub(super) const MOST_KINDS: usize = 64;

/// How long a kind is followed that no GPU pod has as owner any more.
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

/// Whether a kind comes with Kubernetes: nobody can invent more of these.
fn is_built_in((group, kind): &KindKey) -> bool {
    BUILT_IN.contains(&(&**group, &**kind))
}

/// A kind that is followed.
#[derive(Debug)]
pub(super) struct OwnerKind {
    pub(super) name: Arc<KindName>,
    /// What discovery says of it; `None`: not asked so far, or not served.
    pub(super) resource: Option<ObjectKind>,
    pub(super) objects: Table<KeptObject>,
    /// Since when no GPU pod has such an owner.
    unused: Option<Instant>,
}

/// The kinds in use, by what they are known by.
pub(super) type Uses = BTreeMap<KindKey, Arc<KindName>>;

/// The kinds that are followed.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    followed: BTreeMap<KindKey, OwnerKind>,
    /// Kinds in use that have no place.
    left_out: BTreeSet<Arc<KindName>>,
}

impl Kinds {
    pub(super) fn get(&self, key: &KindKey) -> Option<&OwnerKind> {
        self.followed.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &KindKey) -> Option<&mut OwnerKind> {
        self.followed.get_mut(key)
    }

    /// All that are followed.
    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<KindName>> {
        self.followed.values().map(|kind| &kind.name)
    }

    /// Kinds in use that have no place.
    pub(super) const fn left_out(&self) -> &BTreeSet<Arc<KindName>> {
        &self.left_out
    }

    /// Whether all is known that can be.
    pub(super) fn is_settled(&self) -> bool {
        self.followed.values().all(|kind| kind.objects.settled)
    }

    /// These are in use now. Whether others are to be followed than before.
    pub(super) fn set_used(&mut self, used: Uses, now: Instant) -> bool {
        let (built_in, others): (Uses, Uses) =
            used.into_iter().partition(|(key, _)| is_built_in(key));
        let mut others = others.into_iter();
        let mut wanted = built_in;
        wanted.extend(others.by_ref().take(MOST_KINDS));
        let left_out: BTreeSet<_> = others.map(|(_, name)| name).collect();
        let mut changed = left_out != self.left_out;
        self.left_out = left_out;
        for (key, kind) in &mut self.followed {
            if wanted.remove(key).is_some() {
                kind.unused = None;
            } else {
                kind.unused.get_or_insert(now);
            }
        }
        let before = self.followed.len();
        let in_use = |kind: &OwnerKind| kind.unused.is_none();
        let custom = |(key, kind): &(&KindKey, &OwnerKind)| !is_built_in(key) && in_use(kind);
        let taken = self.followed.iter().filter(custom).count() + wanted.len();
        self.followed.retain(|key, kind| {
            let crowded = taken >= MOST_KINDS && !is_built_in(key);
            kind.unused
                .is_none_or(|since| !crowded && now.saturating_duration_since(since) < UNUSED)
        });
        changed |= self.followed.len() != before || !wanted.is_empty();
        let added = wanted.into_iter().map(|(key, name)| {
            let kind = OwnerKind {
                name,
                resource: None,
                objects: Table::default(),
                unused: None,
            };
            (key, kind)
        });
        self.followed.extend(added);
        changed
    }
}

//! Which kinds of owners are looked up and followed: the rules, without I/O.
//!
//! Who may write pods of one namespace invents such kinds at will. So a kind
//! has a place only while it is served, a namespace has a share of the places,
//! lookups take turns between namespaces, and the kinds that every cluster has
//! need no place.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::pool::{KindKey, KindName};
use super::state::KeptObject;
use super::table::Table;
use crate::core::inventory::ObjectKind;

/// Most kinds followed at once, [built-in](is_built_in) ones apart.
pub(super) const MOST_KINDS: usize = 64;

/// Most of them for the pods of one namespace.
pub(super) const SHARE: usize = 16;

/// How long a kind is followed that no GPU pod has as owner any more.
const UNUSED: Duration = Duration::from_secs(600);

/// How soon a kind that is not served is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// How soon a lookup that failed is tried again, at first and at most.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(30);

/// Most kinds that are remembered as not served.
const MOST_ABSENT: usize = 1024;

/// Most lookups under way, and of them for one namespace: a group may be
/// served by somebody who does not answer.
const AT_ONCE: usize = 16;
const AT_ONCE_FOR_ONE: usize = 4;

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
pub(super) fn is_built_in((group, kind): &KindKey) -> bool {
    BUILT_IN.contains(&(&**group, &**kind))
}

/// A kind that is served and followed.
#[derive(Debug)]
pub(super) struct OwnerKind {
    /// What discovery says of it.
    pub(super) resource: ObjectKind,
    pub(super) objects: Table<KeptObject>,
    /// Whether the first attempt has ended, well or not.
    pub(super) settled: bool,
    /// Since when no GPU pod has such an owner.
    unused: Option<Instant>,
}

/// A kind that GPU pods have as owner, directly or further up.
#[derive(Debug)]
pub(super) struct Used {
    pub(super) kind: Arc<KindName>,
    /// Where these pods are.
    pub(super) namespaces: BTreeSet<Arc<str>>,
}

/// The kinds in use, by what they are known by.
pub(super) type Uses = BTreeMap<KindKey, Used>;

/// A kind that cannot be followed for now.
#[derive(Debug)]
struct Absent {
    again: Instant,
    /// Lookups that failed, one after another; none: it is not served.
    failures: u32,
}

/// Why a kind cannot be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Discovery does not know it, or says that it cannot be watched.
    NotServed,
    /// Discovery did not answer.
    Failed,
}

/// All that is known of kinds.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    followed: BTreeMap<KindKey, OwnerKind>,
    used: Uses,
    asking: BTreeSet<KindKey>,
    absent: BTreeMap<KindKey, Absent>,
    /// When each namespace had its turn last.
    turns: BTreeMap<Arc<str>, u64>,
    turn: u64,
}

/// A kind to look up, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lookup {
    pub(super) kind: Arc<KindName>,
    pub(super) namespace: Option<Arc<str>>,
}

impl Kinds {
    pub(super) fn get(&self, key: &KindKey) -> Option<&OwnerKind> {
        self.followed.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &KindKey) -> Option<&mut OwnerKind> {
        self.followed.get_mut(key)
    }

    /// What GPU pods have as owners now.
    pub(super) fn set_used(&mut self, used: Uses, now: Instant) {
        for (key, kind) in &mut self.followed {
            if used.contains_key(key) {
                kind.unused = None;
            } else {
                kind.unused.get_or_insert(now);
            }
        }
        self.absent.retain(|key, _| used.contains_key(key));
        let namespaces: BTreeSet<_> = used.values().flat_map(|used| &used.namespaces).collect();
        self.turns
            .retain(|namespace, _| namespaces.contains(namespace));
        self.used = used;
    }

    /// Lets go of what has been unused for long.
    pub(super) fn sweep(&mut self, now: Instant) {
        self.followed.retain(|_, kind| {
            let since = kind
                .unused
                .map(|since| now.saturating_duration_since(since));
            since.is_none_or(|since| since < UNUSED)
        });
    }

    /// Whether all is known that can be.
    pub(super) fn is_settled(&self, now: Instant) -> bool {
        self.asking.is_empty()
            && self.followed.values().all(|kind| kind.settled)
            && self.candidate(now, true).is_none()
    }

    /// Whether there is something to look up.
    pub(super) fn wants(&self, now: Instant) -> bool {
        self.candidate(now, true).is_some()
    }

    /// The next kind to look up; it counts as being looked up from now on.
    /// `all`: not only built-in kinds.
    pub(super) fn next(&mut self, now: Instant, all: bool) -> Option<Lookup> {
        let lookup = self.candidate(now, all)?;
        self.asking.insert(lookup.kind.key());
        if let Some(namespace) = &lookup.namespace {
            self.turn += 1;
            self.turns.insert(Arc::clone(namespace), self.turn);
        }
        Some(lookup)
    }

    fn candidate(&self, now: Instant, all: bool) -> Option<Lookup> {
        let waiting = self.used.iter().filter(|(key, _)| {
            let rests = self.absent.get(*key).is_some_and(|it| it.again > now);
            !rests && !self.followed.contains_key(*key) && !self.asking.contains(*key)
        });
        let mut others = Vec::new();
        for (key, used) in waiting {
            if is_built_in(key) {
                return Some(Lookup {
                    kind: Arc::clone(&used.kind),
                    namespace: None,
                });
            }
            others.push((key, used));
        }
        let custom = |key: &&KindKey| !is_built_in(key);
        if !all || others.is_empty() || self.asking.iter().filter(custom).count() >= AT_ONCE {
            return None;
        }
        if self.is_full() {
            return None;
        }
        let (shares, lookups) = (self.shares(), self.lookups());
        let count = |of: &BTreeMap<&Arc<str>, usize>, namespace: &Arc<str>| {
            of.get(namespace).copied().unwrap_or_default()
        };
        let turns = others.into_iter().flat_map(|(key, used)| {
            let namespaces = used.namespaces.iter();
            namespaces.map(move |namespace| (key, used, namespace))
        });
        turns
            .filter(|(_, _, namespace)| {
                count(&shares, namespace) < SHARE && count(&lookups, namespace) < AT_ONCE_FOR_ONE
            })
            .min_by_key(|(key, _, namespace)| {
                let turn = self.turns.get(*namespace).copied().unwrap_or_default();
                (turn, self.absent.contains_key(*key), *key)
            })
            .map(|(_, used, namespace)| Lookup {
                kind: Arc::clone(&used.kind),
                namespace: Some(Arc::clone(namespace)),
            })
    }

    /// Whether every place is taken by a kind in use.
    fn is_full(&self) -> bool {
        let taken = self
            .followed
            .iter()
            .filter(|(key, kind)| !is_built_in(key) && kind.unused.is_none());
        taken.count() >= MOST_KINDS
    }

    /// How many places each namespace has or asks for.
    fn shares(&self) -> BTreeMap<&Arc<str>, usize> {
        self.by_namespace(|key| self.followed.contains_key(key) || self.asking.contains(key))
    }

    fn lookups(&self) -> BTreeMap<&Arc<str>, usize> {
        self.by_namespace(|key| self.asking.contains(key))
    }

    fn by_namespace(&self, counts: impl Fn(&KindKey) -> bool) -> BTreeMap<&Arc<str>, usize> {
        let mut numbers = BTreeMap::new();
        for (key, used) in &self.used {
            if !is_built_in(key) && counts(key) {
                for namespace in &used.namespaces {
                    *numbers.entry(namespace).or_default() += 1;
                }
            }
        }
        numbers
    }

    /// A kind is served: follow it. Where all places are taken the one that
    /// has been unused for longest goes; whether there was a place.
    pub(super) fn found(&mut self, key: KindKey, resource: ObjectKind) -> bool {
        self.asking.remove(&key);
        self.absent.remove(&key);
        if !is_built_in(&key) {
            let places = self.followed.keys().filter(|key| !is_built_in(key)).count();
            let unused = self
                .followed
                .iter()
                .filter(|(key, kind)| !is_built_in(key) && kind.unused.is_some())
                .min_by_key(|(_, kind)| kind.unused)
                .map(|(key, _)| key.clone());
            match unused {
                Some(unused) if places >= MOST_KINDS => drop(self.followed.remove(&unused)),
                None if places >= MOST_KINDS => return false,
                _ => {}
            }
        }
        let kind = OwnerKind {
            resource,
            objects: Table::default(),
            settled: false,
            unused: None,
        };
        self.followed.insert(key, kind);
        true
    }

    /// A kind cannot be followed: it has no place, and rests.
    pub(super) fn lost(&mut self, key: KindKey, why: Why, now: Instant) {
        self.asking.remove(&key);
        self.followed.remove(&key);
        let before = self.absent.get(&key).map_or(0, |absent| absent.failures);
        let (failures, rest) = match why {
            Why::NotServed => (0, ASK_AGAIN),
            Why::Failed => (before + 1, RETRY_FIRST * (1 << before.min(5))),
        };
        let again = now + rest.min(if why == Why::Failed { RETRY_MOST } else { rest });
        if self.absent.len() >= MOST_ABSENT
            && let Some(oldest) = self.absent.iter().min_by_key(|(_, it)| it.again)
        {
            let oldest = oldest.0.clone();
            self.absent.remove(&oldest);
        }
        self.absent.insert(key, Absent { again, failures });
    }

    /// What finds no place because there are too many kinds, in words.
    pub(super) fn crowded(&self) -> Option<String> {
        let known = |key: &KindKey| {
            is_built_in(key)
                || self.followed.contains_key(key)
                || self.asking.contains(key)
                || self.absent.contains_key(key)
        };
        let shares = self.shares();
        let is_over = |namespace: &Arc<str>| shares.get(namespace).is_some_and(|n| *n >= SHARE);
        let full = self.is_full();
        let mut out = self
            .used
            .iter()
            .filter(|(key, used)| !known(key) && (full || used.namespaces.iter().all(is_over)));
        let (_, first) = out.next()?;
        let (most, count) = shares.iter().max_by_key(|(_, count)| **count)?;
        let kind = super::owners::spelled(&first.kind);
        let limit = if full {
            format!("more than {MOST_KINDS} kinds")
        } else {
            format!("more than {SHARE} kinds in one namespace")
        };
        Some(format!(
            "GPU pods have owners of {limit}: {kind} (namespace {}) and {} others are not \
             followed; most kinds, {count}, are those of namespace {most}: remove the owner \
             references there",
            first
                .namespaces
                .first()
                .map_or("", |namespace| &**namespace),
            out.count()
        ))
    }
}

//! The kinds to follow, with their objects.
//!
//! A kind is followed while a GPU pod has an owner of this kind, directly or through other
//! owners.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::pool::KindName;
use super::state::Event;
use super::table::Table;
use gpu_metrics::inventory::ObjectKind;

/// How long a kind is followed after the last GPU pod with an owner of this kind is gone.
const UNUSED: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
pub(super) struct FollowedKind {
    /// The resource as in discovery; `None`: not looked up yet, or not served.
    resource: Option<ObjectKind>,
    pub(super) objects: Table,
    /// Since when no GPU pod has an owner of this kind; `None`: it is in use.
    unused: Option<Instant>,
}

impl FollowedKind {
    /// The resource, if its objects are in namespaces, so that they may own pods.
    pub(super) fn of_owners(&self) -> Option<&ObjectKind> {
        self.resource.as_ref().filter(|kind| kind.namespaced)
    }
}

#[derive(Debug, Default)]
pub(super) struct FollowedKinds(BTreeMap<KindName, FollowedKind>);

impl FollowedKinds {
    pub(super) fn get(&self, name: &KindName) -> Option<&FollowedKind> {
        self.0.get(name)
    }

    /// Records whether a kind is served. Returns its objects; `None`: it is not followed.
    pub(super) fn apply(&mut self, name: &KindName, event: &Event) -> Option<&mut Table> {
        let kind = self.0.get_mut(name)?;
        match event {
            Event::Served(resource) => kind.resource = Some(resource.clone()),
            Event::NotServed => {
                (kind.resource, kind.objects) = (None, Table::default());
                kind.objects.settled = true;
            }
            _ => {}
        }
        Some(&mut kind.objects)
    }

    pub(super) fn names(&self) -> BTreeSet<KindName> {
        self.0.keys().cloned().collect()
    }

    pub(super) fn are_settled(&self) -> bool {
        self.0.values().all(|kind| kind.objects.settled)
    }

    /// Sets the kinds in use.
    pub(super) fn set_used(&mut self, used: BTreeSet<KindName>, now: Instant) {
        self.0.retain(|name, kind| {
            kind.unused = match used.contains(name) {
                true => None,
                false => Some(kind.unused.unwrap_or(now)),
            };
            let is_old = |since| now.saturating_duration_since(since) >= UNUSED;
            !kind.unused.is_some_and(is_old)
        });
        for name in used {
            self.0.entry(name).or_default();
        }
    }
}

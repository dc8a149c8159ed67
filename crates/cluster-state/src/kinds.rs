//! The kinds to follow, with their objects.
//!
//! A kind is followed while a GPU pod has an owner of this kind, directly or through other
//! owners. A kind whose objects are requested by rules is followed from the first request on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::names::{NamedObject, RequestedKind, RequestedKinds};
use super::objects::KeptObject;
use super::pool::KindName;
use super::table::{Key, Table};
use gpu_metrics::inventory::ObjectKind;

/// How long a kind is followed after the last GPU pod with an owner of this kind is gone.
const UNUSED: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
pub(super) struct FollowedKind {
    /// The resource as in discovery; `None`: not looked up yet, or not served.
    pub(super) resource: Option<ObjectKind>,
    pub(super) objects: Table<KeptObject>,
    /// Whether rules request its objects.
    requested: bool,
    /// The objects for rules; `None`: they have changed.
    listing: Option<Arc<[NamedObject]>>,
    /// Since when no GPU pod has an owner of this kind; `None`: it is in use.
    unused: Option<Instant>,
}

impl FollowedKind {
    /// The resource, if its objects are in namespaces, so that they may own pods.
    pub(super) fn of_owners(&self) -> Option<&ObjectKind> {
        self.resource.as_ref().filter(|kind| kind.namespaced)
    }

    fn listing(&mut self) -> Option<Arc<[NamedObject]>> {
        let named = |(key, object): (&Key, &KeptObject)| NamedObject {
            namespace: Arc::clone(&key.0),
            name: Arc::clone(&key.1),
            labels: object.labels.clone(),
        };
        if !self.objects.complete {
            return None;
        }
        let objects = self.objects.iter();
        let listing = self
            .listing
            .get_or_insert_with(|| objects.map(named).collect());
        Some(Arc::clone(listing))
    }
}

/// The name of a watch of a kind on the registry. A kind of the core group may have the name
/// of an inventory watch, such as `pods`.
pub(super) fn entry(kind: &ObjectKind) -> String {
    match kind.api_version.contains('/') {
        true => kind.resource.to_string(),
        false => format!("objects of {}", kind.resource),
    }
}

pub(super) type Uses = BTreeSet<KindName>;

#[derive(Debug, Default)]
pub(super) struct FollowedKinds(BTreeMap<KindName, FollowedKind>);

impl FollowedKinds {
    pub(super) fn get(&self, name: &KindName) -> Option<&FollowedKind> {
        self.0.get(name)
    }

    /// The objects of a kind, to be changed; `None`: it is not followed.
    pub(super) fn objects_mut(&mut self, name: &KindName) -> Option<&mut Table<KeptObject>> {
        let kind = self.0.get_mut(name)?;
        kind.listing = None;
        Some(&mut kind.objects)
    }

    pub(super) fn names(&self) -> BTreeSet<KindName> {
        self.0.keys().cloned().collect()
    }

    pub(super) fn are_settled(&self) -> bool {
        self.0.values().all(|kind| kind.objects.settled)
    }

    /// Follows a kind that rules request. Returns whether the request is the first.
    pub(super) fn request(&mut self, name: &KindName) -> bool {
        let kind = self.0.entry(name.clone()).or_default();
        kind.unused = None;
        !std::mem::replace(&mut kind.requested, true)
    }

    pub(super) fn served(&mut self, name: &KindName, resource: ObjectKind) -> bool {
        let Some(kind) = self.0.get_mut(name) else {
            return false;
        };
        kind.resource = Some(resource);
        true
    }

    /// A kind that is not served has no objects, and no snapshot waits for it.
    pub(super) fn not_served(&mut self, name: &KindName) -> bool {
        let Some(kind) = self.0.get_mut(name) else {
            return false;
        };
        (kind.resource, kind.objects, kind.listing) = (None, Table::default(), None);
        kind.objects.settled = true;
        true
    }

    /// Sets the kinds in use.
    pub(super) fn set_used(&mut self, mut used: Uses, now: Instant) {
        self.0.retain(|name, kind| {
            if used.remove(name) || kind.requested {
                kind.unused = None;
            } else {
                kind.unused.get_or_insert(now);
            }
            let unused = kind.unused;
            unused.is_none_or(|since| now.saturating_duration_since(since) < UNUSED)
        });
        let new = used.into_iter();
        self.0
            .extend(new.map(|name| (name, FollowedKind::default())));
    }

    /// The objects that rules request.
    pub(super) fn requested(&mut self) -> RequestedKinds {
        let requested = self.0.iter_mut().filter(|(_, kind)| kind.requested);
        let requested = requested.map(|(name, kind)| {
            let requested = RequestedKind {
                is_settled: kind.objects.settled,
                objects: kind.listing(),
            };
            (name.clone(), requested)
        });
        requested.collect()
    }

    pub(super) fn sizes(&self) -> impl Iterator<Item = (String, usize)> {
        let kinds = self.0.values();
        kinds.filter_map(|kind| Some((entry(kind.resource.as_ref()?), kind.objects.len())))
    }
}

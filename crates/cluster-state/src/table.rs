//! The objects of one collection.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::objects::KeptObject;
use super::pods::KeptPod;

/// Namespace (empty: cluster-scoped) and name.
pub(super) type Key = (Arc<str>, Arc<str>);

/// The objects of one collection. The next complete list replaces them; until then the old
/// ones stay.
#[derive(Debug, Default)]
pub(super) struct Table {
    objects: BTreeMap<Key, KeptObject>,
    /// The objects that the current list does not have so far.
    unlisted: BTreeSet<Key>,
    /// Whether a list was ever complete.
    pub(super) complete: bool,
    /// Whether the server may not list the collection.
    pub(super) forbidden: bool,
}

impl Table {
    /// Begins a list.
    pub(super) fn begin(&mut self) {
        self.unlisted = self.objects.keys().cloned().collect();
    }

    /// Returns the object that it replaces.
    pub(super) fn put(&mut self, key: Key, object: KeptObject) -> Option<KeptObject> {
        self.unlisted.remove(&key);
        self.objects.insert(key, object)
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<KeptObject> {
        self.objects.remove(key)
    }

    /// Completes a list: removes and returns the objects that are not in it.
    pub(super) fn finish(&mut self) -> Vec<(Key, KeptObject)> {
        (self.complete, self.forbidden) = (true, false);
        let unlisted = std::mem::take(&mut self.unlisted).into_iter();
        unlisted
            .filter_map(|key| Some((key.clone(), self.objects.remove(&key)?)))
            .collect()
    }

    /// A list or a watch failed: the objects stay. Returns whether the right to it has changed.
    pub(super) fn failed(&mut self, is_forbidden: bool) -> bool {
        std::mem::replace(&mut self.forbidden, is_forbidden) != is_forbidden
    }

    pub(super) fn get(&self, key: &Key) -> Option<&KeptObject> {
        self.objects.get(key)
    }

    /// All objects, by namespace and name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &KeptObject)> {
        self.objects.iter()
    }

    /// The pods among the objects.
    pub(super) fn pods(&self) -> impl Iterator<Item = &KeptPod> {
        self.iter().filter_map(|(_, object)| object.pod.as_deref())
    }
}

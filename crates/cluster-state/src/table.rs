//! The objects of one collection.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::objects::KeptObject;
use super::pods::KeptPod;

/// Namespace (empty: cluster-scoped) and name.
pub(super) type Key = (Arc<str>, Arc<str>);

/// The objects of one collection. The next complete list replaces them; until then the old
/// ones stay.
#[derive(Debug, Default)]
pub(super) struct Table {
    objects: BTreeMap<Key, Listed>,
    /// The number of the current or last list.
    list: u32,
    /// Whether a list was ever complete.
    pub(super) complete: bool,
    /// Whether the first attempt to list has ended, with or without success.
    pub(super) settled: bool,
    /// Whether the server may not list the collection.
    pub(super) forbidden: bool,
}

#[derive(Debug)]
struct Listed {
    /// The last list that has the object.
    list: u32,
    object: KeptObject,
}

impl Table {
    pub(super) fn begin(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    /// Returns the object that it replaces.
    pub(super) fn put(&mut self, key: Key, object: KeptObject) -> Option<KeptObject> {
        let list = self.list;
        let former = self.objects.insert(key, Listed { list, object });
        former.map(|former| former.object)
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<KeptObject> {
        self.objects.remove(key).map(|listed| listed.object)
    }

    /// Completes a list: removes and returns the objects that are not in it.
    pub(super) fn finish(&mut self) -> Vec<(Key, KeptObject)> {
        (self.complete, self.settled, self.forbidden) = (true, true, false);
        let unlisted = self.objects.iter().filter(|(_, it)| it.list != self.list);
        let unlisted: Vec<Key> = unlisted.map(|(key, _)| key.clone()).collect();
        let remove = |key: Key| {
            let object = self.remove(&key)?;
            Some((key, object))
        };
        unlisted.into_iter().filter_map(remove).collect()
    }

    /// A list or a watch failed: the objects stay. Returns whether that is new.
    pub(super) fn failed(&mut self, is_forbidden: bool) -> bool {
        let is_new = !self.settled || self.forbidden != is_forbidden;
        (self.settled, self.forbidden) = (true, is_forbidden);
        is_new
    }

    pub(super) fn get(&self, key: &Key) -> Option<&KeptObject> {
        self.objects.get(key).map(|listed| &listed.object)
    }

    /// All objects, by namespace and name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &KeptObject)> {
        let objects = self.objects.iter();
        objects.map(|(key, listed)| (key, &listed.object))
    }

    /// The pods among the objects.
    pub(super) fn pods(&self) -> impl Iterator<Item = &KeptPod> {
        self.iter().filter_map(|(_, object)| object.pod.as_deref())
    }
}

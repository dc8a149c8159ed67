//! The objects of one collection.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

/// Namespace (empty: cluster-scoped) and name.
pub(super) type Key = (Arc<str>, Arc<str>);

/// The objects of one collection. The next complete list replaces them; until then the old
/// ones stay.
#[derive(Debug)]
pub(super) struct Table<V> {
    objects: BTreeMap<Key, (u32, V)>,
    /// The number of the current or last list.
    list: u32,
    /// Whether a list was ever complete.
    pub(super) complete: bool,
    /// Whether the first attempt to list has ended, with or without success.
    pub(super) settled: bool,
    /// Whether the server may not list the collection.
    pub(super) forbidden: bool,
}

impl<V> Default for Table<V> {
    fn default() -> Self {
        Self {
            objects: BTreeMap::new(),
            list: 0,
            complete: false,
            settled: false,
            forbidden: false,
        }
    }
}

impl<V: PartialEq> Table<V> {
    pub(super) fn begin(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    /// Returns whether anything changed.
    pub(super) fn put(&mut self, key: Key, value: V) -> bool {
        match self.objects.entry(key) {
            Entry::Occupied(mut known) => {
                let changed = known.get().1 != value;
                known.insert((self.list, value));
                changed
            }
            Entry::Vacant(place) => {
                place.insert((self.list, value));
                true
            }
        }
    }

    pub(super) fn remove(&mut self, key: &Key) -> bool {
        self.objects.remove(key).is_some()
    }

    /// Objects that were not in the list that has just ended.
    pub(super) fn unlisted(&self) -> impl Iterator<Item = (&Key, &V)> {
        let objects = self.objects.iter();
        let gone = objects.filter(|(_, (list, _))| *list != self.list);
        gone.map(|(key, (_, value))| (key, value))
    }

    /// Completes a list: removes the objects that were not in it. Returns whether
    /// anything changed.
    pub(super) fn finish(&mut self) -> bool {
        let (before, first) = (self.objects.len(), !self.complete);
        self.objects.retain(|_, (list, _)| *list == self.list);
        (self.complete, self.settled, self.forbidden) = (true, true, false);
        first || self.objects.len() != before
    }

    /// A list or a watch failed: the objects stay. Returns whether that is new.
    pub(super) fn failed(&mut self, is_forbidden: bool) -> bool {
        let is_new = !self.settled || self.forbidden != is_forbidden;
        (self.settled, self.forbidden) = (true, is_forbidden);
        is_new
    }

    pub(super) fn get(&self, key: &Key) -> Option<&V> {
        self.objects.get(key).map(|(_, value)| value)
    }

    /// All objects, by namespace and name.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &V)> {
        self.objects.iter().map(|(key, (_, value))| (key, value))
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }
}

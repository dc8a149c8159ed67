//! State of the cluster. The watches write it, and snapshots are made from it.

use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::departed::{Departed, Departing};
use super::error::{CallError, excerpt};
use super::kinds::Kinds;
use super::objects::{KeptObject, WatchSettings};
use super::pods::KeptPod;
use super::pool::Pool;
use super::table::{Key, Table};
use super::wire::{self, Name, Object};
use apimachinery::time::Timestamp;

#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) pods: Table<KeptPod>,
    pub(super) namespaces: Table<KeptObject>,
    pub(super) nodes: Table<KeptObject>,
    /// Owners, and the objects that rules request, by kind.
    pub(super) kinds: Kinds,
}

#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) pool: Pool,
    pub(super) tables: Tables,
    pub(super) departed: Departed,
    /// When the first list of all pods was complete.
    pub(super) listed: Option<Timestamp>,
}

/// The state, shared by the watches and their readers.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) known: Mutex<Known>,
    pub(super) settings: ArcSwap<WatchSettings>,
    /// Notified when the settings for pods have changed: list the pods again.
    pub(super) pods_again: Arc<Notify>,
    /// Notified on any change: make a new snapshot.
    pub(super) changed: Notify,
    /// Notified when the set of followed kinds has changed.
    pub(super) kinds_changed: Notify,
    /// Notified when the first attempt to list a collection has ended.
    pub(super) settled: Notify,
}

impl Shared {
    pub(super) fn new(settings: WatchSettings) -> Self {
        Self {
            settings: ArcSwap::from_pointee(settings),
            ..Self::default()
        }
    }
}

/// Finds the table of a watch; `None`: its kind is no longer followed.
type Find<V> = dyn Fn(&mut Tables) -> Option<&mut Table<V>> + Send;

pub(super) struct Writer<V> {
    shared: Arc<Shared>,
    find: Box<Find<V>>,
}

impl<V: Departing> Writer<V> {
    pub(super) fn new(
        shared: Arc<Shared>,
        find: impl Fn(&mut Tables) -> Option<&mut Table<V>> + Send + 'static,
    ) -> Self {
        Self {
            shared,
            find: Box::new(find),
        }
    }

    /// Replaces an object by the result of `keep`; `None` removes it. Returns whether
    /// anything changed.
    fn replace(&self, name: &Name, keep: impl FnOnce(&mut Pool) -> Option<V>) -> bool {
        let mut known = self.shared.known.lock();
        let Known {
            pool,
            tables,
            departed,
            ..
        } = &mut *known;
        let key: Key = (pool.text(&name.0), name.1.as_str().into());
        let kept = keep(pool);
        let Some(table) = (self.find)(tables) else {
            return false;
        };
        let before = table.get(&key);
        let replaced =
            before.filter(|before| kept.as_ref().is_none_or(|it| it.uid() != before.uid()));
        if let Some(before) = replaced {
            before.depart(&key, departed, Instant::now());
        }
        match kept {
            Some(kept) => table.put(key, kept),
            None => table.remove(&key),
        }
    }

    fn write(&self, object: &RawValue) -> Result<bool, String> {
        // Decoded before the lock is taken.
        let object: Object<V::Spec, V::Status> = wire::decode(object)?;
        let name = object.metadata.name()?;
        let settings = self.shared.settings.load();
        Ok(self.replace(&name, |pool| V::keep(object, pool, &settings)))
    }

    fn with<T: Default>(&self, work: impl FnOnce(&mut Table<V>, &mut Departed) -> T) -> T {
        let mut known = self.shared.known.lock();
        let Known {
            tables, departed, ..
        } = &mut *known;
        let table = (self.find)(tables);
        table.map(|table| work(table, departed)).unwrap_or_default()
    }
}

impl<V: Departing> Writer<V> {
    /// A list begins: objects that are not in it are removed when it is complete.
    pub(super) fn begin(&self) {
        self.with(|table, _| table.begin());
    }

    /// An object was added or changed. If it cannot be read it is not kept, and the error
    /// gives the reason.
    pub(super) fn put(&self, object: &RawValue) -> Result<(), String> {
        match self.write(object) {
            Ok(true) => self.shared.changed.notify_one(),
            Ok(false) => {}
            // What was known of the object is no longer true.
            Err(why) => {
                let (namespace, name) = self.remove(object)?;
                return Err(excerpt(&format!("{namespace}/{name}: {why}")));
            }
        }
        Ok(())
    }

    /// An object was deleted. Returns its name.
    pub(super) fn remove(&self, object: &RawValue) -> Result<Name, String> {
        let object: Object<IgnoredAny, IgnoredAny> = wire::decode(object)?;
        let name = object.metadata.name()?;
        if self.replace(&name, |_| None) {
            self.shared.changed.notify_one();
        }
        Ok(name)
    }

    pub(super) fn complete(&self) {
        let changed = self.with(|table, departed| {
            let now = Instant::now();
            for (key, value) in table.unlisted() {
                value.depart(key, departed, now);
            }
            table.finish()
        });
        self.shared.settled.notify_waiters();
        if changed {
            self.shared.changed.notify_one();
        }
    }

    /// A call failed; the objects stay.
    pub(super) fn failed(&self, error: &CallError) {
        self.with(|table, _| {
            table.settled = true;
            table.forbidden = error.is_forbidden();
        });
        self.shared.settled.notify_waiters();
        self.shared.changed.notify_one();
    }

    pub(super) fn len(&self) -> usize {
        self.with(|table, _| table.len())
    }
}

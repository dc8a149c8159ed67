//! Deleted pods and owners, kept for as long as queries may still return their samples.
//!
//! A sample counts for the pod that held the device at that time, even if the pod has been
//! deleted since. A workload that is scaled down thus keeps the values of its deleted pods.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::clock;
use super::objects::{KeptObject, OwnerRef};
use super::table::{Key, Table};

/// The most deleted objects; beyond that the oldest are dropped.
const MOST: usize = 40_000;

#[derive(Debug)]
struct DeletedObject {
    at: Instant,
    key: Key,
    object: KeptObject,
}

/// Deleted objects, the last deleted at the end.
#[derive(Debug, Default)]
pub(super) struct Departed(VecDeque<DeletedObject>);

impl Departed {
    /// Records an object that was deleted, or a pod that has finished. The watch reports both
    /// as a deletion. A pod that was never bound to a node held no device, and the chain of
    /// owners continues above an owner only if it has a controller.
    pub(super) fn add(&mut self, key: Key, mut object: KeptObject, at: Instant) {
        if let Some(pod) = &mut object.pod {
            pod.pod.ended.get_or_insert_with(clock::now);
        }
        if !was_on_a_node(&object) && object.controller.is_none() {
            return;
        }
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back(DeletedObject { at, key, object });
    }

    /// Drops what was deleted longer ago than `remember`.
    pub(super) fn expire(&mut self, now: Instant, remember: Duration) {
        let is_old = |it: &DeletedObject| now.saturating_duration_since(it.at) > remember;
        let old = self.0.partition_point(is_old);
        self.0.drain(..old);
    }

    /// The deleted pods that were on a node, by namespace and name, without those that are
    /// listed again with the same UID. Of pods with the same name, the last deleted is first.
    pub(super) fn pods(&self, listed: &Table) -> Vec<(&Key, &KeptObject)> {
        let is_back = |it: &DeletedObject| {
            let listed = listed.get(&it.key);
            listed.is_some_and(|listed| listed.uid == it.object.uid)
        };
        let deleted = self.0.iter().rev();
        let mut deleted: Vec<&DeletedObject> = deleted
            .filter(|it| was_on_a_node(&it.object) && !is_back(it))
            .collect();
        deleted.sort_by_key(|it| (&it.key, Reverse(it.at)));
        deleted.dedup_by(|later, first| {
            later.key == first.key && later.object.uid == first.object.uid
        });
        let deleted = deleted.into_iter();
        deleted.map(|it| (&it.key, &it.object)).collect()
    }

    /// The controllers of deleted objects, by the object's UID.
    pub(super) fn controllers(&self) -> HashMap<u64, OwnerRef> {
        let deleted = self.0.iter().map(|it| &it.object);
        let controllers = deleted.filter_map(|it| Some((it.uid, it.controller.clone()?)));
        controllers.collect()
    }
}

fn was_on_a_node(object: &KeptObject) -> bool {
    let pod = object.pod.as_ref();
    pod.is_some_and(|pod| pod.pod.node.is_some())
}

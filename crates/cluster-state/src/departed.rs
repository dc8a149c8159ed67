//! Deleted pods and owners, kept for as long as queries may still return their samples.
//!
//! A sample counts for the pod that held the device at that time, even if the pod has been
//! deleted since. A workload that is scaled down thus keeps the values of its deleted pods.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::clock;
use super::objects::{Kept, KeptObject, OwnerRef};
use super::pods::KeptPod;
use super::table::{Key, Table};

/// The most pods that requested GPUs, other pods, and owners; beyond that the oldest
/// are dropped.
const MOST_WITH_GPUS: usize = 20_000;
const MOST_OTHERS: usize = 4_000;
const MOST_OWNERS: usize = 20_000;

#[derive(Debug)]
struct Gone {
    at: Instant,
    key: Key,
    pod: KeptPod,
}

/// A deleted owner that had a controller: the chain continues above it.
#[derive(Debug)]
struct GoneOwner {
    at: Instant,
    uid: u64,
    controller: OwnerRef,
}

/// An object that may still be needed after it is deleted.
pub(super) trait Departing: Kept {
    /// Called before the object is removed, to record what is still needed of it.
    fn depart(&self, _: &Key, _: &mut Departed, _: Instant) {}
}

impl Departing for KeptPod {
    fn depart(&self, key: &Key, departed: &mut Departed, at: Instant) {
        departed.pod(key, self, at);
    }
}

impl Departing for KeptObject {
    fn depart(&self, _: &Key, departed: &mut Departed, at: Instant) {
        departed.owner(self, at);
    }
}

#[derive(Debug, Default)]
pub(super) struct Departed {
    with_gpus: VecDeque<Gone>,
    /// Pods that may have held a GPU without requesting one; there are many of them.
    others: VecDeque<Gone>,
    owners: VecDeque<GoneOwner>,
}

impl Departed {
    /// Records a pod that was deleted or has finished. The watch reports both as a
    /// deletion. A pod that was never bound to a node held no device.
    pub(super) fn pod(&mut self, key: &Key, pod: &KeptPod, at: Instant) {
        if pod.node.is_none() {
            return;
        }
        let (queue, most) = if pod.requests_gpu() {
            (&mut self.with_gpus, MOST_WITH_GPUS)
        } else {
            (&mut self.others, MOST_OTHERS)
        };
        let (key, mut pod) = (key.clone(), pod.clone());
        pod.ended.get_or_insert_with(clock::now);
        push(queue, Gone { at, key, pod }, most);
    }

    pub(super) fn owner(&mut self, object: &KeptObject, at: Instant) {
        if let Some(controller) = object.controller.clone() {
            let uid = object.uid();
            let gone = GoneOwner {
                at,
                uid,
                controller,
            };
            push(&mut self.owners, gone, MOST_OWNERS);
        }
    }

    /// Drops what was deleted longer ago than `remember`.
    pub(super) fn expire(&mut self, now: Instant, remember: Duration) {
        let is_old = |at: Instant| now.saturating_duration_since(at) > remember;
        for queue in [&mut self.with_gpus, &mut self.others] {
            let old = queue.partition_point(|gone| is_old(gone.at));
            queue.drain(..old);
        }
        let old = self.owners.partition_point(|gone| is_old(gone.at));
        self.owners.drain(..old);
    }

    /// The deleted pods, by namespace and name, without those that are listed again with
    /// the same UID. Of pods with the same name, the last deleted is first.
    pub(super) fn pods(&self, listed: &Table<KeptPod>) -> Vec<(&Key, &KeptPod)> {
        let mut gone: Vec<&Gone> = self
            .with_gpus
            .iter()
            .chain(&self.others)
            .filter(|gone| {
                let there = listed.get(&gone.key);
                there.is_none_or(|there| there.uid() != gone.pod.uid())
            })
            .rev()
            .collect();
        gone.sort_by(|left, right| {
            (&left.key, Reverse(left.at)).cmp(&(&right.key, Reverse(right.at)))
        });
        gone.dedup_by(|later, first| later.key == first.key && later.pod.uid() == first.pod.uid());
        gone.into_iter()
            .map(|gone| (&gone.key, &gone.pod))
            .collect()
    }

    /// The controllers of deleted objects, by the object's UID.
    pub(super) fn controllers(&self) -> HashMap<u64, OwnerRef> {
        let pods = self.with_gpus.iter().chain(&self.others);
        let pods = pods.filter_map(|gone| Some((gone.pod.uid(), gone.pod.controller.clone()?)));
        let owners = self.owners.iter();
        let owners = owners.map(|gone| (gone.uid, gone.controller.clone()));
        pods.chain(owners).collect()
    }
}

fn push<T>(queue: &mut VecDeque<T>, gone: T, most: usize) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(gone);
}

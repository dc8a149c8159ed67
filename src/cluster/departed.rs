//! Pods and owners that went, for as long as readings of theirs may count.
//!
//! A reading counts for the pod that held the device then, and not only while that pod
//! is there: a workload that is scaled down keeps the past of the pods it
//! loses.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::objects::{Kept, KeptObject, OwnerRef};
use super::pods::KeptPod;
use super::table::{Key, Table};
use apimachinery::time::{Timestamp, millis};

/// Most pods that asked for GPUs, most others, and most owners; then the oldest
/// go.
const MOST_WITH_GPUS: usize = 20_000;
const MOST_OTHERS: usize = 4_000;
const MOST_OWNERS: usize = 20_000;

/// A pod that went, as last seen.
#[derive(Debug)]
struct Gone {
    at: Instant,
    key: Key,
    pod: KeptPod,
}

/// An owner that went and had a controller: the chain goes on above it.
#[derive(Debug)]
struct GoneOwner {
    at: Instant,
    uid: u64,
    controller: OwnerRef,
}

/// What went.
#[derive(Debug, Default)]
pub(super) struct Departed {
    with_gpus: VecDeque<Gone>,
    /// They may have held a GPU without having asked for one, and are many.
    others: VecDeque<Gone>,
    owners: VecDeque<GoneOwner>,
}

impl Departed {
    /// A pod went: it was deleted or has finished, and the watch shows only that it is
    /// not among those that run. One that was never bound to a node held nothing.
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
        pod.ended.get_or_insert_with(wall_clock);
        push(queue, Gone { at, key, pod }, most);
    }

    /// An owner went.
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

    /// Forgets what went longer ago.
    pub(super) fn expire(&mut self, now: Instant, remember: Duration) {
        let is_old = |at: Instant| now.saturating_duration_since(at) > remember;
        for queue in [&mut self.with_gpus, &mut self.others] {
            let old = queue.partition_point(|gone| is_old(gone.at));
            queue.drain(..old);
        }
        let old = self.owners.partition_point(|gone| is_old(gone.at));
        self.owners.drain(..old);
    }

    /// The pods that went and have not come back, by namespace and name; of one
    /// name those that went last first.
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

    /// The controllers of what went, by its UID.
    pub(super) fn controllers(&self) -> HashMap<u64, OwnerRef> {
        let pods = self.with_gpus.iter().chain(&self.others);
        let pods = pods.filter_map(|gone| Some((gone.pod.uid(), gone.pod.controller.clone()?)));
        let owners = self.owners.iter();
        let owners = owners.map(|gone| (gone.uid, gone.controller.clone()));
        pods.chain(owners).collect()
    }
}

/// The time now, as the API server and exporters have it.
pub(super) fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp::from_millis(millis(since.unwrap_or_default()))
}

fn push<T>(queue: &mut VecDeque<T>, gone: T, most: usize) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(gone);
}

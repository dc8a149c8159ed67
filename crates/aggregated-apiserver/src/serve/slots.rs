//! Slots for connections: how many may be open, and which one ends when a new one arrives
//! and no slot is left.
//!
//! Front proxies have slots of their own, so that other clients cannot crowd out a
//! connection of kube-apiserver. Addresses have no limit of their own: many clients share
//! one (that of a node, of a load balancer).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::activity::{Activity, End, Stage};
use super::limits::Limits;

/// Connections beyond the slots that may finish their requests after being told to end.
const MOST_FINISHING: usize = 64;

/// All slots of a listener.
#[derive(Debug)]
pub(super) struct Slots {
    front_proxies: usize,
    others: usize,
    open: Mutex<Open>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, Arc<Activity>>,
}

/// A connection's slot, which is freed when this is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    id: u64,
    slots: Arc<Slots>,
    /// The connection's activity.
    pub(super) activity: Arc<Activity>,
}

impl Slots {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            front_proxies: limits.front_proxies as usize,
            others: limits.connections.max(1) as usize,
            open: Mutex::default(),
            freed: Notify::new(),
        }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot for a newly accepted connection. If all are taken, another connection ends.
    pub(super) fn take(self: &Arc<Self>) -> Slot {
        let mut open = self.open();
        if open.connections.len() >= self.others && open.others().count() >= self.others {
            open.end_one(self.others);
        }
        open.next += 1;
        let id = open.next;
        let activity = Arc::new(Activity::new());
        open.connections.insert(id, Arc::clone(&activity));
        Slot {
            id,
            slots: Arc::clone(self),
            activity,
        }
    }

    /// Ends one connection even if slots are left.
    pub(super) fn end_one(&self) {
        self.open().end_one(self.others);
    }

    /// The number of open connections.
    pub(super) fn count(&self) -> usize {
        self.open().connections.len()
    }

    /// Waits until no connection is open.
    pub(super) async fn all_free(&self) {
        while self.count() > 0 {
            self.freed.notified().await;
        }
    }
}

impl Open {
    /// The connections that count towards the slots and may be ended.
    fn others(&self) -> impl Iterator<Item = (u64, &Arc<Activity>)> {
        let all = self
            .connections
            .iter()
            .map(|(id, activity)| (*id, activity));
        all.filter(|(_, activity)| !activity.is_front_proxy() && activity.ending().is_none())
    }

    /// Ends the connection that has idled longest. One without an answer so far ends
    /// first, unless such connections hold less than an eighth of the slots: a new client
    /// would not finish its handshake while idle connections hold all others.
    fn end_one(&self, slots: usize) {
        let others: Vec<_> = self
            .others()
            .map(|(id, activity)| (activity.stage(), id, activity))
            .collect();
        let is_new = |stage: Stage| stage == Stage::New;
        let new = others.iter().filter(|((stage, _), ..)| is_new(*stage));
        let first = match new.count() > slots / 8 {
            true => Stage::New,
            false => Stage::Idle,
        };
        let longest = others
            .into_iter()
            .min_by_key(|((stage, since), id, _)| (*stage != first, *stage, *since, *id));
        let Some(((stage, _), _, activity)) = longest else {
            return;
        };
        let finishing = self.connections.values();
        let finishing = finishing.filter(|other| other.ending() == Some(End::Graceful));
        // The client may be about to send a request, and learns that it must reconnect.
        if stage == Stage::Idle && finishing.count() < MOST_FINISHING {
            activity.end(End::Graceful);
        } else {
            activity.end(End::Now);
        }
    }
}

impl Slot {
    /// Records the end of the handshake. A front proxy gets a slot for front proxies
    /// while one is free; returns whether it did.
    pub(super) fn handshake_done(&self, is_front_proxy: bool) -> bool {
        let open = self.slots.open();
        let taken = open.connections.values();
        let taken = taken.filter(|other| other.is_front_proxy()).count();
        let front_proxy = is_front_proxy && taken < self.slots.front_proxies;
        self.activity.handshake_done(front_proxy);
        front_proxy
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.open().connections.remove(&self.id);
        self.slots.freed.notify_one();
    }
}

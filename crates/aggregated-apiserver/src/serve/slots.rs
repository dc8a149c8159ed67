//! The pools of open connections, and which connection ends when a pool is full.
//!
//! Connections in their handshake have their own pool. After the handshake, front proxies
//! have their own pool, so that other clients cannot displace kube-apiserver. There is no
//! limit per address, because many clients share one (that of a node or of a load balancer).

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::activity::{Activity, Pool};
use super::limits::Limits;

#[derive(Debug)]
pub(super) struct Slots {
    limits: Limits,
    open: Mutex<Open>,
    freed: Notify,
}

/// The open connections, the oldest first, without those that were told to end.
#[derive(Debug, Default)]
struct Open(Vec<Arc<Activity>>);

/// A connection's place in its pool. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    pub(super) activity: Arc<Activity>,
}

impl Slots {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            limits: *limits,
            open: Mutex::default(),
            freed: Notify::new(),
        }
    }

    /// A place for a newly accepted connection. If too many connections are in their
    /// handshake, the oldest of them ends.
    pub(super) fn take(self: &Arc<Self>) -> Slot {
        let mut open = self.open.lock();
        open.make_room(Pool::Handshakes, self.limits.handshakes);
        let activity = Arc::new(Activity::new());
        open.0.push(Arc::clone(&activity));
        Slot {
            slots: Arc::clone(self),
            activity,
        }
    }

    /// Ends a connection that is no front proxy's, even if its pool is not full.
    pub(super) fn end_one(&self) {
        let mut open = self.open.lock();
        if !open.end_one(Pool::Handshakes) {
            open.end_one(Pool::Others);
        }
    }

    pub(super) fn count(&self) -> usize {
        self.open.lock().0.len()
    }

    pub(super) async fn all_free(&self) {
        while self.count() > 0 {
            self.freed.notified().await;
        }
    }
}

impl Open {
    fn count(&self, pool: Pool) -> usize {
        self.0.iter().filter(|it| it.pool() == pool).count()
    }

    fn make_room(&mut self, pool: Pool, most: u32) {
        if self.count(pool) >= most.max(1) as usize {
            self.end_one(pool);
        }
    }

    /// Ends the connection that has had no request for the longest time. Returns whether there
    /// is one.
    fn end_one(&mut self, pool: Pool) -> bool {
        let members = (0..self.0.len()).filter(|at| self.0[*at].pool() == pool);
        let longest = members.min_by_key(|at| self.0[*at].busy_since());
        if let Some(longest) = longest {
            self.0.remove(longest).cut();
        }
        longest.is_some()
    }
}

impl Slot {
    /// Moves the connection after the handshake into the pool of front proxies if it is one
    /// and the pool has room, else into that of others. If the latter is full, its longest
    /// idle connection ends. Returns whether the connection counts as a front proxy.
    pub(super) fn handshake_done(&self, is_front_proxy: bool) -> bool {
        let (mut open, limits) = (self.slots.open.lock(), &self.slots.limits);
        let has_room = open.count(Pool::FrontProxies) < limits.front_proxies as usize;
        if is_front_proxy && has_room {
            self.activity.handshake_done(Pool::FrontProxies);
        } else {
            open.make_room(Pool::Others, limits.connections);
            self.activity.handshake_done(Pool::Others);
        }
        is_front_proxy && has_room
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut open = self.slots.open.lock();
        open.0.retain(|other| !Arc::ptr_eq(other, &self.activity));
        drop(open);
        self.slots.freed.notify_one();
    }
}

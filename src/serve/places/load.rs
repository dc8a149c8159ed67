//! What the requests of a connection hold in memory, from their heads to the
//! last byte of their answers.
//!
//! No lock is taken here: every request counts twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::{Place, Places};

/// Bytes that a request or an answer holds besides its text: stream, future,
/// headers.
const EACH: usize = 4 * 1024;

/// What one connection's requests hold.
#[derive(Debug)]
pub(super) struct Load {
    began: Instant,
    /// Bytes of requests under way and of answers.
    held: AtomicUsize,
    /// Bytes of answers alone.
    owed: AtomicUsize,
    /// Grows whenever the transport takes something of an answer.
    moved: AtomicU64,
    /// When an answer last went out whole, in milliseconds from `began` on.
    finished: AtomicU64,
    /// Some of an answer's bytes were let go of.
    room: Notify,
}

/// An answer that was not sent whole so far, on the account of its
/// connection; off it when dropped.
#[derive(Debug)]
pub(in crate::serve) struct Owed {
    place: Arc<Place>,
    bytes: usize,
    whole: bool,
}

impl Load {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            held: AtomicUsize::new(0),
            owed: AtomicUsize::new(0),
            moved: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            room: Notify::new(),
        }
    }

    pub(super) fn held(&self) -> usize {
        self.held.load(Relaxed)
    }

    /// Whom it hits first when too much is held: bytes times the time since an
    /// answer of his went out whole. Who reads holds nothing for long, and who
    /// only pretends to cannot hold much.
    pub(super) fn burden(&self) -> u64 {
        let now = millis(self.began.elapsed());
        let waited = now.saturating_sub(self.finished.load(Relaxed)) + 1;
        waited.saturating_mul(self.held() as u64)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Place {
    /// A request with so many bytes is there; how many it counts for.
    pub(super) fn hold(&self, bytes: usize) -> usize {
        let bytes = bytes.saturating_add(EACH);
        self.load.held.fetch_add(bytes, Relaxed);
        let all = self.places.held.fetch_add(bytes, Relaxed) + bytes;
        if all > self.places.most_held {
            self.places.relieve();
        }
        bytes
    }

    /// What [`Place::hold`] gave is held no longer.
    pub(super) fn let_go(&self, bytes: usize) {
        self.load.held.fetch_sub(bytes, Relaxed);
        self.places.held.fetch_sub(bytes, Relaxed);
    }

    /// An answer with so many bytes is to be sent.
    pub(in crate::serve) fn owe(self: &Arc<Self>, bytes: usize) -> Owed {
        let bytes = self.hold(bytes);
        self.load.owed.fetch_add(bytes, Relaxed);
        Owed {
            place: Arc::clone(self),
            bytes,
            whole: false,
        }
    }

    /// Waits until the client has taken enough of its answers to get another.
    pub(in crate::serve) async fn room(&self) {
        loop {
            // Begun before the look, so that no change is missed.
            let change = self.load.room.notified();
            if self.load.owed.load(Relaxed) <= self.places.most_owed {
                return;
            }
            change.await;
        }
    }

    /// Returns once answers are there of which the transport took nothing for
    /// so long, give or take a quarter.
    pub(in crate::serve) async fn stalled(&self, limit: Duration) {
        let mut seen = self.load.moved.load(Relaxed);
        let mut since = Instant::now();
        loop {
            tokio::time::sleep(limit / 4).await;
            let moved = self.load.moved.load(Relaxed);
            if moved != seen || self.load.owed.load(Relaxed) == 0 {
                (seen, since) = (moved, Instant::now());
            } else if since.elapsed() >= limit {
                return;
            }
        }
    }
}

impl Places {
    /// Ends connections until what the others hold is within the limit. What
    /// is held by those that were ended is on its way back, and what trusted
    /// clients hold costs nobody else a connection.
    fn relieve(&self) {
        let mut book = self.book();
        let staying = book
            .entries
            .values()
            .filter(|entry| entry.may_be_relieved());
        let mut held: usize = staying.map(|entry| entry.load.held()).sum();
        while held > self.most_held {
            let Some((id, freed)) = book.heaviest() else {
                return;
            };
            tracing::debug!(freed, "connection cut: too much is held for its client");
            book.cut(id);
            held = held.saturating_sub(freed);
        }
    }
}

impl Owed {
    /// The transport took some of the answer, or the last of it.
    pub(in crate::serve) fn moved(&mut self, whole: bool) {
        self.whole = whole;
        self.place.load.moved.fetch_add(1, Relaxed);
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        let load = &self.place.load;
        load.owed.fetch_sub(self.bytes, Relaxed);
        if self.whole {
            load.finished.store(millis(load.began.elapsed()), Relaxed);
        }
        self.place.let_go(self.bytes);
        load.room.notify_waiters();
    }
}

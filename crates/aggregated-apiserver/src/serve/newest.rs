//! How many connections are open: the newest ones stay.
//!
//! There is no limit per address, because many clients share one (that of a node or of a
//! load balancer).

use std::convert::Infallible;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Keeps a number of connections. A connection ends when that many newer ones have entered.
#[derive(Debug)]
pub(super) struct Newest(Mutex<Ring>);

#[derive(Debug)]
struct Ring {
    next: usize,
    kept: Vec<Option<oneshot::Sender<Infallible>>>,
}

/// Resolves when the connection must end.
pub(super) type Displaced = oneshot::Receiver<Infallible>;

impl Newest {
    pub(super) fn new(count: usize) -> Self {
        let kept = (0..count.max(1)).map(|_| None).collect();
        Self(Mutex::new(Ring { next: 0, kept }))
    }

    pub(super) fn enter(&self) -> Displaced {
        let (keep, displaced) = oneshot::channel();
        let mut ring = self.0.lock();
        let place = ring.next;
        ring.next = (place + 1) % ring.kept.len();
        ring.kept[place] = Some(keep);
        displaced
    }
}

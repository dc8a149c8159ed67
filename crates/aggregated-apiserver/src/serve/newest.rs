//! How many connections are open: the newest ones stay.
//!
//! There is no limit per address, because many clients share one (that of a node or of a
//! load balancer).

use std::collections::VecDeque;
use std::convert::Infallible;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Keeps a number of connections. A connection ends when that many newer ones have entered.
#[derive(Debug)]
pub(super) struct Newest {
    count: usize,
    /// The oldest first.
    kept: Mutex<VecDeque<oneshot::Sender<Infallible>>>,
}

/// Resolves when the connection must end.
pub(super) type Displaced = oneshot::Receiver<Infallible>;

impl Newest {
    pub(super) fn new(count: usize) -> Self {
        let kept = Mutex::default();
        Self { count, kept }
    }

    pub(super) fn enter(&self) -> Displaced {
        let (keep, displaced) = oneshot::channel();
        let mut kept = self.kept.lock();
        kept.push_back(keep);
        if kept.len() > self.count {
            kept.pop_front();
        }
        displaced
    }
}

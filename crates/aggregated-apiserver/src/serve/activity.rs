//! A connection's activity: its requests, and the responses that its client has not
//! received yet. The activity determines when the connection must end.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::limits::Limits;

/// The most requests that a client may cancel within [`CANCEL_SPAN`]: before its first
/// response, and after it. h2 counts only requests that are cancelled before the service
/// sees them (CVE-2023-44487).
const MOST_CANCELLED: (u32, u32) = (25, 100);
const CANCEL_SPAN: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// After the requests in progress.
    Graceful,
    /// At once.
    Now,
}

/// The pool whose limit a connection counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pool {
    /// Its handshake has not ended.
    Handshakes,
    /// It belongs to a verified front proxy.
    FrontProxies,
    /// Any other.
    Others,
}

#[derive(Debug)]
pub(super) struct Activity {
    state: Mutex<ActivityState>,
    cut: Notify,
}

#[derive(Debug)]
struct ActivityState {
    pool: Pool,
    /// Requests whose responses are not written yet.
    requests: u32,
    /// Responses that are not written yet.
    unwritten: u32,
    /// Whether any request was answered.
    answered: bool,
    /// The latest of: the connection was accepted, its handshake ended, a request began or ended.
    since: Instant,
    /// When the client last received a part of a response.
    taken: Instant,
    cancelled: u32,
    /// When the count of cancelled requests began.
    cancelled_since: Instant,
}

/// A request, until its response is written. It counts as cancelled if it is dropped before
/// it is answered.
#[derive(Debug)]
pub(super) struct InProgress {
    activity: Arc<Activity>,
    answered: bool,
}

impl Activity {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            state: Mutex::new(ActivityState {
                pool: Pool::Handshakes,
                requests: 0,
                unwritten: 0,
                answered: false,
                since: now,
                taken: now,
                cancelled: 0,
                cancelled_since: now,
            }),
            cut: Notify::new(),
        }
    }

    pub(super) fn handshake_done(&self, pool: Pool) {
        let mut state = self.state.lock();
        state.pool = pool;
        state.since = Instant::now();
    }

    pub(super) fn pool(&self) -> Pool {
        self.state.lock().pool
    }

    /// Whether requests are in progress, and since when that is so.
    pub(super) fn busy_since(&self) -> (bool, Instant) {
        let state = self.state.lock();
        (state.requests > 0, state.since)
    }

    /// Makes the connection end at once.
    pub(super) fn cut(&self) {
        self.cut.notify_one();
    }

    /// Waits for [`Self::cut`]. One task may wait at a time.
    pub(super) async fn was_cut(&self) {
        self.cut.notified().await;
    }

    pub(super) fn begin(self: &Arc<Self>) -> InProgress {
        let mut state = self.state.lock();
        state.requests += 1;
        state.since = Instant::now();
        InProgress {
            activity: Arc::clone(self),
            answered: false,
        }
    }

    /// Waits until the client exceeds a time limit: it sent no request, or received no part
    /// of a response, for too long. Returns how the connection ends.
    pub(super) async fn timed_out(&self, limits: &Limits) -> End {
        loop {
            let now = Instant::now();
            // Checked repeatedly, because the limit may become shorter in the meantime.
            let mut next = now + limits.stall / 4;
            if let Some((until, end)) = self.state.lock().time_limit(limits) {
                if until <= now {
                    return end;
                }
                next = next.min(until);
            }
            tokio::time::sleep_until(next).await;
        }
    }
}

impl ActivityState {
    /// The time limit of the client, and how the connection ends when it is exceeded.
    /// `None`: the server is at work.
    fn time_limit(&self, limits: &Limits) -> Option<(Instant, End)> {
        if self.unwritten > 0 {
            // A front proxy may have requests of other users in progress.
            let end = match self.pool {
                Pool::FrontProxies => End::Graceful,
                Pool::Handshakes | Pool::Others => End::Now,
            };
            Some((self.taken + limits.stall, end))
        } else if self.requests > 0 {
            None
        } else if self.answered {
            Some((self.since + limits.idle, End::Graceful))
        } else {
            Some((self.since + limits.read, End::Now))
        }
    }

    /// Counts a cancelled request. Returns whether it exceeds the limit. A front proxy has
    /// no limit, because it forwards the cancellations of its clients.
    fn cancel(&mut self, now: Instant) -> bool {
        if now.duration_since(self.cancelled_since) > CANCEL_SPAN {
            (self.cancelled, self.cancelled_since) = (0, now);
        }
        self.cancelled += 1;
        let (before, after) = MOST_CANCELLED;
        let most = if self.answered { after } else { before };
        self.pool != Pool::FrontProxies && self.cancelled > most
    }
}

impl InProgress {
    /// Records that the response exists and is to be written.
    pub(super) fn answered(&mut self) {
        self.answered = true;
        let mut state = self.activity.state.lock();
        if state.unwritten == 0 {
            state.taken = Instant::now();
        }
        state.unwritten += 1;
        state.answered = true;
    }

    /// Records that the client received a part of the response.
    pub(super) fn taken(&self) {
        self.activity.state.lock().taken = Instant::now();
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut state = self.activity.state.lock();
        state.requests = state.requests.saturating_sub(1);
        state.since = now;
        if self.answered {
            state.unwritten = state.unwritten.saturating_sub(1);
        } else if state.cancel(now) {
            self.activity.cut();
        }
    }
}

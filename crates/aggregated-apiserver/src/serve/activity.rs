//! A connection's activity: its requests, and the responses that its client has not
//! received yet. The activity determines when the connection must end.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::limits::Limits;

/// Which time limit a client exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exceeded {
    /// It sent no first request.
    Read,
    /// It sent no further request.
    Idle,
    /// It received no part of its responses.
    Stall,
}

#[derive(Debug)]
pub(super) struct Activity(Mutex<Counts>);

#[derive(Debug)]
struct Counts {
    /// Requests whose responses are not written yet.
    requests: u32,
    /// Responses that are not written yet.
    unwritten: u32,
    /// Whether any request was answered.
    answered: bool,
    /// The latest of: the handshake ended, a request began or ended.
    since: Instant,
    /// When the client last received a part of a response.
    taken: Instant,
}

/// A request, until its response is written.
#[derive(Debug)]
pub(super) struct InProgress {
    activity: Arc<Activity>,
    answered: bool,
}

impl Activity {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self(Mutex::new(Counts {
            requests: 0,
            unwritten: 0,
            answered: false,
            since: now,
            taken: now,
        }))
    }

    pub(super) fn begin(self: &Arc<Self>) -> InProgress {
        let mut counts = self.0.lock();
        counts.requests += 1;
        counts.since = Instant::now();
        InProgress {
            activity: Arc::clone(self),
            answered: false,
        }
    }

    /// Waits until the client exceeds a time limit.
    pub(super) async fn timed_out(&self, limits: &Limits) -> Exceeded {
        loop {
            let now = Instant::now();
            // Checked repeatedly, because the limit may become shorter in the meantime.
            let mut next = now + limits.stall / 4;
            if let Some((until, exceeded)) = self.0.lock().time_limit(limits) {
                if until <= now {
                    return exceeded;
                }
                next = next.min(until);
            }
            tokio::time::sleep_until(next).await;
        }
    }
}

impl Counts {
    /// The time limit of the client. `None`: the server is at work.
    fn time_limit(&self, limits: &Limits) -> Option<(Instant, Exceeded)> {
        if self.unwritten > 0 {
            Some((self.taken + limits.stall, Exceeded::Stall))
        } else if self.requests > 0 {
            None
        } else if self.answered {
            Some((self.since + limits.idle, Exceeded::Idle))
        } else {
            Some((self.since + limits.read, Exceeded::Read))
        }
    }
}

impl InProgress {
    /// Records that the response exists and is to be written.
    pub(super) fn answered(&mut self) {
        self.answered = true;
        let mut counts = self.activity.0.lock();
        if counts.unwritten == 0 {
            counts.taken = Instant::now();
        }
        counts.unwritten += 1;
        counts.answered = true;
    }

    /// Records that the client received a part of the response.
    pub(super) fn taken(&self) {
        self.activity.0.lock().taken = Instant::now();
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        let mut counts = self.activity.0.lock();
        counts.requests = counts.requests.saturating_sub(1);
        counts.since = Instant::now();
        if self.answered {
            counts.unwritten = counts.unwritten.saturating_sub(1);
        }
    }
}

//! What one connection is doing: its requests, and the answers that its client
//! has not taken yet. From this follows when it has to end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::listener::Limits;

/// Requests that a client may cancel within [`CANCEL_SPAN`] before its first
/// answer, and after it. h2 counts only those that are cancelled before our
/// code sees them (CVE-2023-44487).
const MOST_CANCELLED: (u32, u32) = (25, 100);
const CANCEL_SPAN: Duration = Duration::from_secs(10);

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Requests that have begun are finished first.
    Graceful,
    /// At once.
    Now,
}

/// How far a connection has come. When slots run out, those in the first stage
/// end first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// It had no answer yet, or it is closing: no answer is lost with it.
    New,
    /// It had an answer, and asks for nothing now.
    Idle,
    /// A request has no answer yet, or the answer is not written yet.
    Busy,
}

/// The activity of one connection.
#[derive(Debug)]
pub(super) struct Activity {
    state: Mutex<State>,
    end: watch::Sender<Option<End>>,
}

#[derive(Debug)]
struct State {
    front_proxy: bool,
    closing: bool,
    /// Requests until their answers are written.
    requests: u32,
    /// Answers that are not written yet.
    unwritten: u32,
    /// Whether any request was answered.
    answered: bool,
    /// When the connection was accepted, its handshake was done, or a request
    /// last began or ended.
    since: Instant,
    /// When the client last took a part of an answer.
    taken: Instant,
    cancelled: u32,
    /// When the count of cancelled requests began.
    cancelled_since: Instant,
}

/// A request until its answer is written, or until it is cancelled: then it is
/// dropped before it was answered.
#[derive(Debug)]
pub(super) struct InProgress {
    activity: Arc<Activity>,
    answered: bool,
}

impl Activity {
    /// The activity of a connection just accepted.
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            state: Mutex::new(State {
                front_proxy: false,
                closing: false,
                requests: 0,
                unwritten: 0,
                answered: false,
                since: now,
                taken: now,
                cancelled: 0,
                cancelled_since: now,
            }),
            end: watch::Sender::new(None),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The handshake is done.
    pub(super) fn handshake_done(&self, front_proxy: bool) {
        let mut state = self.state();
        state.front_proxy = front_proxy;
        state.since = Instant::now();
    }

    /// Whether it belongs to a verified front proxy.
    pub(super) fn is_front_proxy(&self) -> bool {
        self.state().front_proxy
    }

    /// The connection finishes its requests and ends.
    pub(super) fn close(&self) {
        self.state().closing = true;
    }

    /// The stage, and since when.
    pub(super) fn stage(&self) -> (Stage, Instant) {
        let state = self.state();
        let stage = match (state.closing, state.requests > 0, state.answered) {
            (true, _, _) | (false, false, false) => Stage::New,
            (false, true, _) => Stage::Busy,
            (false, false, true) => Stage::Idle,
        };
        (stage, state.since)
    }

    /// Tells the connection to end.
    pub(super) fn end(&self, end: End) {
        self.end.send_replace(Some(end));
    }

    /// How the connection was told to end, if it was.
    pub(super) fn ending(&self) -> Option<End> {
        *self.end.borrow()
    }

    /// What the connection is told.
    pub(super) fn told(&self) -> watch::Receiver<Option<End>> {
        self.end.subscribe()
    }

    /// A request has come.
    pub(super) fn begin(self: &Arc<Self>) -> InProgress {
        let mut state = self.state();
        state.requests += 1;
        state.since = Instant::now();
        InProgress {
            activity: Arc::clone(self),
            answered: false,
        }
    }

    /// Waits until the client has not asked, or has taken nothing of its
    /// answers, for too long.
    pub(super) async fn timed_out(&self, limits: &Limits) -> End {
        loop {
            let now = Instant::now();
            // Looked at again and again: a limit may get shorter meanwhile.
            let mut next = now + limits.stall / 4;
            if let Some((until, end)) = self.state().time_limit(limits) {
                if until <= now {
                    return end;
                }
                next = next.min(until);
            }
            tokio::time::sleep_until(next).await;
        }
    }
}

impl State {
    /// Until when the client has to ask or to take something, and how the
    /// connection ends otherwise.
    fn time_limit(&self, limits: &Limits) -> Option<(Instant, End)> {
        if self.unwritten > 0 {
            // Other users of a front proxy may have requests under way.
            let end = if self.front_proxy {
                End::Graceful
            } else {
                End::Now
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

    /// Counts a cancelled request; whether it was one too many. A front proxy
    /// passes on what all its clients cancel.
    fn cancel(&mut self, now: Instant) -> bool {
        if now.duration_since(self.cancelled_since) > CANCEL_SPAN {
            (self.cancelled, self.cancelled_since) = (0, now);
        }
        self.cancelled += 1;
        let (before, after) = MOST_CANCELLED;
        let most = if self.answered { after } else { before };
        !self.front_proxy && self.cancelled > most
    }
}

impl InProgress {
    /// The answer is there and has to be written.
    pub(super) fn answered(&mut self) {
        self.answered = true;
        let mut state = self.activity.state();
        if state.unwritten == 0 {
            state.taken = Instant::now();
        }
        state.unwritten += 1;
        state.answered = true;
    }

    /// The client took a part of the answer.
    pub(super) fn taken(&self) {
        self.activity.state().taken = Instant::now();
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        let now = Instant::now();
        let mut state = self.activity.state();
        state.requests = state.requests.saturating_sub(1);
        state.since = now;
        let is_too_much = if self.answered {
            state.unwritten = state.unwritten.saturating_sub(1);
            false
        } else {
            state.cancel(now)
        };
        drop(state);
        if is_too_much {
            self.activity.end(End::Now);
        }
    }
}

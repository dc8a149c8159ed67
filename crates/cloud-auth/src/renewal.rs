//! A secret that expires, renewed before it does. Renewals do not depend on the wall clock, which
//! may be set back; only the end of a secret is a time of it.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::error::CloudAuthError;

/// How long before its end a secret is renewed; at most a fifth of its lifetime.
const AHEAD: Duration = Duration::from_secs(300);

/// The pause after a failed attempt to renew a secret that is still valid, and after one
/// without a valid secret. Requests in the latter get the same error.
const RETRY: Duration = Duration::from_secs(30);
const RETRY_FIRST: Duration = Duration::from_secs(1);

/// How long after a renewal that a refusal of the store caused another refusal causes none.
/// A store refuses an account without permissions whatever its secret is.
const FORCED: Duration = Duration::from_secs(300);

pub(crate) struct Issued<S> {
    pub(crate) secret: S,
    /// When the secret expires; `None`: unknown, so that it counts as valid.
    pub(crate) end: Option<SystemTime>,
}

/// A secret, and when it expires.
pub(crate) struct Held<S> {
    pub(crate) secret: S,
    end: Option<SystemTime>,
}

impl<S> Held<S> {
    fn is_valid(&self, now: SystemTime) -> bool {
        self.end.is_none_or(|end| now < end)
    }
}

struct State<S> {
    held: Option<Arc<Held<S>>>,
    /// When the next attempt is due; `None`: never.
    next: Option<Instant>,
    /// When a refusal of the store last caused a renewal.
    forced: Option<Instant>,
    /// Why the last attempt failed.
    failure: Option<CloudAuthError>,
}

impl<S> State<S> {
    fn valid(&self, now: SystemTime) -> Option<Arc<Held<S>>> {
        self.held.clone().filter(|held| held.is_valid(now))
    }
}

/// Holds a secret, and renews it with one request at a time.
pub(crate) struct Renewed<S> {
    state: Mutex<State<S>>,
    renewing: tokio::sync::Mutex<()>,
}

impl<S> Default for Renewed<S> {
    fn default() -> Self {
        let state = State {
            held: None,
            next: Some(Instant::now()),
            forced: None,
            failure: None,
        };
        Self {
            state: Mutex::new(state),
            renewing: tokio::sync::Mutex::default(),
        }
    }
}

impl<S> Renewed<S> {
    /// Returns a valid secret. A secret that is due is renewed first; if that fails, it
    /// stays in use until its end.
    pub(crate) async fn get<F>(
        &self,
        clock: impl Fn() -> SystemTime,
        issue: impl FnOnce() -> F,
    ) -> Result<Arc<Held<S>>, CloudAuthError>
    where
        F: Future<Output = Result<Issued<S>, CloudAuthError>>,
    {
        if let Some(known) = self.known(clock()) {
            return known;
        }
        let valid = self.state.lock().valid(clock());
        let _renewing = match (self.renewing.try_lock(), valid) {
            (Ok(guard), _) => guard,
            (Err(_), Some(valid)) => return Ok(valid),
            (Err(_), None) => self.renewing.lock().await,
        };
        // If another request's attempt has ended in the meantime, its result is used.
        if let Some(known) = self.known(clock()) {
            return known;
        }
        let issued = issue().await;
        self.end_attempt(issued, clock())
    }

    /// The result of the last attempt; `None`: an attempt is due.
    fn known(&self, now: SystemTime) -> Option<Result<Arc<Held<S>>, CloudAuthError>> {
        let state = self.state.lock();
        if state.next.is_some_and(|next| next <= Instant::now()) {
            return None;
        }
        let valid = state.valid(now).map(Ok);
        valid.or_else(|| state.failure.clone().map(Err))
    }

    fn end_attempt(
        &self,
        issued: Result<Issued<S>, CloudAuthError>,
        now: SystemTime,
    ) -> Result<Arc<Held<S>>, CloudAuthError> {
        let mut state = self.state.lock();
        match issued {
            Ok(Issued { secret, end }) => {
                if state.failure.take().is_some() {
                    tracing::info!("credentials for Prometheus are issued again");
                }
                let pause = end.map(|end| renewal(now, end));
                state.next = pause.and_then(|pause| Instant::now().checked_add(pause));
                let held = Arc::new(Held { secret, end });
                Ok(Arc::clone(state.held.insert(held)))
            }
            Err(error) => {
                let was_failing = state.failure.replace(error.clone()).is_some();
                let Some(valid) = state.valid(now) else {
                    state.next = Some(Instant::now() + RETRY_FIRST);
                    return Err(error);
                };
                if !was_failing {
                    tracing::warn!(%error, "credentials for Prometheus were not renewed; the former ones are used until they expire");
                }
                let pause = valid.end.map_or(RETRY, |end| left(now, end).min(RETRY));
                state.next = Some(Instant::now() + pause);
                Ok(valid)
            }
        }
    }

    /// Records that a store refused the secret: the next [`Self::get`] renews it.
    pub(crate) fn refused(&self) {
        let (mut state, now) = (self.state.lock(), Instant::now());
        if state.forced.is_none_or(|at| at + FORCED <= now) {
            (state.next, state.forced) = (Some(now), Some(now));
        }
    }
}

fn left(now: SystemTime, end: SystemTime) -> Duration {
    end.duration_since(now).unwrap_or_default()
}

/// How long after `now` a secret that was issued then is to be renewed.
fn renewal(now: SystemTime, end: SystemTime) -> Duration {
    let life = left(now, end);
    life - AHEAD.min(life / 5)
}

//! A secret that expires, renewed before it does.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use crate::error::CloudAuthError;

/// How long before its end a secret is renewed; at most a fifth of its lifetime.
const AHEAD: Duration = Duration::from_secs(300);

/// The pause after a failed attempt to renew a secret that is still valid.
const RETRY: Duration = Duration::from_secs(30);

/// How long after a renewal that a refusal of the store caused another refusal causes none.
/// A store refuses an account without permissions whatever its secret is.
const FORCED: Duration = Duration::from_secs(300);

pub(crate) struct Issued<S> {
    pub(crate) secret: S,
    /// When the secret expires; `None`: unknown, so that it counts as valid.
    pub(crate) end: Option<SystemTime>,
}

/// A secret, and the number of the attempt that issued it.
pub(crate) struct Held<S> {
    pub(crate) secret: S,
    pub(crate) number: u64,
    end: Option<SystemTime>,
}

impl<S> Held<S> {
    fn is_valid(&self, now: SystemTime) -> bool {
        self.end.is_none_or(|end| now < end)
    }
}

struct State<S> {
    held: Option<Arc<Held<S>>>,
    renew_at: Option<SystemTime>,
    /// The number of finished attempts, and why the last one failed.
    attempts: u64,
    failure: Option<CloudAuthError>,
    forced: Option<SystemTime>,
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
            renew_at: None,
            attempts: 0,
            failure: None,
            forced: None,
        };
        Self {
            state: Mutex::new(state),
            renewing: tokio::sync::Mutex::default(),
        }
    }
}

impl<S> Renewed<S> {
    /// Returns a valid secret. A secret that is due is renewed first; if that fails, it
    /// stays in use until its end. The argument of `issue` is whether there is no valid
    /// secret. Only then may `issue` wait for an issuer that is starting.
    pub(crate) async fn get<F>(
        &self,
        clock: impl Fn() -> SystemTime,
        issue: impl FnOnce(bool) -> F,
    ) -> Result<Arc<Held<S>>, CloudAuthError>
    where
        F: Future<Output = Result<Issued<S>, CloudAuthError>>,
    {
        let (valid, attempts) = {
            let (state, now) = (self.state.lock(), clock());
            let is_due = state.renew_at.is_some_and(|at| at <= now);
            match state.held.clone().filter(|held| held.is_valid(now)) {
                Some(held) if !is_due => return Ok(held),
                valid => (valid, state.attempts),
            }
        };
        let is_first = valid.is_none();
        let _renewing = match (self.renewing.try_lock(), valid) {
            (Ok(guard), _) => guard,
            (Err(_), Some(valid)) => return Ok(valid),
            (Err(_), None) => self.renewing.lock().await,
        };
        // If another request's attempt has ended in the meantime, its result is used.
        if let Some(result) = self.result_after(attempts, clock()) {
            return result;
        }
        let issued = issue(is_first).await;
        self.end_attempt(issued, clock())
    }

    fn result_after(
        &self,
        attempts: u64,
        now: SystemTime,
    ) -> Option<Result<Arc<Held<S>>, CloudAuthError>> {
        let state = self.state.lock();
        if state.attempts == attempts {
            return None;
        }
        match (&state.held, &state.failure) {
            (Some(held), _) if held.is_valid(now) => Some(Ok(Arc::clone(held))),
            (_, Some(failure)) => Some(Err(failure.clone())),
            _ => None,
        }
    }

    fn end_attempt(
        &self,
        issued: Result<Issued<S>, CloudAuthError>,
        now: SystemTime,
    ) -> Result<Arc<Held<S>>, CloudAuthError> {
        let mut state = self.state.lock();
        state.attempts += 1;
        let number = state.attempts;
        match issued {
            Ok(Issued { secret, end }) => {
                if state.failure.take().is_some() {
                    tracing::info!("credentials for Prometheus are issued again");
                }
                state.renew_at = end.map(|end| renewal(now, end));
                let held = Arc::new(Held {
                    secret,
                    number,
                    end,
                });
                Ok(Arc::clone(state.held.insert(held)))
            }
            Err(error) => {
                let was_failing = state.failure.replace(error.clone()).is_some();
                let valid = state.held.clone().filter(|held| held.is_valid(now));
                let valid = valid.ok_or_else(|| error.clone())?;
                if !was_failing {
                    tracing::warn!(%error, "credentials for Prometheus were not renewed; the former ones are used until they expire");
                }
                state.renew_at = Some(now + RETRY);
                Ok(valid)
            }
        }
    }

    /// Records that a store refused the secret with this number. Returns whether to send the
    /// request again: there is another secret, or the next [`Self::get`] renews this one.
    pub(crate) fn refused(&self, number: u64, now: SystemTime) -> bool {
        let mut state = self.state.lock();
        let is_recent = state.forced.is_some_and(|at| now < at + FORCED);
        match &state.held {
            None => false,
            Some(held) if held.number != number => true,
            Some(_) if is_recent => false,
            Some(_) => {
                (state.renew_at, state.forced) = (Some(now), Some(now));
                true
            }
        }
    }
}

/// When a secret issued at `now` is to be renewed. An issuer with a cache may return a
/// secret that expires soon; the least delay avoids a request to it for every query.
fn renewal(now: SystemTime, end: SystemTime) -> SystemTime {
    let life = end.duration_since(now).unwrap_or_default();
    let ahead = AHEAD.min(life / 5);
    (end - ahead).max(now + RETRY.min(life / 2))
}

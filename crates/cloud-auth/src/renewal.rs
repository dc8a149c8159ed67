//! A secret that ends, renewed ahead of its end.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::error::CloudAuthError;

/// How long before its end a secret is renewed, or a fifth of its life if that is less.
const AHEAD: Duration = Duration::from_secs(300);

/// How long after an attempt to renew a valid secret the next one follows.
const RETRY: Duration = Duration::from_secs(30);

/// How long after a renewal that a store's refusal caused the next refusal causes none:
/// an account without rights is refused with any secret.
const FORCED: Duration = Duration::from_secs(300);

pub(crate) struct Issued<S> {
    pub(crate) secret: S,
    /// When it ends; `None`: not known.
    pub(crate) end: Option<SystemTime>,
}

struct Held<S> {
    secret: Arc<S>,
    number: u64,
    end: Option<SystemTime>,
    renew_at: Option<SystemTime>,
}

impl<S> Clone for Held<S> {
    fn clone(&self) -> Self {
        Self {
            secret: Arc::clone(&self.secret),
            ..*self
        }
    }
}

impl<S> Held<S> {
    fn is_valid(&self, now: SystemTime) -> bool {
        self.end.is_none_or(|end| now < end)
    }

    fn is_due(&self, now: SystemTime) -> bool {
        self.renew_at.is_some_and(|at| at <= now)
    }

    fn get(&self) -> (Arc<S>, u64) {
        (Arc::clone(&self.secret), self.number)
    }
}

struct State<S> {
    held: Option<Held<S>>,
    /// Attempts that ended, and why the last one failed.
    attempts: u64,
    failure: Option<CloudAuthError>,
    forced: Option<SystemTime>,
}

/// Holds a secret, and renews it by one request at a time.
pub(crate) struct Renewed<S> {
    state: Mutex<State<S>>,
    renewing: tokio::sync::Mutex<()>,
}

impl<S> Default for Renewed<S> {
    fn default() -> Self {
        let state = State {
            held: None,
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
    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A valid secret and its number. A secret that is due is renewed first; if that
    /// fails, it is used until its end. `issue` is told whether there is no valid secret:
    /// a renewal must not delay the request that it is made for.
    pub(crate) async fn get<F>(
        &self,
        clock: impl Fn() -> SystemTime,
        issue: impl FnOnce(bool) -> F,
    ) -> Result<(Arc<S>, u64), CloudAuthError>
    where
        F: Future<Output = Result<Issued<S>, CloudAuthError>>,
    {
        let (valid, attempts) = {
            let (state, now) = (self.state(), clock());
            let held = state.held.clone();
            if let Some(held) = held
                .as_ref()
                .filter(|it| it.is_valid(now) && !it.is_due(now))
            {
                return Ok(held.get());
            }
            (held.filter(|it| it.is_valid(now)), state.attempts)
        };
        let _renewing = match &valid {
            None => self.renewing.lock().await,
            Some(valid) => match self.renewing.try_lock() {
                Ok(guard) => guard,
                Err(_) => return Ok(valid.get()),
            },
        };
        // The attempt of another request has ended meanwhile: its result counts here too.
        if let Some(result) = self.result_after(attempts, clock()) {
            return result;
        }
        let issued = issue(valid.is_none()).await;
        self.end_attempt(issued, clock())
    }

    fn result_after(
        &self,
        attempts: u64,
        now: SystemTime,
    ) -> Option<Result<(Arc<S>, u64), CloudAuthError>> {
        let state = self.state();
        if state.attempts == attempts {
            return None;
        }
        match (&state.held, &state.failure) {
            (Some(held), _) if held.is_valid(now) => Some(Ok(held.get())),
            (_, Some(failure)) => Some(Err(failure.clone())),
            _ => None,
        }
    }

    fn end_attempt(
        &self,
        issued: Result<Issued<S>, CloudAuthError>,
        now: SystemTime,
    ) -> Result<(Arc<S>, u64), CloudAuthError> {
        let mut state = self.state();
        state.attempts += 1;
        let number = state.attempts;
        match issued {
            Ok(Issued { secret, end }) => {
                let held = Held {
                    secret: Arc::new(secret),
                    number,
                    end,
                    renew_at: end.map(|end| renewal(now, end)),
                };
                if state.failure.take().is_some() {
                    tracing::info!("credentials for Prometheus are issued again");
                }
                Ok(state.held.insert(held).get())
            }
            Err(error) => {
                let was_failing = state.failure.replace(error.clone()).is_some();
                let valid = state.held.as_mut().filter(|held| held.is_valid(now));
                let valid = valid.ok_or_else(|| error.clone())?;
                if !was_failing {
                    tracing::warn!(%error, "credentials for Prometheus were not renewed; the former ones are used until they expire");
                }
                valid.renew_at = Some(now + RETRY);
                Ok(valid.get())
            }
        }
    }

    /// A store refused the secret of this number. Returns whether the request is worth
    /// sending again: another secret is there, or the next [`Self::get`] renews this one.
    pub(crate) fn refused(&self, number: u64, now: SystemTime) -> bool {
        let mut state = self.state();
        let is_recent = state.forced.is_some_and(|at| now < at + FORCED);
        let Some(held) = &mut state.held else {
            return false;
        };
        if held.number != number {
            return true;
        }
        if is_recent {
            return false;
        }
        held.renew_at = Some(now);
        state.forced = Some(now);
        true
    }
}

/// When a secret issued at `now` is renewed. Issuers that cache hand out secrets that end
/// soon; they are not asked all the time.
fn renewal(now: SystemTime, end: SystemTime) -> SystemTime {
    let life = end.duration_since(now).unwrap_or_default();
    let ahead = AHEAD.min(life / 5);
    (end - ahead).max(now + RETRY.min(life / 2))
}

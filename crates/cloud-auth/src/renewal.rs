//! A credential that expires, renewed before it does. Renewals do not depend on the wall clock,
//! which may be set back; only the end of a credential is a time of it.

use std::time::{Duration, SystemTime};

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::authenticator::Credential;
use crate::issuer::CloudAuthError;
use apimachinery::condition::Condition;

/// How long before its end a credential is renewed; at most a fifth of its lifetime.
const AHEAD: Duration = Duration::from_secs(300);

/// The pause after a failed attempt while the former credential is valid, and without one.
const RETRY: Duration = Duration::from_secs(30);
const RETRY_FIRST: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(crate) struct Issued {
    pub(crate) credential: Credential,
    pub(crate) end: SystemTime,
}

/// Holds a credential. While a request renews it, the others wait for the result.
#[derive(Default)]
pub(crate) struct Renewed(Mutex<State>);

#[derive(Default)]
struct State {
    issued: Option<Issued>,
    /// When the next attempt is due; `None`: now.
    next: Option<Instant>,
    /// Whether the last attempt failed.
    condition: Condition<CloudAuthError, ()>,
}

impl Renewed {
    /// Returns a valid credential. One that is due is renewed first; if that fails, it stays
    /// in use until its end, and without one all requests get the error until the next attempt.
    pub(crate) async fn get(
        &self,
        now: SystemTime,
        issue: impl Future<Output = Result<Issued, CloudAuthError>>,
    ) -> Result<Credential, CloudAuthError> {
        let mut state = self.0.lock().await;
        match state.known(now) {
            Some(known) => known,
            None => state.end_attempt(issue.await, now),
        }
    }
}

impl State {
    fn valid(&self, now: SystemTime) -> Option<Credential> {
        let valid = self.issued.as_ref().filter(|issued| now < issued.end);
        valid.map(|issued| issued.credential.clone())
    }

    /// The result of the last attempt; `None`: an attempt is due.
    fn known(&self, now: SystemTime) -> Option<Result<Credential, CloudAuthError>> {
        self.next.filter(|next| Instant::now() < *next)?;
        let failure = self.condition.state().reason();
        let valid = self.valid(now).map(Ok);
        valid.or_else(|| failure.cloned().map(Err))
    }

    fn end_attempt(
        &mut self,
        issued: Result<Issued, CloudAuthError>,
        now: SystemTime,
    ) -> Result<Credential, CloudAuthError> {
        let issued = issued.map(|issued| {
            let life = issued.end.duration_since(now).unwrap_or_default();
            let pause = life - AHEAD.min(life / 5);
            self.next = Some(Instant::now() + pause);
            self.issued.insert(issued).credential.clone()
        });
        let former = self.condition.set(issued.as_ref().err().cloned(), ());
        let Err(error) = issued else {
            former.inspect(|_| tracing::info!("credentials for Prometheus are issued again"));
            return issued;
        };
        let valid = self.valid(now);
        self.next = Some(Instant::now() + valid.as_ref().map_or(RETRY_FIRST, |_| RETRY));
        if former.is_some() && valid.is_some() {
            tracing::warn!(%error, "credentials for Prometheus were not renewed; the former ones are used until they expire");
        }
        valid.ok_or(error)
    }
}

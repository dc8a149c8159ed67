//! Several addresses with the same data, such as a pair of Prometheus that scrape the
//! same targets. All queries go to one address until it fails, and then to the next.
//!
//! Replicas scrape at different times, so alternating queries would mix the scrape
//! times of both. Therefore a recovered address is not used again at once.

use std::sync::atomic::{AtomicUsize, Ordering};

use url::Url;

use super::budget::Budget;
use crate::error::{Error, ErrorKind};
use crate::settings::{Auth, PrometheusSettings};
use cloud_auth::{Authenticator, CloudAuthError, Environment};

/// One address.
#[derive(Debug)]
pub(super) struct Replica {
    pub(super) url: Url,
    /// For messages, without credentials and parameters.
    pub(super) address: String,
}

/// The error if a request can get no signature or access token. `reason` has the remedy.
pub(super) fn unauthenticated(address: &str, reason: &CloudAuthError) -> Error {
    let text = format!("no credentials: {reason}");
    Error::new(ErrorKind::Credentials, address, text).with_remedy("")
}

/// The state shared by all clients of a Prometheus: its addresses, the one in use, the
/// authentication to its cloud, and the memory for answers.
#[derive(Debug)]
pub struct Replicas {
    /// At least one.
    all: Vec<Replica>,
    current: AtomicUsize,
    pub(super) authenticator: Option<Authenticator>,
    pub(super) budget: Budget,
}

impl Replica {
    fn new(url: &Url) -> Self {
        let mut shown = url.clone();
        shown.set_query(None);
        Self {
            url: url.clone(),
            address: shown.as_str().trim_end_matches('/').to_owned(),
        }
    }
}

impl Replicas {
    /// The addresses of `settings`, with the first in use.
    ///
    /// # Errors
    /// When the settings of a cloud cannot be used.
    pub(crate) fn new(settings: &PrometheusSettings) -> Result<Self, Error> {
        let authenticator = match &settings.auth {
            Auth::Cloud(method) => {
                let environment = Environment::of_process();
                let made = Authenticator::new(method.clone(), &settings.url, environment);
                let address = Replica::new(&settings.url).address;
                Some(made.map_err(|reason| unauthenticated(&address, &reason))?)
            }
            _ => None,
        };
        Ok(Self {
            all: vec![Replica::new(&settings.url)],
            current: AtomicUsize::new(0),
            authenticator,
            budget: Budget::new(settings.max_body_bytes),
        })
    }

    /// The address in use.
    pub(super) fn current(&self) -> &Replica {
        &self.all[self.current.load(Ordering::Relaxed)]
    }

    /// Each address, in the order in which they are configured.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|replica| replica.address.as_str())
    }

    /// Whether the address at this place is in use.
    #[must_use]
    pub fn is_current(&self, place: usize) -> bool {
        self.current.load(Ordering::Relaxed) == place
    }

    /// The addresses for one query, beginning with the one in use.
    pub(super) fn attempts(&self) -> FailoverAttempts<'_> {
        FailoverAttempts {
            replicas: self,
            place: self.current.load(Ordering::Relaxed),
            left: self.all.len(),
            failed: None,
        }
    }

    /// Switches to the next address, because an answer of the current one is unusable. Does
    /// nothing if another query has switched already.
    pub(super) fn fail_over(&self, error: &Error) {
        if error.is_of_address() && error.place() == self.current().address {
            let next = (self.current.load(Ordering::Relaxed) + 1) % self.all.len();
            self.change_to(next, error);
        }
    }

    /// Switches to an address. Logs the change once, even if several queries cause it.
    fn change_to(&self, place: usize, why: &Error) {
        if self.current.swap(place, Ordering::Relaxed) != place {
            tracing::warn!("{why}; queries now go to {}", self.all[place].address);
        }
    }
}

/// One query, sent to one address after the other until one answers.
#[derive(Debug)]
pub(super) struct FailoverAttempts<'r> {
    replicas: &'r Replicas,
    place: usize,
    /// The number of addresses that have not failed.
    left: usize,
    /// Why the address before this one did not answer.
    failed: Option<Error>,
}

impl<'r> FailoverAttempts<'r> {
    /// The address to ask now.
    pub(super) fn replica(&self) -> &'r Replica {
        &self.replicas.all[self.place]
    }

    /// Takes the outcome of one address; `None`: the caller queries the next one. An
    /// address that answers in place of another stays in use. If none answers, the
    /// result is the error of the last.
    pub(super) fn record<T>(&mut self, outcome: Result<T, Error>) -> Option<Result<T, Error>> {
        match outcome {
            Err(error) if error.is_of_address() && self.left > 1 => {
                self.left -= 1;
                self.place = (self.place + 1) % self.replicas.all.len();
                self.failed = Some(error);
                None
            }
            Err(error) if error.is_of_address() => Some(Err(error)),
            outcome => {
                if let Some(why) = &self.failed {
                    self.replicas.change_to(self.place, why);
                }
                Some(outcome)
            }
        }
    }
}

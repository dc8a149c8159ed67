//! The certificate that the server presents, and how it is renewed.
//!
//! ```text
//!  files ──── by content, on a timer ──┐
//!                                      ├─► Publisher ─► Serving (rustls) and CertificateStatus
//!  managed ── Secret and APIServices ──┘                (readiness, metrics)
//! ```
//!
//! The TLS configuration is built once, with [`Serving`] as its resolver. Only the pair in
//! it changes. If a new pair is invalid, the old one stays in force.

pub mod authority;
pub mod files;
pub mod managed;
pub mod pair;

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use crate::x509::moment;
use apimachinery::condition::{Condition, State};
use pair::Pair;

/// The state of an APIService.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registration {
    /// Not checked yet.
    Waiting,
    /// Names the server's Service and trusts its authority.
    Registered,
    /// Is absent, refers to another server, or cannot be read or written; why, with the
    /// remedy.
    Failing(String),
}

/// Why a call failed, or why the pair of the source is not in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// The message.
    pub text: String,
    /// The remedy; empty: the message contains it.
    pub remedy: String,
    /// Whether it ends without action: kube-apiserver is unreachable, or another replica writes.
    pub passes: bool,
}

impl Trouble {
    /// A trouble that lasts until an operator acts. The message contains the remedy.
    pub(crate) fn lasting(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.remedy {
            "" => f.write_str(&self.text),
            remedy => write!(f, "{}: {remedy}", self.text),
        }
    }
}

/// The certificate's state, for readiness and metrics.
#[derive(Clone, Debug, Default)]
pub struct CertificateStatus {
    /// Whether the pair of the source is in force, and why not.
    pub condition: Condition<Trouble, Instant>,
    /// The pair in force; `None`: there is none yet.
    pub pair: Option<Pair>,
    /// How often a new pair was unusable, so that the pair in force stayed.
    pub failures: u64,
    /// The server's APIServices by name; empty: another program manages them.
    pub registrations: Vec<(String, Registration)>,
}

impl CertificateStatus {
    /// The expiry of the pair in force; `None`: there is none yet.
    pub fn not_after(&self) -> Option<SystemTime> {
        self.pair.as_ref().map(|pair| pair.validity().not_after)
    }

    /// Whether a handshake can succeed: the readiness check.
    ///
    /// # Errors
    /// When there is no pair or it has expired: the message.
    pub fn ready(&self, now: SystemTime) -> Result<(), String> {
        let why = self.condition.state().reason().map(Trouble::to_string);
        match self.not_after() {
            None => Err(why.unwrap_or_else(|| "no certificate yet".to_owned())),
            Some(end) if end < now => Err(format!(
                "the certificate in force expired at {}{}",
                moment(end),
                why.map(|why| format!(": {why}")).unwrap_or_default()
            )),
            Some(_) => Ok(()),
        }
    }

    /// The lasting fault of the source while a pair is in force: a restart would find no
    /// certificate. `None`: there is no such fault.
    pub fn lost(&self) -> Option<&Trouble> {
        let trouble = self.condition.state().reason();
        trouble.filter(|trouble| !trouble.passes && self.pair.is_some())
    }

    /// Checks that all APIServices refer to the server and trust it. Readiness does not
    /// depend on it, because registered groups are served in any case.
    ///
    /// # Errors
    /// When one does not: one sentence for each.
    pub fn registered(&self) -> Result<(), String> {
        let troubles = self
            .registrations
            .iter()
            .filter_map(|(name, registration)| {
                Some(match registration {
                    Registration::Registered => return None,
                    Registration::Waiting => format!("APIService {name}: not checked yet"),
                    Registration::Failing(why) => why.clone(),
                })
            });
        let troubles: Vec<String> = troubles.collect();
        if troubles.is_empty() {
            Ok(())
        } else {
            Err(troubles.join("; "))
        }
    }
}

/// The reading end of the certificate's channel, which rustls asks for the pair in force at
/// each handshake. Without a pair every handshake fails. The server name is ignored, because
/// an aggregator may send none.
#[derive(Clone, Debug)]
pub struct Serving {
    /// For readiness and metrics.
    pub status: watch::Receiver<CertificateStatus>,
}

impl Serving {
    pub(crate) fn pair(&self) -> Option<Pair> {
        self.status.borrow().pair.clone()
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.pair().map(|pair| pair.certified())
    }
}

/// The writing end of the certificate's channel, for the task that renews the certificate.
#[derive(Debug)]
pub struct Publisher(watch::Sender<CertificateStatus>);

/// Makes the certificate's channel, empty at first.
pub fn serving() -> (Publisher, Serving) {
    let (sender, status) = watch::channel(CertificateStatus::default());
    (Publisher(sender), Serving { status })
}

impl Publisher {
    pub(crate) fn pair(&self) -> Option<Pair> {
        self.0.borrow().pair.clone()
    }

    pub(crate) fn serves(&self, pair: &Pair) -> bool {
        self.pair().is_some_and(|it| it.chain() == pair.chain())
    }

    /// Puts a pair in force: new handshakes present it.
    pub fn serve(&self, pair: Pair) {
        let (names, until) = (pair.names().to_vec(), moment(pair.validity().not_after));
        self.0.send_modify(|status| {
            status.condition.set(None, Instant::now());
            status.pair = Some(pair);
        });
        tracing::info!(?names, until, "serving certificate in force");
    }

    pub(crate) fn well(&self) {
        let mut former = None;
        self.0.send_if_modified(|status| {
            former = status.condition.set(None, Instant::now());
            former.is_some()
        });
        if let Some(State::Failing { since, .. }) = former {
            let secs = since.elapsed().as_secs();
            tracing::info!("the serving certificate is valid again after {secs} s");
        }
    }

    /// Records why the pair of the source is not in force. Logged once.
    pub(crate) fn failing(&self, why: &Trouble) {
        let changed = self.0.send_if_modified(|status| {
            let former = status.condition.set(Some(why.clone()), Instant::now());
            let changed = former.is_some();
            status.failures += u64::from(changed && status.pair.is_some());
            changed
        });
        match (changed, self.pair()) {
            (true, Some(_)) => {
                tracing::warn!("{why}; the certificate in force stays in use, retrying");
            }
            (true, None) => tracing::warn!("{why}; no certificate yet, waiting for it"),
            (false, _) => {}
        }
    }

    /// The states of the APIServices as last recorded.
    pub(crate) fn registrations(&self) -> Vec<(String, Registration)> {
        self.0.borrow().registrations.clone()
    }

    /// Records the states of the APIServices; logs changes.
    pub(crate) fn register(&self, now: Vec<(String, Registration)>) {
        let before = self.registrations();
        for changed in now.iter().filter(|entry| !before.contains(entry)) {
            match changed {
                (_, Registration::Waiting) => {}
                (name, Registration::Registered) => {
                    tracing::info!("APIService {name}: registered");
                }
                (_, Registration::Failing(why)) => tracing::warn!("{why}"),
            }
        }
        self.0.send_modify(|status| status.registrations = now);
    }
}

//! The certificate that the server presents, and how it is renewed.
//!
//! ```text
//!  files ──── by content, on a timer ──┐
//!                                      ├─► Publisher ─► PairInForce (rustls) and CertificateStatus
//!  managed ── Secret and APIServices ──┘                (readiness, metrics)
//! ```
//!
//! The TLS configuration is built once, with [`PairInForce`] as its resolver, or with
//! several of them behind [`named::ByName`]. Only the pair in each changes. If a new pair
//! is invalid, the old one stays in force.

pub mod authority;
pub mod files;
pub mod managed;
pub mod named;
pub mod pair;

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use arc_swap::ArcSwapOption;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use crate::x509::moment;
use apimachinery::condition::{Condition, State};
use pair::Pair;

/// The pair in force, which rustls requests at each handshake. Without a pair every
/// handshake fails. The server name is ignored, because an aggregator may send none;
/// [`named::ByName`] selects pairs by name.
#[derive(Debug, Default)]
pub struct PairInForce(ArcSwapOption<Pair>);

impl PairInForce {
    pub(crate) fn pair(&self) -> Option<Arc<Pair>> {
        self.0.load_full()
    }
}

impl ResolvesServerCert for PairInForce {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load().as_ref().map(|pair| pair.certified())
    }
}

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
    /// The expiry of the pair in force; `None`: there is none yet.
    pub not_after: Option<SystemTime>,
    /// How often a new pair was unusable, so that the pair in force stayed.
    pub failures: u64,
    /// The server's APIServices by name; empty: another program manages them.
    pub registrations: Vec<(String, Registration)>,
}

impl CertificateStatus {
    /// Whether a handshake can succeed: the readiness check.
    ///
    /// # Errors
    /// When there is no pair or it has expired: the message.
    pub fn ready(&self, now: SystemTime) -> Result<(), String> {
        let why = self.condition.state().reason().map(Trouble::to_string);
        match self.not_after {
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
        trouble.filter(|trouble| !trouble.passes && self.not_after.is_some())
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

/// The reading end of the certificate's channel, for TLS, readiness and metrics.
#[derive(Clone, Debug)]
pub struct Serving {
    /// For [`rustls::ServerConfig`]'s `with_cert_resolver`.
    pub in_force: Arc<PairInForce>,
    /// For readiness and metrics.
    pub status: watch::Receiver<CertificateStatus>,
}

/// The writing end of the certificate's channel, for the task that renews the certificate.
#[derive(Debug)]
pub struct Publisher {
    in_force: Arc<PairInForce>,
    status: watch::Sender<CertificateStatus>,
}

/// Makes the certificate's channel, empty at first.
pub fn serving() -> (Publisher, Serving) {
    let in_force = Arc::new(PairInForce::default());
    let (sender, status) = watch::channel(CertificateStatus::default());
    let publisher = Publisher {
        in_force: Arc::clone(&in_force),
        status: sender,
    };
    (publisher, Serving { in_force, status })
}

impl Publisher {
    pub(crate) fn pair(&self) -> Option<Arc<Pair>> {
        self.in_force.pair()
    }

    pub(crate) fn serves(&self, pair: &Pair) -> bool {
        self.pair().is_some_and(|it| it.chain() == pair.chain())
    }

    /// Puts a pair in force: new handshakes present it.
    pub(crate) fn serve(&self, pair: &Pair) {
        let not_after = pair.validity().not_after;
        let which = self.pair().map_or("", |_| "new ");
        self.in_force.0.store(Some(Arc::new(pair.clone())));
        self.status.send_modify(|status| {
            status.condition.set(None, Instant::now());
            status.not_after = Some(not_after);
        });
        let (names, until) = (pair.names(), moment(not_after));
        tracing::info!(?names, until, "{which}serving certificate in force");
    }

    pub(crate) fn well(&self) {
        let mut former = None;
        self.status.send_if_modified(|status| {
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
        let changed = self.status.send_if_modified(|status| {
            let former = status.condition.set(Some(why.clone()), Instant::now());
            let changed = former.is_some();
            status.failures += u64::from(changed && status.not_after.is_some());
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

    /// Records the states of the APIServices; logs changes.
    pub(crate) fn registrations(&self, now: &[(String, Registration)]) {
        self.status.send_if_modified(|status| {
            let before = std::mem::replace(&mut status.registrations, now.to_vec());
            for changed in now.iter().filter(|entry| !before.contains(entry)) {
                match changed {
                    (_, Registration::Waiting) => {}
                    (name, Registration::Registered) => {
                        tracing::info!("APIService {name}: registered");
                    }
                    (_, Registration::Failing(why)) => {
                        tracing::warn!("{why}");
                    }
                }
            }
            before != now
        });
    }
}

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

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use crate::x509::moment;
use apimachinery::condition::{Condition, State};
use pair::Pair;

/// The server's APIServices by name. `Ok`: it names the server's Service and trusts its authority.
/// `Err`: it is absent, refers to another server, or was not read or written; why, with the remedy.
pub type Registrations = BTreeMap<&'static str, Result<(), String>>;

/// Why a call failed, or why the pair of the source is not in force. With the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// Another client wrote the object after it was read: read it again.
    #[error("another replica wrote first")]
    Conflict,
    /// It ends without action: kube-apiserver is unreachable.
    #[error("{0}")]
    Passing(String),
    /// It lasts until an operator acts.
    #[error("{0}")]
    Lasting(String),
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
    /// The server's APIServices; empty: another program manages them.
    pub registrations: Registrations,
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
        let why = self.condition.state().reason();
        let why = why.map_or_else(|| "no new certificate yet".to_owned(), Trouble::to_string);
        match self.not_after().map(|end| (end < now, moment(end))) {
            None => Err(why),
            Some((true, end)) => Err(format!("the certificate in force expired at {end}: {why}")),
            Some((false, _)) => Ok(()),
        }
    }

    /// The lasting fault of the source while a pair is in force: a restart would find no
    /// certificate. `None`: there is no such fault.
    pub fn lost(&self) -> Option<&str> {
        match self.condition.state().reason() {
            Some(Trouble::Lasting(why)) if self.pair.is_some() => Some(why),
            _ => None,
        }
    }

    /// Checks that all APIServices refer to the server and trust it. Readiness does not
    /// depend on it, because registered groups are served in any case.
    ///
    /// # Errors
    /// When one does not: one sentence for each.
    pub fn registered(&self) -> Result<(), String> {
        let states = self.registrations.values();
        let troubles: Vec<&str> = states
            .filter_map(|state| state.as_ref().err().map(String::as_str))
            .collect();
        match troubles.is_empty() {
            true => Ok(()),
            false => Err(troubles.join("; ")),
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

impl ResolvesServerCert for Serving {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.status.borrow().pair.as_ref().map(Pair::certified)
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
        let until = moment(pair.validity().not_after);
        self.0.send_modify(|status| {
            status.condition.set(None, Instant::now());
            status.pair = Some(pair);
        });
        tracing::info!(until, "serving certificate in force");
    }

    /// Records that the pair in force is that of the source.
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
            (false, _) => {}
            (true, Some(_)) => tracing::warn!("{why}; the certificate in force stays, retrying"),
            (true, None) => tracing::warn!("{why}; no certificate yet, retrying"),
        }
    }

    pub(crate) fn registrations(&self) -> Registrations {
        self.0.borrow().registrations.clone()
    }

    pub(crate) fn register(&self, now: Registrations) {
        self.0.send_modify(|status| status.registrations = now);
    }
}

//! The certificate that the server presents, and how it is renewed.
//!
//! ```text
//!  files ───────── by content, on a timer ──┐
//!                                           ├─► Publisher ─► Serving (rustls) and
//!  a server that signs its own and          │                CertificateStatus
//!  registers the authority that signs it ───┘                (readiness, metrics)
//! ```
//!
//! The TLS configuration is built once, with [`Serving`] as its resolver. Only the pair in
//! it changes. If a new pair is invalid, the old one stays in force.

pub mod authority;
pub mod files;
pub mod pair;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use crate::x509::moment;
use apimachinery::condition::Condition;
use pair::Pair;

/// Why the pair of the source is not in force, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
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
    /// The server's APIServices by name: why each does not name the server's Service or does not
    /// trust its authority, with the remedy; `None`: it does. Those that were not checked are
    /// left out.
    pub registrations: BTreeMap<&'static str, Option<String>>,
}

impl CertificateStatus {
    /// The expiry of the pair in force; `None`: there is none yet.
    pub fn not_after(&self) -> Option<SystemTime> {
        self.pair.as_ref().map(|pair| pair.validity().not_after)
    }

    /// Whether a handshake can succeed: the readiness check.
    pub fn is_ready(&self, now: SystemTime) -> bool {
        self.not_after().is_some_and(|end| now <= end)
    }

    /// The lasting fault of the source while a pair is in force: a restart would find no
    /// certificate. `None`: there is no such fault.
    pub fn lost(&self) -> Option<&str> {
        match self.condition.state().reason() {
            Some(Trouble::Lasting(why)) if self.pair.is_some() => Some(why),
            _ => None,
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
    /// The pair in force.
    pub fn pair(&self) -> Option<Pair> {
        self.0.borrow().pair.clone()
    }

    /// Puts a pair in force: new handshakes present it.
    pub fn serve(&self, pair: Pair) {
        let until = moment(pair.validity().not_after);
        self.0.send_modify(|status| status.pair = Some(pair));
        tracing::info!(until, "serving certificate in force");
    }

    /// Records why the pair of the source is not in force; `None`: it is. A change is logged.
    pub fn report(&self, trouble: Option<Trouble>) {
        let mut former = None;
        self.0.send_if_modified(|status| {
            former = status.condition.set(trouble.clone(), Instant::now());
            former.is_some()
        });
        let kept = match self.pair() {
            Some(_) => "the certificate in force stays",
            None => "no certificate yet",
        };
        match (former, trouble) {
            (None, _) => {}
            (Some(_), Some(why)) => tracing::warn!("{why}; {kept}, retrying"),
            (Some(former), None) => {
                let secs = former.since().map(|since| since.elapsed().as_secs());
                tracing::info!(secs, "the serving certificate is valid again");
            }
        }
    }

    /// Records why the APIService is not the server's, or does not trust it; `None`: it is, and
    /// does. A change is logged.
    pub fn register(&self, name: &'static str, trouble: Option<String>) {
        let is_new = self.0.send_if_modified(|status| {
            let former = status.registrations.insert(name, trouble.clone());
            former.as_ref() != Some(&trouble)
        });
        match trouble {
            _ if !is_new => {}
            None => tracing::info!("APIService {name}: registered"),
            Some(why) => tracing::warn!("{why}"),
        }
    }
}

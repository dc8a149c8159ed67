//! The certificate that the server presents, and how it is renewed.
//!
//! ```text
//!  files ──── by content, on a timer ──┐
//!                                      ├─► Publisher ─► InForce (rustls) and CertificateStatus
//!  managed ── Secret and APIServices ──┘                (readiness, metrics)
//! ```
//!
//! The TLS configuration is made once, with [`InForce`] as its resolver, or
//! with several of them behind [`named::ByName`]; what changes is the pair in
//! each. Nothing here decides that a certificate in force
//! must go: a broken successor leaves it where it is.

pub mod authority;
pub mod files;
pub mod managed;
pub mod named;
pub mod pair;

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwapOption;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use crate::x509::moment;
use pair::Pair;

/// The pair in force; rustls asks it at each handshake. Without a pair every
/// handshake fails. Server names are not looked at: an aggregator may name
/// none. Pairs for names are those of [`named::ByName`].
#[derive(Debug, Default)]
pub struct InForce(ArcSwapOption<Pair>);

impl InForce {
    /// The pair.
    #[must_use]
    pub fn pair(&self) -> Option<Arc<Pair>> {
        self.0.load_full()
    }
}

impl ResolvesServerCert for InForce {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.load().as_ref().map(|pair| pair.certified())
    }
}

/// How one APIService does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registration {
    /// Not looked at so far.
    Waiting,
    /// Names our Service and trusts our authority.
    Registered,
    /// Names another server, and is left alone. With the remedy.
    Foreign(String),
    /// Is not there, or cannot be read or written; why, with the remedy.
    Failing(String),
}

/// Why a call did not do what it should, or why what should be in force is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// In words.
    pub text: String,
    /// What to do; empty where the text says it.
    pub remedy: String,
    /// It passes by itself: kube-apiserver is away, or another replica writes.
    pub passes: bool,
}

impl Trouble {
    /// One that lasts until an operator acts; the text says how.
    #[must_use]
    pub fn lasting(text: String) -> Self {
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

/// What readiness and metrics say of the certificate.
#[derive(Clone, Debug, Default)]
pub struct CertificateStatus {
    /// Why what should be in force is not; `None`: it is.
    pub trouble: Option<Trouble>,
    /// The last moment of the one in force; `None`: there is none so far.
    pub not_after: Option<SystemTime>,
    /// How often what came could not be used and the one in force stayed.
    pub failures: u64,
    /// Our APIServices by name; none where somebody else looks after them.
    pub registrations: Vec<(String, Registration)>,
}

impl CertificateStatus {
    /// Whether a handshake can succeed: the readiness check.
    ///
    /// # Errors
    /// When there is nothing to serve or its time is over; in words.
    pub fn ready(&self, now: SystemTime) -> Result<(), String> {
        let why = self.trouble.as_ref().map(Trouble::to_string);
        match self.not_after {
            None => Err(why.unwrap_or_else(|| "no certificate so far".to_owned())),
            Some(end) if end < now => Err(format!(
                "the certificate in force expired at {}{}",
                moment(end),
                why.map(|why| format!(": {why}")).unwrap_or_default()
            )),
            Some(_) => Ok(()),
        }
    }

    /// Why a restart would find no certificate, where one is in force and what it
    /// came from is lost for longer than a moment.
    #[must_use]
    pub fn lost(&self) -> Option<&Trouble> {
        let lasting = self.trouble.as_ref().filter(|trouble| !trouble.passes);
        lasting.filter(|_| self.not_after.is_some())
    }

    /// Whether all APIServices are ours and trust us. No reason to be unready:
    /// the groups that are ours are served all the same.
    ///
    /// # Errors
    /// When one is not; in words, one sentence for each.
    pub fn registered(&self) -> Result<(), String> {
        let troubles = self
            .registrations
            .iter()
            .filter_map(|(name, registration)| {
                Some(match registration {
                    Registration::Registered => return None,
                    Registration::Waiting => format!("APIService {name}: not looked at so far"),
                    Registration::Foreign(why) | Registration::Failing(why) => why.clone(),
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

/// The two ends that the program holds.
#[derive(Clone, Debug)]
pub struct Serving {
    /// For [`rustls::ServerConfig`]'s `with_cert_resolver`.
    pub in_force: Arc<InForce>,
    /// For readiness and metrics.
    pub status: watch::Receiver<CertificateStatus>,
}

/// The end that the keeper of the certificate holds.
#[derive(Debug)]
pub struct Publisher {
    in_force: Arc<InForce>,
    status: watch::Sender<CertificateStatus>,
}

/// A place for a certificate, empty so far.
#[must_use]
pub fn serving() -> (Publisher, Serving) {
    let in_force = Arc::new(InForce::default());
    let (sender, status) = watch::channel(CertificateStatus::default());
    let publisher = Publisher {
        in_force: Arc::clone(&in_force),
        status: sender,
    };
    (publisher, Serving { in_force, status })
}

impl Publisher {
    /// The pair in force.
    #[must_use]
    pub fn pair(&self) -> Option<Arc<Pair>> {
        self.in_force.pair()
    }

    /// Puts a pair in force: handshakes from now on show it.
    pub fn serve(&self, pair: &Pair) {
        let not_after = pair.validity().not_after;
        let which = self.pair().map_or("", |_| "new ");
        self.in_force.0.store(Some(Arc::new(pair.clone())));
        self.status.send_modify(|status| {
            status.trouble = None;
            status.not_after = Some(not_after);
        });
        let (names, until) = (pair.names(), moment(not_after));
        tracing::info!(?names, until, "{which}serving certificate in force");
    }

    /// What is in force is what should be.
    pub fn well(&self) {
        let ended = self.status.send_if_modified(|status| {
            status.not_after.is_some() && status.trouble.take().is_some()
        });
        if ended {
            tracing::info!("the serving certificate is well again");
        }
    }

    /// What should be in force cannot be; the log hears of it once.
    pub fn failing(&self, why: &Trouble) {
        let begun = self.status.send_if_modified(|status| {
            let begun = status.trouble.as_ref() != Some(why);
            status.failures += u64::from(begun && status.not_after.is_some());
            status.trouble = Some(why.clone());
            begun
        });
        match (begun, self.pair()) {
            (true, Some(_)) => {
                tracing::warn!("{why}; the certificate in force stays, trying again");
            }
            (true, None) => tracing::warn!("{why}; no certificate so far, waiting for it"),
            (false, _) => {}
        }
    }

    /// How our APIServices do; the log hears of changes.
    pub fn registrations(&self, now: &[(String, Registration)]) {
        self.status.send_if_modified(|status| {
            let before = std::mem::replace(&mut status.registrations, now.to_vec());
            for changed in now.iter().filter(|entry| !before.contains(entry)) {
                match changed {
                    (_, Registration::Waiting) => {}
                    (name, Registration::Registered) => {
                        tracing::info!("APIService {name}: registered");
                    }
                    (_, Registration::Foreign(why) | Registration::Failing(why)) => {
                        tracing::warn!("{why}");
                    }
                }
            }
            before != now
        });
    }
}

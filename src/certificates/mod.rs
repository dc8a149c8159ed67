//! The certificate the server shows, and who keeps it fresh.
//!
//! ```text
//!  files ──── by content, on a timer ──┐
//!                                      ├─► Publisher ─► InForce (rustls) and Status (readiness, metrics)
//!  managed ── Secret and APIServices ──┘
//! ```
//!
//! The TLS configuration is made once, with [`InForce`] as its resolver; what
//! changes is the pair in it. Nothing here decides that a certificate in force
//! must go: a broken successor leaves it where it is.

pub mod authority;
pub mod files;
pub mod managed;
pub mod pair;

use std::sync::Arc;
use std::time::SystemTime;

use arc_swap::ArcSwapOption;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use pair::Pair;

/// The pair in force; rustls asks it at each handshake. Without a pair every
/// handshake fails. Server names are not looked at: an aggregator may name
/// none (`protocol.md` §9, statement 98).
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

/// How the certificate does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing to serve so far; what is waited for, with the remedy.
    Waiting(String),
    /// What is served is what should be.
    Serving,
    /// What is served is what was there before; why, with the remedy.
    Failing(String),
}

/// How one APIService does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Registration {
    /// Not looked at so far.
    Waiting,
    /// Names our Service and trusts our authority.
    Registered,
    /// Not there: nobody asks us for this group and version. With the remedy.
    Absent(String),
    /// Names another server, and is left alone. With the remedy.
    Foreign(String),
    /// Cannot be read or written; why, with the remedy.
    Failing(String),
}

/// What readiness and metrics say of the certificate.
#[derive(Clone, Debug)]
pub struct Status {
    /// How it does.
    pub state: State,
    /// The last moment of the one in force.
    pub not_after: Option<SystemTime>,
    /// How often what came could not be used and the one in force stayed.
    pub failures: u64,
    /// Our APIServices by name; none where somebody else looks after them.
    pub registrations: Vec<(String, Registration)>,
}

impl Status {
    /// Whether a handshake can succeed: the readiness check.
    ///
    /// # Errors
    /// When there is nothing to serve or its time is over; in words.
    pub fn ready(&self, now: SystemTime) -> Result<(), String> {
        let why = match &self.state {
            State::Waiting(why) | State::Failing(why) => Some(why),
            State::Serving => None,
        };
        match (self.not_after, why) {
            (None, why) => Err(why
                .map_or("no certificate so far", String::as_str)
                .to_owned()),
            (Some(end), why) if end < now => Err(format!(
                "the certificate in force expired at {}{}",
                pair::moment(end),
                why.map(|why| format!(": {why}")).unwrap_or_default()
            )),
            (Some(_), _) => Ok(()),
        }
    }

    /// Whether all APIServices are ours and trust us. No reason to be unready:
    /// the groups that are ours are served all the same.
    ///
    /// # Errors
    /// When one is not; in words, one sentence for each.
    pub fn registered(&self) -> Result<(), String> {
        let troubles = self.registrations.iter().filter_map(|(name, state)| {
            Some(match state {
                Registration::Registered => return None,
                Registration::Waiting => format!("APIService {name}: not looked at so far"),
                Registration::Absent(why)
                | Registration::Foreign(why)
                | Registration::Failing(why) => why.clone(),
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
    pub status: watch::Receiver<Status>,
}

/// The end that the keeper of the certificate holds.
#[derive(Debug)]
pub struct Publisher {
    in_force: Arc<InForce>,
    status: watch::Sender<Status>,
}

/// A place for a certificate, empty so far.
#[must_use]
pub fn serving() -> (Publisher, Serving) {
    let in_force = Arc::new(InForce::default());
    let (sender, status) = watch::channel(Status {
        state: State::Waiting("the certificate was not looked at so far".to_owned()),
        not_after: None,
        failures: 0,
        registrations: Vec::new(),
    });
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
        let not_after = pair.not_after();
        let first = self.pair().is_none();
        self.in_force.0.store(Some(Arc::new(pair.clone())));
        self.status.send_modify(|status| {
            status.state = State::Serving;
            status.not_after = Some(not_after);
        });
        tracing::info!(
            names = ?pair.names(),
            until = pair::moment(not_after),
            "{}",
            if first { "serving certificate in force" } else { "new serving certificate in force" }
        );
    }

    /// What is in force is what should be.
    pub fn well(&self) {
        let ended = self.change(|status| {
            let well = status.not_after.is_some() && status.state != State::Serving;
            well.then(|| status.state = State::Serving).is_some()
        });
        if ended {
            tracing::info!("the serving certificate is well again");
        }
    }

    /// What should be in force cannot be; the log hears of it once.
    pub fn failing(&self, why: &str) {
        let begun = self.change(|status| {
            let state = match status.not_after {
                None => State::Waiting(why.to_owned()),
                Some(_) => State::Failing(why.to_owned()),
            };
            let changed = status.state != state;
            status.failures += u64::from(changed && status.not_after.is_some());
            status.state = state;
            changed
        });
        if !begun {
            return;
        }
        if self.status.borrow().not_after.is_some() {
            tracing::warn!("{why}; the certificate in force stays, trying again");
        } else {
            tracing::warn!("{why}; no certificate so far, waiting for it");
        }
    }

    /// How our APIServices do; the log hears of changes.
    pub fn registrations(&self, now: &[(String, Registration)]) {
        let before = self.status.borrow().registrations.clone();
        self.change(|status| {
            let changed = status.registrations != now;
            status.registrations = now.to_vec();
            changed
        });
        for (name, state) in now {
            let known = before.iter().find(|(known, _)| known == name);
            if known.is_some_and(|(_, known)| known == state) {
                continue;
            }
            match state {
                Registration::Waiting => {}
                Registration::Registered => tracing::info!("APIService {name}: registered"),
                Registration::Absent(why)
                | Registration::Foreign(why)
                | Registration::Failing(why) => tracing::warn!("{why}"),
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut Status) -> bool) -> bool {
        self.status.send_if_modified(change)
    }
}

//! Certificates that the server makes for itself.
//!
//! ```text
//!             ┌──────────── Secret ────────────┐
//!  replica ◄──┤ authorities, serving pair      ├──► replica
//!     │       └────────────────────────────────┘       │
//!     └───► caBundle of the APIServices ◄──────────────┘
//! ```
//!
//! There is no leader. Each replica makes the same pass every few seconds:
//! read the APIServices, read the Secret, mend the Secret ([`mod@decide`]), mend the
//! bundles (`registration`), and put into force what is trusted. A write
//! names the version it is based on; who comes second looks again.

pub mod content;
pub mod decide;
mod departed;
mod registration;
pub mod store;
#[cfg(test)]
mod tests;
mod trust;

use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::{Publisher, Registration};
use content::{Authorities, Content};
use decide::{Lifetimes, Reason, Step, Wanted, decide_at, trusts};
use registration::Plan;
use store::{Entry, Registry, SecretStore, ServiceName, Trouble, WriteError};

/// Time between two passes: a bundle that somebody emptied is filled again
/// within it.
pub const EVERY: Duration = Duration::from_secs(10);

/// Rest after a write: the next step waits for nobody else.
const SOON: Duration = Duration::from_secs(1);

/// Writes that lose against others, one after another, in one pass.
const TRIES: usize = 5;

/// The APIServices of `manifests/apiservices.yaml`.
pub const APISERVICES: [&str; 3] = [
    "v1beta2.custom.metrics.k8s.io",
    "v1beta1.custom.metrics.k8s.io",
    "v1beta1.external.metrics.k8s.io",
];

/// What to keep.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Our Service: the APIServices that name it are ours, and the certificate
    /// is made for it.
    pub service: ServiceName,
    /// The APIServices to look after.
    pub apiservices: Vec<String>,
    /// Whether one of another server is made ours (`--take-over`).
    pub take_over: bool,
    /// How long certificates live.
    pub lifetimes: Lifetimes,
    /// Time between two passes.
    pub every: Duration,
}

impl Settings {
    /// For a Service, with all that is usual.
    #[must_use]
    pub fn new(service: ServiceName) -> Self {
        Self {
            service,
            apiservices: APISERVICES.map(str::to_owned).to_vec(),
            take_over: false,
            lifetimes: Lifetimes::default(),
            every: EVERY,
        }
    }

    fn wanted(&self) -> Wanted {
        Wanted {
            names: service_names(&self.service),
            lifetimes: self.lifetimes,
        }
    }
}

/// The names by which a Service is called; kube-apiserver verifies the first
/// (`protocol.md` §3.1).
#[must_use]
pub fn service_names(service: &ServiceName) -> Vec<String> {
    let ServiceName { namespace, name } = service;
    vec![
        format!("{name}.{namespace}.svc"),
        format!("{name}.{namespace}.svc.cluster.local"),
        format!("{name}.{namespace}"),
    ]
}

/// Keeps certificate and registration until told to stop.
pub async fn run<S: SecretStore, R: Registry>(
    settings: Settings,
    (secret, registry): (S, R),
    publisher: Publisher,
    clock: impl Fn() -> SystemTime,
    mut stop: watch::Receiver<bool>,
) {
    let every = settings.every;
    let mut replica = Replica::new(settings, secret, registry, publisher);
    let passes = async {
        loop {
            let wrote = replica.pass(clock(), &clock).await;
            tokio::time::sleep(if wrote { SOON.min(every) } else { every }).await;
        }
    };
    // A pass may be left anywhere: each of its writes stands for itself.
    tokio::select! {
        () = passes => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

/// One server of several.
struct Replica<S, R> {
    settings: Settings,
    wanted: Wanted,
    secret: S,
    registry: R,
    publisher: Publisher,
    /// What the Secret held when we last knew.
    memory: Option<Content>,
    registrations: Vec<(String, Registration)>,
}

/// What came of one object.
struct Outcome {
    registration: Registration,
    /// Somebody else was faster.
    contended: bool,
}

type Read = Result<Option<Entry>, Trouble>;

impl<S: SecretStore, R: Registry> Replica<S, R> {
    fn new(settings: Settings, secret: S, registry: R, publisher: Publisher) -> Self {
        let waiting = settings.apiservices.iter();
        Self {
            registrations: waiting
                .map(|name| (name.clone(), Registration::Waiting))
                .collect(),
            wanted: settings.wanted(),
            settings,
            secret,
            registry,
            publisher,
            memory: None,
        }
    }

    /// Looks at everything once; whether the Secret was written.
    async fn pass(&mut self, now: SystemTime, clock: &impl Fn() -> SystemTime) -> bool {
        let mut wrote = false;
        for _ in 0..TRIES {
            let (secret, contended) = self.attempt(now, clock).await;
            wrote |= secret;
            if !contended {
                break;
            }
        }
        wrote
    }

    /// A pass, as long as nobody else writes: whether the Secret was written,
    /// and whether somebody was faster at an APIService.
    ///
    /// The APIServices are read before the Secret. So a bundle is written only
    /// over one that is older than the Secret it is made of, and an authority
    /// that all bundles were seen to hold is in each of them for good.
    async fn attempt(&mut self, now: SystemTime, clock: &impl Fn() -> SystemTime) -> (bool, bool) {
        let mut read: Vec<Read> = Vec::new();
        for name in &self.settings.apiservices {
            read.push(self.registry.read(name).await);
        }
        let bundles = self.bundles(&read);
        let kept = self.keep_secret(&bundles, now, clock).await;
        let mut contended = false;
        if let Some(mut authorities) = self.memory.as_ref().map(|known| known.authorities.clone()) {
            if kept.is_err() {
                // Whoever had left may be back.
                authorities.departed = departed::Departed::default();
            }
            contended = self.register(read, &authorities, now).await;
        }
        match &kept {
            Err(trouble) => self.publisher.failing(&trouble.text),
            Ok(_) if contended => {}
            Ok(_) => self.adopt(&bundles, now),
        }
        (kept.unwrap_or(false), contended)
    }

    /// The bundles of the APIServices that are ours. One that cannot be read
    /// may trust anybody: an empty one stands for it.
    fn bundles(&self, read: &[Read]) -> Vec<Vec<u8>> {
        let ours = read.iter().filter_map(|read| match read {
            Err(_) => Some(Vec::new()),
            Ok(Some(entry)) if self.settings.is_ours(entry) => Some(entry.bundle.clone()),
            Ok(_) => None,
        });
        ours.collect()
    }

    /// Reads the Secret and mends it; whether it was written.
    async fn keep_secret(
        &mut self,
        bundles: &[Vec<u8>],
        now: SystemTime,
        clock: &impl Fn() -> SystemTime,
    ) -> Result<bool, Trouble> {
        let place = self.secret.place();
        let own = |text: String| Trouble {
            text: format!("{place}: {text}"),
            outage: false,
        };
        for _ in 0..TRIES {
            let stored = self.secret.read().await?;
            let found = content::read(&stored.data);
            let step = decide_at(
                found,
                self.memory.as_ref(),
                bundles,
                &self.wanted,
                (now, clock()),
            );
            let (content, reason) = match step.map_err(|error| own(error.to_string()))? {
                Step::Keep(content) => {
                    self.memory = Some(*content);
                    return Ok(false);
                }
                Step::Write(content, reason) => (*content, reason),
            };
            match self.secret.write(&stored.version, &content.data(now)).await {
                Ok(()) => {
                    told(&place, &reason);
                    self.memory = Some(content);
                    return Ok(true);
                }
                Err(WriteError::Conflict) => {}
                Err(WriteError::Failed(trouble)) => {
                    // What stands there is served as long as it lasts.
                    let (found, _) = self.wanted.sift(content::read(&stored.data));
                    if let content::Found::Whole(content) = found {
                        self.memory = Some(*content);
                    }
                    return Err(trouble);
                }
            }
        }
        Err(own(format!(
            "{TRIES} times another replica wrote first; trying again"
        )))
    }

    /// Mends the APIServices; whether one was left for others' writes.
    async fn register(
        &mut self,
        read: Vec<Read>,
        authorities: &Authorities,
        now: SystemTime,
    ) -> bool {
        let mut contended = false;
        let mut states = Vec::with_capacity(read.len());
        for ((name, before), read) in self.registrations.iter().zip(read) {
            let outcome = self.mend(name, before, read, authorities, now).await;
            contended |= outcome.contended;
            states.push((name.clone(), outcome.registration));
        }
        self.publisher.registrations(&states);
        self.registrations = states;
        contended
    }

    async fn mend(
        &self,
        name: &str,
        before: &Registration,
        read: Read,
        authorities: &Authorities,
        now: SystemTime,
    ) -> Outcome {
        let done = |registration| Outcome {
            registration,
            contended: false,
        };
        let entry = match &read {
            Ok(entry) => entry.as_ref(),
            Err(trouble) => return done(failed(before, trouble)),
        };
        let change = match self.settings.plan(name, entry, authorities, now) {
            Plan::Leave(registration) => return done(registration),
            Plan::Write(change) => change,
        };
        match self.registry.write(name, &change).await {
            Ok(()) => done(Registration::Registered),
            Err(WriteError::Failed(trouble)) => done(failed(before, &trouble)),
            Err(WriteError::Conflict) => Outcome {
                registration: before.clone(),
                contended: true,
            },
        }
    }

    /// Puts the Secret's pair into force, if those who will see it trust it.
    fn adopt(&self, bundles: &[Vec<u8>], now: SystemTime) {
        let Some(known) = &self.memory else { return };
        let pair = &known.leaf.pair;
        if let Err(error) = pair.check(now) {
            self.publisher
                .failing(&format!("{}: {error}", self.secret.place()));
            return;
        }
        let served = self.publisher.pair();
        if served.as_ref().is_some_and(|it| it.chain() == pair.chain()) {
            self.publisher.well();
            return;
        }
        // Whoever has nothing to lose has just written the bundles. The others
        // wait until the bundles were read back, a pass later: kube-apiserver
        // has heard of them by then.
        let nothing_to_lose = served.is_none_or(|it| it.check(now).is_err());
        let anchor = &known.authorities.current.anchor;
        if nothing_to_lose || bundles.iter().all(|pem| trusts(pem, anchor)) {
            self.publisher.serve(pair);
        } else {
            self.publisher.failing(
                "a new serving certificate waits until our APIServices trust its authority",
            );
        }
    }
}

/// While kube-apiserver is away nothing is known to have changed.
fn failed(before: &Registration, trouble: &Trouble) -> Registration {
    if trouble.outage && *before != Registration::Waiting {
        return before.clone();
    }
    Registration::Failing(trouble.text.clone())
}

fn told(place: &str, reason: &Reason) {
    match reason {
        Reason::Restored(_)
        | Reason::Remade(_)
        | Reason::LeafRemade(_)
        | Reason::Expired
        | Reason::Sifted
        | Reason::Departed => {
            tracing::warn!("{place}: {reason}");
        }
        Reason::First | Reason::Names | Reason::Renewed | Reason::Announced | Reason::Promoted => {
            tracing::info!("{place}: {reason}");
        }
    }
}

//! A fake cluster with one Secret and some APIServices. A test decides the order of the
//! calls of its replicas.

use std::collections::{BTreeMap, HashSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use super::super::content::{Data, anchors};
use super::super::store::{CertificateStore, Change, Entry, ServiceName, WriteError};
use super::super::{ManagedSettings, Replica};
use crate::certificates::pair::Pair;
use crate::certificates::{Registration, Serving, Trouble, serving};
use apimachinery::condition::State;

pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);

pub(super) fn ours() -> ServiceName {
    ServiceName {
        namespace: "gpu-metrics".to_owned(),
        name: "gpu-metrics-apiserver".to_owned(),
    }
}

pub(super) fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

pub(super) fn settings(apiservices: usize) -> ManagedSettings {
    let mut settings = ManagedSettings::new(ours());
    settings.apiservices.truncate(apiservices);
    settings
}

#[derive(Default)]
pub(super) struct Inner {
    versions: u64,
    /// The version and the values of the Secret.
    secret: (String, Data),
    services: BTreeMap<String, Entry>,
    pub(super) secret_writes: usize,
    pub(super) bundle_writes: usize,
    /// The error of reading the Secret; `None`: reading works.
    pub(super) secret_fails: Option<String>,
    pub(super) bundle_writes_fail: Option<String>,
}

impl Inner {
    fn next_version(&mut self) -> String {
        self.versions += 1;
        self.versions.to_string()
    }
}

/// The cluster; clones share its state.
#[derive(Clone, Default)]
pub(super) struct World(Arc<Mutex<Inner>>);

impl World {
    /// An empty Secret and the server's APIServices without a bundle.
    pub(super) fn new(settings: &ManagedSettings) -> Self {
        let world = Self::default();
        for name in &settings.apiservices {
            world.apply(name, ours());
        }
        world
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    /// Applies a manifest that resets the bundle.
    pub(super) fn apply(&self, name: &str, service: ServiceName) {
        let mut inner = self.lock();
        let entry = Entry {
            version: inner.next_version(),
            service: Some(service),
            bundle: Vec::new(),
            insecure: false,
            injected: None,
        };
        inner.services.insert(name.to_owned(), entry);
    }

    pub(super) fn change_entry(&self, name: &str, change: impl FnOnce(&mut Entry)) {
        let mut inner = self.lock();
        let version = inner.next_version();
        let entry = inner.services.get_mut(name).unwrap();
        entry.version = version;
        change(entry);
    }

    pub(super) fn remove_entry(&self, name: &str) {
        self.lock().services.remove(name);
    }

    pub(super) fn entry(&self, name: &str) -> Entry {
        self.lock().services[name].clone()
    }

    pub(super) fn data(&self) -> Data {
        self.lock().secret.1.clone()
    }

    pub(super) fn change_secret(&self, change: impl FnOnce(&mut Data)) {
        let mut inner = self.lock();
        inner.secret.0 = inner.next_version();
        change(&mut inner.secret.1);
    }

    /// The writes of the Secret and of bundles.
    pub(super) fn writes(&self) -> (usize, usize) {
        let inner = self.lock();
        (inner.secret_writes, inner.bundle_writes)
    }

    /// The bundles of the APIServices, which are all the server's.
    pub(super) fn bundles(&self) -> Vec<Vec<u8>> {
        let inner = self.lock();
        let entries = inner.services.values();
        entries.map(|entry| entry.bundle.clone()).collect()
    }
}

/// Yields once, so that the call happens at the next poll.
async fn turn() {
    let mut waited = false;
    let once = std::future::poll_fn(|_| match std::mem::replace(&mut waited, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    });
    once.await;
}

fn trouble(text: &str) -> Trouble {
    Trouble::lasting(text.to_owned())
}

impl CertificateStore for World {
    fn place(&self) -> String {
        "Secret gpu-metrics/test".to_owned()
    }

    async fn secret(&self) -> Result<(String, Data), Trouble> {
        turn().await;
        let inner = self.lock();
        if let Some(text) = &inner.secret_fails {
            return Err(trouble(text));
        }
        Ok(inner.secret.clone())
    }

    async fn write_secret(&self, version: &str, data: &Data) -> Result<(), WriteError> {
        turn().await;
        let mut inner = self.lock();
        if inner.secret.0 != version {
            return Err(WriteError::Conflict);
        }
        inner.secret_writes += 1;
        inner.secret = (inner.next_version(), data.clone());
        Ok(())
    }

    async fn apiservice(&self, name: &str) -> Result<Option<Entry>, Trouble> {
        turn().await;
        Ok(self.lock().services.get(name).cloned())
    }

    async fn write_apiservice(&self, name: &str, change: &Change) -> Result<(), WriteError> {
        turn().await;
        let mut inner = self.lock();
        if let Some(text) = &inner.bundle_writes_fail {
            return Err(WriteError::Failed(trouble(text)));
        }
        let next = inner.next_version();
        let Some(entry) = inner.services.get_mut(name) else {
            return Err(WriteError::Conflict);
        };
        if entry.version != change.version {
            return Err(WriteError::Conflict);
        }
        entry.version = next;
        entry.bundle = change.bundle.clone().into_bytes();
        entry.insecure = false;
        if let Some(service) = &change.service {
            entry.service = Some(service.clone());
        }
        inner.bundle_writes += 1;
        Ok(())
    }
}

/// A pass under way, which gives the replica back, and whether the next one is due soon.
type Pass = Pin<Box<dyn Future<Output = (Replica<World>, bool)>>>;

/// A replica whose passes are polled call by call.
pub(super) struct Stepped {
    world: World,
    settings: ManagedSettings,
    pub(super) serving: Serving,
    idle: Option<Replica<World>>,
    pass: Option<Pass>,
    /// The offset of its clock.
    pub(super) ahead: Duration,
}

impl Stepped {
    pub(super) fn new(world: &World, settings: &ManagedSettings) -> Self {
        let (publisher, serving) = serving();
        let replica = Replica::new(settings.clone(), world.clone(), publisher);
        Self {
            world: world.clone(),
            settings: settings.clone(),
            serving,
            idle: Some(replica),
            pass: None,
            ahead: Duration::ZERO,
        }
    }

    /// Restarts the process of the replica.
    pub(super) fn restart(&mut self) {
        let ahead = self.ahead;
        *self = Self::new(&self.world, &self.settings);
        self.ahead = ahead;
    }

    /// Makes the next call. If it ends the pass: whether the next one is due soon.
    pub(super) fn step(&mut self, now: SystemTime) -> Option<bool> {
        let now = now + self.ahead;
        if let Some(mut replica) = self.idle.take() {
            self.pass = Some(Box::pin(async move {
                let soon = replica.pass(now).await;
                (replica, soon)
            }));
            // The first poll only starts the pass: no call has happened yet.
            assert!(self.poll().is_pending());
        }
        match self.poll() {
            Poll::Pending => None,
            Poll::Ready((replica, soon)) => {
                self.idle = Some(replica);
                self.pass = None;
                Some(soon)
            }
        }
    }

    fn poll(&mut self) -> Poll<(Replica<World>, bool)> {
        let pass = self.pass.as_mut().unwrap();
        pass.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Makes passes without interruption until no other is due soon.
    pub(super) fn pass(&mut self, now: SystemTime) {
        while self.step(now) != Some(false) {}
    }

    pub(super) fn registration(&self, name: &str) -> Registration {
        let status = self.serving.status.borrow();
        let found = status.registrations.iter().find(|(known, _)| known == name);
        found.unwrap().1.clone()
    }

    pub(super) fn leaf(&self) -> Vec<u8> {
        self.serving.pair().unwrap().chain()[0].to_vec()
    }

    pub(super) fn is_well(&self) {
        let status = self.serving.status.borrow();
        assert_eq!(status.condition.state(), &State::Ok);
    }
}

/// Verifies every pair in force against every bundle, as kube-apiserver does.
#[derive(Default)]
pub(super) struct Verifier {
    known: HashSet<(Vec<u8>, Vec<u8>, SystemTime)>,
    /// The pair of each replica at the last check.
    before: BTreeMap<usize, Pair>,
}

impl Verifier {
    /// Skips an empty bundle, which no replica has filled yet, and an expired pair, whose
    /// replica made no pass for a month. kube-apiserver may know the bundles of some time ago:
    /// a pair that replaces a valid one has an authority that is about a day old.
    pub(super) fn check(&mut self, world: &World, replicas: &[Stepped], now: SystemTime) {
        let bundles = world.bundles();
        for (number, replica) in replicas.iter().enumerate() {
            let Some(pair) = replica.serving.pair() else {
                self.before.remove(&number);
                continue;
            };
            let before = self.before.insert(number, pair.clone());
            let replaces = before.is_some_and(|before| {
                before.chain() != pair.chain() && before.validity().not_after > now + replica.ahead
            });
            if pair.validity().not_after < now {
                continue;
            }
            for bundle in bundles.iter().filter(|bundle| !bundle.is_empty()) {
                let key = (pair.chain()[0].to_vec(), bundle.clone(), now);
                if !self.known.insert(key) && !replaces {
                    continue;
                }
                let mut trusted = anchors(bundle).unwrap();
                trusted.retain(|it| !replaces || it.validity.not_before + DAY <= now);
                let name = "gpu-metrics-apiserver.gpu-metrics.svc";
                let verdict = pair.verify(&trusted, name, now);
                assert_eq!(verdict, Ok(()), "replica {number}, {}", trusted.len());
            }
        }
    }
}

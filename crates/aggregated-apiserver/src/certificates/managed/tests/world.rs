//! A fake cluster with one Secret and some APIServices. A test decides the order of the
//! calls of its replicas.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::ServerName;

use super::super::store::{
    ApiService, CertificateStore, Change, SecretData, ServiceName, StoredSecret,
};
use super::super::{APISERVICES, ManagedSettings, Replica};
use crate::certificates::pair::Pair;
use crate::certificates::{CertificateStatus, Serving, Trouble, serving};
use crate::x509;
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
    ManagedSettings {
        service: ours(),
        apiservices: APISERVICES[..apiservices].to_vec(),
        take_over: false,
    }
}

#[derive(Default)]
pub(super) struct Inner {
    versions: u64,
    secret: StoredSecret,
    services: BTreeMap<String, ApiService>,
    pub(super) secret_writes: usize,
    pub(super) bundle_writes: usize,
    /// The error of reading the Secret; `None`: reading works.
    pub(super) secret_fails: Option<String>,
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
        let entry = ApiService {
            version: inner.next_version(),
            service: Some(service),
            bundle: Vec::new(),
            insecure: false,
            injected: None,
        };
        inner.services.insert(name.to_owned(), entry);
    }

    pub(super) fn change_entry(&self, name: &str, change: impl FnOnce(&mut ApiService)) {
        let mut inner = self.lock();
        let version = inner.next_version();
        let entry = inner.services.get_mut(name).unwrap();
        entry.version = version;
        change(entry);
    }

    pub(super) fn remove_entry(&self, name: &str) {
        self.lock().services.remove(name);
    }

    pub(super) fn entry(&self, name: &str) -> ApiService {
        self.lock().services[name].clone()
    }

    pub(super) fn data(&self) -> SecretData {
        self.lock().secret.data.clone()
    }

    pub(super) fn change_secret(&self, change: impl FnOnce(&mut SecretData)) {
        let mut inner = self.lock();
        inner.secret.version = inner.next_version();
        change(&mut inner.secret.data);
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

impl CertificateStore for World {
    fn place(&self) -> String {
        "Secret gpu-metrics/test".to_owned()
    }

    async fn secret(&self) -> Result<StoredSecret, Trouble> {
        turn().await;
        let inner = self.lock();
        if let Some(text) = &inner.secret_fails {
            return Err(Trouble::Lasting(text.clone()));
        }
        Ok(inner.secret.clone())
    }

    async fn write_secret(&self, version: &str, data: &SecretData) -> Result<(), Trouble> {
        turn().await;
        let mut inner = self.lock();
        if inner.secret.version != version {
            return Err(Trouble::Conflict);
        }
        inner.secret_writes += 1;
        inner.secret = StoredSecret {
            version: inner.next_version(),
            data: data.clone(),
        };
        Ok(())
    }

    async fn apiservice(&self, name: &str) -> Result<Option<ApiService>, Trouble> {
        turn().await;
        Ok(self.lock().services.get(name).cloned())
    }

    async fn write_apiservice(&self, name: &str, change: &Change) -> Result<(), Trouble> {
        turn().await;
        let mut inner = self.lock();
        let next = inner.next_version();
        let Some(entry) = inner.services.get_mut(name) else {
            return Err(Trouble::Conflict);
        };
        if entry.version != change.version {
            return Err(Trouble::Conflict);
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

    pub(super) fn status(&self) -> CertificateStatus {
        self.serving.status.borrow().clone()
    }

    pub(super) fn pair(&self) -> Pair {
        self.status().pair.unwrap()
    }

    pub(super) fn leaf(&self) -> Vec<u8> {
        self.pair().chain()[0].to_vec()
    }

    pub(super) fn is_well(&self) {
        let status = self.status();
        assert_eq!(status.condition.state(), &State::Ok);
        assert_eq!(status.registered(), Ok(()));
    }
}

/// Checks that kube-apiserver accepts the certificate of each replica by each bundle.
pub(super) fn verify(world: &World, replicas: &[Stepped], now: SystemTime) {
    for bundle in world.bundles() {
        let mut roots = RootCertStore::empty();
        for authority in x509::from_pem(&bundle).unwrap() {
            roots.add(authority).unwrap();
        }
        let provider = Arc::new(default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
        let verifier = verifier.build().unwrap();
        for replica in replicas {
            let pair = replica.pair();
            let (leaf, rest) = pair.chain().split_first().unwrap();
            let name = ServerName::try_from("gpu-metrics-apiserver.gpu-metrics.svc").unwrap();
            let now = x509::unix_time(now);
            let verified = verifier.verify_server_cert(leaf, rest, &name, &[], now);
            verified.unwrap();
        }
    }
}

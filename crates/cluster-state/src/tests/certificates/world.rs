//! A fake cluster with the Secret and the APIServices, and replicas of the server.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use k8s_openapi::ByteString;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{ServerName, UnixTime};
use serde_json::{Value, json};

use crate::certificates::Replica;
use crate::registration::{APISERVICES, RegistrationSettings, ServiceName};
use crate::testing::fake_kube::FakeKube;
use aggregated_apiserver::certificates::pair::Pair;
use aggregated_apiserver::certificates::{CertificateStatus, Serving, serving};
use aggregated_apiserver::x509;

pub(super) const SECRET: &str = "/api/v1/namespaces/gpu-metrics/secrets/serving";

pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);

/// The name of the Service.
pub(super) const OURS: &str = "gpu-metrics-apiserver";

pub(super) fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

pub(super) fn path(name: &str) -> String {
    format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}")
}

pub(super) fn settings(apiservices: usize) -> RegistrationSettings {
    RegistrationSettings {
        service: ServiceName {
            namespace: "gpu-metrics".to_owned(),
            name: OURS.to_owned(),
        },
        secret: "serving".to_owned(),
        apiservices: APISERVICES[..apiservices].to_vec(),
        take_over: false,
    }
}

/// An APIService as a manifest has it, of a Service.
pub(super) fn apiservice(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": {"annotations": {"kept": "yes"}},
        "spec": {"group": "custom.metrics.k8s.io", "versionPriority": 200,
                 "service": {"namespace": namespace, "name": name, "port": 6443}},
    })
}

/// Why APIServices do not refer to the server or do not trust it.
pub(super) fn unregistered(status: &CertificateStatus) -> Option<String> {
    status.registrations.values().flatten().next().cloned()
}

/// The bytes of a field in base64; absent: none.
fn bytes(field: &Value) -> Vec<u8> {
    serde_json::from_value::<ByteString>(field.clone()).map_or_else(|_| Vec::new(), |it| it.0)
}

pub(super) struct World {
    pub(super) kube: FakeKube,
    pub(super) settings: RegistrationSettings,
}

impl World {
    /// An empty Secret and the server's APIServices without a bundle.
    pub(super) async fn new(settings: RegistrationSettings) -> Self {
        let kube = FakeKube::start().await;
        kube.write(SECRET, json!({"metadata": {"name": "serving"}}));
        for name in &settings.apiservices {
            kube.write(&path(name), apiservice("gpu-metrics", OURS));
        }
        Self { kube, settings }
    }

    /// Changes a document.
    pub(super) fn change(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut document = self.kube.read(path);
        change(&mut document);
        self.kube.write(path, document);
    }

    /// A value of the Secret.
    pub(super) fn value(&self, key: &str) -> Vec<u8> {
        bytes(&self.kube.read(SECRET)["data"][key])
    }

    pub(super) fn bundle(&self, name: &str) -> Vec<u8> {
        bytes(&self.kube.read(&path(name))["spec"]["caBundle"])
    }

    /// The changes of the Secret and of the APIServices by the server.
    pub(super) fn writes(&self) -> (usize, usize) {
        let names = self.settings.apiservices.iter();
        let of_apiservices = names.map(|name| self.kube.patched(&path(name))).sum();
        (self.kube.patched(SECRET), of_apiservices)
    }

    /// Checks that kube-apiserver accepts the certificate of each replica by each bundle.
    pub(super) fn verify(&self, replicas: &[TestReplica], now: SystemTime) {
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        for name in &self.settings.apiservices {
            let mut roots = RootCertStore::empty();
            for authority in x509::from_pem(&self.bundle(name)).unwrap() {
                roots.add(authority).unwrap();
            }
            let provider = Arc::new(default_provider());
            let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
            let verifier = verifier.build().unwrap();
            for replica in replicas {
                let pair = replica.pair();
                let (leaf, rest) = pair.chain().split_first().unwrap();
                for name in self.settings.service.dns_names() {
                    let name = ServerName::try_from(name).unwrap();
                    let now = UnixTime::since_unix_epoch(since);
                    let verified = verifier.verify_server_cert(leaf, rest, &name, &[], now);
                    verified.unwrap();
                }
            }
        }
    }
}

pub(super) struct TestReplica {
    replica: Replica,
    serving: Serving,
}

impl TestReplica {
    pub(super) fn new(world: &World) -> Self {
        Self::waiting(world, || Duration::ZERO)
    }

    /// A replica whose calls each wait for the next of these times.
    pub(super) fn waiting(
        world: &World,
        wait: impl Fn() -> Duration + Clone + Send + Sync + 'static,
    ) -> Self {
        let (publisher, serving) = serving();
        let client = world.kube.client(wait);
        Self {
            replica: Replica::new(world.settings.clone(), client, publisher),
            serving,
        }
    }

    /// Makes one pass.
    pub(super) async fn pass(&mut self, now: SystemTime) {
        self.replica.pass(now).await;
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
        assert_eq!(status.condition.state().reason(), None);
        assert_eq!(unregistered(&status), None);
    }
}

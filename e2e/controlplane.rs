//! A real control plane for a test: etcd and kube-apiserver, and optionally the
//! controllers, the scheduler and a KWOK node that runs any pod.
//!
//! The test makes the authorities and identities ([`authority`]). The programs come from
//! `make controlplane` ([`parts`]). Each runs as a child with its log in its own folder
//! ([`process`]), and a watchman process ends them if the test itself is killed.

pub(crate) mod authority;
mod kubectl;
pub(crate) mod parts;
mod process;
mod programs;
mod reading;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use authority::{Authorities, FrontProxy};
use process::{Part, Watchman};

use crate::asking::ApiClient;
use crate::prometheus::free_port;

/// How long a part may take to become ready. An idle machine with two cores needs 5
/// s.
const READY: Duration = Duration::from_secs(180);

/// The polling interval.
const LOOK: Duration = Duration::from_millis(100);

/// The parts beside kube-apiserver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// None: objects are stored, and no controller acts on them.
    Api,
    /// The controllers, the scheduler and a KWOK node: pods are scheduled and become
    /// ready, and autoscalers scale.
    Cluster {
        /// The autoscalers' sync period. The real default is 15 s; with 2 s,
        /// `desiredReplicas > currentReplicas` is over before a test sees it.
        autoscaler_sync: Duration,
    },
}

impl Extent {
    /// A cluster whose autoscalers decide often.
    pub(crate) const CLUSTER: Self = Self::Cluster {
        autoscaler_sync: Duration::from_secs(2),
    };
}

/// A running control plane, ended on drop.
#[derive(Debug)]
pub(crate) struct ControlPlane {
    /// Behind a lock, because kube-apiserver is restarted while other threads use it.
    parts: Mutex<Parts>,
    etcd_port: u16,
    /// That of kube-apiserver.
    pub(crate) address: SocketAddr,
    authorities: Authorities,
    kubeconfig: PathBuf,
    /// The administrator's, once it is used.
    client: OnceLock<ApiClient>,
    credentials: AtomicU32,
    /// The last two fields end after all of the above, in this order.
    watchman: Watchman,
    dir: TempDir,
}

/// The programs, in the order of their start.
#[derive(Debug)]
struct Parts {
    etcd: Part,
    apiserver: Option<Part>,
    others: Vec<Part>,
}

impl Parts {
    /// How a part ended, if one has.
    fn ended(&mut self) -> Option<String> {
        let apiserver = self.apiserver.iter_mut();
        let parts = std::iter::once(&mut self.etcd).chain(apiserver);
        parts.chain(&mut self.others).find_map(Part::ended)
    }
}

/// The control plane of tests that read, or write in a namespace of their own.
pub(crate) fn shared() -> &'static ControlPlane {
    static PLANE: LazyLock<ControlPlane> = LazyLock::new(|| {
        let plane = ControlPlane::start(Extent::Api);
        for namespace in ["gpu-metrics", "monitoring", "team"] {
            plane.kubectl(&["create", "namespace", namespace]);
        }
        plane
    });
    &PLANE
}

impl ControlPlane {
    /// Starts a control plane and waits until it serves.
    pub(crate) fn start(extent: Extent) -> Self {
        Self::start_on(Ipv4Addr::LOCALHOST.into(), extent)
    }

    /// Starts one whose kube-apiserver listens on this address, and whose Services have addresses
    /// of the same family.
    pub(crate) fn start_on(host: IpAddr, extent: Extent) -> Self {
        Self::try_start(host, extent).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_start(host: IpAddr, extent: Extent) -> Result<Self, String> {
        let dir = tempfile::Builder::new().prefix("controlplane-").tempdir();
        let dir = dir.map_err(|error| format!("a temporary directory: {error}"))?;
        let watchman = Watchman::post(dir.path())?;
        let authorities = Authorities::write(&dir.path().join("pki"));
        let (etcd_port, address) = (free_port(), SocketAddr::new(host, free_port()));
        let etcd = programs::etcd(dir.path(), etcd_port)?;
        let apiserver = programs::apiserver(dir.path(), &authorities, etcd_port, address)?;
        let admin = authorities.client("admin", Some("system:masters"));
        let plane = Self {
            parts: Mutex::new(Parts {
                etcd,
                apiserver: Some(apiserver),
                others: Vec::new(),
            }),
            etcd_port,
            address,
            authorities,
            kubeconfig: dir.path().join("admin.kubeconfig"),
            client: OnceLock::new(),
            credentials: AtomicU32::new(0),
            watchman,
            dir,
        };
        plane.write_kubeconfig(&plane.kubeconfig, &kubectl::certificate(&admin));
        plane.await_api()?;
        if let Extent::Cluster { autoscaler_sync } = extent {
            plane.populate(autoscaler_sync)?;
        }
        Ok(plane)
    }

    /// Starts the controllers, the scheduler and the node.
    fn populate(&self, autoscaler_sync: Duration) -> Result<(), String> {
        let identity = |name: &str| {
            let user = format!("system:{name}");
            self.user_kubeconfig(&user, None)
        };
        let controllers = identity("kube-controller-manager");
        let scheduler = identity("kube-scheduler");
        let dir = self.dir.path();
        let controllers =
            programs::controllers(dir, &self.authorities, &controllers, autoscaler_sync, &[])?;
        let others = [
            controllers,
            programs::scheduler(dir, &scheduler)?,
            programs::kwok(dir, &self.kubeconfig)?,
        ];
        self.parts().others.extend(others);
        self.add_node("gpu-node-0")?;
        let ready = r#""type":"Ready","status":"True""#;
        self.await_words("a node", "/api/v1/nodes/gpu-node-0", ready)?;
        // A controller creates the ServiceAccount.
        let account = "/api/v1/namespaces/default/serviceaccounts/default";
        self.await_words("the controllers", account, "ServiceAccount")
    }

    /// Starts the controller of autoscalers, and no other, beside [`Extent::Api`].
    pub(crate) fn start_autoscaling(&self, sync: Duration) {
        let identity = self.user_kubeconfig("system:kube-controller-manager", None);
        let dir = self.dir.path();
        let only = ["--controllers=horizontal-pod-autoscaler-controller"];
        let started = programs::controllers(dir, &self.authorities, &identity, sync, &only);
        self.parts()
            .others
            .push(started.unwrap_or_else(|error| panic!("{error}")));
    }

    /// Waits until kube-apiserver serves what all clients need: the namespace
    /// `default`, and the authorities of the front proxy, which it publishes some
    /// moments after it reports itself ready.
    fn await_api(&self) -> Result<(), String> {
        self.await_words("kube-apiserver", "/readyz", "ok")?;
        let namespace = "/api/v1/namespaces/default";
        self.await_words("kube-apiserver", namespace, "Namespace")?;
        self.await_published()
    }

    /// Waits until kube-apiserver publishes the last authority of the front proxy.
    fn await_published(&self) -> Result<(), String> {
        const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
        let authorities = std::fs::read_to_string(self.front_proxy_ca())
            .map_err(|error| format!("the front proxy's authority: {error}"))?;
        let last = authorities.rfind(BEGIN).unwrap_or_default();
        let last = authorities[last..].trim().replace('\n', "\\n");
        let published =
            "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
        self.await_words("kube-apiserver", published, &last)
    }

    /// Waits until the answer at a path has these words.
    fn await_words(&self, what: &str, path: &str, words: &str) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let said = self.read(path);
            if said.as_ref().is_ok_and(|said| said.contains(words)) {
                return Ok(());
            }
            let ended = self.parts().ended();
            if ended.is_none() && begun.elapsed() < READY {
                std::thread::sleep(LOOK);
                continue;
            }
            let why = ended.unwrap_or_else(|| format!("nothing after {READY:?}"));
            return Err(format!(
                "{what} does not get ready: {why}\n{path}: {said:?}\n{}",
                self.logs()
            ));
        }
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills kube-apiserver. Clients see refused connections.
    pub(crate) fn stop_apiserver(&self) {
        self.parts().apiserver = None;
    }

    /// Starts kube-apiserver again at the same address, with the same objects.
    pub(crate) fn start_apiserver(&self) {
        let dir = self.dir.path();
        let started = programs::apiserver(dir, &self.authorities, self.etcd_port, self.address);
        let started = started.and_then(|part| {
            self.parts().apiserver = Some(part);
            self.await_api()
        });
        started.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Keeps a copy of the current objects, for [`Self::restore_objects`]. kube-apiserver
    /// restarts, because the files of etcd are complete only while etcd is stopped.
    pub(crate) fn keep_objects(&self) {
        self.with_etcd_stopped(copy);
        self.start_apiserver();
    }

    /// Sets etcd back to the kept objects, as an administrator restores a snapshot.
    /// kube-apiserver does not run afterwards.
    pub(crate) fn restore_objects(&self) {
        self.with_etcd_stopped(|data, kept| {
            std::fs::remove_dir_all(data)?;
            copy(kept, data)
        });
    }

    /// Stops kube-apiserver and etcd, calls `change` with etcd's folder and the folder of
    /// the copy, and starts etcd again.
    fn with_etcd_stopped(&self, change: impl Fn(&Path, &Path) -> std::io::Result<()>) {
        self.stop_apiserver();
        let dir = self.dir.path();
        let mut parts = self.parts();
        parts.etcd.end();
        change(&dir.join(programs::ETCD_DATA), &dir.join("etcd-kept")).unwrap();
        parts.etcd = programs::etcd(dir, self.etcd_port).unwrap();
    }

    /// Gives the front proxy a new authority and a certificate of it, and
    /// restarts kube-apiserver with them. The ConfigMap
    /// `kube-system/extension-apiserver-authentication` then has the new authority
    /// beside the old one: kube-apiserver adds authorities and removes only expired
    /// ones (k8s.io/kubernetes,
    /// pkg/controlplane/controller/clusterauthenticationtrust).
    pub(crate) fn rotate_front_proxy(&self) {
        self.stop_apiserver();
        self.authorities.show_front_proxy(&FrontProxy::new());
        self.start_apiserver();
    }

    /// Makes kube-apiserver publish another authority of the front proxy beside the
    /// current one. A restart is not needed, because kube-apiserver follows its files.
    pub(crate) fn trust_another_front_proxy(&self) -> FrontProxy {
        let next = self.authorities.trust_another_front_proxy();
        let published = self.await_published();
        published.unwrap_or_else(|error| panic!("{error}"));
        next
    }

    /// Replaces the files of the aggregator's certificate and of its
    /// authority. The published old authority stays.
    pub(crate) fn show_front_proxy(&self, next: &FrontProxy) {
        self.authorities.show_front_proxy(next);
    }

    /// Publishes only this authority of the front proxy.
    pub(crate) fn publish_front_proxy(&self, authority: &str) {
        let data = serde_json::json!({"requestheader-client-ca-file": authority});
        let map = ["configmap", "extension-apiserver-authentication"];
        let map = [&map[..], &["--namespace=kube-system"]].concat();
        self.patch(&map, &serde_json::json!({"data": data}));
    }

    /// An administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The certificate of the authority that signed kube-apiserver's and its
    /// clients' certificates.
    pub(crate) fn ca(&self) -> PathBuf {
        self.authorities.path("ca.crt")
    }

    /// The certificate of the authority that signed the aggregator's client
    /// certificate.
    fn front_proxy_ca(&self) -> PathBuf {
        self.authorities.path("front-proxy-ca.crt")
    }

    /// The aggregator's client certificate and key, with which a client can name any
    /// user.
    pub(crate) fn front_proxy_client(&self) -> (PathBuf, PathBuf) {
        let path = |name| self.authorities.path(name);
        (
            path("front-proxy-client.crt"),
            path("front-proxy-client.key"),
        )
    }

    /// A folder for a test's files, removed with the control plane.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The last lines of each log.
    pub(crate) fn logs(&self) -> String {
        let parts = self.parts();
        let named = std::iter::once(&parts.etcd).chain(&parts.apiserver);
        named.chain(&parts.others).map(Part::tail).collect()
    }
}

/// Copies a folder with all that is below it.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.logs());
        }
        // Clients of a part end before it.
        let mut parts = self.parts();
        while parts.others.pop().is_some() {}
        parts.apiserver = None;
        parts.etcd.end();
        drop(parts);
        self.watchman.dismiss();
    }
}

//! The flags of each program.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::authority::{Authorities, FRONT_PROXY_CLIENT};
use super::parts;
use super::process::Part;
use crate::prometheus::free_port;

/// The folder of etcd's files.
pub(crate) const ETCD_DATA: &str = "etcd";

/// etcd with a client port. It has no TLS, because it listens only on the loopback interface
/// and its data are test objects.
pub(crate) fn etcd(dir: &Path, port: u16) -> Result<Part, String> {
    let clients = format!("http://127.0.0.1:{port}");
    let peers = format!("http://127.0.0.1:{}", free_port());
    let arguments = [
        format!("--data-dir={}", dir.join(ETCD_DATA).display()),
        format!("--listen-client-urls={clients}"),
        format!("--advertise-client-urls={clients}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=default={peers}"),
        "--unsafe-no-fsync".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    start(dir, "etcd", &arguments)
}

/// kube-apiserver at an address.
pub(crate) fn apiserver(
    dir: &Path,
    authorities: &Authorities,
    etcd: u16,
    address: SocketAddr,
) -> Result<Part, String> {
    let file = |flag: &str, name: &str| format!("--{flag}={}", authorities.path(name).display());
    let host = address.ip();
    let services = if host.is_ipv6() {
        "fd00:10:96::/112"
    } else {
        "10.96.0.0/16"
    };
    let arguments = [
        format!("--etcd-servers=http://127.0.0.1:{etcd}"),
        format!("--bind-address={host}"),
        format!("--advertise-address={host}"),
        "--authorization-mode=RBAC".to_owned(),
        file("client-ca-file", "ca.crt"),
        file("tls-cert-file", "apiserver.crt"),
        file("tls-private-key-file", "apiserver.key"),
        file("requestheader-client-ca-file", "front-proxy-ca.crt"),
        format!("--requestheader-allowed-names={FRONT_PROXY_CLIENT}"),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        file("proxy-client-cert-file", "front-proxy-client.crt"),
        file("proxy-client-key-file", "front-proxy-client.key"),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        file("service-account-key-file", "service-account.pub"),
        file("service-account-signing-key-file", "service-account.key"),
        format!("--service-cluster-ip-range={services}"),
        // kube-apiserver publishes no Endpoints for itself: they may not have loopback addresses.
        "--endpoint-reconciler-type=none".to_owned(),
        // Pods need no token, because they run no program.
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        format!("--secure-port={}", address.port()),
    ];
    start(dir, "kube-apiserver", &arguments)
}

/// kube-controller-manager.
pub(crate) fn controllers(
    dir: &Path,
    authorities: &Authorities,
    kubeconfig: &Path,
    autoscaler_sync: Duration,
    more: &[&str],
) -> Result<Part, String> {
    let path = |name| authorities.path(name);
    let sync = autoscaler_sync.as_millis();
    let mut arguments = vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        // Without it, the controllers have no right to create objects.
        "--use-service-account-credentials=true".to_owned(),
        format!(
            "--service-account-private-key-file={}",
            path("service-account.key").display()
        ),
        format!("--root-ca-file={}", path("ca.crt").display()),
        format!("--horizontal-pod-autoscaler-sync-period={sync}ms"),
        // By default the controllers send at most 20 requests a second, which 200
        // autoscalers reach.
        "--kube-api-qps=1000".to_owned(),
        "--kube-api-burst=1000".to_owned(),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
    ];
    arguments.extend(more.iter().map(|it| (*it).to_owned()));
    start(dir, "kube-controller-manager", &arguments)
}

/// kube-scheduler.
pub(crate) fn scheduler(dir: &Path, kubeconfig: &Path) -> Result<Part, String> {
    let kubeconfig = kubeconfig.display();
    let arguments = [
        format!("--kubeconfig={kubeconfig}"),
        "--leader-elect=false".to_owned(),
        "--secure-port=0".to_owned(),
    ];
    start(dir, "kube-scheduler", &arguments)
}

/// KWOK, which acts as the kubelet of every node.
pub(crate) fn kwok(dir: &Path, kubeconfig: &Path) -> Result<Part, String> {
    let arguments = [
        format!("--kubeconfig={}", kubeconfig.display()),
        "--manage-all-nodes=true".to_owned(),
        // Without leases the node becomes NotReady after about 50 s.
        "--node-lease-duration-seconds=40".to_owned(),
    ];
    start(dir, "kwok", &arguments)
}

fn start(dir: &Path, name: &'static str, arguments: &[String]) -> Result<Part, String> {
    Part::start(dir, name, &parts::find(name)?, arguments)
}

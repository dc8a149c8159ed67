//! The authorities of a control plane, and their certificates.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use aggregated_apiserver::certificates::authority::{CertificateAuthority, Issued, Validity};
use aggregated_apiserver::testing::authority::ClientCertificates as _;
use rcgen::KeyPair;

/// Names and addresses of kube-apiserver. The last is the first address of the cluster's
/// address range, which pods use.
const APISERVER: [&str; 4] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
];
const ADDRESSES: [&str; 3] = ["127.0.0.1", "::1", "10.96.0.1"];

/// The name in `--requestheader-allowed-names`.
pub(crate) const FRONT_PROXY_CLIENT: &str = "front-proxy-client";

/// Longer than any test.
fn validity() -> Validity {
    let now = SystemTime::now();
    Validity {
        not_before: now - Duration::from_secs(60),
        not_after: now + Duration::from_secs(24 * 3600),
    }
}

/// A new authority with a new key.
pub(crate) fn authority(name: &str) -> CertificateAuthority {
    CertificateAuthority::new(name, validity()).unwrap()
}

/// A certificate for a server with these names.
pub(crate) fn serving(authority: &CertificateAuthority, names: &[&str]) -> Issued {
    let names = [names, &ADDRESSES].concat();
    authority.serving(&names, validity()).unwrap()
}

/// An authority of front proxies, and one front proxy.
pub(crate) struct FrontProxy {
    /// The authority's certificate as PEM.
    pub(crate) authority: String,
    pub(crate) client: Issued,
}

impl FrontProxy {
    /// The authority is a separate one: the one that signs clients must not sign
    /// certificates that can name any user.
    pub(super) fn new() -> Self {
        let authority = authority("front-proxy-ca");
        let client = authority.client(FRONT_PROXY_CLIENT, None, validity());
        Self {
            authority: authority.certificate_pem(),
            client: client.unwrap(),
        }
    }
}

/// A control plane's authorities and its own identities, as files in a folder.
#[derive(Debug)]
pub(crate) struct Authorities {
    dir: PathBuf,
    clients: CertificateAuthority,
}

impl Authorities {
    /// Makes all files for the first start, in a new folder.
    pub(crate) fn write(dir: &Path) -> Self {
        std::fs::create_dir(dir).unwrap();
        let made = Self {
            dir: dir.to_owned(),
            clients: authority("ca"),
        };
        made.put("ca.crt", &made.clients.certificate_pem());
        made.put_identity("apiserver", &serving(&made.clients, &APISERVER));
        let tokens = KeyPair::generate().unwrap();
        made.put("service-account.key", &tokens.serialize_pem());
        made.put("service-account.pub", &tokens.public_key_pem());
        made.show_front_proxy(&FrontProxy::new());
        made
    }

    /// Adds a new authority of the front proxy beside the current one.
    pub(crate) fn trust_another_front_proxy(&self) -> FrontProxy {
        let known = std::fs::read_to_string(self.path("front-proxy-ca.crt")).unwrap();
        let next = FrontProxy::new();
        self.put("front-proxy-ca.crt", &format!("{known}{}", next.authority));
        next
    }

    /// Uses this front proxy's certificate, and trusts only its authority.
    pub(crate) fn show_front_proxy(&self, next: &FrontProxy) {
        self.put_identity(FRONT_PROXY_CLIENT, &next.client);
        self.put("front-proxy-ca.crt", &next.authority);
    }

    /// An identity that kube-apiserver trusts.
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Issued {
        self.clients.client(user, group, validity()).unwrap()
    }

    /// The path of a file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn put_identity(&self, name: &str, identity: &Issued) {
        self.put(&format!("{name}.crt"), &identity.cert.pem());
        self.put(
            &format!("{name}.key"),
            &identity.signing_key.serialize_pem(),
        );
    }

    /// Replaces a file as a whole, because kube-apiserver reads it at the first notification
    /// of the kernel.
    fn put(&self, name: &str, pem: &str) {
        let beside = self.path(&format!(".{name}.new"));
        std::fs::write(&beside, pem).unwrap();
        std::fs::rename(beside, self.path(name)).unwrap();
    }
}

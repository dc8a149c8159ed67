//! The authorities of a control plane, and their certificates.

use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

/// Names of kube-apiserver's address. The last is the first address of the
/// cluster's address range, which pods use.
const APISERVER: &[&str] = &[
    "localhost",
    "127.0.0.1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "10.96.0.1",
];

/// The name in `--requestheader-allowed-names`.
pub(crate) const FRONT_PROXY_CLIENT: &str = "front-proxy-client";

/// An authority that signs certificates of servers and clients.
pub(crate) struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Authority")
    }
}

/// A certificate with its key, as PEM.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Authority {
    /// A new authority with a new key.
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            certificate,
            issuer: Issuer::new(params, key),
        }
    }

    /// Its certificate as PEM.
    pub(crate) fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// A server's identity for host names and addresses.
    pub(crate) fn server(&self, names: &[&str]) -> Identity {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, "server");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&params)
    }

    /// A client's identity: Kubernetes reads the common name as the user and
    /// the organization as a group. (A name made by rcgen has one of them.)
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Identity {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, user);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        if let Some(group) = group {
            let name = &mut params.distinguished_name;
            name.push(DnType::OrganizationName, group);
        }
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        Identity {
            certificate: params.signed_by(&key, &self.issuer).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }
}

/// An authority of front proxies, and one front proxy.
#[derive(Debug)]
pub(crate) struct FrontProxy {
    /// The authority's certificate as PEM.
    pub(crate) authority: String,
    pub(crate) client: Identity,
}

impl FrontProxy {
    /// The authority is a separate one: the one that signs clients must not sign
    /// certificates that can name any user.
    fn new() -> Self {
        let authority = Authority::new("front-proxy-ca");
        Self {
            authority: authority.pem(),
            client: authority.client(FRONT_PROXY_CLIENT, None),
        }
    }
}

/// A control plane's authorities and its own identities, as files in a folder.
#[derive(Debug)]
pub(crate) struct Authorities {
    dir: PathBuf,
    clients: Authority,
}

impl Authorities {
    /// Makes all files for the first start, in a new folder.
    pub(crate) fn write(dir: &Path) -> Self {
        std::fs::create_dir(dir).unwrap();
        let made = Self {
            dir: dir.to_owned(),
            clients: Authority::new("ca"),
        };
        made.put("ca.crt", &made.clients.pem());
        made.put_identity("apiserver", &made.clients.server(APISERVER));
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
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Identity {
        self.clients.client(user, group)
    }

    /// The path of a file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn put_identity(&self, name: &str, identity: &Identity) {
        self.put(&format!("{name}.crt"), &identity.certificate);
        self.put(&format!("{name}.key"), &identity.key);
    }

    fn put(&self, name: &str, pem: &str) {
        std::fs::write(self.path(name), pem).unwrap();
    }
}

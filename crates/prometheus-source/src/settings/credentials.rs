//! Authentication to Prometheus, and its certificate authorities.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use cloud_auth::AuthMethod;
use secrecy::SecretString;

/// A token, a password, certificates or a key.
#[derive(Clone, Debug)]
pub enum SecretSource {
    /// In a file, read again for each query.
    File(PathBuf),
    /// In the address of Prometheus or in a kubeconfig.
    Inline(SecretString),
}

impl SecretSource {
    /// The file, for messages.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Inline(_) => "--prometheus-auth-config or prometheus.url".to_owned(),
        }
    }
}

/// Authentication to Prometheus.
#[derive(Clone, Debug, Default)]
pub enum Auth {
    #[default]
    None,
    /// `Authorization: Bearer`.
    Bearer(SecretSource),
    /// HTTP basic authentication.
    Basic {
        username: String,
        password: SecretSource,
    },
    /// A signature, or an access token that is renewed.
    Cloud(AuthMethod),
}

/// Certificates for the connection to Prometheus.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The only authorities to trust; if unset, the system's.
    pub ca: Option<SecretSource>,
    pub client: Option<ClientPair>,
    /// Whether any server certificate is accepted: a kubeconfig's
    /// `insecure-skip-tls-verify`.
    pub unverified: bool,
}

impl Tls {
    /// When each file was written; `None`: it cannot be read. Blocks.
    pub(crate) fn written(&self) -> Vec<Option<SystemTime>> {
        let pair = self.client.iter().flat_map(|pair| [&pair.cert, &pair.key]);
        let sources = self.ca.iter().chain(pair);
        let paths = sources.filter_map(|source| match source {
            SecretSource::File(path) => Some(path),
            SecretSource::Inline(_) => None,
        });
        let written = |path: &PathBuf| path.metadata().and_then(|it| it.modified()).ok();
        paths.map(written).collect()
    }
}

/// A client certificate with its chain, and its private key, as PEM.
#[derive(Clone, Debug)]
pub struct ClientPair {
    pub cert: SecretSource,
    pub key: SecretSource,
}

/// Connection settings from a kubeconfig or from the pod's service account.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    pub auth: Auth,
    pub tls: Tls,
}

impl Credentials {
    /// The settings of the pod's service account in a folder, as in client-go
    /// (`rest/config.go`, `InClusterConfig`): its token, and the cluster's authority,
    /// if it exists.
    #[must_use]
    pub fn of_service_account(folder: &Path) -> Self {
        let authority = folder.join("ca.crt");
        let ca = authority.exists().then_some(SecretSource::File(authority));
        Self {
            auth: Auth::Bearer(SecretSource::File(folder.join("token"))),
            tls: Tls {
                ca,
                ..Tls::default()
            },
        }
    }

    /// Replaces `auth` and `tls` where these settings are set, and always `unverified`.
    pub fn apply(&self, auth: &mut Auth, tls: &mut Tls) {
        if !matches!(self.auth, Auth::None) {
            auth.clone_from(&self.auth);
        }
        tls.ca = self.tls.ca.clone().or_else(|| tls.ca.take());
        tls.client = self.tls.client.clone().or_else(|| tls.client.take());
        tls.unverified = self.tls.unverified;
    }
}

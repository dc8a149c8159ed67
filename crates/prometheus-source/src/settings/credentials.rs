//! Authentication to Prometheus, and its certificate authorities.

use std::path::{Path, PathBuf};

use cloud_auth::AuthMethod;
use secrecy::SecretString;

/// Authentication to Prometheus.
#[derive(Clone, Debug, Default)]
pub enum Auth {
    /// No authentication.
    #[default]
    None,
    /// `Authorization: Bearer` with the file's content, read again as it changes.
    BearerTokenFile(PathBuf),
    /// `Authorization: Bearer` with a fixed token from a kubeconfig; its characters
    /// are valid in a header.
    BearerToken(SecretString),
    /// HTTP basic authentication.
    Basic {
        /// The user.
        username: String,
        password: Password,
    },
    /// A signature, or an access token that is renewed.
    Cloud(AuthMethod),
}

/// Place of a password.
#[derive(Clone, Debug)]
pub enum Password {
    /// In a file, read again as it changes.
    File(PathBuf),
    /// From the address, or from a kubeconfig.
    Inline(SecretString),
}

/// Certificates for the connection to Prometheus.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    /// The only authorities to trust; if unset, the system's.
    pub ca: Option<Pem>,
    /// The client certificate and its key.
    pub client: Option<ClientPair>,
    /// Whether any server certificate is accepted: a kubeconfig's
    /// `insecure-skip-tls-verify`.
    pub unverified: bool,
}

/// A client certificate.
#[derive(Clone, Debug)]
pub struct ClientPair {
    /// The certificate, with its chain.
    pub cert: Pem,
    /// Its private key.
    pub key: Pem,
}

/// Certificates or a key, as PEM.
#[derive(Clone, Debug)]
pub enum Pem {
    /// In a file, read again as it changes.
    File(PathBuf),
    /// In a kubeconfig.
    Inline {
        /// The text; it may be a private key.
        text: SecretString,
        /// The kubeconfig.
        from: PathBuf,
    },
}

impl Pem {
    /// The file, for messages.
    #[must_use]
    pub fn place(&self) -> &Path {
        match self {
            Self::File(path) => path,
            Self::Inline { from, .. } => from,
        }
    }
}

/// Connection settings from a kubeconfig or from the pod's service account.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// Authentication.
    pub auth: Auth,
    /// Certificates.
    pub tls: Tls,
}

impl Credentials {
    /// The settings of the pod's service account in a folder, as in client-go
    /// (`rest/config.go`, `InClusterConfig`): its token, and the cluster's authority,
    /// if it exists.
    #[must_use]
    pub fn of_service_account(folder: &Path) -> Self {
        let authority = folder.join("ca.crt");
        Self {
            auth: Auth::BearerTokenFile(folder.join("token")),
            tls: Tls {
                ca: authority.exists().then_some(Pem::File(authority)),
                ..Tls::default()
            },
        }
    }

    /// Replaces `auth` and `tls` where these settings are set, and always `unverified`.
    pub fn apply(&self, auth: &mut Auth, tls: &mut Tls) {
        if !matches!(self.auth, Auth::None) {
            auth.clone_from(&self.auth);
        }
        if self.tls.ca.is_some() {
            tls.ca.clone_from(&self.tls.ca);
        }
        if self.tls.client.is_some() {
            tls.client.clone_from(&self.tls.client);
        }
        tls.unverified = self.tls.unverified;
    }
}

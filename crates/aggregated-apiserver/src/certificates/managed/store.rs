//! The access to the cluster for managed certificates.
//!
//! Every object has a version, and a write contains the version that it is based on. If two
//! replicas write at the same time, one gets a conflict.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;

use crate::certificates::Trouble;

pub(super) const CA_CERTIFICATE: &str = "ca.crt";
pub(super) const CA_KEY: &str = "ca.key";

/// The keys of the Secret that a write sets or removes; others are kept. Keys of a serving
/// certificate are always removed.
pub const KEYS: [&str; 4] = [CA_CERTIFICATE, CA_KEY, "tls.crt", "tls.key"];

/// The values of a Secret.
pub type SecretData = BTreeMap<String, Vec<u8>>;

/// The Secret as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredSecret {
    /// The version, for a write.
    pub version: String,
    /// Its values.
    pub data: SecretData,
}

/// A Service by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceName {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The fields of an APIService that are used here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiService {
    /// The version, for a write.
    pub version: String,
    /// The Service of the group and version; `None`: kube-apiserver itself.
    pub service: Option<ServiceName>,
    /// The authorities it trusts, PEM.
    pub bundle: Vec<u8>,
    /// Whether it trusts any server (`insecureSkipTLSVerify`).
    pub insecure: bool,
    /// The annotation by which cert-manager writes the bundle; `None`: it has none.
    pub injected: Option<String>,
}

/// A change of an APIService. It also unsets `insecureSkipTLSVerify`, which the API does not
/// allow beside a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The version it is based on.
    pub version: String,
    /// The authority to trust, PEM.
    pub bundle: String,
    /// The Service to set, if another server's APIService is taken over.
    pub service: Option<ServiceName>,
}

/// The Secret that the replicas share, and the cluster's APIServices. Reads return the
/// newest state, never a cached one.
pub trait CertificateStore: Send + Sync {
    /// The Secret, for messages: `Secret NAMESPACE/NAME`.
    fn place(&self) -> String;

    /// Reads the Secret, and creates it without values if it does not exist.
    fn secret(&self) -> impl Future<Output = Result<StoredSecret, Trouble>> + Send;

    /// Writes the values of [`KEYS`]. One that is missing in `data` is removed.
    fn write_secret(
        &self,
        version: &str,
        data: &SecretData,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;

    /// Reads an APIService; `None`: it does not exist.
    fn apiservice(
        &self,
        name: &str,
    ) -> impl Future<Output = Result<Option<ApiService>, Trouble>> + Send;

    /// Changes an APIService.
    fn write_apiservice(
        &self,
        name: &str,
        change: &Change,
    ) -> impl Future<Output = Result<(), Trouble>> + Send;
}

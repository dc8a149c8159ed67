//! The access to the cluster for managed certificates.
//!
//! Every object has a version, and a write contains the version that it is based on. If two
//! replicas write at the same time, one gets a conflict.

use std::fmt;
use std::future::Future;

use super::content::Data;
use crate::certificates::Trouble;

/// Why a write failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// The object was written after it was read: read it again.
    Conflict,
    /// Any other failure.
    Failed(Trouble),
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
pub struct Entry {
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

/// A change of an APIService.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The version it is based on.
    pub version: String,
    /// The authorities to trust, PEM. A write also unsets `insecureSkipTLSVerify`, which
    /// the API does not allow beside a bundle.
    pub bundle: String,
    /// The Service to set, if another server's APIService is taken over.
    pub service: Option<ServiceName>,
}

/// The Secret that the replicas share, and the cluster's APIServices. Reads return the
/// newest state, never a cached one.
pub trait CertificateStore: Send + Sync {
    /// The Secret, for messages: `Secret NAMESPACE/NAME`.
    fn place(&self) -> String;

    /// Reads the Secret: its version, for a write, and its values.
    fn secret(&self) -> impl Future<Output = Result<(String, Data), Trouble>> + Send;

    /// Replaces all values that the server writes. A key that is missing in `data` is removed.
    fn write_secret(
        &self,
        version: &str,
        data: &Data,
    ) -> impl Future<Output = Result<(), WriteError>> + Send;

    /// Reads an APIService; `None`: it does not exist.
    fn apiservice(&self, name: &str)
    -> impl Future<Output = Result<Option<Entry>, Trouble>> + Send;

    /// Changes an APIService.
    fn write_apiservice(
        &self,
        name: &str,
        change: &Change,
    ) -> impl Future<Output = Result<(), WriteError>> + Send;
}

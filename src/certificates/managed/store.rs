//! What the keeper of certificates needs of the cluster. The real ones are
//! `cluster::secret` and `cluster::apiservice`.
//!
//! Every object carries a version, and a write names the one it is based on:
//! of two replicas that write at a time one is told to look again.

use std::fmt;
use std::future::Future;

use super::content::Data;
use crate::certificates::Trouble;

/// Why a write was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// Somebody else wrote since: read again.
    Conflict,
    /// Anything else.
    Failed(Trouble),
}

/// A Secret's values at a version.
#[derive(Clone)]
pub struct Stored {
    /// To be named by a write.
    pub version: String,
    /// Its values.
    pub data: Data,
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored")
            .field("version", &self.version)
            .field("keys", &self.data.keys())
            .finish_non_exhaustive()
    }
}

/// The Secret that the replicas share.
pub trait SecretStore: Send + Sync {
    /// For messages: `Secret NAMESPACE/NAME`.
    fn place(&self) -> String;

    /// The newest state, never one of a cache.
    fn read(&self) -> impl Future<Output = Result<Stored, Trouble>> + Send;

    /// Replaces all values of ours; a key that `data` lacks is removed.
    fn write(
        &self,
        version: &str,
        data: &Data,
    ) -> impl Future<Output = Result<(), WriteError>> + Send;
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

/// An APIService as far as we look at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// To be named by a write.
    pub version: String,
    /// The Service of the group and version; `None`: kube-apiserver itself.
    pub service: Option<ServiceName>,
    /// The authorities it trusts, PEM.
    pub bundle: Vec<u8>,
    /// It trusts anybody (`insecureSkipTLSVerify`).
    pub insecure: bool,
    /// The annotation by which cert-manager writes the bundle too.
    pub injected: Option<String>,
}

/// What to write into an APIService.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The version it is based on.
    pub version: String,
    /// The authorities to trust, PEM. It no longer trusts anybody, which the
    /// API does not allow together.
    pub bundle: String,
    /// Take it over for this Service.
    pub service: Option<ServiceName>,
}

/// The cluster's APIServices.
pub trait Registry: Send + Sync {
    /// The newest state, never one of a cache; `None`: there is none.
    fn read(&self, name: &str) -> impl Future<Output = Result<Option<Entry>, Trouble>> + Send;

    /// Changes one.
    fn write(
        &self,
        name: &str,
        change: &Change,
    ) -> impl Future<Output = Result<(), WriteError>> + Send;
}

//! The trusted authorities of clients and front proxies, and the front proxies' headers.
//!
//! They come from the ConfigMap `kube-system/extension-apiserver-authentication`
//! (docs/protocol.md, "The authentication ConfigMap"), which every kube-apiserver of the
//! cluster writes. It has two parts: the authorities of clients, and all that is about front
//! proxies. An invalid key leaves the former values of its part in force. Before the first
//! load nothing is trusted.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use http::HeaderName;

use super::bundle::Bundle;

/// The authorities of clients.
pub const CLIENT_CA: &str = "client-ca-file";
/// The authorities of front proxies.
pub const PROXY_CA: &str = "requestheader-client-ca-file";
/// The common names that a front proxy may have; empty: any.
pub const ALLOWED_NAMES: &str = "requestheader-allowed-names";
/// Headers that name the user.
pub const USER_HEADERS: &str = "requestheader-username-headers";
/// Headers that hold the user's UID.
pub const UID_HEADERS: &str = "requestheader-uid-headers";
/// Headers that each name a group.
pub const GROUP_HEADERS: &str = "requestheader-group-headers";
/// Prefixes of headers with further attributes.
pub const EXTRA_PREFIXES: &str = "requestheader-extra-headers-prefix";

/// A fault of the ConfigMap. The message contains the key.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A required key is missing.
    #[error("{0}: missing; the former value stays in force")]
    Missing(&'static str),
    /// A value is invalid: its key, and what is wrong.
    #[error("{0}: {1}; the former value stays in force")]
    Unusable(&'static str, String),
    /// Every client with a certificate could act as a front proxy.
    #[error(
        "{PROXY_CA} and {CLIENT_CA} share a key and {ALLOWED_NAMES} is empty: any client could \
         act as any user, so no front proxy is accepted; use a separate authority for \
         the front proxy or list its names"
    )]
    Overlap,
}

impl TrustError {
    /// Whether it concerns the front proxy. Without a trusted front proxy no request
    /// through kube-apiserver is authenticated.
    pub fn is_of_front_proxy(&self) -> bool {
        match self {
            Self::Missing(_) => false,
            Self::Unusable(key, _) => *key != CLIENT_CA,
            Self::Overlap => true,
        }
    }
}

/// All trusted authorities at one time. Immutable: a change replaces it.
#[derive(Debug)]
pub struct Trust {
    /// The authorities of client certificates; `None`: none is trusted.
    pub clients: Option<Bundle>,
    /// The front proxy; `None`: none is trusted.
    pub proxy: Option<FrontProxy>,
}

/// How to verify a front proxy, and which of its headers identify users.
#[derive(Clone, Debug)]
pub struct FrontProxy {
    /// The authorities that sign its certificate.
    pub authorities: Bundle,
    /// The common names that it may have; empty: any.
    pub allowed_names: Vec<String>,
    /// Headers that name the user.
    pub user_headers: Vec<HeaderName>,
    /// Headers that contain the UID. None by default: an old kube-apiserver forwards such a
    /// header of the user unchanged (docs/protocol.md, "Front proxy").
    pub uid_headers: Vec<HeaderName>,
    /// Headers that each name a group.
    pub group_headers: Vec<HeaderName>,
    /// Prefixes of headers with further attributes.
    pub extra_prefixes: Vec<HeaderName>,
}

/// Holds the current [`Trust`]; empty at first. A change applies to all further requests,
/// also on open connections.
#[derive(Debug, Default)]
pub struct TrustStore {
    current: ArcSwapOption<Trust>,
}

impl TrustStore {
    /// The current trust; `None`: nothing has been loaded yet.
    pub fn current(&self) -> Option<Arc<Trust>> {
        self.current.load_full()
    }

    /// Loads the ConfigMap's data. Called at first and after each change of the data, not
    /// after a deletion, and by one task only. Returns the faults, for the log.
    pub fn load(&self, data: &BTreeMap<String, String>) -> Vec<TrustError> {
        let mut problems = Vec::new();
        let former = self.current();
        let former = former.as_deref();
        let known = former.and_then(|former| former.clients.as_ref());
        let clients = read_or_known(bundle(data, CLIENT_CA), known, &mut problems);
        let known = former.and_then(|former| former.proxy.as_ref());
        let mut proxy = read_or_known(FrontProxy::read(data), known, &mut problems);
        if clients.is_none() && proxy.is_none() {
            return problems;
        }
        let overlaps = |proxy: &FrontProxy| {
            let clients = clients.as_ref();
            proxy.allowed_names.is_empty()
                && clients.is_some_and(|clients| proxy.authorities.shares_a_key_with(clients))
        };
        if proxy.take_if(|proxy| overlaps(proxy)).is_some() {
            problems.push(TrustError::Overlap);
        }
        self.current.store(Some(Arc::new(Trust { clients, proxy })));
        problems
    }
}

impl FrontProxy {
    /// The keys about front proxies. A missing key, except for the authority, is an empty list.
    fn read(data: &BTreeMap<String, String>) -> Result<Self, TrustError> {
        Ok(Self {
            authorities: bundle(data, PROXY_CA)?,
            allowed_names: list(data, ALLOWED_NAMES)?,
            user_headers: headers(data, USER_HEADERS)?,
            uid_headers: headers(data, UID_HEADERS)?,
            group_headers: headers(data, GROUP_HEADERS)?,
            extra_prefixes: headers(data, EXTRA_PREFIXES)?,
        })
    }
}

/// The part that was read, or else the former one.
fn read_or_known<T: Clone>(
    read: Result<T, TrustError>,
    known: Option<&T>,
    problems: &mut Vec<TrustError>,
) -> Option<T> {
    let read = read.map_err(|problem| problems.push(problem)).ok();
    read.or_else(|| known.cloned())
}

fn bundle(data: &BTreeMap<String, String>, key: &'static str) -> Result<Bundle, TrustError> {
    let pem = data.get(key).ok_or(TrustError::Missing(key))?;
    Bundle::parse(pem)
        .map_err(|what| TrustError::Unusable(key, format!("{what}; write PEM certificates")))
}

fn list(data: &BTreeMap<String, String>, key: &'static str) -> Result<Vec<String>, TrustError> {
    let Some(text) = data.get(key).filter(|text| !text.is_empty()) else {
        return Ok(Vec::new());
    };
    serde_json::from_str(text)
        .map_err(|error| TrustError::Unusable(key, format!("not a JSON list of strings ({error})")))
}

/// Header names. [`HeaderName`] converts them to lower case, so that they compare
/// case-insensitively.
fn headers(
    data: &BTreeMap<String, String>,
    key: &'static str,
) -> Result<Vec<HeaderName>, TrustError> {
    let parse = |name: String| {
        let parsed = HeaderName::from_bytes(name.trim().as_bytes());
        parsed.map_err(|_| TrustError::Unusable(key, format!("{name:?} is no header name")))
    };
    list(data, key)?.into_iter().map(parse).collect()
}

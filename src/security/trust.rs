//! What is believed: whose certificates, and which headers of whom.
//!
//! Read from the data of the ConfigMap
//! `kube-system/extension-apiserver-authentication` (docs/protocol.md, "The
//! authentication ConfigMap"), which every kube-apiserver of the cluster
//! writes. What cannot be read leaves what was known before in force, key by
//! key; until something was read nothing is believed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use http::HeaderName;

use super::bundle::Bundle;

/// Whose certificates name users.
pub const CLIENT_CA: &str = "client-ca-file";
/// Whose certificates may be a front proxy's.
pub const PROXY_CA: &str = "requestheader-client-ca-file";
/// The common names a front proxy may have; none listed: any.
pub const ALLOWED_NAMES: &str = "requestheader-allowed-names";
/// Headers that name the user.
pub const USER_HEADERS: &str = "requestheader-username-headers";
/// Headers that hold the user's UID.
pub const UID_HEADERS: &str = "requestheader-uid-headers";
/// Headers that name a group each.
pub const GROUP_HEADERS: &str = "requestheader-group-headers";
/// How headers with further facts begin.
pub const EXTRA_PREFIXES: &str = "requestheader-extra-headers-prefix";

/// What is wrong with the ConfigMap; each names the key.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// A key is gone that was there, or never was.
    #[error("{key}: missing; what was known before stays in force")]
    Missing {
        /// The key.
        key: &'static str,
    },
    /// A value cannot be used.
    #[error("{key}: {what}; what was known before stays in force")]
    Unusable {
        /// The key.
        key: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// Every client could call itself a front proxy.
    #[error(
        "{PROXY_CA} and {CLIENT_CA} share a key and {ALLOWED_NAMES} is empty: any client could \
         act as any user, so no front proxy is believed; use an authority of its own for the \
         front proxy or list its names"
    )]
    Overlap,
}

impl TrustError {
    /// Whether it concerns the front proxy. Without one no request through
    /// kube-apiserver is authenticated.
    #[must_use]
    pub fn is_of_front_proxy(&self) -> bool {
        match self {
            Self::Missing { .. } => false,
            Self::Unusable { key, .. } => *key != CLIENT_CA,
            Self::Overlap => true,
        }
    }
}

/// What is believed at one time. Never changed: another one takes its place.
#[derive(Debug)]
pub struct Trust {
    /// Grows with every change.
    pub generation: u64,
    /// The authorities whose certificates name users; `None`: none.
    pub clients: Option<Bundle>,
    /// The front proxy that may name users; `None`: none.
    pub proxy: Option<FrontProxy>,
    /// Whether the front proxy is not believed because of [`TrustError::Overlap`].
    pub overlap: bool,
    /// As read, also where `overlap` forbids to use it.
    read: Option<FrontProxy>,
}

/// How to know a front proxy, and where it writes whom it speaks for.
#[derive(Clone, Debug)]
pub struct FrontProxy {
    /// The authorities that sign its certificate.
    pub authorities: Bundle,
    /// The common names it may have; empty: any.
    pub allowed_names: Vec<String>,
    /// Headers that name the user.
    pub user_headers: Vec<HeaderName>,
    /// Headers that hold the UID. None by default: an old kube-apiserver hands
    /// on what the user wrote there (docs/protocol.md, "Front proxy").
    pub uid_headers: Vec<HeaderName>,
    /// Headers that name a group each.
    pub group_headers: Vec<HeaderName>,
    /// How headers with further facts begin, in lower case.
    pub extra_prefixes: Vec<String>,
}

/// Where the current [`Trust`] is kept. A change counts from the next request
/// on, on every connection.
#[derive(Debug)]
pub struct TrustStore {
    current: ArcSwapOption<Trust>,
    writer: Mutex<u64>,
    believe_overlap: bool,
}

impl TrustStore {
    /// A store that believes nothing yet. With `believe_overlap` a front proxy
    /// is believed in spite of [`TrustError::Overlap`].
    #[must_use]
    pub fn new(believe_overlap: bool) -> Self {
        Self {
            current: ArcSwapOption::empty(),
            writer: Mutex::new(0),
            believe_overlap,
        }
    }

    /// What is believed; `None` before anything was read.
    #[must_use]
    pub fn current(&self) -> Option<Arc<Trust>> {
        self.current.load_full()
    }

    /// Takes in the ConfigMap's data, now and whenever it changes. Gives what
    /// is wrong with it, for the log; a ConfigMap that is gone is no call.
    pub fn load(&self, data: &BTreeMap<String, String>) -> Vec<TrustError> {
        let mut generation = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut problems = Vec::new();
        let last = self.current();
        let last = last.as_deref();
        let clients = bundle(data, CLIENT_CA, &mut problems)
            .or_else(|| last.and_then(|last| last.clients.clone()));
        let known = last.and_then(|last| last.read.as_ref());
        let read = proxy(data, known, &mut problems);
        if clients.is_none() && read.is_none() {
            return problems;
        }
        let shared = match (&clients, &read) {
            (Some(clients), Some(proxy)) => {
                proxy.allowed_names.is_empty() && proxy.authorities.shares_a_key_with(clients)
            }
            _ => false,
        };
        if shared {
            problems.push(TrustError::Overlap);
        }
        let overlap = shared && !self.believe_overlap;
        *generation += 1;
        self.current.store(Some(Arc::new(Trust {
            generation: *generation,
            clients,
            proxy: read.clone().filter(|_| !overlap),
            overlap,
            read,
        })));
        problems
    }
}

fn bundle(
    data: &BTreeMap<String, String>,
    key: &'static str,
    problems: &mut Vec<TrustError>,
) -> Option<Bundle> {
    let Some(pem) = data.get(key) else {
        problems.push(TrustError::Missing { key });
        return None;
    };
    let bundle = Bundle::parse(pem).map_err(|what| {
        let what = format!("{what}; write PEM certificates");
        TrustError::Unusable { key, what }
    });
    keep(bundle, None, problems)
}

/// The front proxy's keys. Where the authority is missing, all that was known
/// stays; where another key is missing, its list is empty.
fn proxy(
    data: &BTreeMap<String, String>,
    last: Option<&FrontProxy>,
    problems: &mut Vec<TrustError>,
) -> Option<FrontProxy> {
    let authorities = match bundle(data, PROXY_CA, problems) {
        Some(bundle) => bundle,
        None if data.contains_key(PROXY_CA) => last?.authorities.clone(),
        None => return last.cloned(),
    };
    let prefixes = headers(data, EXTRA_PREFIXES)
        .map(|names| names.iter().map(|name| name.as_str().to_owned()).collect());
    let mut names = |key, known: fn(&FrontProxy) -> &Vec<HeaderName>| {
        keep(headers(data, key), last.map(known), problems)
    };
    let user_headers = names(USER_HEADERS, |last| &last.user_headers);
    let uid_headers = names(UID_HEADERS, |last| &last.uid_headers);
    let group_headers = names(GROUP_HEADERS, |last| &last.group_headers);
    let mut texts =
        |read, known: fn(&FrontProxy) -> &Vec<String>| keep(read, last.map(known), problems);
    let allowed_names = texts(list(data, ALLOWED_NAMES), |last| &last.allowed_names);
    let extra_prefixes = texts(prefixes, |last| &last.extra_prefixes);
    Some(FrontProxy {
        authorities,
        allowed_names: allowed_names?,
        user_headers: user_headers?,
        uid_headers: uid_headers?,
        group_headers: group_headers?,
        extra_prefixes: extra_prefixes?,
    })
}

/// What was read, or else what was known.
fn keep<T: Clone>(
    read: Result<T, TrustError>,
    known: Option<&T>,
    problems: &mut Vec<TrustError>,
) -> Option<T> {
    read.map_err(|problem| problems.push(problem))
        .ok()
        .or_else(|| known.cloned())
}

fn list(data: &BTreeMap<String, String>, key: &'static str) -> Result<Vec<String>, TrustError> {
    let Some(text) = data.get(key).filter(|text| !text.is_empty()) else {
        return Ok(Vec::new());
    };
    serde_json::from_str(text).map_err(|error| {
        let what = format!("not a JSON list of strings ({error})");
        TrustError::Unusable { key, what }
    })
}

/// Header names; [`HeaderName`] makes them lower case, so that they compare
/// ignoring case.
fn headers(
    data: &BTreeMap<String, String>,
    key: &'static str,
) -> Result<Vec<HeaderName>, TrustError> {
    let parse = |name: String| {
        let parsed = HeaderName::from_bytes(name.trim().as_bytes());
        parsed.map_err(|_| {
            let what = format!("{name:?} is no header name");
            TrustError::Unusable { key, what }
        })
    };
    list(data, key)?.into_iter().map(parse).collect()
}

//! The two kinds of review by kube-apiserver.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use serde::Serialize;

use super::identity::Identity;

/// A future that a `dyn` trait can give.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A bearer token. Never printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token(pub String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

/// The result of a TokenReview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenVerdict {
    /// The token authenticates this user.
    Authenticated(Identity),
    /// The token names no user; why, for the log.
    Refused(String),
}

/// An access, in the terms of a SubjectAccessReview (`authorization.k8s.io/v1`;
/// docs/protocol.md, "What a review asks").
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Access {
    /// Something under `/apis/GROUP/VERSION/…`.
    #[serde(rename = "resourceAttributes")]
    Resource {
        /// `get`, `list`, `watch`, …
        verb: String,
        /// API group.
        group: String,
        /// API version.
        version: String,
        /// Plural resource name.
        resource: String,
        /// Empty: none.
        subresource: String,
        /// Empty: not namespaced.
        namespace: String,
        /// Empty: all.
        name: String,
    },
    /// Any other path.
    #[serde(rename = "nonResourceAttributes")]
    NonResource {
        /// HTTP method in lower case.
        verb: String,
        /// The path.
        path: String,
    },
}

impl Access {
    /// The access to the pods of all namespaces by name.
    pub fn all_pods() -> Self {
        let [verb, group, version, resource] = ["list", "", "v1", "pods"].map(str::to_owned);
        Self::Resource {
            verb,
            group,
            version,
            resource,
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
        }
    }

    /// Size in bytes of its text, which a client chose.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Resource {
                verb,
                group,
                version,
                resource,
                subresource,
                namespace,
                name,
            } => {
                let texts = [verb, group, version, resource, subresource, namespace, name];
                texts.into_iter().map(String::len).sum()
            }
            Self::NonResource { verb, path } => verb.len() + path.len(),
        }
    }
}

/// The result of a SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessVerdict {
    /// Allowed.
    Allowed,
    /// Not allowed: denied, also where it is said to be allowed as well, or
    /// no authorizer had an opinion (docs/protocol.md, "What a review asks");
    /// kube-apiserver's reason.
    Refused(String),
}

/// A failed review, which allows nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReviewError(pub String);

/// Sends reviews to kube-apiserver. Implemented over the real API in `cluster` and by a
/// recorder in tests; it does not cache.
pub trait Reviewer: Send + Sync + 'static {
    /// The user of a token (TokenReview).
    fn token<'a>(&'a self, token: &'a Token) -> Pending<'a, Result<TokenVerdict, ReviewError>>;

    /// Whether the user has the access (SubjectAccessReview).
    fn access<'a>(
        &'a self,
        who: &'a Identity,
        what: &'a Access,
    ) -> Pending<'a, Result<AccessVerdict, ReviewError>>;
}

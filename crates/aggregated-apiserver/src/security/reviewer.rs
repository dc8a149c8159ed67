//! The two kinds of review by kube-apiserver.

use std::future::Future;
use std::pin::Pin;

use secrecy::SecretString;
use serde::Serialize;

use super::identity::Identity;

/// The type of futures that a `dyn` trait returns.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The result of a TokenReview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum TokenVerdict {
    /// The token authenticates this user.
    Authenticated(Identity),
    /// The token is not authenticated; the reason, for the log.
    Refused(String),
}

/// An access, with the attributes of a SubjectAccessReview (`authorization.k8s.io/v1`;
/// docs/protocol.md, "What a review asks").
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Access {
    /// A path under `/apis/GROUP/VERSION/…`.
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
    /// Listing the pods of all namespaces.
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
}

/// The result of a SubjectAccessReview.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum AccessVerdict {
    /// Allowed.
    Allowed,
    /// Not allowed. It is denied, even if `allowed` is set too, or no authorizer has an
    /// opinion (docs/protocol.md, "What a review asks"). The text is kube-apiserver's reason.
    Refused(String),
}

/// A failed review. It counts as not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReviewError(pub String);

/// Sends reviews to kube-apiserver, without a cache. The crate `cluster-state` implements
/// it over the real API, and tests with a recorder.
pub trait Reviewer: Send + Sync + 'static {
    /// Reviews a token and returns its user (TokenReview).
    fn token<'a>(
        &'a self,
        token: &'a SecretString,
    ) -> Pending<'a, Result<TokenVerdict, ReviewError>>;

    /// Reviews whether the user has the access (SubjectAccessReview).
    fn access<'a>(
        &'a self,
        who: &'a Identity,
        what: &'a Access,
    ) -> Pending<'a, Result<AccessVerdict, ReviewError>>;
}

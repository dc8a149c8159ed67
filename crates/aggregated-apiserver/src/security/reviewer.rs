//! The two kinds of review by kube-apiserver.

use futures_util::future::BoxFuture;
use secrecy::SecretString;
use serde::Serialize;

use super::identity::Identity;

/// The result of a review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<T> {
    /// The token authenticates a user, or the access is allowed.
    Allowed(T),
    /// The token is not authenticated, or the access not allowed: it is denied, even if
    /// `allowed` is set too, or no authorizer has an opinion (docs/protocol.md, "What a review
    /// asks"). The text is the reason, for the log.
    Refused(String),
}

/// The result of a TokenReview, with the user of the token.
pub type TokenVerdict = Verdict<Identity>;

/// The result of a SubjectAccessReview.
pub type AccessVerdict = Verdict<()>;

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

/// Sends reviews to kube-apiserver, without a cache. The crate `cluster-state` implements
/// it over the real API, and tests with a recorder. An error says why a review failed; it counts
/// as not allowed.
pub trait Reviewer: Send + Sync + 'static {
    /// Reviews a token and returns its user (TokenReview).
    fn token<'a>(&'a self, token: &'a SecretString) -> BoxFuture<'a, Result<TokenVerdict, String>>;

    /// Reviews whether the user has the access (SubjectAccessReview).
    fn access<'a>(
        &'a self,
        who: &'a Identity,
        what: &'a Access,
    ) -> BoxFuture<'a, Result<AccessVerdict, String>>;
}

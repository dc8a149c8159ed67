//! Whom a request comes from.

use std::collections::BTreeMap;

/// A user as Kubernetes knows one (`k8s.io/apiserver/pkg/authentication/user`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The user's name; `system:anonymous` without credentials.
    pub user: String,
    /// The user's unique number, if there is one.
    pub uid: Option<String>,
    /// The groups, in the order they came in.
    pub groups: Vec<String>,
    /// Further facts, keys in lower case.
    pub extra: BTreeMap<String, Vec<String>>,
}

//! The users of requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

/// The user of a request without credentials.
pub(crate) const ANONYMOUS: &str = "system:anonymous";
/// The group of [`ANONYMOUS`].
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group of every authenticated user.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group that may do everything without a review.
pub(crate) const MASTERS: &str = "system:masters";

/// How a request arrives. Each way has its own permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Through kube-apiserver, such as the requests of the HPA controller. kube-apiserver
    /// limits its users itself.
    FrontProxy,
    /// Directly from the client.
    Direct,
}

/// A user in Kubernetes (`k8s.io/apiserver/pkg/authentication/user`). The fields are those
/// of a SubjectAccessReview.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Identity {
    /// The user's name; `system:anonymous` without credentials.
    pub user: String,
    /// The user's unique ID, if there is one.
    pub uid: Option<String>,
    /// The groups, in the order of the credentials.
    pub groups: Vec<String>,
    /// Further attributes, keys in lower case.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The user of a request.
#[derive(Clone, Debug)]
pub struct User {
    /// The user.
    pub identity: Arc<Identity>,
    /// How the request arrived.
    pub via: Via,
}

impl Identity {
    /// The user of requests without credentials.
    pub fn anonymous() -> Self {
        Self {
            user: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.user == ANONYMOUS
    }

    /// Whether the user belongs to the group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }

    /// Adds the group that every authenticated user has (apiserver
    /// `pkg/authentication/group/authenticated_group_adder.go`).
    pub(crate) fn with_authenticated_group(mut self) -> Self {
        let has_one = self.is_in(AUTHENTICATED) || self.is_in(UNAUTHENTICATED);
        if !self.is_anonymous() && !has_one {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_authenticated_user_has_the_group_once() {
        let user = |name: &str, groups: &[&str]| Identity {
            user: name.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            ..Identity::default()
        };
        let groups = |identity: Identity| identity.with_authenticated_group().groups;
        assert_eq!(groups(user("bob", &["a"])), ["a", AUTHENTICATED]);
        assert_eq!(groups(user("bob", &[AUTHENTICATED])), [AUTHENTICATED]);
        assert_eq!(groups(user("bob", &[UNAUTHENTICATED])), [UNAUTHENTICATED]);
        assert_eq!(groups(user(ANONYMOUS, &[])), [""; 0]);
    }
}

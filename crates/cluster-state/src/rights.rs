//! What grants the rights of the server's account on kube-apiserver. For most of them the
//! command `check` prints what to run.

/// To read the kinds that the cluster serves.
pub(super) const DISCOVERY: &str = "bind the ClusterRole system:discovery to the server's account";

/// To read the ConfigMap of delegated authentication.
pub(super) const AUTHENTICATION: &str = "bind the Role extension-apiserver-authentication-reader to the server's account by a \
     RoleBinding in the namespace kube-system";

/// To create TokenReviews and SubjectAccessReviews, and to read and write the Secret of the
/// authority and the APIServices.
pub(super) const OWN: &str = "run the command that check prints for GM201";

/// To read and write an APIService of resource metrics.
pub(super) const RESOURCE_APISERVICE: &str = "apply manifests/optional/resource-metrics.yaml, which has the APIService and the right to \
     get and patch it, or remove resourceRules from the configuration";

/// To list and watch the objects of a resource in all namespaces.
pub(super) fn watch(group: &str, plural: &str) -> String {
    format!(
        "add to the server's ClusterRole, or bind it: {{apiGroups: [\"{group}\"], resources: \
         [\"{plural}\"], verbs: [\"list\", \"watch\"]}}"
    )
}

//! What accounts must be allowed to do.

use super::codes::{Code, GM201, GM202};
use super::{Finding, Skipped};

/// A right that somebody needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// `list`.
    pub verb: &'static str,
    /// API group; empty: the core's.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Plural, with the subresource behind a `/`.
    pub resource: &'static str,
    /// Empty: in all namespaces.
    pub namespace: &'static str,
    /// Empty: all of them.
    pub name: &'static str,
}

/// A right to objects of all names in all namespaces.
#[must_use]
pub const fn right(
    verb: &'static str,
    group: &'static str,
    version: &'static str,
    resource: &'static str,
) -> Right {
    Right {
        verb,
        group,
        version,
        resource,
        namespace: "",
        name: "",
    }
}

/// What the server cannot do without.
pub const SERVER: [Right; 7] = [
    right("list", "", "v1", "pods"),
    right("list", "", "v1", "nodes"),
    right("list", "", "v1", "namespaces"),
    right("list", "", "v1", "services"),
    right("create", "authentication.k8s.io", "v1", "tokenreviews"),
    right(
        "create",
        "authorization.k8s.io",
        "v1",
        "subjectaccessreviews",
    ),
    Right {
        namespace: "kube-system",
        name: "extension-apiserver-authentication",
        ..right("get", "", "v1", "configmaps")
    },
];

/// What the HPA controller asks.
pub const AUTOSCALER: [Right; 2] = [
    right(
        "list",
        "custom.metrics.k8s.io",
        "v1beta2",
        "pods/gpu_memory_utilization",
    ),
    right(
        "list",
        "external.metrics.k8s.io",
        "v1beta1",
        "gpu_memory_utilization",
    ),
];

impl Right {
    /// The rule that gives it.
    #[must_use]
    pub fn rule(&self) -> String {
        let kind = if self.namespace.is_empty() {
            "ClusterRole"
        } else {
            "Role"
        };
        let place = match self.namespace {
            "" => String::new(),
            namespace => format!(" in {namespace}"),
        };
        let names = match self.name {
            "" => String::new(),
            name => format!(", resourceNames: [{name}]"),
        };
        format!(
            "rule of a {kind}{place}: {{apiGroups: [{:?}], resources: [{:?}]{names}, verbs: [{}]}}",
            self.group, self.resource, self.verb
        )
    }

    /// What cannot be looked at without it.
    #[must_use]
    pub fn skipped(&self, what: &str, reason: &str) -> Skipped {
        Skipped {
            what: what.to_owned(),
            reason: reason.to_owned(),
            remedy: format!("give whoever looks the {}", self.rule()),
        }
    }

    fn missing(&self, code: &Code, who: &str, remedy: &str) -> Finding {
        let group = if self.group.is_empty() {
            String::new()
        } else {
            format!(".{}", self.group)
        };
        let message = format!("may not {} {}{group}", self.verb, self.resource);
        Finding::new(
            code,
            format!("ServiceAccount {who}"),
            message,
            format!("{remedy}: {}", self.rule()),
        )
    }
}

/// The server, `namespace/name`, may not.
#[must_use]
pub fn server_may_not(who: &str, right: &Right) -> Finding {
    right.missing(&GM201, who, "apply manifests/rbac.yaml, or add the")
}

/// The HPA controller may not.
#[must_use]
pub fn autoscaler_may_not(who: &str, right: &Right) -> Finding {
    right.missing(
        &GM202,
        who,
        "bind gpu-metrics-apiserver:autoscaler of manifests/rbac.yaml, or add the",
    )
}

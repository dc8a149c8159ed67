//! The rights that accounts need: those of `manifests/rbac.yaml`, with the names of the
//! installation.

use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::Finding;
use super::codes::{Code, GM201, GM202};
use super::registration::NAME;

const MANIFEST: &str = include_str!("../../../manifests/rbac.yaml");

/// The namespace in the manifest.
const NAMESPACE: &str = "gpu-metrics";

/// The account of the HPA controller, in `kube-system`.
const AUTOSCALER: &str = "horizontal-pod-autoscaler";

/// The roles of Kubernetes that the manifest binds.
const BUILT_IN: &str = "
metadata: {name: 'system:auth-delegator'}
rules:
- {apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}
- {apiGroups: [authorization.k8s.io], resources: [subjectaccessreviews], verbs: [create]}
---
metadata: {name: extension-apiserver-authentication-reader}
rules:
- apiGroups: ['']
  resources: [configmaps]
  resourceNames: [extension-apiserver-authentication]
  verbs: [get, list, watch]
---
";

/// An account that needs rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Account {
    Server,
    /// The HPA controller.
    Autoscaler,
}

/// A right that an account needs. Empty texts: the core group, all namespaces, all names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// `list`.
    pub verb: String,
    /// API group.
    pub group: String,
    /// Plural, with the subresource after a `/`.
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

/// An installed server, by the names of its objects.
#[derive(Clone, Debug, Default)]
pub struct Installed {
    /// The namespace of its Service and its pods.
    pub namespace: String,
    /// Its Service, whose name is the prefix of its roles' names.
    pub service: String,
    /// Its ServiceAccount.
    pub account: String,
    /// The Secret of the certificates that it issues; `None`: its certificate is
    /// provided.
    pub secret: Option<String>,
    /// The APIServices that lead to it; the first one is used to identify the server.
    pub registered: Vec<&'static str>,
}

/// A role or a binding.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Document {
    metadata: ObjectMeta,
    rules: Vec<PolicyRule>,
    role_ref: Option<RoleRef>,
    subjects: Vec<Subject>,
}

impl Account {
    /// Namespace and name of the ServiceAccount.
    #[must_use]
    pub fn place(self, of: &Installed) -> [&str; 2] {
        match self {
            Self::Server => [&of.namespace, &of.account],
            Self::Autoscaler => ["kube-system", AUTOSCALER],
        }
    }

    /// The code of a missing right.
    #[must_use]
    pub const fn code(self) -> &'static Code {
        match self {
            Self::Server => &GM201,
            Self::Autoscaler => &GM202,
        }
    }

    /// All rights that it needs. A server with a provided certificate writes no `caBundle` and
    /// no Secret.
    #[must_use]
    pub fn needs(self, of: &Installed) -> Vec<Right> {
        let all = [BUILT_IN, MANIFEST].concat();
        let all: Vec<Document> = serde_saphyr::from_multiple(&all).unwrap_or_default();
        let is_own = |it: &&Document| {
            let of_autoscaler = it.subjects.iter().any(|it| it.name == AUTOSCALER);
            it.role_ref.is_some() && of_autoscaler == (self == Self::Autoscaler)
        };
        let mut rights = Vec::new();
        for binding in all.iter().filter(is_own) {
            let role = binding.role_ref.as_ref().map(|it| &*it.name);
            let is_role =
                |it: &&Document| it.role_ref.is_none() && it.metadata.name.as_deref() == role;
            let namespace = match binding.metadata.namespace.as_deref() {
                Some(NAMESPACE) => &of.namespace,
                other => other.unwrap_or_default(),
            };
            let rules = all.iter().filter(is_role).flat_map(|it| &it.rules);
            rights.extend(rules.flat_map(|it| rights_of(it, namespace, of)));
        }
        rights
    }

    /// The finding that it lacks rights; `None` if `missing` is empty.
    #[must_use]
    pub fn lacks(self, missing: &[Right], of: &Installed) -> Option<Finding> {
        if missing.is_empty() {
            return None;
        }
        let account = format!("ServiceAccount {}", self.place(of).join("/"));
        let is_of_manifest = of.service == NAME && of.namespace == NAMESPACE;
        let command = is_of_manifest.then(|| "kubectl apply -f manifests/rbac.yaml".to_owned());
        Some(Finding::new(self.code(), account, said(missing)).with_command(command))
    }
}

/// Every right that a rule grants in a namespace. A request names a metric and never `*`.
fn rights_of(rule: &PolicyRule, namespace: &str, of: &Installed) -> Vec<Right> {
    let resources = rule.resources.as_deref().unwrap_or_default();
    let is_about = |resource: &str| resources.iter().any(|it| it == resource);
    let names = match (&of.secret, &rule.resource_names) {
        (None, _) if is_about("apiservices") || is_about("secrets") => return Vec::new(),
        (Some(secret), _) if is_about("secrets") => vec![secret.clone()],
        _ if is_about("apiservices") => of.registered.iter().map(|it| (*it).to_owned()).collect(),
        (_, Some(names)) => names.clone(),
        (_, None) => vec![String::new()],
    };
    let groups = rule.api_groups.iter().flatten();
    let mut rights = Vec::new();
    for (group, resource) in groups.flat_map(|it| resources.iter().map(move |of| (it, of))) {
        let resource = match &**group {
            "custom.metrics.k8s.io" => "pods/gpu_memory_utilization",
            "external.metrics.k8s.io" => "gpu_memory_utilization",
            _ => &**resource,
        };
        for name in &names {
            rights.extend(rule.verbs.iter().map(|verb| Right {
                verb: verb.clone(),
                group: group.clone(),
                resource: resource.to_owned(),
                namespace: namespace.to_owned(),
                name: name.clone(),
            }));
        }
    }
    rights
}

/// `may not get, list pods; create tokenreviews.authentication.k8s.io`.
fn said(missing: &[Right]) -> String {
    let resource = |it: &Right| {
        let dot = if it.group.is_empty() { "" } else { "." };
        format!("{}{dot}{} {}", it.resource, it.group, it.name)
    };
    let alike = missing.chunk_by(|one, other| resource(one) == resource(other));
    let said = alike.map(|rights| {
        let verbs: Vec<&str> = rights.iter().map(|it| &*it.verb).collect();
        format!("{} {}", verbs.join(", "), resource(&rights[0]).trim_end())
    });
    format!("may not {}", said.collect::<Vec<_>>().join("; "))
}

//! The rights that accounts need: those of `manifests/rbac.yaml`, with the names of the
//! installation.

use serde::Deserialize;
use serde_json::Value;

use super::codes::{Code, GM201, GM202};
use super::registration::NAME;
use super::{Finding, text};

const MANIFEST: &str = include_str!("../../../manifests/rbac.yaml");

/// The namespace in the manifest.
const NAMESPACE: &str = "gpu-metrics";

/// The account of the HPA controller, in `kube-system`.
pub const AUTOSCALER: &str = "horizontal-pod-autoscaler";

/// The roles of Kubernetes that the manifest binds.
const BUILT_IN: &str = r#"{
"system:auth-delegator": [
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]}],
"extension-apiserver-authentication-reader": [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"],
     "resourceNames": ["extension-apiserver-authentication"]}]
}"#;

/// A right that an account needs. Empty texts: the core group, all namespaces, all names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Right {
    /// `list`.
    pub verb: String,
    /// API group.
    pub group: String,
    /// API version.
    pub version: &'static str,
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
    /// Namespace and name of its Helm release.
    pub release: Option<[String; 2]>,
    /// The Secret of the certificates that it issues; `None`: its certificate is
    /// provided.
    pub secret: Option<String>,
    /// The APIServices that lead to it; the first one is used to identify the server.
    pub registered: Vec<&'static str>,
}

impl Installed {
    /// Whether its objects have the names of the manifests.
    fn is_of_manifests(&self) -> bool {
        self.release.is_none() && self.service == NAME && self.namespace == NAMESPACE
    }
}

/// A rule of a role.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Rule {
    api_groups: Vec<String>,
    resources: Vec<String>,
    /// Empty: all names.
    resource_names: Vec<String>,
    verbs: Vec<String>,
}

/// A role of the manifest for an account.
#[derive(Clone, Debug)]
pub struct Grant {
    /// Whether it is for the HPA controller and not for the server.
    pub is_of_autoscaler: bool,
    /// `ClusterRole gpu-metrics-apiserver:inventory`.
    role: String,
    /// All rights that it grants.
    pub rights: Vec<Right>,
}

/// All roles of the manifest that the installation needs. A server with a provided
/// certificate writes no `caBundle` and no Secret.
#[must_use]
pub fn grants(of: &Installed) -> Vec<Grant> {
    let all: Vec<Value> = serde_saphyr::from_multiple(MANIFEST).unwrap_or_default();
    let (bindings, roles): (Vec<Value>, Vec<Value>) =
        all.into_iter().partition(|it| it["roleRef"].is_object());
    let grants = bindings.iter().map(|it| Grant::new(it, &roles, of));
    grants.filter(|it| !it.rights.is_empty()).collect()
}

impl Grant {
    fn new(binding: &Value, roles: &[Value], of: &Installed) -> Self {
        let name = text(binding, "/roleRef/name");
        let own = roles.iter().find(|it| text(it, "/metadata/name") == name);
        let built_in: Value = serde_json::from_str(BUILT_IN).unwrap_or_default();
        let rules = own.map_or(&built_in[name], |it| &it["rules"]);
        let rules: Vec<Rule> = serde_json::from_value(rules.clone()).unwrap_or_default();
        let namespace = match text(binding, "/metadata/namespace") {
            NAMESPACE => &of.namespace,
            other => other,
        };
        let name = match name.strip_prefix(NAME) {
            Some(suffix) => format!("{}{suffix}", of.service),
            None => name.to_owned(),
        };
        let place = match namespace {
            "" => String::new(),
            namespace => format!(" in {namespace}"),
        };
        Self {
            is_of_autoscaler: text(binding, "/subjects/0/name") == AUTOSCALER,
            role: format!("{} {name}{place}", text(binding, "/roleRef/kind")),
            rights: rules
                .iter()
                .flat_map(|it| it.rights(namespace, of))
                .collect(),
        }
    }

    /// The code of a missing right.
    #[must_use]
    pub fn code(&self) -> &'static Code {
        if self.is_of_autoscaler {
            &GM202
        } else {
            &GM201
        }
    }

    /// The finding that the account lacks rights; `None` if `missing` is empty.
    #[must_use]
    pub fn finding(&self, of: &Installed, missing: &[Right]) -> Option<Finding> {
        if missing.is_empty() {
            return None;
        }
        let (namespace, name) = match self.is_of_autoscaler {
            true => ("kube-system", AUTOSCALER),
            false => (&*of.namespace, &*of.account),
        };
        let how = match &of.release {
            Some([at, name]) => format!(
                "run helm upgrade for the release {at}/{name}, with the installed chart and --reuse-values"
            ),
            None => "apply manifests/rbac.yaml, with the names of your installation".to_owned(),
        };
        let remedy = format!("bind the {} to it, with all its rules: {how}", self.role);
        let account = format!("ServiceAccount {namespace}/{name}");
        let command = "kubectl apply -f manifests/rbac.yaml".to_owned();
        let command = of.is_of_manifests().then_some(command);
        Some(Finding::new(self.code(), account, said(missing), remedy).with_command(command))
    }
}

impl Rule {
    /// Every right that the rule grants in a namespace. A request names a metric and never
    /// `*`.
    fn rights(&self, namespace: &str, of: &Installed) -> Vec<Right> {
        let is_about = |resource: &str| self.resources.iter().any(|it| it == resource);
        let names: Vec<String> = match &of.secret {
            None if is_about("apiservices") || is_about("secrets") => return Vec::new(),
            Some(secret) if is_about("secrets") => vec![secret.clone()],
            _ if is_about("apiservices") => {
                of.registered.iter().map(|it| (*it).to_owned()).collect()
            }
            _ if self.resource_names.is_empty() => vec![String::new()],
            _ => self.resource_names.clone(),
        };
        let mut rights = Vec::new();
        for (group, resource) in self
            .api_groups
            .iter()
            .flat_map(|group| self.resources.iter().map(move |it| (group, it)))
        {
            let (version, resource) = match &**group {
                "custom.metrics.k8s.io" => ("v1beta2", "pods/gpu_memory_utilization"),
                "external.metrics.k8s.io" => ("v1beta1", "gpu_memory_utilization"),
                _ => ("v1", &**resource),
            };
            for name in &names {
                rights.extend(self.verbs.iter().map(|verb| Right {
                    verb: verb.clone(),
                    group: group.clone(),
                    version,
                    resource: resource.to_owned(),
                    namespace: namespace.to_owned(),
                    name: name.clone(),
                }));
            }
        }
        rights
    }
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

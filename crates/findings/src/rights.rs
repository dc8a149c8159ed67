//! The rights that accounts need, and the roles that grant them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::codes::{Code, GM201, GM202};
use super::registration::RELEASE;
use super::{Finding, Skipped, quoted};

/// A right that an account needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right<'n> {
    /// `list`.
    pub verb: &'static str,
    /// API group; empty: the core's.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Plural, with the subresource after a `/`.
    pub resource: &'static str,
    /// Empty: in all namespaces.
    pub namespace: &'n str,
    /// Empty: all names.
    pub name: &'n str,
}

/// A right to objects of all names in all namespaces.
#[must_use]
pub const fn right(
    verb: &'static str,
    group: &'static str,
    version: &'static str,
    resource: &'static str,
) -> Right<'static> {
    Right {
        verb,
        group,
        version,
        resource,
        namespace: "",
        name: "",
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";
const SYSTEM: &str = "kube-system";

/// The account of the HPA controller, in `kube-system`.
pub const AUTOSCALER: &str = "horizontal-pod-autoscaler";

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
    /// The other APIServices of its groups.
    pub others: Vec<&'static str>,
}

/// The roles of `manifests/rbac.yaml`, by purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Pods, their owners, and objects that rules name.
    Inventory,
    /// TokenReviews and SubjectAccessReviews.
    Reviews,
    /// The ConfigMap of the trusted client certificates.
    Authentication,
    /// `caBundle` of its APIServices.
    Registration,
    /// The Secret of its certificates.
    Certificates,
    /// The metrics, for the HPA controller.
    Autoscaler,
}

/// A rule of a role.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rule<'n> {
    api_groups: [&'static str; 1],
    resources: &'static [&'static str],
    /// `None`: all names.
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_names: Option<Vec<&'n str>>,
    verbs: &'static [&'static str],
}

impl Role {
    /// The roles of the server's own account.
    pub const SERVER: [Self; 5] = [
        Self::Inventory,
        Self::Reviews,
        Self::Authentication,
        Self::Registration,
        Self::Certificates,
    ];

    /// The name of the binding, and the built-in role of Kubernetes that it binds. With
    /// `None` the role has the same name as the binding.
    fn names(self, of: &Installed) -> (String, Option<&'static str>) {
        const READER: &str = "extension-apiserver-authentication-reader";
        let (suffix, built_in) = match self {
            Self::Inventory => ("inventory", None),
            Self::Reviews => ("auth-delegator", Some("system:auth-delegator")),
            Self::Authentication => ("authentication-reader", Some(READER)),
            Self::Registration => ("registration", None),
            Self::Certificates => ("certificates", None),
            Self::Autoscaler => ("autoscaler", None),
        };
        (format!("{}:{suffix}", of.service), built_in)
    }

    /// The namespace of a Role; `None`: a ClusterRole.
    fn namespace(self, of: &Installed) -> Option<&str> {
        match self {
            Self::Authentication => Some(SYSTEM),
            Self::Certificates => Some(&of.namespace),
            _ => None,
        }
    }

    /// Kind and name of the role.
    fn role(self, of: &Installed) -> (&'static str, String) {
        let kind = self.namespace(of).map_or("ClusterRole", |_| "Role");
        let (name, built_in) = self.names(of);
        (kind, built_in.map_or(name, str::to_owned))
    }

    fn rules(self, of: &Installed) -> Vec<Rule<'_>> {
        const READ: &[&str] = &["get", "list", "watch"];
        const CREATE: &[&str] = &["create"];
        const KEEP: &[&str] = &["get", "patch"];
        let rule = |group, resources, verbs| Rule {
            api_groups: [group],
            resources,
            resource_names: None,
            verbs,
        };
        let named = |rule, names| Rule {
            resource_names: Some(names),
            ..rule
        };
        let apiservices = |verbs| rule("apiregistration.k8s.io", &["apiservices"], verbs);
        let mut rules = match self {
            Self::Inventory => vec![
                rule("", &["pods", "namespaces", "nodes", "services"], READ),
                rule(
                    "apps",
                    &["replicasets", "deployments", "statefulsets", "daemonsets"],
                    READ,
                ),
                rule("batch", &["jobs", "cronjobs"], READ),
            ],
            Self::Reviews => vec![
                rule("authentication.k8s.io", &["tokenreviews"], CREATE),
                rule("authorization.k8s.io", &["subjectaccessreviews"], CREATE),
            ],
            Self::Authentication => vec![named(
                rule("", &["configmaps"], READ),
                vec!["extension-apiserver-authentication"],
            )],
            // A server with a provided certificate writes no `caBundle`.
            Self::Registration if of.secret.is_none() => Vec::new(),
            Self::Registration => vec![
                named(apiservices(KEEP), of.registered.clone()),
                named(apiservices(&["get"]), of.others.clone()),
            ],
            Self::Certificates => vec![named(
                rule("", &["secrets"], &["get", "patch", "create"]),
                of.secret.iter().map(String::as_str).collect(),
            )],
            Self::Autoscaler => vec![
                rule("custom.metrics.k8s.io", &["*"], &["get", "list"]),
                rule("external.metrics.k8s.io", &["*"], &["get", "list"]),
            ],
        };
        rules.retain(|it| it.resource_names != Some(Vec::new()));
        rules
    }

    /// Every right that the role grants.
    #[must_use]
    pub fn rights(self, of: &Installed) -> Vec<Right<'_>> {
        if self == Self::Autoscaler {
            // Requests name a metric and never `*`.
            const CUSTOM: &str = "pods/gpu_memory_utilization";
            const EXTERNAL: &str = "gpu_memory_utilization";
            let asked = |verb| {
                [
                    right(verb, "custom.metrics.k8s.io", "v1beta2", CUSTOM),
                    right(verb, "external.metrics.k8s.io", "v1beta1", EXTERNAL),
                ]
            };
            return ["get", "list"].map(asked).concat();
        }
        let namespace = self.namespace(of).unwrap_or_default();
        let mut rights = Vec::new();
        for rule in self.rules(of) {
            let [group] = rule.api_groups;
            for name in rule.resource_names.unwrap_or_else(|| vec![""]) {
                for resource in rule.resources {
                    rights.extend(rule.verbs.iter().map(|verb| Right {
                        namespace,
                        name,
                        ..right(verb, group, "v1", resource)
                    }));
                }
            }
        }
        rights
    }

    /// The role with all its rules, unless it is Kubernetes' own, and its binding to the
    /// account.
    pub(crate) fn objects(self, of: &Installed) -> Vec<Value> {
        let (kind, role) = self.role(of);
        let (namespace, account) = self.account(of);
        let version = format!("{RBAC}/v1");
        let (name, built_in) = self.names(of);
        let mut metadata = json!({"name": name});
        if let Some(namespace) = self.namespace(of) {
            metadata["namespace"] = json!(namespace);
        }
        // An upgrade of the Helm release rejects objects without these marks.
        if let Some(release) = &of.release {
            metadata["labels"] = json!({"app.kubernetes.io/managed-by": "Helm"});
            let [at, name] = RELEASE;
            metadata["annotations"] = json!({at: release[0], name: release[1]});
        }
        let binding = json!({
            "apiVersion": version, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        });
        if built_in.is_some() {
            return vec![binding];
        }
        let role = json!({
            "apiVersion": version, "kind": kind, "metadata": metadata, "rules": self.rules(of),
        });
        vec![role, binding]
    }

    /// Namespace and name of its account.
    fn account(self, of: &Installed) -> (&str, &str) {
        match self {
            Self::Autoscaler => (SYSTEM, AUTOSCALER),
            _ => (&of.namespace, &of.account),
        }
    }

    /// The code of a missing right.
    #[must_use]
    pub const fn code(self) -> &'static Code {
        match self {
            Self::Autoscaler => &GM202,
            _ => &GM201,
        }
    }

    /// The finding that the account lacks rights of this role; `None` if `missing` is empty.
    #[must_use]
    pub fn finding(self, of: &Installed, missing: &[Right<'_>]) -> Option<Finding> {
        if missing.is_empty() {
            return None;
        }
        let (kind, role) = self.role(of);
        let place = self.namespace(of);
        let place = place.map_or_else(String::new, |namespace| format!(" in {namespace}"));
        let rules = self.names(of).1.map_or(", with all its rules", |_| "");
        let remedy = format!("bind the {kind} {role}{place} to it{rules}");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": self.objects(of)});
        let (namespace, name) = self.account(of);
        let account = format!("ServiceAccount {namespace}/{name}");
        let finding = Finding::new(self.code(), account, said(missing), remedy);
        let command = format!("echo {} | kubectl auth reconcile -f -", quoted(&list));
        Some(finding.with_command(command))
    }
}

/// `may not get, list pods, nodes; may not create tokenreviews.authentication.k8s.io`.
fn said(missing: &[Right<'_>]) -> String {
    let mut verbs: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for right in missing {
        let dot = if right.group.is_empty() { "" } else { "." };
        let mut resource = format!("{}{dot}{}", right.resource, right.group);
        if !right.name.is_empty() {
            resource = format!("{resource} {}", right.name);
        }
        verbs.entry(resource).or_default().push(right.verb);
    }
    let mut resources: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (resource, verbs) in verbs {
        let of_verbs = resources.entry(verbs.join(", ")).or_default();
        of_verbs.push(resource);
    }
    let said = |(verbs, of): (String, Vec<String>)| format!("may not {verbs} {}", of.join(", "));
    resources
        .into_iter()
        .map(said)
        .collect::<Vec<_>>()
        .join("; ")
}

/// A right to read objects that checks need.
#[derive(Clone, Copy, Debug)]
pub struct ReadRight {
    pub right: Right<'static>,
    /// The codes that are not checked without it.
    pub codes: &'static [&'static Code],
}

impl Right<'static> {
    /// The right that checks of these codes need.
    #[must_use]
    pub const fn checks(self, codes: &'static [&'static Code]) -> ReadRight {
        ReadRight { right: self, codes }
    }
}

impl Right<'_> {
    /// The check that cannot be made without it.
    #[must_use]
    pub fn skipped(&self, what: &str, reason: &str) -> Skipped {
        let remedy = format!(
            "add this rule to a ClusterRole of the account that runs `check`: {{apiGroups: [{:?}], resources: [{:?}], verbs: [{}]}}",
            self.group, self.resource, self.verb
        );
        Skipped::new(what, reason, remedy)
    }
}

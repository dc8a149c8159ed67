//! What accounts must be allowed to do, and what gives it to them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::codes::{GM201, GM202};
use super::registration::of_release;
use super::{Finding, Skipped, kubectl};

/// A right that somebody needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right<'n> {
    /// `list`.
    pub verb: &'static str,
    /// API group; empty: the core's.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Plural, with the subresource behind a `/`.
    pub resource: &'static str,
    /// Empty: in all namespaces.
    pub namespace: &'n str,
    /// Empty: all of them.
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

/// A server that is installed, by the names of its objects.
#[derive(Clone, Debug, Default)]
pub struct Installed<'n> {
    /// The namespace of its Service and its pods.
    pub namespace: &'n str,
    /// Its Service. The names of its roles begin with this name.
    pub service: &'n str,
    /// Its ServiceAccount.
    pub account: &'n str,
    /// Namespace and name of the Helm release that it is of.
    pub release: Option<[&'n str; 2]>,
    /// The Secret with the certificates that it makes; `None`: it is given a certificate.
    pub secret: Option<String>,
    /// The APIServices that lead to it.
    pub registered: Vec<&'static str>,
    /// The other APIServices of its groups.
    pub others: Vec<&'static str>,
}

/// The roles of `manifests/rbac.yaml`, by what they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Pods, their owners, and objects that rules name.
    Inventory,
    /// TokenReviews and SubjectAccessReviews.
    Reviews,
    /// The ConfigMap that says which client certificates count.
    Authentication,
    /// `caBundle` of its APIServices.
    Registration,
    /// The Secret of its certificates.
    Certificates,
    /// The metrics, for the HPA controller.
    Autoscaler,
}

/// A rule of a role.
struct Rule<'n> {
    group: &'static str,
    resources: &'static [&'static str],
    /// Empty: all of them.
    names: Vec<&'n str>,
    verbs: &'static [&'static str],
}

impl Role {
    /// Those of the server's own account.
    pub const SERVER: [Self; 5] = [
        Self::Inventory,
        Self::Reviews,
        Self::Authentication,
        Self::Registration,
        Self::Certificates,
    ];

    const fn suffix(self) -> &'static str {
        match self {
            Self::Inventory => "inventory",
            Self::Reviews => "auth-delegator",
            Self::Authentication => "authentication-reader",
            Self::Registration => "registration",
            Self::Certificates => "certificates",
            Self::Autoscaler => "autoscaler",
        }
    }

    /// The role that Kubernetes has for it.
    const fn built_in(self) -> Option<&'static str> {
        match self {
            Self::Reviews => Some("system:auth-delegator"),
            Self::Authentication => Some("extension-apiserver-authentication-reader"),
            _ => None,
        }
    }

    /// The namespace of a Role; `None`: it is a ClusterRole.
    const fn namespace<'n>(self, of: &Installed<'n>) -> Option<&'n str> {
        match self {
            Self::Authentication => Some(SYSTEM),
            Self::Certificates => Some(of.namespace),
            _ => None,
        }
    }

    fn rules<'n>(self, of: &'n Installed<'_>) -> Vec<Rule<'n>> {
        const READ: &[&str] = &["get", "list", "watch"];
        const CREATE: &[&str] = &["create"];
        const KEEP: &[&str] = &["get", "patch"];
        let rule = |group, resources, verbs| Rule {
            group,
            resources,
            names: Vec::new(),
            verbs,
        };
        let named = |rule, names: Vec<&'n str>| Rule { names, ..rule };
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
            Self::Registration => vec![
                named(apiservices(KEEP), of.registered.clone()),
                named(apiservices(&["get"]), of.others.clone()),
            ],
            Self::Certificates => vec![named(
                rule("", &["secrets"], KEEP),
                of.secret.iter().map(String::as_str).collect(),
            )],
            Self::Autoscaler => vec![
                rule("custom.metrics.k8s.io", &["*"], &["get", "list"]),
                rule("external.metrics.k8s.io", &["*"], &["get", "list"]),
            ],
        };
        match self {
            Self::Registration if of.secret.is_none() => rules.clear(),
            Self::Registration | Self::Certificates => rules.retain(|it| !it.names.is_empty()),
            _ => {}
        }
        rules
    }

    /// Every right that the role gives.
    #[must_use]
    pub fn rights<'n>(self, of: &'n Installed<'n>) -> Vec<Right<'n>> {
        if self == Self::Autoscaler {
            // `*` itself is nothing that is asked for.
            return ["get", "list"].map(asked_for).concat();
        }
        let namespace = self.namespace(of).unwrap_or_default();
        let mut rights = Vec::new();
        for rule in self.rules(of) {
            let names = if rule.names.is_empty() {
                vec![""]
            } else {
                rule.names
            };
            for (resource, name) in rule
                .resources
                .iter()
                .flat_map(|resource| names.iter().map(move |name| (resource, name)))
            {
                rights.extend(rule.verbs.iter().map(|verb| Right {
                    namespace,
                    name,
                    ..right(verb, rule.group, "v1", resource)
                }));
            }
        }
        rights
    }

    /// The role with all its rules, if it is none of Kubernetes' own, and what
    /// binds it to the account.
    #[must_use]
    pub fn objects(self, of: &Installed<'_>) -> Vec<Value> {
        let namespace = self.namespace(of);
        let kind = if namespace.is_some() {
            "Role"
        } else {
            "ClusterRole"
        };
        let name = format!("{}:{}", of.service, self.suffix());
        let mut metadata = json!({"name": name});
        if let Some(namespace) = namespace {
            metadata["namespace"] = json!(namespace);
        }
        of_release(&mut metadata, of.release);
        let version = format!("{RBAC}/v1");
        let (at, account) = self.account(of);
        let binding = json!({
            "apiVersion": version, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": self.built_in().unwrap_or(&name)},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": at}],
        });
        if self.built_in().is_some() {
            return vec![binding];
        }
        let rules = self.rules(of).into_iter().map(|rule| {
            let mut written = json!({
                "apiGroups": [rule.group], "resources": rule.resources, "verbs": rule.verbs,
            });
            if !rule.names.is_empty() {
                written["resourceNames"] = json!(rule.names);
            }
            written
        });
        let rules: Vec<Value> = rules.collect();
        let role = json!({
            "apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules,
        });
        vec![role, binding]
    }

    /// Namespace and name of the account that needs it.
    const fn account<'n>(self, of: &Installed<'n>) -> (&'n str, &'n str) {
        match self {
            Self::Autoscaler => (SYSTEM, AUTOSCALER),
            _ => (of.namespace, of.account),
        }
    }

    /// The account lacks rights of this role; nothing where it lacks none.
    #[must_use]
    pub fn finding(self, of: &Installed<'_>, missing: &[Right<'_>]) -> Option<Finding> {
        let code = match self {
            Self::Autoscaler => &GM202,
            _ => &GM201,
        };
        if missing.is_empty() {
            return None;
        }
        let own = format!("{}:{}", of.service, self.suffix());
        let role = self.built_in().unwrap_or(&own);
        let role = match self.namespace(of) {
            Some(namespace) => format!("Role {role} in {namespace}"),
            None => format!("ClusterRole {role}"),
        };
        let remedy = match self.built_in() {
            Some(_) => format!("bind the {role} to it"),
            None => format!("bind the {role} to it, with all its rules"),
        };
        let list = json!({"apiVersion": "v1", "kind": "List", "items": self.objects(of)});
        let (namespace, name) = self.account(of);
        let account = format!("ServiceAccount {namespace}/{name}");
        let finding = Finding::new(code, account, said(missing), remedy);
        Some(finding.with_command(kubectl("auth reconcile", &list)))
    }
}

/// What the HPA controller asks.
fn asked_for(verb: &'static str) -> [Right<'static>; 2] {
    const METRIC: &str = "gpu_memory_utilization";
    [
        right(
            verb,
            "custom.metrics.k8s.io",
            "v1beta2",
            "pods/gpu_memory_utilization",
        ),
        right(verb, "external.metrics.k8s.io", "v1beta1", METRIC),
    ]
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
        resources
            .entry(verbs.join(", "))
            .or_default()
            .push(resource);
    }
    let said = resources
        .iter()
        .map(|(verbs, resources)| format!("may not {verbs} {}", resources.join(", ")));
    said.collect::<Vec<_>>().join("; ")
}

impl Right<'_> {
    /// The rule that gives it.
    fn rule(&self) -> String {
        format!(
            "rule of a ClusterRole: {{apiGroups: [{:?}], resources: [{:?}], verbs: [{}]}}",
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
}

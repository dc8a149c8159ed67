//! How kube-apiserver knows the server: the APIServices.

use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{
    APIService, APIServiceCondition,
};

use super::codes::{GM101, GM102, GM103, GM104};
use super::{Finding, Severity};
use crate::core::time::Timestamp;

/// The server, by the label and the usual name of what belongs to it.
const NAME: &str = "gpu-metrics-apiserver";
const LABEL: &str = "app.kubernetes.io/name";
const RELEASE: [&str; 2] = [
    "meta.helm.sh/release-namespace",
    "meta.helm.sh/release-name",
];

/// Authorities are renewed long before: with so little left nobody renews.
const SOON: i64 = 3 * 24 * 3600;

/// What to do about a condition of an APIService (kube-aggregator
/// `pkg/controllers/status/remote/remote_available_controller.go`).
const REMEDIES: [(&str, &str); 6] = [
    (
        "ServiceNotFound",
        "the APIService names a Service that is not there: install the server, or correct spec.service",
    ),
    (
        "ServicePortError",
        "spec.service.port is none of the Service's ports",
    ),
    (
        "EndpointsNotFound",
        "the Service selects nothing: compare its selector with the labels of the server's pods",
    ),
    (
        "MissingEndpoints",
        "no pod of the server is ready: see its log and /readyz",
    ),
    (
        "ServiceAccessError",
        "kube-apiserver could not read the Service: try again",
    ),
    (
        "FailedDiscoveryCheck",
        "kube-apiserver cannot reach the pods: allow the control plane to reach port 6443 of the nodes (firewall, NetworkPolicy)",
    ),
];

/// An APIService as it was found.
#[derive(Clone, Debug, Default)]
pub struct Registered {
    /// Its name.
    pub name: String,
    /// The object; `None`: there is none.
    pub object: Option<APIService>,
    /// What the label `app.kubernetes.io/name` of its Service says, empty where
    /// there is no label or no Service; `None`: it could not be read.
    pub service_label: Option<String>,
    /// When the last authority of its `caBundle` ends.
    pub authority_ends: Option<Timestamp>,
}

impl Registered {
    /// `namespace/name` of the Service.
    #[must_use]
    pub fn service(&self) -> Option<(String, String)> {
        let service = self.object.as_ref()?.spec.as_ref()?.service.clone()?;
        Some((service.namespace?, service.name?))
    }

    /// Whether it leads to this server.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        let labels = self
            .object
            .as_ref()
            .and_then(|it| it.metadata.labels.as_ref());
        let own = labels.and_then(|it| it.get(LABEL)).map(String::as_str);
        // `--take-over` changes the Service and leaves another's labels.
        let name = self.service().is_some_and(|(_, name)| name.contains(NAME));
        match &self.service_label {
            Some(label) => label == NAME || name,
            None => own == Some(NAME) || name,
        }
    }

    fn finding(&self, code: &super::codes::Code, message: String, remedy: &str) -> Finding {
        Finding::new(code, format!("APIService {}", self.name), message, remedy)
    }
}

/// Whether somebody else has the API group.
#[must_use]
pub fn owner(registered: &Registered) -> Option<Finding> {
    let (namespace, name) = registered.service()?;
    if registered.is_ours() {
        return None;
    }
    let annotations = registered.object.as_ref()?.metadata.annotations.as_ref();
    let [at, release] = RELEASE.map(|key| annotations.and_then(|it| it.get(key)));
    let release = release.map_or_else(String::new, |release| {
        format!(
            " (Helm release {}/{release})",
            at.map_or("?", String::as_str)
        )
    });
    let message =
        format!("leads to Service {namespace}/{name}{release}, which is not gpu-metrics-apiserver");
    let remedy = "uninstall the other server, or start this one with --take-over";
    Some(registered.finding(&GM101, message, remedy))
}

/// Everything else about one; `now` is the time of the cluster.
#[must_use]
pub fn check(registered: &Registered, now: Timestamp) -> Vec<Finding> {
    let Some(object) = &registered.object else {
        let remedy =
            "install the server: kubectl apply -f manifests/apiservices.yaml, or by the chart";
        return vec![registered.finding(&GM102, "is not there".to_owned(), remedy)];
    };
    let conditions = object.status.as_ref().and_then(|it| it.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    let available = conditions.find(|it| it.type_ == "Available");
    let mut found = Vec::new();
    found.extend(available.and_then(|it| unavailable(registered, it)));
    let spec = object.spec.as_ref();
    if spec.and_then(|it| it.insecure_skip_tls_verify) == Some(true) {
        let message =
            "insecureSkipTLSVerify: kube-apiserver does not verify whom it talks to".to_owned();
        let remedy = "remove the field: the server writes caBundle itself";
        found.push(
            registered
                .finding(&GM103, message, remedy)
                .with_severity(Severity::Warning),
        );
    }
    let left = registered
        .authority_ends
        .map(|ends| ends.secs() - now.secs());
    if let Some(left) = left.filter(|left| *left < SOON) {
        let message = match left {
            ..=0 => format!(
                "the last authority in caBundle ended {} h ago",
                -left / 3600
            ),
            left => format!(
                "the last authority in caBundle ends in {} h, and nobody has renewed it",
                left / 3600
            ),
        };
        let remedy = "let the server get and patch its Secret and its APIServices (manifests/rbac.yaml), or renew what writes the bundle";
        found.push(registered.finding(&GM104, message, remedy));
    }
    found
}

/// What to do where kube-apiserver reached something, whose answer was an error:
/// the status ends the condition's message (kube-aggregator, as above).
fn answered(message: &str) -> Option<&'static str> {
    let (_, answer) = message.split_once("bad status from ")?;
    Some(match answer.rsplit(' ').next() {
        Some("404") => {
            "something answers, and does not serve this group: another server stands behind the Service (compare its selector and port with the server's pods), or a version of the server that does not have the group"
        }
        _ => {
            "something answers, and refuses: see the log of the server, or what else stands behind the Service"
        }
    })
}

fn unavailable(registered: &Registered, condition: &APIServiceCondition) -> Option<Finding> {
    if condition.status == "True" {
        return None;
    }
    let reason = condition.reason.as_deref().unwrap_or("?");
    let message = condition.message.as_deref().unwrap_or_default();
    if message.contains("x509:") || message.contains("tls: failed to verify") {
        let remedy = "let the server write caBundle (get and patch of its APIServices, manifests/rbac.yaml), or put the authority of its certificate there";
        return Some(registered.finding(&GM103, message.to_owned(), remedy));
    }
    let known = REMEDIES.iter().find(|(known, _)| *known == reason);
    let known = known.map(|(_, remedy)| *remedy);
    let remedy = answered(message).or(known);
    let remedy = remedy.unwrap_or("see the log of the server");
    Some(registered.finding(&GM102, format!("{reason}: {message}"), remedy))
}

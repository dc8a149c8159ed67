//! Whether the NetworkPolicies of a namespace let a client reach pods there.
//!
//! Ports and addresses are not judged: where a policy may let the client in, it
//! does.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};
use serde_json::json;

use super::{Finding, kubectl};

/// Labels of a pod or a namespace.
pub type Labels = BTreeMap<String, String>;

/// The key of the label that names an application, and that of a namespace.
const NAME: &str = "app.kubernetes.io/name";
const NAMESPACE: &str = "kubernetes.io/metadata.name";

/// Pods that want to reach others.
#[derive(Clone, Debug)]
pub struct Client {
    /// Where they are.
    pub namespace: String,
    /// The labels of that namespace.
    pub namespace_labels: Labels,
    /// Their own labels.
    pub labels: Labels,
}

/// The first of the policies of a namespace that shut a client out from all of
/// its pods with these labels; `None`: it may come in.
#[must_use]
pub fn shut_out<'p>(
    policies: &'p [NetworkPolicy],
    pods: &[Labels],
    client: &Client,
) -> Option<&'p NetworkPolicy> {
    let shutting: Option<Vec<_>> = pods
        .iter()
        .map(|labels| shut_out_of_pod(policies, labels, client))
        .collect();
    shutting?.first().copied()
}

fn shut_out_of_pod<'p>(
    policies: &'p [NetworkPolicy],
    labels: &Labels,
    client: &Client,
) -> Option<&'p NetworkPolicy> {
    let selects = |policy: &&NetworkPolicy| {
        policy.spec.as_ref().is_some_and(|spec| {
            let types = spec.policy_types.as_ref();
            types.is_none_or(|types| types.iter().any(|it| it == "Ingress"))
                && matches(spec.pod_selector.as_ref(), labels)
        })
    };
    let mut of_pod = policies.iter().filter(selects);
    let first = of_pod.clone().next()?;
    let is_let_in = of_pod.any(|policy| {
        let mut rules = policy
            .spec
            .iter()
            .flat_map(|spec| spec.ingress.iter().flatten());
        rules.any(|rule| lets_in(policy, rule, client))
    });
    (!is_let_in).then_some(first)
}

fn lets_in(policy: &NetworkPolicy, rule: &NetworkPolicyIngressRule, client: &Client) -> bool {
    let peers = rule.from.as_deref().unwrap_or_default();
    let is_client = |peer: &NetworkPolicyPeer| {
        let is_there = match &peer.namespace_selector {
            Some(selector) => matches(Some(selector), &client.namespace_labels),
            None => policy.metadata.namespace.as_ref() == Some(&client.namespace),
        };
        // Which addresses the pods have is not known here.
        peer.ip_block.is_some() || is_there && matches(peer.pod_selector.as_ref(), &client.labels)
    };
    peers.is_empty() || peers.iter().any(is_client)
}

/// No selector selects all; one that cannot be read may.
fn matches(selector: Option<&LabelSelector>, labels: &Labels) -> bool {
    let selector = selector.cloned().unwrap_or_default();
    Selector::try_from(selector).map_or(true, |selector| selector.matches(labels))
}

/// Names the policy in a finding, with the command that lets the client in: one more
/// policy, for the pods that the selector of their Service selects.
pub fn name(finding: &mut Finding, policy: &NetworkPolicy, pods: &Labels, client: &Client) {
    let text = |it: &Option<String>| it.clone().unwrap_or_else(|| "?".to_owned());
    let namespace = text(&policy.metadata.namespace);
    let name = text(&policy.metadata.name);
    let labels = match client.labels.get_key_value(NAME) {
        Some((key, value)) => json!({key: value}),
        None => json!(client.labels),
    };
    let peer = json!({
        "namespaceSelector": {"matchLabels": {NAMESPACE: client.namespace}},
        "podSelector": {"matchLabels": labels},
    });
    finding.message.push_str(&format!(
        "; NetworkPolicy {namespace}/{name} does not let the server's pods in"
    ));
    // Not the name of the policy that the chart makes for the server's own pods.
    let metadata = json!({"name": "gpu-metrics-apiserver-to-prometheus", "namespace": namespace});
    let object = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata,
        "spec": {
            "podSelector": {"matchLabels": pods}, "policyTypes": ["Ingress"],
            "ingress": [{"from": [peer]}],
        },
    });
    finding.remedy = kubectl("apply", &object);
}

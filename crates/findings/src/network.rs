//! Whether the NetworkPolicies of a namespace let a client reach pods there.
//!
//! Ports and addresses are ignored: a policy that may admit the client is taken to admit
//! it.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};
use serde_json::json;

use super::{Finding, kubectl};

/// Labels of a pod or a namespace.
pub type LabelMap = BTreeMap<String, String>;

/// The key of the label that names an application, and that of a namespace.
const NAME: &str = "app.kubernetes.io/name";
const NAMESPACE: &str = "kubernetes.io/metadata.name";

/// Pods that connect to others.
#[derive(Clone, Debug)]
pub struct ConnectingPods {
    /// Their namespace.
    pub namespace: String,
    /// The labels of that namespace.
    pub namespace_labels: LabelMap,
    /// Their own labels.
    pub labels: LabelMap,
}

/// The first policy of a namespace that blocks a client, if policies block it from every
/// pod with these labels; `None` if the client can reach a pod.
#[must_use]
pub fn shut_out<'p>(
    policies: &'p [NetworkPolicy],
    pods: &[LabelMap],
    client: &ConnectingPods,
) -> Option<&'p NetworkPolicy> {
    let shutting = pods
        .iter()
        .map(|labels| shut_out_of_pod(policies, labels, client));
    shutting.collect::<Option<Vec<_>>>()?.first().copied()
}

fn shut_out_of_pod<'p>(
    policies: &'p [NetworkPolicy],
    labels: &LabelMap,
    client: &ConnectingPods,
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
        let rules = policy.spec.iter().flat_map(|spec| &spec.ingress);
        rules.flatten().any(|rule| lets_in(policy, rule, client))
    });
    (!is_let_in).then_some(first)
}

fn lets_in(
    policy: &NetworkPolicy,
    rule: &NetworkPolicyIngressRule,
    client: &ConnectingPods,
) -> bool {
    let peers = rule.from.as_deref().unwrap_or_default();
    let is_client = |peer: &NetworkPolicyPeer| {
        let is_there = match &peer.namespace_selector {
            Some(selector) => matches(Some(selector), &client.namespace_labels),
            None => policy.metadata.namespace.as_ref() == Some(&client.namespace),
        };
        // The pods' addresses are unknown here.
        peer.ip_block.is_some() || is_there && matches(peer.pod_selector.as_ref(), &client.labels)
    };
    peers.is_empty() || peers.iter().any(is_client)
}

/// A missing selector selects all labels. An invalid one may, so it is treated alike.
fn matches(selector: Option<&LabelSelector>, labels: &LabelMap) -> bool {
    let selector = selector.cloned().unwrap_or_default();
    Selector::try_from(selector).map_or(true, |selector| selector.matches(labels))
}

/// Adds the policy to a finding, with the command that admits the client: one more
/// policy, for the pods that their Service's selector selects.
pub fn name(
    finding: &mut Finding,
    policy: &NetworkPolicy,
    pods: &LabelMap,
    client: &ConnectingPods,
) {
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
        "; NetworkPolicy {namespace}/{name} does not allow ingress from the server's pods"
    ));
    // Differs from the name of the chart's policy for the server's own pods.
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

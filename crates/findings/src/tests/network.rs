//! NetworkPolicies that keep a client out, and those that may admit it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::read;
use crate::Finding;
use crate::codes::GM301;
use crate::network::{self, ConnectingPods};

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = pairs
        .iter()
        .map(|(key, it)| ((*key).to_owned(), (*it).to_owned()));
    owned.collect()
}

fn client() -> ConnectingPods {
    ConnectingPods {
        namespace: "gpu-metrics".to_owned(),
        namespace_labels: labels(&[("kubernetes.io/metadata.name", "gpu-metrics")]),
        labels: labels(&[
            ("app.kubernetes.io/name", "gpu-metrics-apiserver"),
            ("x", "y"),
        ]),
    }
}

/// The remedy, if policies with these ingress rules keep the client out.
fn remedy(ingress: &[Value]) -> Option<String> {
    let policies: Vec<_> = ingress
        .iter()
        .map(|ingress| {
            read(json!({
                "metadata": {"name": "prometheus-k8s", "namespace": "monitoring"},
                "spec": {"podSelector": {"matchLabels": {"app": "prometheus"}}, "ingress": ingress,
                    "policyTypes": ["Egress", "Ingress"]},
            }))
        })
        .collect();
    let pods = [labels(&[("app", "prometheus"), ("pod", "0")])];
    let policy = network::shut_out(&policies, &pods, &client())?;
    let mut finding = Finding::new(&GM301, "Prometheus", "queries fail", "");
    let selector = labels(&[("app", "prometheus")]);
    network::name(&mut finding, policy, &selector, &client());
    assert!(
        finding.message.ends_with(
            "NetworkPolicy monitoring/prometheus-k8s does not allow ingress from the server's pods"
        ),
        "{finding:?}"
    );
    Some(finding.remedy)
}

#[test]
fn a_policy_is_named_only_where_no_rule_may_let_the_client_in() {
    let adapter =
        json!({"podSelector": {"matchLabels": {"app.kubernetes.io/name": "prometheus-adapter"}}});
    let everywhere = |name: &str| json!({"namespaceSelector": {}, "podSelector": {"matchLabels": {"app.kubernetes.io/name": name}}});
    let own = everywhere("gpu-metrics-apiserver");
    let same_namespace = json!({"podSelector": {"matchLabels": {"app.kubernetes.io/name": "gpu-metrics-apiserver"}}});
    let address = json!({"ipBlock": {"cidr": "10.0.0.0/8"}});
    let from = |peers: &[&Value]| json!([{"from": peers, "ports": [{"port": 9090}]}]);
    for (rules, is_shut_out) in [
        (vec![], false),
        (vec![from(&[&adapter])], true),
        (vec![from(&[&adapter, &everywhere("grafana")])], true),
        (vec![from(&[&same_namespace])], true),
        (vec![from(&[&adapter, &own])], false),
        (vec![from(&[&adapter]), from(&[&own])], false),
        (vec![from(&[&address])], false),
        (vec![json!([{}])], false),
        (vec![json!([])], true),
    ] {
        assert_eq!(remedy(&rules).is_some(), is_shut_out, "{rules:?}");
    }
}

#[test]
fn the_command_lets_only_the_client_into_only_the_pods_of_the_service() {
    let command = remedy(&[json!([])]).unwrap();
    let object = command.strip_prefix("echo '").unwrap();
    let object = object.strip_suffix("' | kubectl apply -f -").unwrap();
    let object: Value = serde_json::from_str(object).unwrap();
    assert_eq!(object["metadata"]["namespace"], "monitoring");
    let peer = json!({
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "gpu-metrics"}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "gpu-metrics-apiserver"}},
    });
    let spec = json!({
        "podSelector": {"matchLabels": {"app": "prometheus"}},
        "policyTypes": ["Ingress"], "ingress": [{"from": [peer]}],
    });
    assert_eq!(object["spec"], spec);
}

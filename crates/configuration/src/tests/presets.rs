//! Built-in rules: they have no faults, and rules of the file take precedence over them.

use std::collections::BTreeSet;
use std::sync::Arc;

use adapter_rules::registry::{Registry, Shape};
use apimachinery::kinds::{Kind, Kinds};
use apimachinery::selector::Selector;

use super::load;
use crate::Config;

fn kind(group: &str, plural: &str, singular: &str, namespaced: bool) -> Kind {
    Kind {
        group: group.into(),
        version: "v1".into(),
        plural: plural.into(),
        singular: singular.into(),
        short: Vec::new(),
        kind: singular.into(),
        namespaced,
        watchable: true,
    }
}

fn kinds() -> Kinds {
    let pools = "inference.networking.k8s.io";
    Kinds::new(vec![
        kind("", "pods", "pod", true),
        kind("", "namespaces", "namespace", false),
        kind(pools, "inferencepools", "inferencepool", true),
    ])
}

/// The metrics of a file. Each rule finds one series with these labels. Its name is that of
/// the rule's query, or `named` if the query has a pattern.
fn registry(config: &Config, named: &str, labels: &[&str]) -> Registry {
    let labels: BTreeSet<Arc<str>> = labels.iter().map(|label| (*label).into()).collect();
    let found = |query: &String| {
        let name = query.split('{').next().filter(|name| !name.is_empty());
        Shape {
            name: name.unwrap_or(named).into(),
            labels: labels.clone(),
        }
    };
    let mut registry = Registry::new(kinds());
    for rule in &config.rules.usable {
        registry.add_custom(&Arc::new(rule.clone()), &[found(&rule.series_query)]);
    }
    registry
}

fn metrics(registry: &Registry) -> Vec<String> {
    let names = registry.custom.keys();
    names
        .map(|(resource, metric)| format!("{resource}/{metric}"))
        .collect()
}

#[test]
fn each_preset_has_queue_running_requests_and_cache_and_no_fault() {
    let by_pod = ["namespace", "pod"];
    let by_annotation = ["kubernetes_namespace", "kubernetes_pod_name"];
    let by_pool = ["namespace", "name", "inference_pool"];
    let pools = "inferencepools.inference.networking.k8s.io";
    let more = ["requests_held", "saturation", "tokens_in_flight"];
    for (preset, resource, server, labels, more) in [
        ("vllm", "pods", "vllm", &by_pod[..], &[][..]),
        ("sglang", "pods", "sglang", &by_annotation, &[]),
        ("triton", "pods", "triton", &by_pod, &[]),
        ("endpoint-picker", pools, "inference_pool", &by_pool, &more),
    ] {
        let config = load(&format!("presets: [{preset}]\n"));
        assert!(config.faults.is_empty(), "{:?}", config.faults);
        assert!(config.external_rules.usable.is_empty());
        let found = metrics(&registry(&config, "any", labels));
        let mut wanted = Vec::new();
        for of in [resource, "namespaces"] {
            let names = ["kv_cache_usage", "requests_running", "requests_waiting"];
            let names = names.iter().chain(more);
            wanted.extend(names.map(|name| format!("{of}/{server}_{name}")));
        }
        wanted.sort();
        assert_eq!(found, wanted, "{preset}");
    }
    let shown = load("presets: [vllm, triton]\n").shown();
    assert!(shown.contains(&("presets".to_owned(), "vllm, triton".to_owned())));
}

const OWN: &str = "
presets: [vllm]
rules:
- seriesQuery: my_queue
  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
  name: {as: vllm_requests_waiting}
  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
";

fn query(config: &Config, metric: &str) -> String {
    let registry = registry(config, "vllm:kv_cache_usage_perc", &["namespace", "pod"]);
    let custom = &registry.custom[&("pods".into(), metric.into())];
    let everything = Selector::everything();
    let query = custom.query(Some("n"), &["a"], &everything);
    query.unwrap()
}

#[test]
fn a_rule_of_the_file_with_the_same_name_takes_precedence() {
    let own = load(OWN);
    assert_eq!(
        query(&own, "vllm_requests_waiting"),
        r#"max(my_queue{namespace="n",pod="a"}) by (pod)"#
    );
    assert_eq!(
        query(&own, "vllm_requests_running"),
        r#"sum({__name__=~"(ray_)?vllm[:_]num_requests_running",namespace="n",pod="a"}) by (pod)"#,
        "the others stay"
    );
    let places = own.rules.usable.iter().map(|rule| &*rule.place);
    let places: Vec<&str> = places.collect();
    assert_eq!(places[0], "presets.vllm[0]");
    assert_eq!(places[3], "rules[0]", "messages name places of the file");
}

#[test]
fn rules_of_presets_select_series_by_the_configured_matchers() {
    let of_cluster = load(
        "prometheus: {url: 'http://p', matchers: {cluster: \"a'<<b\"}}\npresets: [vllm]\n\
         rules: [{seriesQuery: x, metricsQuery: '<<.Series>>{<<.LabelMatchers>>}'}]\n",
    );
    assert_eq!(
        query(&of_cluster, "vllm_kv_cache_usage"),
        r#"avg({__name__=~"(ray_)?vllm[:_](kv|gpu)_cache_usage_perc",cluster="a'<<b",namespace="n",pod="a"}) by (pod)"#
    );
    let own = of_cluster.rules.usable.last().unwrap();
    assert!(own.matchers.is_empty(), "as upstream");
}

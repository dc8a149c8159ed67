//! From series to metrics, with the rules that upstream ships
//! (`cmd/config-gen/utils/default.go`, label prefix `kube_`).

use std::sync::Arc;

use super::{kinds, rows, rules};
use crate::query::Unanswerable;
use crate::registry::{Registry, Shape};
use crate::rule::{Rule, Rules};
use apimachinery::labels::Labels;
use apimachinery::selector::Selector;

const DEFAULT: &str = include_str!("upstream.yaml");

/// Series, `name: labels` in each line.
fn shapes(series: &str) -> Arc<[Shape]> {
    let shape = |line: &str| {
        let (name, labels) = line.split_once(": ").expect("a colon");
        Shape {
            name: name.into(),
            labels: labels.split(' ').map(Into::into).collect(),
        }
    };
    series.trim().lines().map(shape).collect()
}

const CONTAINER: &str = "
container_some_count_total: pod namespace container
container_some_time_seconds_total: pod namespace container
container_some_usage: pod namespace container
";

const OTHERS: &str = "
ingress_hits_total: kube_ingress kube_service kube_pod kube_namespace
node_fan_seconds_total: kube_node
node_gigawatts: kube_node
service_proxy_packets: kube_service kube_namespace
volume_claims_total: kube_persistentvolume
work_queue_wait_seconds_total: kube_deployment kube_namespace
";

/// The metrics of rules that find these series.
fn registry(rules: &Rules, of: impl Fn(&Rule) -> Arc<[Shape]>) -> Registry {
    let mut registry = Registry::new(kinds());
    for rule in rules.usable.iter().cloned().map(Arc::new) {
        registry.add_custom(&rule, &of(&rule));
        registry.add_external(&rule, &of(&rule));
    }
    registry
}

fn default_registry(rules: &Rules) -> Registry {
    registry(rules, |rule| match &*rule.series_query {
        "container" => shapes(CONTAINER),
        _ => shapes(OTHERS),
    })
}

#[test]
fn the_default_rules_give_the_queries_of_upstream() {
    let rules = rules(DEFAULT);
    assert_eq!(rules.faults, []);
    let registry = default_registry(&rules);
    for row in rows(include_str!("upstream.txt")) {
        let fields: Vec<&str> = row.split(';').map(str::trim).collect();
        let [metric, namespace, names, selector, expected] = fields[..] else {
            panic!("{row}");
        };
        let (resource, metric) = metric.split_once('/').expect("resource/metric");
        let custom = &registry.custom[&(resource.into(), metric.into())];
        let namespace = Some(namespace).filter(|it| !it.is_empty());
        let names: Vec<&str> = names.split_whitespace().collect();
        let selector = Selector::parse(selector).expect("a selector");
        let query = custom.query(namespace, &names, &selector);
        assert_eq!(query.as_deref(), Ok(expected), "{row}");
    }
}

#[test]
fn the_default_rules_list_the_metrics_of_upstream() {
    let registry = default_registry(&rules(DEFAULT));
    let listed = registry.custom.keys();
    let listed = listed.map(|(resource, metric)| format!("{resource}/{metric}"));
    let upstream = "deployments.apps/work_queue_wait ingresses.networking.k8s.io/ingress_hits \
        namespaces/ingress_hits namespaces/service_proxy_packets namespaces/some_count \
        namespaces/some_time namespaces/some_usage namespaces/work_queue_wait nodes/node_fan \
        nodes/node_gigawatts persistentvolumes/volume_claims pods/ingress_hits pods/some_count \
        pods/some_time pods/some_usage services/ingress_hits services/service_proxy_packets";
    assert_eq!(listed.collect::<Vec<_>>().join(" "), upstream);
}

#[test]
fn the_last_rule_wins_then_the_last_series() {
    let rules = rules(
        "- {seriesQuery: a, name: {as: m}, resources: {template: <<.Resource>>}, metricsQuery: 'first <<.Series>>'}\n\
         - {seriesQuery: a, name: {as: m}, resources: {template: <<.Resource>>}, metricsQuery: 'last <<.Series>>'}\n",
    );
    let series = shapes("a: pod namespace\nb: pod namespace");
    let registry = registry(&rules, |_| series.clone());
    let custom = &registry.custom[&("pods".into(), "m".into())];
    let query = custom.query(Some("n"), &["p"], &Selector::everything());
    assert_eq!(query.as_deref(), Ok("last b"));
}

/// Some series name what they are about by labels of one spelling, some by another.
const SPELLINGS: &str = "
- seriesQuery: a
  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}, kube_ns: {resource: namespace}, kube_pod: {resource: pod}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
";

#[test]
fn labels_that_name_objects_are_told_apart_for_each_series() {
    let rules = rules(SPELLINGS);
    let queries = |series: &str| {
        let registry = registry(&rules, |_| shapes(series));
        let of = |resource: &str, namespace| {
            let custom = &registry.custom[&(resource.into(), "a".into())];
            let query = custom.query(namespace, &["o"], &Selector::everything());
            query.expect("a query")
        };
        let external = registry.external["a"].query("n", &Selector::everything());
        [
            of("pods", Some("n")),
            of("namespaces", None),
            external.expect("a query"),
        ]
    };
    let parts = |first: &str, second: &str| {
        let part =
            |number, query| format!(r#"label_replace({query}, "spelling", "{number}", "", "")"#);
        format!("{} or {}", part(0, first), part(1, second))
    };
    assert_eq!(
        queries("a: namespace pod\na: kube_ns kube_pod x\na: namespace pod x"),
        [
            parts(
                r#"sum(a{kube_ns="",kube_pod="",namespace="n",pod="o"}) by (pod)"#,
                r#"sum(a{kube_ns="n",kube_pod="o"}) by (kube_pod)"#
            ),
            parts(
                r#"sum(a{kube_ns="",namespace="o"}) by (namespace)"#,
                r#"sum(a{kube_ns="o"}) by (kube_ns)"#
            ),
            parts(
                r#"sum(a{kube_ns="",namespace="n"}) by ()"#,
                r#"sum(a{kube_ns="n"}) by ()"#
            ),
        ]
    );
    let both = "namespace pod kube_ns kube_pod";
    assert_eq!(
        queries(&format!("a: {both}\na: {both} x"))[0],
        r#"sum(a{kube_ns="n",kube_pod="o"}) by (kube_pod)"#,
        "one spelling needs no parts"
    );
}

#[test]
fn a_sample_names_its_object_by_the_spelling_that_it_was_found_by() {
    let rules = rules(SPELLINGS);
    let example = rules.usable[0].example(Some("x"));
    assert_eq!(example, "sum(series{x}) by (label)");
    let labels = Labels::from_pairs([("pod", "a"), ("kube_pod", "b"), ("spelling", "1")]);
    for (series, object) in [
        ("a: namespace pod\na: kube_ns kube_pod", (1, "b")),
        ("a: namespace pod", (0, "a")),
    ] {
        let registry = registry(&rules, |_| shapes(series));
        let custom = registry.find_custom("po", "a").expect("a metric");
        assert_eq!(custom.object(&labels), Some(object));
        let (name, external) = registry.find_external("A").expect("a metric");
        assert_eq!((&**name, external.spelling(&labels)), ("a", object.0));
    }
}

#[test]
fn keys_of_gpu_metrics_are_refused_unless_series_have_such_labels() {
    let rules = rules(SPELLINGS);
    let query = |series: &str, selector: &str| {
        let registry = registry(&rules, |_| shapes(series));
        let selector = Selector::parse(selector).expect("a selector");
        registry.external["a"].query("n", &selector)
    };
    let plain = "a: namespace pod";
    for (series, selector, is_refused) in [
        (plain, "window=5m", true),
        (plain, "model in (x)", true),
        (plain, "model!=x,!window,other=y", false),
        ("a: namespace pod\na: namespace model", "model=x", false),
        ("a: namespace model\na: namespace pod", "window", true),
    ] {
        let query = query(series, selector);
        let selected = matches!(query, Err(Unanswerable::Selector(_)));
        assert_eq!(selected, is_refused, "{selector}: {query:?}");
    }
}

#[test]
fn an_external_metric_covers_its_namespace_unless_the_rule_is_not_namespaced() {
    let rules = rules(
        "- {seriesQuery: a, resources: {template: <<.Resource>>}, metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>})'}\n\
         - {seriesQuery: b, resources: {namespaced: false}, metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>})'}\n\
         - {seriesQuery: c, metricsQuery: 'sum(<<.Series>>{<<.LabelMatchers>>})'}\n",
    );
    let registry = registry(&rules, |rule| {
        shapes(&format!("{}: namespace", rule.series_query))
    });
    let query = |metric: &str| {
        let selector = Selector::parse("x=y").expect("a selector");
        registry.external[metric].query("n", &selector)
    };
    assert_eq!(query("a").as_deref(), Ok(r#"sum(a{x="y",namespace="n"})"#));
    assert_eq!(query("b").as_deref(), Ok(r#"sum(b{x="y"})"#));
    assert!(
        query("c").is_err(),
        "as upstream: no label names the namespace"
    );
}

/// Prometheus 3 allows any text as a name: such a name could end the query.
#[test]
fn a_series_whose_name_needs_quotes_is_no_metric() {
    let rules = rules("- {seriesQuery: a, resources: {template: <<.Resource>>}, metricsQuery: a}");
    let series = shapes("a} or vector(1) #: pod namespace\na:b: pod namespace");
    let registry = registry(&rules, |_| series.clone());
    let mut names = registry.custom.keys().map(|(_, metric)| &**metric);
    assert!(names.all(|name| name == "a:b"));
    assert_eq!(registry.custom.len(), 2);
    assert_eq!(registry.external.len(), 1);
}

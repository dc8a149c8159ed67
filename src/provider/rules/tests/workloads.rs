//! Values of workloads from series of their pods.

use super::*;
use crate::provider::usage::tests::pod;
use gpu_metrics::inventory::{Pod, PodPhase, Workload};

/// Pods of namespace `n` with their owners: Deployment `dep` has `a` and `b`; `other` has
/// `c`, and `gone`, which has ended.
fn owned() -> Box<FakeObjects> {
    let workload = |resource: &str, kind: &str, name: &str| Workload {
        kind: ObjectKind::new(resource, kind, "apps/v1", true),
        namespace: "n".into(),
        name: name.into(),
        labels: Labels::from_pairs([("app", name)]),
        created: None,
    };
    let pod = |name: &str, phase, owners: &[u32]| Pod {
        phase,
        owners: owners.to_vec(),
        ..pod("n", name, &[])
    };
    let inventory = Inventory {
        pods: vec![
            pod("a", PodPhase::Running, &[0, 1]),
            pod("b", PodPhase::Running, &[0, 1]),
            pod("c", PodPhase::Running, &[2]),
            pod("gone", PodPhase::Finished, &[2]),
        ],
        workloads: vec![
            workload("replicasets.apps", "ReplicaSet", "dep-1"),
            workload("deployments.apps", "Deployment", "dep"),
            workload("deployments.apps", "Deployment", "other"),
        ],
        ..Inventory::default()
    };
    Box::new(FakeObjects {
        inventory: Arc::new(inventory),
        ..FakeObjects::abc()
    })
}

/// A rule as in a preset: no label contains a workload.
const OF_WORKLOADS: &str = "
- seriesQuery: hits
  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
";

#[test]
fn the_value_of_a_workload_is_the_rules_answer_for_its_live_pods() {
    const DEP: &str = r#"sum(hits{pod=~"a|b",namespace="n"}) by (namespace)"#;
    const OTHER: &str = r#"sum(hits{pod=~"c",namespace="n"}) by (namespace)"#;
    let of = |value| Answer::Vector(vec![sample(&[("namespace", "n")], value)]);
    let answers = || Prometheus([(DEP, of(7.0)), (OTHER, of(5.0))].into());
    let mut rules = rules("presets.x", OF_WORKLOADS);
    let upstream = provider_by(rules.clone(), owned(), answers());
    rules[0].of_workloads = true;
    let provider = provider_by(rules, owned(), answers());
    let named = |name: &str| Which::Named(name.to_owned());
    let (dep, other) = (("dep".to_owned(), 7.0), ("other".to_owned(), 5.0));
    let of_dep = Which::Matching(Selector::parse("app=dep").unwrap());
    for (resource, which, wanted) in [
        ("deployments.apps", named("dep"), vec![dep.clone()]),
        ("deployment.apps", everything(), vec![dep.clone(), other]),
        ("deployments.apps", of_dep, vec![dep]),
    ] {
        assert_eq!(custom(&provider, resource, which, ""), Ok(wanted));
    }
    let missing = custom(&provider, "deployments.apps", named("gone"), "");
    assert!(matches!(missing, Err(ProviderError::NoValue(_))));
    let of = ValuesOf::Objects(ObjectSelection::named("deployments.apps", Some("n"), "dep"));
    let told = provider.explain(&query(of, "hits", "")).now_or_never();
    let told = told.unwrap().unwrap();
    assert_eq!(told.promql.unwrap().query, DEP);
    assert!(told.meaning.contains("presets.x[0]"), "{}", told.meaning);
    let listed = |provider: &Composite| {
        let listed = provider.listed();
        let all = listed.custom.iter().map(|it| it.resource.to_string());
        all.collect::<Vec<_>>()
    };
    assert!(listed(&provider).contains(&"statefulsets.apps".to_owned()));
    // prometheus-adapter has no such metric.
    assert_eq!(listed(&upstream), ["namespaces", "pods"]);
    let none = custom(&upstream, "deployments.apps", named("dep"), "");
    assert_eq!(none, Err(ProviderError::NoSuchMetric));
}

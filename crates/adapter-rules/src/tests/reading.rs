//! Rules as users write them.

use super::{kinds, rows, rules};
use crate::labels::ResourceLabels;
use crate::raw::ResourceRulesEntry;
use crate::resource::ResourceRules;

/// The faults of one rule, as text.
fn faults(yaml: &str) -> Vec<String> {
    let rules = rules(yaml);
    rules.faults.iter().map(ToString::to_string).collect()
}

#[test]
fn a_rule_with_all_keys_is_read() {
    let rules = rules(
        r#"
- seriesQuery: '{__name__=~"^container_.*",container!="POD"}'
  seriesFilters: [{isNot: "^container_.*_seconds_total$"}, {is: ^container_}]
  resources:
    template: kube_<<.Resource>>
    overrides: {namespace: {resource: namespace}, dep: {group: apps, resource: deployment}}
    namespaced: false
  name: {matches: "^container_(.*)_total$", as: "${1}_per_second"}
  metricsQuery: sum(rate(<<.Series>>{<<.LabelMatchers>>}[5m])) by (<<.GroupBy>>)
"#,
    );
    assert_eq!(rules.faults, []);
    let [rule] = &rules.usable[..] else {
        panic!("{rules:?}")
    };
    assert_eq!(
        rule.metric("container_memory_total").as_deref(),
        Some("memory_per_second")
    );
    assert_eq!(rule.metric("container_cpu_seconds_total"), None);
    assert_eq!(rule.metric("container_memory"), None);
    assert!(!rule.namespaced);
}

#[test]
fn a_fault_names_the_rule_its_field_and_the_remedy() {
    let fine = "- {seriesQuery: up, metricsQuery: up}\n";
    let mut lines = rows(include_str!("faults.txt")).map(str::trim);
    while let (Some(rule), Some(expected)) = (lines.next(), lines.next()) {
        let yaml = format!("{fine}- {rule}\n");
        let found = faults(&yaml);
        assert!(
            found.len() == 1 && found[0].starts_with(expected),
            "{rule}\n{found:#?}\n{expected}"
        );
        assert_eq!(
            rules(&yaml).usable.len(),
            1,
            "{rule}: the other rule stands"
        );
    }
}

/// Upstream lists such a metric and answers 404 for it.
#[test]
fn a_rule_without_a_query_is_listed_and_reported() {
    let rules = rules("- {seriesQuery: up}");
    assert_eq!(rules.usable.len(), 1);
    assert!(rules.usable[0].query.is_none());
    assert!(
        rules.faults[0]
            .to_string()
            .starts_with("rules[0].metricsQuery: is missing")
    );
}

#[test]
fn names_are_expanded_as_go_expands_them() {
    for row in rows(include_str!("names.txt")) {
        let (asked, expected) = row.split_once(" => ").expect("an arrow");
        let (naming, series) = asked.rsplit_once(' ').expect("a series");
        let rule = format!("- {{seriesQuery: up, name: {naming}, metricsQuery: up}}");
        let metric = rules(&rule).usable[0].metric(series);
        assert_eq!(metric.as_deref().unwrap_or("-"), expected, "{row}");
    }
}

#[test]
fn a_label_names_a_kind_and_a_kind_a_label() {
    let kinds = kinds();
    let labels = |yaml: &str| -> ResourceLabels {
        let rule = format!("- {{seriesQuery: up, metricsQuery: up, resources: {yaml}}}");
        rules(&rule).usable[0].labels.clone()
    };
    let mut read = Vec::new();
    for row in rows(include_str!("labels.txt")) {
        let (yaml, pairs) = row.split_once(" => ").expect("an arrow");
        let labels = labels(yaml);
        for pair in pairs.split_whitespace() {
            let (label, expected) = pair.split_once('=').expect("a kind");
            let kind = labels.kind(label, &kinds);
            let kind = kind.map_or("-".to_owned(), |kind| kind.resource().to_string());
            assert_eq!(kind, expected, "{label} of {yaml}");
        }
        read.push(labels);
    }
    let [plain, grouped, overrides] = &read[..] else {
        panic!("{read:?}")
    };
    assert_eq!(overrides.unknown(&kinds).collect::<Vec<_>>(), ["nope"]);
    let pods = kinds.find("", "pod").expect("pods");
    let label = |labels: &ResourceLabels, on: &str| {
        let label = labels.label(pods, &kinds, &[on.into()].into());
        label.map_or("-".to_owned(), |label| label.to_string())
    };
    assert_eq!(label(plain, "pods"), "pod", "as upstream asks");
    assert_eq!(label(grouped, "x"), "kube__pod");
    assert_eq!(label(overrides, "a"), "b");
    assert_eq!(label(overrides, "e"), "e", "the one that the series has");
    assert_eq!(label(&labels("{}"), "pod"), "-");
}

#[test]
fn the_rules_of_the_resource_metrics_api_are_read() {
    let yaml = include_str!("resource.yaml");
    let read = |yaml: &str| {
        let raw: ResourceRulesEntry = serde_saphyr::from_str(yaml).expect("YAML");
        ResourceRules::resolve(&raw).map_err(|fault| fault.to_string())
    };
    let rules = read(yaml).expect("good rules");
    assert_eq!(rules.window.as_secs(), 180);
    assert_eq!(rules.cpu.container_label, "container");
    assert_eq!(
        rules.memory.of_pods("ns", &["a"]).expect("a query"),
        r#"sum by (pod,container) (container_memory_working_set_bytes{namespace="ns",pod="a"})"#
    );
    assert_eq!(
        rules.memory.of_nodes(&["a"]).expect("a query"),
        r#"sum(container_memory_working_set_bytes{node="a",id='/'}) by (node)"#
    );
    assert_eq!(
        read("cpu: {containerQuery: a, nodeQuery: b}").expect_err("memory is missing"),
        "resourceRules.cpu.resources: names no label for a pod, a namespace or a node: write \
         overrides such as LABEL: {resource: node}"
    );
    assert!(
        read(&yaml.replace("3m\n", "soon\n"))
            .expect_err("no duration")
            .contains("resourceRules.window")
    );
}

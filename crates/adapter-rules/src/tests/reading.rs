//! Rules as users write them.

use super::{kinds, rules};
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

/// A second rule, and the beginning of its fault.
const FAULTS: &str = r#"
{metricsQuery: up}
    rules[1].seriesQuery: is missing: write a series selector such as '{__name__=~"^http_.+"}'
{seriesQuery: up, metricsQuery: '<<.Series'}
    rules[1].metricsQuery (line 2, column 35): is no template: at line 1, column 1 of it: << without >>: close the action
{seriesQuery: up, metricsQuery: "sum(\n  <<.Serie>>)"}
    rules[1].metricsQuery (line 2, column 35): is no template: at line 2, column 5 of it: .Serie is not known: write .GroupBy, .GroupBySlice, .LabelMatchers, .LabelValuesByName, .Series
{seriesQuery: up, metricsQuery: up, seriesFilters: [{is: a, isNot: b}]}
    rules[1].seriesFilters[0]: write either is or isNot
{seriesQuery: up, metricsQuery: up, seriesFilters: [{}]}
    rules[1].seriesFilters[0]: write either is or isNot
{seriesQuery: up, metricsQuery: up, seriesFilters: [{is: '(a'}]}
    rules[1].seriesFilters[0] (line 2, column 60): "(a" is no regular expression: unclosed group
{seriesQuery: up, metricsQuery: up, name: {matches: '(a)(b)'}}
    rules[1].name.matches (line 2, column 55): has several capture groups: set name.as to the one with the name
{seriesQuery: up, metricsQuery: up, name: {matches: '\Qa\E'}}
    rules[1].name.matches (line 2, column 55): "\\Qa\\E": \Q…\E and \C are not supported
{seriesQuery: up, metricsQuery: up, resources: {template: '<<.Group>>'}}
    rules[1].resources.template (line 2, column 61): "<<.Group>>" names no kind
{seriesQuery: up, metricsQuery: up, resources: {overrides: {pod: {group: a}}}}
    rules[1].resources.overrides.pod: has no resource: write one such as pod
"#;

#[test]
fn a_fault_names_the_rule_its_field_and_the_remedy() {
    let fine = "- {seriesQuery: up, metricsQuery: up}\n";
    let mut lines = FAULTS.lines().skip(1).map(str::trim);
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

#[test]
fn an_expression_that_go_reads_differently_is_refused_with_a_remedy() {
    for (expression, remedy) in [
        (r"\Qa.b\E", "escape the characters one by one"),
        (r"a\07", r"write \x07"),
        (r"[\07]", r"write \x07"),
        (r"\<up", "write < and >"),
        (r"\b{start}up", r"write \b(?:\{)"),
        (r"[[a]b]", r"write \["),
        (r"[a&&b]", "write each character once"),
        (r"[a~~b]", "write each character once"),
        (r"[+--]", "write each character once"),
        (r"a{,5}", r"write \{ for the character itself"),
        (r"a{", r"write \{ for the character itself"),
        (r"(?=a)", "look-around"),
        (r"(a)\1", r"write \x07"),
    ] {
        let yaml = format!(
            "- {{seriesQuery: up, metricsQuery: up, name: {{matches: '{expression}', as: x}}}}\n\
             - {{seriesQuery: up, metricsQuery: up}}\n"
        );
        let found = faults(&yaml);
        assert!(
            found.len() == 1
                && found[0].starts_with("rules[0].name.matches (line 1, column 55): ")
                && found[0].contains(remedy),
            "{expression}: {found:?}"
        );
        assert_eq!(rules(&yaml).usable.len(), 1, "the other rule stands");
    }
}

#[test]
fn an_expression_that_go_reads_the_same_way_is_accepted() {
    for expression in [
        r"^[[:alpha:]_][[:word:]]*$",
        r"[]a]",
        r"[^]a]",
        r"[^\[\]&~-]",
        r"[a-]&&b~~c--",
        r"a&&b",
        r"\pN\p{Greek}[\d\-a]",
        r"(?P<n>a)(?<m>b)(?i)c",
        r"\[\b\x{41}\x41\_",
        r"a{0,1000}",
    ] {
        let yaml = format!(
            "- {{seriesQuery: up, metricsQuery: up, seriesFilters: [{{is: '{expression}'}}]}}\n"
        );
        assert_eq!(faults(&yaml), Vec::<String>::new(), "{expression}");
    }
}

#[test]
fn character_classes_match_as_in_go() {
    for expression in [r"^\w$", r"^[\w-]$", r"^\D\b$"] {
        let rules = rules(&format!(
            "- {{seriesQuery: up, metricsQuery: up, seriesFilters: [{{is: '{expression}'}}]}}"
        ));
        let [rule] = &rules.usable[..] else {
            panic!("{expression}: {rules:?}")
        };
        assert_eq!(rule.metric("a").as_deref(), Some("a"), "{expression}");
        assert_eq!(rule.metric("é"), None, "{expression}");
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
    for (naming, series, expected) in [
        ("", "http_requests", Some("http_requests")),
        ("as: my_metric", "http_requests", Some("my_metric")),
        ("as: my_$0", "http_requests", Some("my_http_requests")),
        ("matches: http", "http_requests", Some("http")),
        ("matches: '^(.*)_total$'", "a_total", Some("a")),
        (
            "{matches: '^(.*)_total$', as: '${1}_per_second'}",
            "a_total",
            Some("a_per_second"),
        ),
        (
            "{matches: '^(.*)_total$', as: '$1_per_second'}",
            "a_total",
            None,
        ),
        (
            "{matches: '^(?P<n>.*)_total$', as: 'x_$n'}",
            "a_total",
            Some("x_a"),
        ),
        ("{matches: '^(.*)_(.*)$', as: '$2$$$9'}", "a_b", Some("b$")),
        ("matches: nope", "a_total", None),
    ] {
        let naming = match naming {
            "" => String::new(),
            naming if naming.starts_with('{') => format!("name: {naming}, "),
            naming => format!("name: {{{naming}}}, "),
        };
        let rules = rules(&format!("- {{seriesQuery: up, {naming}metricsQuery: up}}"));
        assert_eq!(
            rules.usable[0].metric(series).as_deref(),
            expected,
            "{naming}{series}"
        );
    }
}

#[test]
fn a_label_names_a_kind_and_a_kind_a_label() {
    let kinds = kinds();
    let labels = |yaml: &str| -> ResourceLabels {
        rules(&format!(
            "- {{seriesQuery: up, metricsQuery: up, resources: {yaml}}}"
        ))
        .usable[0]
            .labels
            .clone()
    };
    let kind = |labels: &ResourceLabels, label: &str| {
        labels
            .kind(label, &kinds)
            .map(|kind| kind.resource().to_string())
    };
    let plain = labels("{template: <<.Resource>>}");
    for (label, expected) in [
        ("pod", Some("pods")),
        ("pods", Some("pods")),
        ("Pod", Some("pods")),
        ("po", Some("pods")),
        ("job", Some("jobs.batch")),
        ("deployment", Some("deployments.apps")),
        ("endpoint", None),
        ("instance", None),
        ("namespace", Some("namespaces")),
    ] {
        assert_eq!(kind(&plain, label).as_deref(), expected, "{label}");
    }
    let grouped = labels("{template: kube_<<.Group>>_<<.Resource>>}");
    for (label, expected) in [
        ("kube_apps_deployment", Some("deployments.apps")),
        (
            "kube_networking_k8s_io_ingress",
            Some("ingresses.networking.k8s.io"),
        ),
        ("kube__pod", Some("pods")),
        ("pod", None),
    ] {
        assert_eq!(kind(&grouped, label).as_deref(), expected, "{label}");
    }
    let overrides = labels(
        "{overrides: {a: {resource: StatefulSet}, b: {resource: pods}, c: {group: stor, resource: storageclass}, \
         d: {resource: nope}, e: {resource: pod}}}",
    );
    for (label, expected) in [
        ("a", Some("statefulsets.apps")),
        ("b", Some("pods")),
        ("c", Some("storageclasses.storage.k8s.io")),
        ("d", None),
        ("pod", None),
    ] {
        assert_eq!(kind(&overrides, label).as_deref(), expected, "{label}");
    }
    assert_eq!(overrides.unknown(&kinds).collect::<Vec<_>>(), ["nope"]);
    let pods = kinds.find("", "pod").expect("pods");
    let label = |labels: &ResourceLabels, on: &[&str]| {
        let on = on.iter().map(|label| (*label).into()).collect();
        labels
            .label(pods, &kinds, &on)
            .map(|label| label.to_string())
    };
    assert_eq!(
        label(&plain, &["pods"]).as_deref(),
        Some("pod"),
        "as upstream asks"
    );
    assert_eq!(label(&grouped, &[]).as_deref(), Some("kube__pod"));
    assert_eq!(label(&overrides, &["a"]).as_deref(), Some("b"));
    assert_eq!(
        label(&overrides, &["e"]).as_deref(),
        Some("e"),
        "the one that the series has"
    );
    assert_eq!(label(&labels("{}"), &["pod"]), None);
}

#[test]
fn the_rules_of_the_resource_metrics_api_are_read() {
    let yaml = r#"
cpu:
  containerQuery: sum by (<<.GroupBy>>) (rate(container_cpu_usage_seconds_total{<<.LabelMatchers>>}[3m]))
  nodeQuery: sum(rate(container_cpu_usage_seconds_total{<<.LabelMatchers>>, id='/'}[3m])) by (<<.GroupBy>>)
  resources: {overrides: {node: {resource: node}, namespace: {resource: namespace}, pod: {resource: pod}}}
  containerLabel: container
memory:
  containerQuery: sum by (<<.GroupBy>>) (container_memory_working_set_bytes{<<.LabelMatchers>>})
  nodeQuery: sum(container_memory_working_set_bytes{<<.LabelMatchers>>,id='/'}) by (<<.GroupBy>>)
  resources: {overrides: {node: {resource: node}, namespace: {resource: namespace}, pod: {resource: pod}}}
  containerLabel: container
window: 3m
"#;
    let read = |yaml: &str| {
        let raw: ResourceRulesEntry = serde_saphyr::from_str(yaml).expect("YAML");
        ResourceRules::resolve(&raw)
            .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    let rules = read(yaml).expect("good rules");
    assert_eq!(rules.window.as_secs(), 180);
    assert_eq!(rules.cpu.container_label, "container");
    assert_eq!(
        read("cpu: {containerQuery: a, nodeQuery: b}").expect_err("memory is missing"),
        [
            "resourceRules.cpu.resources: names no label for a pod, a namespace or a node: write \
             overrides such as LABEL: {resource: node}",
            "resourceRules.memory: is missing: write cpu and memory"
        ]
    );
    assert!(
        read(&yaml.replace("3m\n", "soon\n")).expect_err("no duration")[0]
            .contains("resourceRules.window")
    );
}

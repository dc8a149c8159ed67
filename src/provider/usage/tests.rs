//! CPU and memory use of pods and nodes: the cases of upstream's own tests
//! (prometheus-adapter `pkg/resourceprovider/provider_test.go`), and the differences.

use std::sync::Arc;

use super::*;
use adapter_rules::raw::ResourceRulesEntry;
use adapter_rules::resource::ResourceRules;
use apimachinery::selector::Selector;
use gpu_metrics::inventory::{ClusterObject, Pod};

/// Rules as prometheus-adapter's `config-gen` writes them, with a window of a minute.
const RULES: &str = r#"
cpu:
  containerQuery: sum(rate(container_cpu_usage_seconds_total{<<.LabelMatchers>>}[1m])) by (<<.GroupBy>>)
  nodeQuery: sum(rate(container_cpu_usage_seconds_total{<<.LabelMatchers>>, id='/'}[1m])) by (<<.GroupBy>>)
  resources: &resources
    overrides:
      instance: {resource: node}
      namespace: {resource: namespace}
      pod: {resource: pod}
  containerLabel: container
memory:
  containerQuery: sum(container_memory_working_set_bytes{<<.LabelMatchers>>}) by (<<.GroupBy>>)
  nodeQuery: sum(container_memory_working_set_bytes{<<.LabelMatchers>>,id='/'}) by (<<.GroupBy>>)
  resources: *resources
  containerLabel: container
window: 1m
"#;

pub(crate) fn rules() -> ResourceRules {
    let raw: ResourceRulesEntry = serde_saphyr::from_str(RULES).unwrap();
    ResourceRules::resolve(&raw).unwrap()
}

pub(crate) fn pod(namespace: &str, name: &str, labels: &[(&'static str, &'static str)]) -> Pod {
    Pod {
        namespace: namespace.into(),
        name: name.into(),
        labels: Labels::from_pairs(labels.iter().copied()),
        phase: PodPhase::Running,
        ..Pod::default()
    }
}

/// Sorted pods and nodes.
pub(crate) fn inventory(pods: Vec<Pod>, nodes: &[&str]) -> Inventory {
    let node = |name: &&str| ClusterObject {
        name: (*name).into(),
        labels: Labels::from_pairs([("zone", *name)]),
        created: None,
    };
    Inventory {
        pods,
        nodes: nodes.iter().map(node).collect(),
        ..Inventory::default()
    }
}

/// A sample of a pod's container (`ns/pod/container`) or of a node, at a time in milliseconds.
pub(crate) fn sample(of: &str, value: f64, at: i64) -> VectorSample {
    let labels = match of.split('/').collect::<Vec<_>>()[..] {
        [namespace, pod, container] => vec![
            ("namespace", namespace),
            ("pod", pod),
            ("container", container),
        ],
        _ => vec![("instance", of)],
    };
    VectorSample {
        labels: Labels::from_pairs(labels),
        value,
        at: Timestamp::from_millis(at),
    }
}

/// Samples, each written as `OF=VALUE@MILLISECONDS`.
fn samples(text: &str) -> impl Iterator<Item = VectorSample> {
    text.split_whitespace().map(|word| {
        let (of, number) = word.split_once('=').unwrap();
        let (value, at) = number.split_once('@').unwrap();
        sample(of, value.parse().unwrap(), at.parse().unwrap())
    })
}

/// The samples of a query, by words of queries: `cpu_usage pod="c" | ns/c/one=1@10`.
fn result(answers: &[(&str, &str)], promql: &str) -> Arc<[VectorSample]> {
    let found = answers.iter().filter(|(words, _)| {
        let mut words = words.split(' ');
        words.all(|word| promql.contains(word))
    });
    found.flat_map(|(_, text)| samples(text)).collect()
}

fn request(
    inventory: &Inventory,
    (measured, namespace, name): (Measured, Option<&str>, Option<&str>),
) -> Result<UsageRequest, Refusal> {
    let query = UsageQuery {
        measured,
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        labels: Selector::everything(),
        fields: FieldSelector::default(),
        now: Timestamp::from_secs(1_000),
        user: String::new(),
    };
    UsageRequest::new(Arc::new(rules()), query, inventory)
}

/// The usage by these samples.
fn usage(
    request: UsageRequest,
    answers: &[(&str, &str)],
    conditions: &RuleConditions,
) -> Result<Vec<Usage>, Refusal> {
    let queries = request.queries.iter();
    let results = queries.map(|it| result(answers, &it.promql));
    let results: Vec<_> = results.collect();
    request.usage(&results, conditions)
}

/// An object with its time in milliseconds, and CPU and memory of its parts in whole units:
/// `ns/pod@10 container=1,2`.
fn told(usage: &Usage) -> String {
    assert_eq!(usage.window, Duration::from_secs(60));
    let object = &usage.object;
    let namespace = object.namespace.as_ref();
    let namespace = namespace.map_or(String::new(), |it| format!("{it}/"));
    let mut line = format!("{namespace}{}@{}", object.name, usage.at.millis());
    for (name, of) in &usage.parts {
        assert_eq!((of.cpu % 1000, of.memory % 1000), (0, 0));
        line += &format!(" {name}={},{}", of.cpu / 1000, of.memory / 1000);
    }
    line
}

/// Checks one case of `cases.txt`.
fn check(case: &str) {
    let (mut pods, mut nodes, mut answers) = (Vec::new(), Vec::new(), Vec::new());
    for line in case.lines().filter(|line| !line.starts_with('#')) {
        let (what, rest) = line
            .split_once(": ")
            .unwrap_or((line.trim_end_matches(':'), ""));
        match what.split(' ').collect::<Vec<_>>()[..] {
            ["pods"] => pods.extend(rest.split(' ').map(|it| {
                let (namespace, name) = it.trim_end_matches('!').split_once('/').unwrap();
                let mut pod = pod(namespace, name, &[]);
                if it.ends_with('!') {
                    pod.phase = PodPhase::Pending;
                }
                pod
            })),
            ["nodes"] => nodes.extend(rest.split(' ')),
            ["list", of, ..] | ["get", of, ..] => {
                let place = what
                    .split(' ')
                    .nth(2)
                    .map(|it| it.split('/').collect::<Vec<_>>());
                let asked = match (of, place.as_deref()) {
                    ("pods", Some([namespace, rest @ ..])) => {
                        (Measured::Pods, Some(*namespace), rest.first().copied())
                    }
                    ("pods", _) => (Measured::Pods, None, None),
                    (_, place) => (Measured::Nodes, None, place.map(|it| it[0])),
                };
                let inventory = inventory(pods.clone(), &nodes);
                let found = request(&inventory, asked)
                    .and_then(|request| usage(request, &answers, &RuleConditions::default()));
                let found = match found {
                    Ok(usages) => usages.iter().map(told).collect::<Vec<_>>().join("; "),
                    Err(Refusal::NoValue(why)) => why,
                    Err(other) => panic!("{other:?}"),
                };
                assert_eq!(found, rest, "{line} in\n{case}");
            }
            _ => answers.push((what, rest)),
        }
    }
}

#[test]
fn each_case_has_its_usage() {
    let cases = include_str!("cases.txt").split("\n\n");
    cases.for_each(check);
}

#[test]
fn a_rule_without_a_sample_of_a_list_is_a_finding() {
    let found = |inventory: Inventory, asked, samples: &[(&str, &str)]| {
        let conditions = RuleConditions::default();
        let _ = usage(request(&inventory, asked).unwrap(), samples, &conditions);
        let findings = conditions.findings(Timestamp::from_secs(1_000)).into_iter();
        findings.map(|it| it.object).collect::<Vec<_>>()
    };
    let nodes = |which, samples: &[(&str, &str)]| {
        let inventory = inventory(Vec::new(), &["n"]);
        found(inventory, (Measured::Nodes, None, which), samples)
    };
    let keys = [
        "resourceRules.cpu.nodeQuery",
        "resourceRules.memory.nodeQuery",
    ];
    // The label has addresses instead of names.
    let addresses = &[("cpu_usage", "10.0.0.1:10250=1@1"), ("memory", "")];
    assert_eq!(nodes(None, addresses), keys);
    assert_eq!(nodes(None, &[("cpu_usage", "n=1@1")]), keys[1..]);
    assert_eq!(nodes(Some("n"), &[]), [""; 0]);
    let pods = |since| {
        let mut running = pod("ns", "a", &[]);
        running.running_since = Some(Timestamp::from_secs(since));
        let inventory = inventory(vec![running], &[]);
        found(inventory, (Measured::Pods, None, None), &[])
    };
    let keys = [
        "resourceRules.cpu.containerQuery",
        "resourceRules.memory.containerQuery",
    ];
    assert_eq!(pods(600), keys);
    assert_eq!(pods(900), [""; 0], "samples of a new pod may come later");
}

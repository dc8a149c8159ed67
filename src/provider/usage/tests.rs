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

/// Samples by the words of the query that has them as its result.
type Prometheus = &'static [(&'static str, &'static str)];

fn result(prometheus: Prometheus, promql: &str) -> Arc<[VectorSample]> {
    let found = prometheus.iter().filter(|(words, _)| {
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
    prometheus: Prometheus,
    conditions: &RuleConditions,
) -> Result<Vec<Usage>, Refusal> {
    let queries = request.queries.iter();
    let results = queries.map(|it| result(prometheus, &it.promql));
    let results: Vec<_> = results.collect();
    request.usage(&results, conditions)
}

struct Scene {
    inventory: Inventory,
    prometheus: Prometheus,
}

impl Scene {
    fn pods(pods: Vec<Pod>, prometheus: Prometheus) -> Self {
        Self {
            inventory: inventory(pods, &[]),
            prometheus,
        }
    }

    fn list(&self, measured: Measured, namespace: Option<&str>) -> Vec<String> {
        self.ask((measured, namespace, None)).unwrap()
    }

    /// Each object with its time in milliseconds, and CPU and memory of its parts in whole
    /// units: `ns/pod@10 container=1,2`.
    fn ask(&self, asked: (Measured, Option<&str>, Option<&str>)) -> Result<Vec<String>, Refusal> {
        let request = request(&self.inventory, asked)?;
        let found = usage(request, self.prometheus, &RuleConditions::default())?;
        let told = found.iter().map(|usage| {
            assert_eq!(usage.window, Duration::from_secs(60));
            let MeasuredObject {
                namespace, name, ..
            } = &usage.object;
            let namespace = namespace
                .as_ref()
                .map_or(String::new(), |it| format!("{it}/"));
            let mut line = format!("{namespace}{name}@{}", usage.at.millis());
            for (name, of) in &usage.parts {
                assert_eq!((of.cpu % 1000, of.memory % 1000), (0, 0));
                line += &format!(" {name}={},{}", of.cpu / 1000, of.memory / 1000);
            }
            line
        });
        Ok(told.collect())
    }
}

#[test]
fn pods_of_several_namespaces_are_queried_by_namespace() {
    const SOME_CPU: &str = r#"cpu_usage namespace="some",pod=~"a|b""#;
    const OTHER_CPU: &str = r#"cpu_usage namespace="other",pod="c""#;
    const SOME_MEMORY: &str = r#"memory_working_set namespace="some",pod=~"a|b" (pod,container)"#;
    const OTHER_MEMORY: &str = r#"memory_working_set namespace="other",pod="c""#;
    let pods = [("other", "c"), ("some", "a"), ("some", "b")];
    let pods = pods.map(|(namespace, name)| pod(namespace, name, &[]));
    let scene = Scene::pods(
        pods.into(),
        &[
            (
                SOME_CPU,
                "some/a/one=1100@10 some/a/two=1110@20 some/b/one=1300@10",
            ),
            (OTHER_CPU, "other/c/one=2200@270"),
            (
                SOME_MEMORY,
                "some/a/one=3100@11 some/a/two=3110@21 some/b/one=3300@11",
            ),
            (OTHER_MEMORY, "other/c/one=4200@271"),
        ],
    );
    let all = [
        "other/c@270 one=2200,4200",
        "some/a@10 one=1100,3100 two=1110,3110",
        "some/b@10 one=1300,3300",
    ];
    assert_eq!(scene.list(Measured::Pods, None), all);
    assert_eq!(scene.list(Measured::Pods, Some("some")), all[1..]);
    assert_eq!(scene.list(Measured::Pods, Some("none")), [""; 0]);
}

/// `a` has both values, `b` only CPU, `c` none; `d` does not run.
#[test]
fn pods_without_data_are_left_out() {
    let mut pods = ["a", "b", "c", "d"].map(|name| pod("ns", name, &[]));
    pods[3].phase = PodPhase::Pending;
    let prometheus = &[
        ("cpu_usage", "ns/a/one=1@10 ns/b/one=1@10 ns/d/one=1@10"),
        ("memory_working_set", "ns/a/one=2@10 ns/d/one=2@10"),
    ];
    let scene = Scene::pods(pods.into(), prometheus);
    let only = ["ns/a@10 one=1,2"];
    assert_eq!(scene.list(Measured::Pods, None), only);
    let one = |name: &str| scene.ask((Measured::Pods, Some("ns"), Some(name)));
    assert_eq!(one("a").unwrap(), only);
    let (half, gone) = (
        "Prometheus has no CPU or no memory of it, or of one of its containers",
        "no such pod is running",
    );
    for (name, why) in [("b", half), ("c", half), ("d", gone), ("e", gone)] {
        let missing = Err(Refusal::NoValue(why.to_owned()));
        assert_eq!(one(name), missing, "{name}");
    }
}

#[test]
fn a_pod_with_an_unknown_value_of_a_container_is_left_out() {
    for (cpu, memory) in [
        ("ns/a/one=1@10", "ns/a/one=2@10 ns/a/two=2@10"),
        ("ns/a/one=1@10 ns/a/two=1@10", "ns/a/one=2@10"),
        ("ns/a/one=1@10", "ns/a/two=2@10"),
        ("ns/a/one=NaN@10", "ns/a/one=2@10"),
        ("ns/a/one=1@10", "ns/a/one=-1@10"),
        ("ns/a/one=inf@10", "ns/a/one=2@10"),
    ] {
        let prometheus = Box::leak(Box::new([
            ("cpu_usage", cpu),
            ("memory_working_set", memory),
        ]));
        let scene = Scene::pods(vec![pod("ns", "a", &[])], prometheus);
        assert_eq!(scene.list(Measured::Pods, None), [""; 0], "{cpu} {memory}");
    }
}

#[test]
fn nodes_need_both_values_and_too_large_ones_are_missing() {
    const CPU: &str = r#"cpu_usage instance=~"k|l|m|n|o|p" (instance)"#;
    const MEMORY: &str = r#"memory_working_set instance=~"k|l|m|n|o|p" id='/'"#;
    let scene = Scene {
        inventory: inventory(Vec::new(), &["k", "l", "m", "n", "o", "p"]),
        prometheus: &[
            (CPU, "k=inf@1 l=1100@10 m=1200@14 o=-1100@10 p=1200@14"),
            (MEMORY, "k=1@1 l=2100@11 n=2300@12 o=2100@11 p=NaN@12"),
        ],
    };
    let wanted = ["l@10 =1100,2100"];
    assert_eq!(scene.list(Measured::Nodes, None), wanted);
    let gone = scene.ask((Measured::Nodes, None, Some("z")));
    assert!(matches!(gone, Err(Refusal::NoValue(_))));
}

/// As prometheus-adapter does: it overwrites the values of containers, and reads the first
/// sample of a node.
#[test]
fn the_last_sample_of_a_container_counts_and_the_first_of_a_node() {
    let scene = Scene::pods(
        vec![pod("ns", "a", &[])],
        &[
            ("cpu_usage", "ns/a/one=1@30 ns/a/one=2@20"),
            ("memory_working_set", "ns/a/one=1@30 ns/a/one=2@20"),
        ],
    );
    assert_eq!(scene.list(Measured::Pods, None), ["ns/a@20 one=2,2"]);
    let scene = Scene {
        inventory: inventory(Vec::new(), &["n"]),
        prometheus: &[
            ("cpu_usage", "n=1@30 n=2@20"),
            ("memory_working_set", "n=3@40 n=NaN@20"),
        ],
    };
    assert_eq!(scene.list(Measured::Nodes, None), ["n@30 =1,3"]);
}

#[test]
fn a_rule_without_a_sample_of_a_list_is_a_finding() {
    let found = |inventory: Inventory, asked, samples| {
        let conditions = RuleConditions::default();
        let _ = usage(request(&inventory, asked).unwrap(), samples, &conditions);
        let findings = conditions.findings(Timestamp::from_secs(1_000)).into_iter();
        findings.map(|it| it.object).collect::<Vec<_>>()
    };
    let nodes = |which, samples| {
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

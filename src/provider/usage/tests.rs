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
        node: None,
        phase: PodPhase::Running,
        terminating: false,
        started: None,
        running_since: None,
        ended: None,
        gpus: 0,
        uncounted: false,
        owners: Vec::new(),
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

/// Prometheus: samples that begin with `cpu ` or `memory `, by the subject of the
/// query and the namespace that it names.
struct Prometheus(Vec<(&'static str, Vec<VectorSample>)>);

impl Prometheus {
    fn answer(&self, promql: &str) -> Answer {
        let found = self.0.iter().filter(|(words, _)| {
            let mut words = words.split(' ');
            words.all(|word| promql.contains(word))
        });
        Answer::Vector(found.flat_map(|(_, samples)| samples.clone()).collect())
    }
}

fn answer(rules: ResourceRules, inventory: Inventory, query: UsageQuery) -> UsageAnswer {
    UsageAnswer {
        queries: Arc::new(rules),
        inventory: Arc::new(inventory),
        query,
        answers: Vec::new(),
        limit: Arc::new(ComputeLimit::beside_values(ProviderError::Saturated)),
    }
}

/// Object, time in milliseconds, and parts with CPU and memory in whole units.
type Told = (String, i64, Vec<(String, i64, i64)>);

struct Scene {
    inventory: Inventory,
    prometheus: Prometheus,
}

impl Scene {
    fn list(
        &self,
        measured: Measured,
        namespace: Option<&str>,
    ) -> Result<Vec<Told>, ProviderError> {
        self.ask(measured, namespace, Which::Matching(Selector::everything()))
    }

    fn ask(
        &self,
        measured: Measured,
        namespace: Option<&str>,
        which: Which,
    ) -> Result<Vec<Told>, ProviderError> {
        let query = UsageQuery {
            measured,
            namespace: namespace.map(str::to_owned),
            which,
            fields: FieldSelector::default(),
            user: String::new(),
        };
        let mut answer = answer(rules(), self.inventory.clone(), query);
        let answers = answer.asks()?.into_iter();
        let answers = answers.map(|ask| Arc::new(self.prometheus.answer(&ask.promql)));
        answer.answers = answers.collect();
        let mut told = Vec::new();
        let mut sink = |usage: Usage<'_>| {
            assert_eq!(usage.window, Duration::from_secs(60));
            let part = |(name, amounts): &(&str, Amounts)| {
                let whole = |milli: i64| {
                    assert_eq!(milli % 1000, 0);
                    milli / 1000
                };
                (
                    (*name).to_owned(),
                    whole(amounts.cpu),
                    whole(amounts.memory),
                )
            };
            let who = match usage.namespace {
                Some(namespace) => format!("{namespace}/{}", usage.name),
                None => usage.name.to_owned(),
            };
            told.push((
                who,
                usage.at.millis(),
                usage.parts.iter().map(part).collect(),
            ));
        };
        answer.pass(&mut sink)?;
        Ok(told)
    }
}

fn told(who: &str, at: i64, parts: &[(&str, i64, i64)]) -> Told {
    let parts = parts.iter();
    let parts = parts.map(|(name, cpu, memory)| ((*name).to_owned(), *cpu, *memory));
    (who.to_owned(), at, parts.collect())
}

const CPU: &str = "cpu_usage";
const MEMORY: &str = "memory_working_set";

#[test]
fn pods_of_several_namespaces_are_queried_by_namespace() {
    let scene = Scene {
        inventory: inventory(
            vec![
                pod("other", "c", &[]),
                pod("some", "a", &[]),
                pod("some", "b", &[]),
            ],
            &[],
        ),
        prometheus: Prometheus(vec![
            (
                r#"cpu_usage namespace="some",pod=~"a|b""#,
                vec![
                    sample("some/a/one", 1100.0, 10),
                    sample("some/a/two", 1110.0, 20),
                    sample("some/b/one", 1300.0, 10),
                    sample("some/b/two", 1310.0, 20),
                ],
            ),
            (
                r#"cpu_usage namespace="other",pod="c""#,
                vec![sample("other/c/one", 2200.0, 270)],
            ),
            (
                r#"memory_working_set namespace="some",pod=~"a|b" (pod,container)"#,
                vec![
                    sample("some/a/one", 3100.0, 11),
                    sample("some/a/two", 3110.0, 21),
                    sample("some/b/one", 3300.0, 11),
                    sample("some/b/two", 3310.0, 21),
                ],
            ),
            (
                r#"memory_working_set namespace="other",pod="c""#,
                vec![sample("other/c/one", 4200.0, 271)],
            ),
        ]),
    };
    let all = vec![
        told("other/c", 270, &[("one", 2200, 4200)]),
        told("some/a", 10, &[("one", 1100, 3100), ("two", 1110, 3110)]),
        told("some/b", 10, &[("one", 1300, 3300), ("two", 1310, 3310)]),
    ];
    assert_eq!(scene.list(Measured::Pods, None), Ok(all.clone()));
    assert_eq!(
        scene.list(Measured::Pods, Some("some")),
        Ok(all[1..].to_vec())
    );
    assert_eq!(scene.list(Measured::Pods, Some("none")), Ok(Vec::new()));
}

/// `a` has both values, `b` only CPU, `c` none; `d` does not run.
fn partial() -> Scene {
    let mut pods: Vec<Pod> = ["a", "b", "c", "d"].map(|name| pod("ns", name, &[])).into();
    pods[3].phase = PodPhase::Pending;
    Scene {
        inventory: inventory(pods, &[]),
        prometheus: Prometheus(vec![
            (
                CPU,
                vec![
                    sample("ns/a/one", 1.0, 10),
                    sample("ns/b/one", 1.0, 10),
                    sample("ns/d/one", 1.0, 10),
                ],
            ),
            (
                MEMORY,
                vec![sample("ns/a/two", 2.0, 10), sample("ns/d/two", 2.0, 10)],
            ),
        ]),
    }
}

#[test]
fn pods_without_data_are_left_out_and_missing_values_of_containers_are_zero() {
    let scene = partial();
    let only = told("ns/a", 10, &[("one", 1, 0), ("two", 0, 2)]);
    assert_eq!(scene.list(Measured::Pods, None), Ok(vec![only.clone()]));
    let one = |name: &str| scene.ask(Measured::Pods, Some("ns"), Which::Named(name.to_owned()));
    assert_eq!(one("a"), Ok(vec![only]));
    for (name, why) in [
        ("b", "no CPU or no memory"),
        ("c", "no CPU or no memory"),
        ("d", "no such pod is running"),
        ("e", "no such pod is running"),
    ] {
        match one(name) {
            Err(ProviderError::NoValue(reason)) => {
                assert!(reason.contains(why), "{name}: {reason}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn nan_and_negative_values_of_pods_are_zero() {
    let (nan, negative) = (f64::NAN, -1100.0);
    let scene = Scene {
        inventory: inventory(vec![pod("ns", "a", &[]), pod("ns", "b", &[])], &[]),
        prometheus: Prometheus(vec![
            (
                CPU,
                vec![
                    sample("ns/a/one", negative, 10),
                    sample("ns/a/two", nan, 20),
                    sample("ns/b/one", negative, 10),
                    sample("ns/b/two", 1310.0, 20),
                ],
            ),
            (
                MEMORY,
                vec![
                    sample("ns/a/one", 3100.0, 11),
                    sample("ns/a/two", negative, 21),
                    sample("ns/b/one", nan, 11),
                    sample("ns/b/two", negative, 21),
                ],
            ),
        ]),
    };
    let pods = vec![
        told("ns/a", 10, &[("one", 0, 3100), ("two", 0, 0)]),
        told("ns/b", 10, &[("one", 0, 0), ("two", 1310, 0)]),
    ];
    assert_eq!(scene.list(Measured::Pods, None), Ok(pods));
}

#[test]
fn nodes_need_both_values_and_too_large_ones_are_missing() {
    let scene = Scene {
        inventory: inventory(Vec::new(), &["k", "l", "m", "n", "o", "p"]),
        prometheus: Prometheus(vec![
            (
                r#"cpu_usage instance=~"k|l|m|n|o|p" (instance)"#,
                vec![
                    sample("k", f64::INFINITY, 1),
                    sample("l", 1100.0, 10),
                    sample("m", 1200.0, 14),
                    sample("o", -1100.0, 10),
                    sample("p", 1200.0, 14),
                ],
            ),
            (
                r#"memory_working_set instance=~"k|l|m|n|o|p" id='/'"#,
                vec![
                    sample("k", 1.0, 1),
                    sample("l", 2100.0, 11),
                    sample("n", 2300.0, 12),
                    sample("o", 2100.0, 11),
                    sample("p", f64::NAN, 12),
                ],
            ),
        ]),
    };
    let both = vec![
        told("l", 10, &[("", 1100, 2100)]),
        told("o", 10, &[("", 0, 2100)]),
        told("p", 12, &[("", 1200, 0)]),
    ];
    assert_eq!(scene.list(Measured::Nodes, None), Ok(both));
    let gone = scene.ask(Measured::Nodes, None, Which::Named("z".to_owned()));
    assert!(matches!(gone, Err(ProviderError::NoValue(_))));
}

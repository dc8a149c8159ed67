//! Answers of rules, with a simulated cluster and Prometheus.

use std::collections::BTreeMap;
use std::future::ready;

use futures_util::FutureExt as _;

use super::*;
use crate::provider::composite::Composite;
use crate::provider::gpu::GpuProvider;
use crate::provider::rule_conditions::RuleFailure;
use crate::provider::tests::numbered;
use crate::provider::{Provider, ProviderFuture};
use adapter_rules::raw::RuleEntry;
use adapter_rules::registry::{Registry, Shape};
use adapter_rules::rule::{Rule, Rules};
use apimachinery::kinds::Kinds;
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::Pod;

/// Objects with these names, each with its name as the label `app`, whatever the kind.
#[derive(Debug, Default)]
pub(crate) struct FakeObjects {
    pub(crate) names: Vec<&'static str>,
    pub(crate) inventory: Arc<Inventory>,
}

impl FakeObjects {
    fn abc() -> Self {
        Self {
            names: vec!["a", "b", "c"],
            ..Self::default()
        }
    }
}

impl ObjectNames for FakeObjects {
    fn matching<'a>(
        &'a self,
        _: &'a Kind,
        _: Option<&'a str>,
        selector: &'a Selector,
    ) -> BoxFuture<'a, Option<Vec<Arc<str>>>> {
        let labels = |name: &str| Labels::from_pairs([("app", name)]);
        let all = self.names.iter();
        let matching = all.filter(|name| selector.matches(&labels(name)));
        Box::pin(ready(Some(matching.map(|name| (*name).into()).collect())))
    }

    fn inventory(&self) -> Arc<Inventory> {
        Arc::clone(&self.inventory)
    }
}

/// Answers to queries, by the text of the query.
#[derive(Debug, Default)]
struct Prometheus(BTreeMap<&'static str, Vec<VectorSample>>);

impl RuleStore for Prometheus {
    fn fetch<'a>(
        &'a self,
        ask: &'a StoreQuery,
        _: &'a str,
    ) -> ProviderFuture<'a, Arc<[VectorSample]>> {
        let samples = self.0.get(&*ask.promql).cloned().map(Arc::from);
        Box::pin(ready(samples.ok_or(UNFETCHED)))
    }
}

fn sample(labels: &[(&str, &str)], value: f64) -> VectorSample {
    let labels = labels.iter().map(|(name, value)| (*name, *value));
    VectorSample {
        labels: Labels::from_pairs(labels),
        value,
        at: Timestamp::from_secs(100),
    }
}

pub(crate) fn kind(group: &str, plural: &str, singular: &str, namespaced: bool) -> Kind {
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

const RULES: &str = "
- seriesQuery: hits
  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}, dep: {resource: deployment}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
";

const EXTERNAL: &str = "
- seriesQuery: queue
  name: {as: Queue_Length}
  resources: {namespaced: false}
  metricsQuery: max(<<.Series>>{<<.LabelMatchers>>})
- seriesQuery: scalar
  resources: {namespaced: false}
  metricsQuery: scalar(<<.Series>>)
- seriesQuery: homeless
  metricsQuery: <<.Series>>
";

fn rules(list: &str, yaml: &str) -> Vec<Rule> {
    let raw: Vec<RuleEntry> = serde_saphyr::from_str(yaml).unwrap();
    let rules = Rules::resolve(list, &raw);
    assert_eq!(rules.faults, []);
    rules.usable
}

fn provider(answers: Prometheus) -> Composite {
    provider_by(rules("rules", RULES), Box::new(FakeObjects::abc()), answers)
}

/// A provider whose Prometheus has these samples for a query.
fn provider_of(promql: &'static str, samples: Vec<VectorSample>) -> Composite {
    provider(Prometheus([(promql, samples)].into()))
}

/// A provider with rules and without GPU metrics.
fn provider_by(rules: Vec<Rule>, objects: Box<dyn ObjectNames>, answers: Prometheus) -> Composite {
    let none = ListedMetrics::default();
    let rules = Arc::new(rule_provider(rules, objects, answers, &none));
    let no_gpus = Arc::new(GpuProvider::new(&[]));
    Composite::new(Some(rules), no_gpus, Vec::new())
}

fn rule_provider(
    rules: Vec<Rule>,
    objects: Box<dyn ObjectNames>,
    answers: Prometheus,
    built_in: &ListedMetrics,
) -> RuleProvider {
    let kinds = Kinds::new(vec![
        kind("", "pods", "pod", true),
        kind("", "namespaces", "namespace", false),
        kind("apps", "deployments", "deployment", true),
    ]);
    let shape = |name: &str, labels: &[&str]| Shape {
        name: name.into(),
        labels: labels.iter().map(|label| (*label).into()).collect(),
    };
    let external_rules = self::rules("externalRules", EXTERNAL);
    let mut registry = Registry::new(kinds);
    for rule in rules {
        let hits = shape("hits", &["namespace", "pod", "dep"]);
        registry.add_custom(&Arc::new(rule), &[hits]);
    }
    for rule in external_rules {
        let shape = shape(&rule.series_query, &["namespace"]);
        registry.add_external(&Arc::new(rule), &[shape]);
    }
    let (store, conditions) = (Box::new(answers), Arc::default());
    let provider = RuleProvider::new(objects, store, conditions, built_in, None);
    provider.publish(registry);
    provider
}

fn query(of: ValuesOf, metric: &str, selector: &str) -> Query {
    Query {
        of,
        metric: metric.to_owned(),
        selector: Selector::parse(selector).unwrap(),
        now: Timestamp::from_secs(100),
        user: "u".to_owned(),
    }
}

fn custom(
    provider: &dyn Provider,
    resource: &str,
    name: Option<&str>,
    by: &str,
    selector: &str,
) -> Result<Vec<(String, f64)>, Refusal> {
    let of = ValuesOf::Objects(ObjectSelection {
        resource: resource.to_owned(),
        namespace: Some("n".to_owned()),
        name: name.map(str::to_owned),
        selector: Selector::parse(by).unwrap(),
    });
    values(provider, &query(of, "hits", selector))
}

fn external(provider: &dyn Provider, metric: &str) -> Result<Vec<(String, f64)>, Refusal> {
    let of = ValuesOf::Namespace("n".to_owned());
    values(provider, &query(of, metric, ""))
}

fn values(provider: &dyn Provider, query: &Query) -> Result<Vec<(String, f64)>, Refusal> {
    let asked = provider.values(query).now_or_never();
    let values = numbered(&asked.unwrap()?).into_iter();
    Ok(values.map(|(name, value)| (name, value.value)).collect())
}

const LIST: &str = r#"sum(hits{namespace="n",pod=~"a|b|c"}) by (pod)"#;

#[test]
fn a_list_has_the_objects_with_values_in_order_and_the_last_of_several_samples() {
    let samples = vec![
        sample(&[("pod", "b")], 1.0),
        sample(&[("pod", "gone")], 9.0),
        sample(&[("pod", "b")], 2.0),
        sample(&[("pod", "a")], 3.0),
        sample(&[], 4.0),
    ];
    let provider = provider_of(LIST, samples);
    let list = vec![("a".to_owned(), 3.0), ("b".to_owned(), 2.0)];
    for resource in ["pods", "pod"] {
        let found = custom(&provider, resource, None, "", "");
        assert_eq!(found.as_ref(), Ok(&list), "{resource}");
    }
}

#[test]
fn an_object_that_series_name_in_two_spellings_has_no_value() {
    const SPELLINGS: &str = "
- seriesQuery: hits
  resources: {overrides: {namespace: {resource: namespace}, pod: {resource: pod}, dep: {resource: pod}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)
";
    let rule = Arc::new(rules("rules", SPELLINGS).remove(0));
    let shape = |label: &str| Shape {
        name: "hits".into(),
        labels: ["namespace", label].map(Into::into).into(),
    };
    let mut registry = Registry::new(Kinds::new(vec![kind("", "pods", "pod", true)]));
    registry.add_custom(&rule, &[shape("pod"), shape("dep")]);
    let custom = registry.find_custom("pods", "hits").unwrap();
    let samples = [
        sample(&[("pod", "a"), ("spelling", "0")], 3.0),
        sample(&[("pod", "b"), ("spelling", "0")], 1.0),
        sample(&[("pod", "b"), ("spelling", "0")], 2.0),
        sample(&[("pod", "c"), ("spelling", "0")], 3.0),
        sample(&[("dep", "c"), ("spelling", "1")], 4.0),
        sample(&[("dep", "d"), ("spelling", "1")], 4.0),
    ];
    let names = ["a", "b", "c", "d"].map(Arc::from);
    let values = custom_values(custom, Some("n"), &names, &samples);
    let values = values.iter().map(|it| (&*it.name, it.value.value));
    let values: Vec<(&str, f64)> = values.collect();
    assert_eq!(values, [("a", 3.0), ("b", 2.0), ("d", 4.0)], "no part");
}

/// Of an external metric the namespace is the object.
#[test]
fn an_external_metric_of_a_namespace_in_two_spellings_has_no_value() {
    const SPELLINGS: &str = "
- seriesQuery: q
  resources: {overrides: {namespace: {resource: namespace}, dep: {resource: namespace}}}
  metricsQuery: sum(<<.Series>>{<<.LabelMatchers>>})
";
    let rule = Arc::new(rules("externalRules", SPELLINGS).remove(0));
    let shapes = ["namespace", "dep"].map(|label| Shape {
        name: "q".into(),
        labels: [label.into()].into(),
    });
    let kinds = Kinds::new(vec![kind("", "namespaces", "namespace", false)]);
    let mut registry = Registry::new(kinds);
    registry.add_external(&rule, &shapes);
    let (name, external) = registry.find_external("q").unwrap();
    let first = sample(&[("spelling", "0")], 3.0);
    let second = sample(&[("spelling", "1")], 4.0);
    let one = external_values(name, external, std::slice::from_ref(&first));
    assert_eq!(one[0].value.value, 3.0);
    assert!(external_values(name, external, &[first, second]).is_empty());
}

#[test]
fn rules_of_presets_leave_out_pods_that_have_not_been_ready() {
    let pod = |name: &str, startup| Pod {
        namespace: "n".into(),
        name: name.into(),
        startup,
        ..Pod::default()
    };
    let inventory = Inventory {
        pods: vec![pod("a", Startup::Starting), pod("b", Startup::Unknown)],
        ..Inventory::default()
    };
    let inventory = Arc::new(inventory);
    let list = |leaves_out_starting| {
        let mut rules = rules("rules", RULES);
        rules[0].leaves_out_starting = leaves_out_starting;
        let objects = FakeObjects {
            inventory: Arc::clone(&inventory),
            ..FakeObjects::abc()
        };
        let samples = ["a", "b", "c"].map(|name| sample(&[("pod", name)], 1.0));
        let answers = Prometheus([(LIST, samples.into())].into());
        let found = custom(
            &provider_by(rules, Box::new(objects), answers),
            "pods",
            None,
            "",
            "",
        );
        let names = found.unwrap().into_iter().map(|(name, _)| name);
        names.collect::<Vec<_>>()
    };
    assert_eq!(list(true), ["b", "c"]);
    assert_eq!(list(false), ["a", "b", "c"]);
}

#[test]
fn objects_without_values_are_an_empty_list_and_no_objects_are_none() {
    let provider = provider_of(LIST, Vec::new());
    assert_eq!(custom(&provider, "pods", None, "", ""), Ok(Vec::new()));
    let none = custom(&provider, "pods", None, "app=nobody", "");
    assert!(matches!(none, Err(Refusal::NoValue(_))), "{none:?}");
}

#[test]
fn a_named_object_is_queried_alone_whether_or_not_it_exists() {
    let query = r#"sum(hits{x="y",namespace="n",pod="gone"}) by (pod)"#;
    let samples = vec![sample(&[("pod", "gone")], 7.0)];
    let provider = provider_of(query, samples);
    let named = |name: &str, by| custom(&provider, "pods", Some(name), "", by);
    assert_eq!(named("gone", "x=y"), Ok(vec![("gone".to_owned(), 7.0)]));
    let odd = named("a\"}", "");
    assert!(matches!(odd, Err(Refusal::NoValue(_))), "{odd:?}");
    let greater = named("gone", "x>1").unwrap_err();
    let is_refused = matches!(greater, Refusal::Malformed(_));
    assert!(is_refused, "{greater:?}");
}

#[tokio::test]
async fn a_metric_without_series_is_refused_with_the_reason() {
    let none = ListedMetrics::default();
    let no_answers = Prometheus::default();
    let rules = rule_provider(Vec::new(), Box::new(FakeObjects::abc()), no_answers, &none);
    let failure = |metric: &str| RuleFailure {
        fault: "Prometheus has no such series; ray_hits exists".to_owned(),
        metric: metric.to_owned(),
        ..RuleFailure::default()
    };
    let at = Timestamp::from_secs(0);
    let conditions = &rules.conditions;
    conditions.searched("presets.x[0].seriesQuery", Some(failure("hits")), at);
    conditions.searched("rules[0].seriesQuery", Some(failure("")), at);
    let gpus = Arc::new(GpuProvider::new(&[]));
    let both = Composite::new(Some(Arc::new(rules)), gpus, Vec::new());
    let why = "presets.x[0].seriesQuery: Prometheus has no such series; ray_hits exists";
    let refused = custom(&both, "pods", None, "", "");
    assert_eq!(refused, Err(Refusal::NoValue(why.to_owned())));
    let of = ValuesOf::Objects(ObjectSelection::named("pods", Some("n"), "a"));
    let told = both.explain(&query(of, "hits", ""), false).await;
    assert_eq!(told.unwrap_err(), Refusal::NoValue(why.to_owned()));
}

#[test]
fn an_explanation_without_an_answer_has_the_query() {
    let of = ValuesOf::Objects(ObjectSelection::named("pods", Some("n"), "a"));
    let provider = provider(Prometheus::default());
    let told = provider
        .explain(&query(of, "hits", ""), false)
        .now_or_never();
    let why = told.unwrap().unwrap().no_value.unwrap();
    let words = "no answer to sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)";
    assert!(why.contains(words), "{why}");
}

#[test]
fn external_metrics_have_labels_and_are_found_in_any_case() {
    let queue = vec![sample(&[("q", "x")], 5.0), sample(&[], 6.0)];
    let scalar = vec![sample(&[], 8.0)];
    let answers = [("max(queue{})", queue), ("scalar(scalar)", scalar)];
    let provider = provider(Prometheus(answers.into()));
    let found = external(&provider, "queue_length").unwrap();
    assert_eq!(found[0], (r#"Queue_Length [("q", "x")]"#.to_owned(), 5.0));
    assert_eq!(found[1], ("Queue_Length []".to_owned(), 6.0));
    assert_eq!(external(&provider, "scalar").unwrap()[0].1, 8.0);
    // No label names the namespace: as upstream, this is an error of each request.
    let homeless = external(&provider, "homeless");
    assert_eq!(homeless, Err(UNFETCHED));
    let unknown = external(&provider, "nope");
    assert_eq!(unknown, Err(Refusal::NoSuchPath));
}

#[test]
fn a_rule_replaces_a_built_in_metric_even_where_it_has_no_value() {
    let rules = rules("rules", RULES);
    let objects = Box::new(FakeObjects::abc());
    let gpus = GpuProvider::new(&gpu_metrics::dcgm::metrics::built_in());
    let rules = rule_provider(rules, objects, Prometheus::default(), &gpus.listed());
    let rules = Arc::new(rules);
    let both = Composite::new(Some(Arc::clone(&rules)), Arc::new(gpus), Vec::new());
    let listed = both.listed();
    assert!(Arc::ptr_eq(&listed, &both.listed()), "made once");
    let listed = &listed.custom;
    let of_pods = |metric: &str| {
        let mut all = listed.iter();
        all.any(|it| (&*it.resource, &*it.metric) == ("pods", metric))
    };
    assert!(of_pods("hits") && of_pods("gpu_memory_utilization"));
    assert!(listed.is_sorted());
    let list = custom(&both, "pods", None, "", "");
    assert_eq!(list, Err(UNFETCHED));
    rules.publish(Registry::default());
    assert!(!both.listed().custom.iter().any(|it| *it.metric == *"hits"));
}

#[test]
fn an_explanation_has_the_rule_its_query_and_the_answer() {
    const ONE: &str = r#"sum(hits{namespace="n",pod="a"}) by (pod)"#;
    for (samples, value, said) in [
        (vec![sample(&[("pod", "a")], 5.0)], Some(5.0), "1 samples"),
        (vec![], None, "0 samples"),
    ] {
        let provider = provider_of(ONE, samples);
        let of = ValuesOf::Objects(ObjectSelection::named("pods", Some("n"), "a"));
        let told = provider
            .explain(&query(of, "hits", ""), false)
            .now_or_never();
        let told = told.unwrap().unwrap();
        assert_eq!(told.value.map(|value| value.number), value);
        assert_eq!(told.promql.unwrap().query, ONE);
        assert!(told.notes[0].contains("rules[0]"), "{:?}", told.notes);
        let notes = told.notes.join("\n");
        for words in ["series hits", said] {
            assert!(notes.contains(words), "{notes}");
        }
    }
}

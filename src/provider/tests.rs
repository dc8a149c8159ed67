//! Queries with and without selectors for a fleet.

pub(crate) mod explained;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::composite::Composite;
use super::devices::{DevicesQuery, ListedBy};
use super::gpu::GpuProvider;
use super::served::StoredValues;
use super::{CustomValue, MetricValues, ObjectSelection, Provider, Query, ValuesOf};
use aggregated_apiserver::refusal::Refusal;
use apimachinery::selector::Selector;
use apimachinery::time::Timestamp;
use gpu_metrics::batch::Batch;
use gpu_metrics::dcgm::{fields, metrics};
use gpu_metrics::explain::Explanation;
use gpu_metrics::inventory::{Inventory, Startup};
use gpu_metrics::metric::Value;
use gpu_metrics::pipeline::{Pipeline, Settings};
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::SignalId;
use gpu_metrics::snapshot::Snapshot;
use prometheus_source::KeyHasher;
use prometheus_source::testing::decode;
use simulator::{Fleet, Scenario};

struct Site {
    provider: Arc<GpuProvider>,
    snapshot: Arc<Snapshot>,
    now: Timestamp,
}

impl Site {
    /// 512 GPUs; the simulator replaces Prometheus.
    fn new() -> Self {
        Self::of(|_| {})
    }

    /// The same with other objects of the cluster.
    fn of(change: impl FnOnce(&mut Inventory)) -> Self {
        let scenario = Scenario::clean(64, 8, 7);
        let now = scenario.epoch + Duration::from_secs(907);
        let policy = Policy {
            scrape_interval: Some(Duration::from_secs(15)),
            ..Policy::default()
        };
        let mut pipeline = Pipeline::new(Settings {
            policy,
            signals: fields::built_in(),
            metrics: metrics::built_in(),
        });
        let fleet = Fleet::new(scenario);
        let hasher = KeyHasher::new();
        let mut batch = Batch::new(SignalId::MEM_COPY_UTIL);
        for spec in fields::built_in() {
            let names: Vec<&str> = spec.wire_names.iter().map(String::as_str).collect();
            let range = pipeline.range(spec.id, now);
            let body = fleet.prometheus_json(&names, now, range);
            batch.signal = spec.id;
            decode(body.as_bytes(), &hasher, &mut batch).unwrap();
            pipeline.take(&batch, now);
        }
        let mut inventory = fleet.inventory(now);
        // The last pod in order.
        let mut web = inventory.pods[0].clone();
        (web.namespace, web.gpus, web.uncounted) = ("web".into(), 0, false);
        inventory.pods.push(web);
        change(&mut inventory);
        pipeline.end_round();
        let snapshot = Arc::new(pipeline.publish(&Arc::new(inventory), now));
        let provider = GpuProvider::new(&snapshot.metrics);
        provider.publish(Arc::clone(&snapshot));
        Self {
            provider: Arc::new(provider),
            snapshot,
            now,
        }
    }

    fn query(&self, of: ValuesOf, selector: &str) -> Query {
        let metric = match &of {
            ValuesOf::Objects(_) => "gpu_memory_utilization",
            ValuesOf::Namespace(_) => "cluster_gpu_memory_utilization",
        };
        Query {
            of,
            metric: metric.to_owned(),
            selector: Selector::parse(selector).unwrap(),
            now: self.now,
            user: String::new(),
        }
    }

    fn values(&self, of: ValuesOf, selector: &str) -> Result<Vec<Value>, Refusal> {
        let query = self.query(of, selector);
        let values = numbered(&self.provider.values(&query)?);
        Ok(values.into_iter().map(|(_, value)| value).collect())
    }

    fn cluster(&self, selector: &str) -> Value {
        self.values(anywhere(), selector).unwrap()[0]
    }

    fn explained(&self, selector: &str) -> Explanation {
        let query = self.query(anywhere(), selector);
        self.provider.explain(&query, false).unwrap()
    }

    /// Values of all pods of the largest namespace, or of one.
    fn pods(&self, name: Option<&str>, by: &str) -> Result<Vec<Value>, Refusal> {
        self.values(pods_of(&self.namespace(), name), by)
    }

    fn namespace(&self) -> String {
        let (_, pods) = self.snapshot.layout.table("pods").unwrap();
        let name = pods.objects[0].namespace.as_deref().unwrap();
        name.to_owned()
    }

    fn all(&self) -> Vec<Value> {
        self.pods(None, "").unwrap()
    }
}

impl StoredValues {
    /// The values one by one.
    fn values(&self) -> impl Iterator<Item = CustomValue> {
        let objects = self.objects.iter().cloned().flatten();
        objects.filter_map(|object| self.value(object))
    }
}

/// The names of objects or the metric, each with its value.
pub(crate) fn numbered(values: &MetricValues) -> Vec<(String, Value)> {
    let custom = |it: &CustomValue| (it.name.to_string(), it.value);
    match values {
        MetricValues::Custom(values) => values.iter().map(custom).collect(),
        MetricValues::Stored(stored) => stored.values().map(|it| custom(&it)).collect(),
        MetricValues::External(values) => {
            let values = values.iter();
            let named = values.map(|it| {
                let labels: Vec<_> = it.labels.iter().collect();
                (format!("{} {labels:?}", it.metric), it.value)
            });
            named.collect()
        }
    }
}

fn anywhere() -> ValuesOf {
    ValuesOf::Namespace("any".to_owned())
}

fn pods_of(namespace: &str, name: Option<&str>) -> ValuesOf {
    ValuesOf::Objects(ObjectSelection {
        resource: "pods".to_owned(),
        namespace: Some(namespace.to_owned()),
        name: name.map(str::to_owned),
        selector: Selector::everything(),
    })
}

/// The most requirements, all of which are satisfied.
fn long() -> String {
    let keys: Vec<String> = (0..63).map(|key| format!("absent_{key}!=x")).collect();
    keys.join(",")
}

#[test]
fn an_explanation_of_narrowed_devices_has_no_query() {
    let site = Site::new();
    assert!(site.explained("window=1m").promql.is_some());
    let told = site.explained("gpu>2");
    assert!(told.value.is_some() && told.promql.is_none());
    let mut notes = told.notes.iter();
    assert!(notes.any(|it| it.contains("no PromQL is shown")));
}

#[test]
fn a_selector_that_matches_every_row_changes_no_value() {
    let site = Site::new();
    assert_eq!(site.cluster(&long()), site.cluster(""));
    // The order of requirements does not matter.
    let mut turned: Vec<String> = long().split(',').map(str::to_owned).collect();
    turned.reverse();
    assert_eq!(site.cluster(&turned.join(",")), site.cluster(""));
    let narrowed = site.pods(None, &long()).unwrap();
    assert!(narrowed.len() > 10);
    assert_eq!(narrowed, site.all());
}

#[test]
fn a_number_of_the_cluster_cannot_be_narrowed_to_pods() {
    let site = Site::new();
    for selector in [
        "namespace=a",
        "Exported_Pod",
        "container!=a",
        "pod_uid in (a)",
    ] {
        let refused = site.values(anywhere(), selector);
        let is_refused =
            matches!(&refused, Err(Refusal::Malformed(why)) if why.contains("whole cluster"));
        assert!(is_refused, "{selector}: {refused:?}");
    }
    assert!(site.pods(None, "container!=a").is_ok());
}

#[test]
fn only_values_that_are_looked_up_are_at_hand() {
    let site = Site::new();
    let (_, pods) = site.snapshot.layout.table("pods").unwrap();
    let one = Some(&*pods.objects[0].name);
    let at_hand = |query: Query| site.provider.values_at_hand(&query).unwrap();
    for of in [anywhere(), pods_of(&site.namespace(), one)] {
        let found = at_hand(site.query(of.clone(), "")).unwrap();
        let wanted = site.provider.values(&site.query(of.clone(), "")).unwrap();
        assert_eq!(numbered(&found), numbered(&wanted));
        assert!(at_hand(site.query(of, "window=2m")).is_none());
    }
    let mut fleet = site.query(anywhere(), "");
    "dcgm_gpu_utilization".clone_into(&mut fleet.metric);
    assert!(at_hand(fleet).is_none(), "it has another window");
    let mut list = site.query(pods_of(&site.namespace(), None), "");
    assert!(at_hand(list.clone()).is_some());
    if let ValuesOf::Objects(objects) = &mut list.of {
        objects.selector = Selector::parse(&long()).unwrap();
    }
    assert!(at_hand(list).is_none());
}

#[test]
fn a_list_of_devices_has_every_device_and_the_values_that_are_served() {
    let site = Site::new();
    let listed = |by, namespace: Option<String>| {
        let asked = DevicesQuery {
            by: ListedBy::from_parameter(by, namespace.as_deref()).unwrap(),
            namespace,
            selector: Selector::everything(),
            names_pods: true,
            now: site.now,
        };
        serde_json::to_value(site.provider.devices(&asked).unwrap()).unwrap()
    };
    let nodes = listed("node", None);
    let items = nodes["items"].as_array().unwrap();
    let count = |item: &serde_json::Value| item["devices"].as_array().unwrap().len();
    assert_eq!(nodes["deviceCount"], items.iter().map(count).sum::<usize>());
    assert!(nodes.to_string().contains("\"state\":\"active\""));
    let pods = listed("pod", Some(site.namespace()));
    let pods = pods["items"].as_array().unwrap().iter();
    let found: Vec<f64> = pods
        .filter_map(|pod| pod["values"]["gpu_memory_utilization"].as_f64())
        .collect();
    let wanted = site.all();
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(&wanted) {
        assert!((found - wanted.value).abs() < 0.001, "{found} {wanted:?}");
    }
}

#[test]
fn workloads_of_each_kind_have_rows_and_replica_sets_have_none() {
    for (resource, is_listed) in [
        ("deployments.apps", true),
        ("cronjobs.batch", true),
        ("rollouts.argoproj.io", true),
        ("leaderworkersets.leaderworkerset.x-k8s.io", true),
        ("replicasets.apps", false),
        ("pods", false),
        ("nodes", false),
    ] {
        assert_eq!(ListedBy::Workload.lists(resource), is_listed, "{resource}");
    }
    let site = Site::new();
    let asked = DevicesQuery {
        by: ListedBy::Workload,
        namespace: None,
        selector: Selector::everything(),
        names_pods: true,
        now: site.now,
    };
    let rows = site.provider.devices(&asked).unwrap().items;
    let listed: BTreeSet<&str> = rows.iter().map(|row| &*row.resource).collect();
    let tables = site.snapshot.layout.tables.iter();
    let tables = tables.filter(|table| !table.objects.is_empty());
    let served = tables.map(|table| &*table.kind.resource);
    let served = served.filter(|resource| ListedBy::Workload.lists(resource));
    assert_eq!(listed, served.collect());
}

fn reason(answer: Result<Vec<Value>, Refusal>) -> String {
    match answer {
        Err(Refusal::NoValue(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn pods_without_gpus_and_unknown_pods_have_errors_of_their_own() {
    let site = Site::new();
    let said = |by| reason(site.values(pods_of("web", None), by));
    let no_gpu =
        "no value of gpu_memory_utilization for the pods selected: the pods request no GPU";
    assert_eq!(said(""), no_gpu);
    assert_eq!(said("model=A100"), no_gpu);
    let none = reason(site.values(pods_of("web", Some("nope")), ""));
    assert!(
        none.ends_with("there is no pod nope in namespace web"),
        "{none}"
    );
}

#[test]
fn a_pod_that_has_not_been_ready_has_no_value_and_its_gpus_count_in_groups() {
    let ready = Site::new();
    let (_, table) = ready.snapshot.layout.table("pods").unwrap();
    let first = &table.objects[0];
    let (namespace, name) = (first.namespace.clone().unwrap(), first.name.clone());
    let starting = Site::of(|inventory| {
        let mut pods = inventory.pods.iter_mut();
        let pod = pods.find(|pod| pod.namespace == namespace && pod.name == name);
        pod.unwrap().startup = Startup::Starting;
    });
    for selector in ["", "window=2m"] {
        let list = |site: &Site| {
            let query = site.query(pods_of(&namespace, None), selector);
            numbered(&site.provider.values(&query).unwrap())
        };
        assert_eq!(list(&starting), list(&ready)[1..]);
        let said = reason(starting.values(pods_of(&namespace, Some(&name)), selector));
        assert!(said.contains("have not been Ready since"), "{said}");
    }
    let of_namespace = ValuesOf::Objects(ObjectSelection {
        resource: "namespaces".to_owned(),
        namespace: None,
        name: Some(namespace.to_string()),
        selector: Selector::default(),
    });
    let value = |site: &Site| site.values(of_namespace.clone(), "").unwrap();
    assert_eq!(value(&starting), value(&ready));
}

#[tokio::test]
async fn answers_computed_on_another_thread_are_equal() {
    let site = Site::new();
    let served = Composite::from(Arc::clone(&site.provider));
    for of in [anywhere(), pods_of(&site.namespace(), None)] {
        let query = site.query(of.clone(), &long());
        let found = numbered(&served.values(&query).await.unwrap());
        let wanted = numbered(&site.provider.values(&query).unwrap());
        assert_eq!(found, wanted);
    }
    let explained = served
        .explain(&site.query(anywhere(), &long()), false)
        .await;
    assert_eq!(explained, Ok(site.explained(&long())));
}

#[test]
fn items_are_encoded_once_a_snapshot_and_copied_while_they_are_fresh() {
    let site = Site::new();
    let table = site.snapshot.layout.table("pods").unwrap().1;
    let namespace = table.objects[table.objects.len() / 2].namespace.as_deref();
    let (start, objects) = table.within(namespace);
    assert!(start > 0 && objects.len() > 64, "more than one chunk");
    let (key, value) = objects[objects.len() / 2].labels.iter().next().unwrap();
    let but_one_workload = format!("{key}!={value}");
    let mut lengths = Vec::new();
    for (second, labels) in [(0, ""), (0, &but_one_workload), (0, ""), (600, "")] {
        let selection = ObjectSelection {
            resource: "pods".to_owned(),
            namespace: namespace.map(str::to_owned),
            name: None,
            selector: Selector::parse(labels).unwrap(),
        };
        let mut query = site.query(ValuesOf::Objects(selection), "");
        query.now = query.now + Duration::from_secs(second);
        let passed = site.provider.values(&query);
        let (mut wanted, mut copied) = (Vec::new(), Vec::new());
        let encoded = AtomicUsize::new(0);
        let encode = |value: CustomValue, out: &mut Vec<u8>| {
            encoded.fetch_add(1, Ordering::Relaxed);
            out.extend_from_slice(format!("{value:?};").as_bytes());
        };
        if let Ok(MetricValues::Stored(stored)) = &passed {
            stored.append(0, encode, &mut copied);
            let encoded = encoded.swap(0, Ordering::Relaxed);
            assert!(lengths.is_empty() || encoded == 0);
            stored.values().for_each(|value| encode(value, &mut wanted));
        }
        assert!(copied == wanted, "after {second} s, {labels}");
        lengths.push(wanted.len());
    }
    let [all, fewer, again, expired] = lengths[..] else {
        panic!("four lists");
    };
    assert!(0 < fewer && fewer < all && again == all && expired == 0);
}

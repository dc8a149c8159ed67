//! A small cluster: pods `a` and `b` of `ns` have metric `m`, `c` has none. Metric `rule`
//! needs a fetch, which never ends.

use std::future::ready;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::provider::{
    CustomMetric, CustomValue, ExternalValue, ListedMetrics, MetricValues, ObjectSelection,
    Provider, ProviderFuture, Query, SATURATED, ValuesOf,
};
use aggregated_apiserver::refusal::Refusal;
use apimachinery::labels::Labels;
use apimachinery::selector::{Operator, Selector};
use apimachinery::time::Timestamp;
use findings::codes::GM408;
use findings::source::unseen;
use findings::{Finding, Report};
use gpu_metrics::devices::DeviceReport;
use gpu_metrics::explain::Explanation;
use gpu_metrics::inventory::ObjectKind;
use gpu_metrics::metric::Value;

/// 2026-01-02T03:04:20Z and a quarter.
pub(super) const NOW: Timestamp = Timestamp::from_millis(1_767_323_060_250);
/// 2026-01-02T03:04:05.999Z.
const AT: Timestamp = Timestamp::from_millis(1_767_323_045_999);

#[derive(Debug)]
struct Object {
    kind: ObjectKind,
    namespace: Option<&'static str>,
    name: String,
    labels: Labels,
    series: Vec<(Labels, Value)>,
}

type ExternalSeries = (Vec<(Arc<str>, Arc<str>)>, Value);

#[derive(Debug)]
pub(super) struct Fixture {
    objects: Vec<Object>,
    external: Vec<ExternalSeries>,
    ready: AtomicBool,
    /// The number of requests for values to the provider.
    asked: AtomicUsize,
    /// The users of the requests that wait for a fetch.
    pub(super) fetching: Mutex<Vec<String>>,
    pub(super) custom: Vec<CustomMetric>,
    pub(super) external_names: Vec<Arc<str>>,
}

fn value(value: f64) -> Value {
    Value {
        value,
        at: AT,
        fresh_until: Timestamp::from_millis(NOW.millis() + 1),
        window_secs: 60,
    }
}

fn object(
    kind: ObjectKind,
    namespace: Option<&'static str>,
    name: &str,
    labels: &[(&'static str, &'static str)],
    values: &[f64],
) -> Object {
    Object {
        kind,
        namespace,
        name: name.to_owned(),
        labels: Labels::from_pairs(labels.iter().copied()),
        series: (0..).zip(values).map(series).collect(),
    }
}

fn series((gpu, number): (u8, &f64)) -> (Labels, Value) {
    let labels = [("gpu", gpu.to_string()), ("model", "A100".to_owned())];
    (Labels::from_pairs(labels), value(*number))
}

impl Fixture {
    pub(super) fn new() -> Self {
        let (pod, node, namespace) = (ObjectKind::pod, ObjectKind::node, ObjectKind::namespace);
        let deployment = || ObjectKind::new("deployments.apps", "Deployment", "apps/v1", true);
        let (ns, team) = (Some("ns"), [("team", "a")]);
        let mut objects = vec![
            object(pod(), ns, "a", &[("app", "x"), ("n", "5")], &[30.0, 45.0]),
            object(pod(), ns, "b", &[("app", "x"), ("n", "2")], &[80.0]),
            object(pod(), ns, "c", &[("app", "y")], &[]),
            object(pod(), Some("other"), "d", &[("app", "x")], &[99.0]),
            object(node(), None, "n1", &[("zone", "z")], &[10.0]),
            object(node(), None, "n2", &[], &[20.0]),
            object(namespace(), None, "ns", &[], &[55.0]),
            object(namespace(), None, "team", &team, &[5.0]),
            object(deployment(), ns, "web", &[("app", "x")], &[1500.0]),
            object(pod(), Some("broken"), "good", &[], &[1.0]),
            object(pod(), Some("broken"), "huge", &[], &[1e300]),
            object(pod(), Some("broken"), "inf", &[], &[f64::INFINITY]),
            object(pod(), Some("broken"), "nan", &[], &[f64::NAN]),
            object(pod(), Some("broken"), "ninf", &[], &[f64::NEG_INFINITY]),
            object(pod(), Some("broken"), "stale", &[], &[2.0]),
            object(pod(), Some("broken"), "unset", &[], &[3.0]),
        ];
        for broken in &mut objects {
            if let Some((_, value)) = broken.series.first_mut() {
                match broken.name.as_str() {
                    "stale" => value.fresh_until = NOW,
                    "unset" => value.window_secs = 0,
                    _ => {}
                }
            }
        }
        objects.extend((0..1000).map(|index| {
            let name = format!("inference-server-7d9f8b6c5-{index:05}");
            object(pod(), Some("large"), &name, &[], &[f64::from(index) / 7.0])
        }));
        objects.sort_by(|one, other| one.name.cmp(&other.name));
        let label = |queue: &str| vec![("queue".into(), queue.into())];
        Self {
            objects,
            external: vec![(label("fast"), value(3.0)), (label("slow"), value(4.5))],
            ready: AtomicBool::new(true),
            asked: AtomicUsize::new(0),
            fetching: Mutex::default(),
            custom: [
                ("deployments.apps", true),
                ("namespaces", false),
                ("nodes", false),
                ("pods", true),
            ]
            .map(|(resource, namespaced)| CustomMetric {
                resource: resource.into(),
                metric: "m".into(),
                namespaced,
            })
            .into(),
            external_names: vec!["Queue_Depth".into()],
        }
    }

    /// Makes the backend unavailable, or available again.
    pub(super) fn fail(&self, fails: bool) {
        self.ready.store(!fails, Ordering::SeqCst);
    }

    pub(super) fn times_asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn begin(&self) -> Result<(), Refusal> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.ready.load(Ordering::SeqCst) {
            Ok(())
        } else {
            Err(Refusal::NotReady("the first poll"))
        }
    }

    /// A fetch that never ends.
    async fn fetch(&self, user: &str) -> Result<MetricValues, Refusal> {
        if user == "unlucky" {
            return Err(SATURATED);
        }
        self.fetching.lock().unwrap().push(user.to_owned());
        std::future::pending().await
    }

    async fn custom(
        &self,
        objects: &ObjectSelection,
        query: &Query,
    ) -> Result<MetricValues, Refusal> {
        self.begin()?;
        let is_of_kind = |object: &&Object| *object.kind.resource == *objects.resource;
        let of_kind = || self.objects.iter().filter(is_of_kind);
        let kind = &of_kind().next().ok_or(Refusal::NoSuchPath)?.kind;
        match &*query.metric {
            "unlisted" => {
                let what = "unable to list matching resources";
                return Err(Refusal::Unavailable(what));
            }
            "rule" => return self.fetch(&query.user).await,
            "expensive" => return Err(Refusal::TooMuchWork),
            "m" => {}
            _ => return Err(Refusal::NoSuchPath),
        }
        objects.check_scope(kind.namespaced)?;
        let mut found = Vec::new();
        for object in of_kind().filter(|object| object.namespace == objects.namespace.as_deref()) {
            let wanted = objects.selects(&object.name, &object.labels);
            if wanted && let Some(value) = mean(object, &query.selector)? {
                found.push(CustomValue {
                    kind: object.kind.clone(),
                    namespace: object.namespace.map(Arc::from),
                    name: object.name.as_str().into(),
                    value,
                });
            }
        }
        let none = || Refusal::NoValue("it holds no GPU".to_owned());
        let any = !found.is_empty();
        any.then_some(MetricValues::Custom(found)).ok_or_else(none)
    }

    fn external(&self, query: &Query) -> Result<MetricValues, Refusal> {
        self.begin()?;
        let mut names = self.external_names.iter();
        let name = names.find(|name| name.eq_ignore_ascii_case(&query.metric));
        let name = name.ok_or(Refusal::NoSuchPath)?;
        let all = self.external.iter().map(|(labels, value)| ExternalValue {
            metric: Arc::clone(name),
            labels: Labels::from_pairs(labels.iter().cloned()),
            value: *value,
        });
        let found = all.filter(|it| query.selector.matches(&it.labels));
        let found: Vec<ExternalValue> = found.collect();
        let none = || Refusal::NoValue("no series matches the selector".to_owned());
        let any = !found.is_empty();
        any.then_some(MetricValues::External(found))
            .ok_or_else(none)
    }
}

/// The mean of the series that a selector matches. Reserved keys with an invalid value are
/// refused.
fn mean(object: &Object, selector: &Selector) -> Result<Option<Value>, Refusal> {
    for requirement in selector.requirements() {
        if requirement.key == "window" && requirement.operator != Operator::Equals("5m".into()) {
            return Err(Refusal::Malformed(
                "metric selector key window: write a duration such as 5m".to_owned(),
            ));
        }
    }
    let is_admitted =
        |(labels, value): &&(Labels, Value)| value.is_fresh(NOW) && selector.matches(labels);
    let admitted = || object.series.iter().filter(is_admitted);
    let Some((_, first)) = admitted().next() else {
        return Ok(None);
    };
    let sum: f64 = admitted().map(|(_, value)| value.value).sum();
    Ok(Some(Value {
        value: sum / admitted().count() as f64,
        ..*first
    }))
}

impl Provider for Fixture {
    fn is_fetched(&self, _: Option<&str>, metric: &str) -> bool {
        metric == "rule"
    }

    fn listed(&self) -> Arc<ListedMetrics> {
        Arc::new(ListedMetrics {
            custom: self.custom.clone(),
            external: self.external_names.clone(),
            usage: false,
        })
    }

    fn findings(&self) -> Arc<Report> {
        let found = Finding::new(&GM408, "dcgm-exporter", "\"silent\"").with_remedy("look");
        Arc::new(Report {
            findings: vec![found],
            skipped: [unseen("so it is", "mend it")].into(),
            looked: true,
            ..Report::default()
        })
    }

    fn values<'a>(&'a self, query: &'a Query) -> ProviderFuture<'a, MetricValues> {
        match &query.of {
            ValuesOf::Objects(objects) => Box::pin(self.custom(objects, query)),
            ValuesOf::Namespace(_) => Box::pin(ready(self.external(query))),
        }
    }

    fn explain<'a>(&'a self, _: &'a Query, names_pods: bool) -> ProviderFuture<'a, Explanation> {
        let pods = names_pods.then(|| "ml/train-0".to_owned());
        let device = DeviceReport {
            pods: pods.into_iter().collect(),
            ..DeviceReport::default()
        };
        let explanation = Explanation {
            devices: vec![device],
            ..Explanation::default()
        };
        Box::pin(ready(Ok(explanation)))
    }
}

//! For any path, the provider receives only requests that kube-apiserver has reviewed, and
//! nothing else is served.

use std::future::ready;

use axum::body::Body;
use proptest::prelude::*;

use super::*;
use crate::provider::devices::DevicesQuery;
use crate::provider::usage::{Usage, UsageQuery};
use crate::provider::{ListedMetrics, MetricValues, Provider, ProviderFuture, Query, ValuesOf};
use aggregated_apiserver::refusal::Refusal;
use findings::Report;
use gpu_metrics::devices::DeviceList;

/// A provider that has every value. It records the review that each request requires:
/// group, namespace, resource, subresource and name.
#[derive(Debug, Default)]
struct Noting(Mutex<Vec<[String; 5]>>);

impl Noting {
    fn note<T: Send + 'static>(&self, asked: [&str; 5]) -> ProviderFuture<'_, T> {
        self.0.lock().unwrap().push(asked.map(str::to_owned));
        let reason = "it notes only".to_owned();
        Box::pin(ready(Err(Refusal::NoValue(reason))))
    }
}

impl Provider for Noting {
    fn listed(&self) -> Arc<ListedMetrics> {
        Arc::new(ListedMetrics {
            usage: true,
            ..ListedMetrics::default()
        })
    }

    fn values<'a>(&'a self, query: &'a Query) -> ProviderFuture<'a, MetricValues> {
        let (group, metric) = ("custom.metrics.k8s.io", &*query.metric);
        let objects = match &query.of {
            ValuesOf::Objects(objects) => objects,
            ValuesOf::Namespace(namespace) => {
                return self.note(["external.metrics.k8s.io", namespace, metric, "", ""]);
            }
        };
        let name = objects.name.as_deref().unwrap_or("*");
        match (&*objects.resource, objects.namespace.as_deref()) {
            // The values of a namespace itself are reviewed as metrics in it.
            ("namespaces", None) => self.note([group, name, "metrics", "", metric]),
            (resource, namespace) => {
                let namespace = namespace.unwrap_or_default();
                self.note([group, namespace, resource, metric, name])
            }
        }
    }

    fn findings(&self) -> Arc<Report> {
        drop(self.note::<()>(["custom.metrics.k8s.io", "", "findings", "", ""]));
        Arc::default()
    }

    fn devices<'a>(&'a self, asked: &'a DevicesQuery) -> ProviderFuture<'a, DeviceList> {
        let namespace = asked.namespace.as_deref().unwrap_or_default();
        drop(self.note::<()>(["custom.metrics.k8s.io", namespace, "devices", "", ""]));
        Box::pin(ready(Ok(DeviceList::default())))
    }

    fn usage<'a>(&'a self, query: &'a UsageQuery) -> ProviderFuture<'a, Vec<Usage>> {
        let name = query.name.as_deref().unwrap_or_default();
        let namespace = query.namespace.as_deref().unwrap_or_default();
        let resource = query.measured.resource();
        self.note(["metrics.k8s.io", namespace, resource, "", name])
    }
}

fn segment() -> impl Strategy<Value = String> {
    let known = "namespaces ns other metrics findings devices pods deployments.apps nodes * %2A m a \
                 .. . %2e%2e a%2fb a%5Cb watch proxy status %00 %6d N%53 + custom.metrics.k8s.io \
                 v1beta2 apis";
    let known: Vec<&str> = known.split(' ').chain([""]).collect();
    let known = proptest::sample::select(known);
    prop_oneof![8 => known.prop_map(str::to_owned), 1 => "[!-~]{0,6}"]
}

fn path() -> impl Strategy<Value = String> {
    let base = "/apis/custom.metrics.k8s.io/v1beta2 /apis/custom.metrics.k8s.io/v1beta1 \
                /apis/external.metrics.k8s.io/v1beta1 /apis/metrics.k8s.io/v1beta1 \
                /apis/metrics.k8s.io/v1 /%61pis/custom.metrics.k8s.io/v1beta2 \
                //apis/custom.metrics.k8s.io/v1beta2 /openapi/v3/apis";
    let base: Vec<&str> = base.split(' ').chain([""]).collect();
    let base = proptest::sample::select(base);
    let tail = proptest::sample::select(vec!["", "/", "?watch=1", "?labelSelector=x", "#f"]);
    let segments = proptest::collection::vec(segment(), 0..6);
    (base, segments, tail).prop_map(|(base, segments, tail)| {
        let path: String = segments
            .iter()
            .map(|segment| format!("/{segment}"))
            .collect();
        format!("{base}{path}{tail}")
    })
}

proptest! {
    #[test]
    fn s028_only_the_reviewed_access_is_served(path in path()) {
        let Ok(uri) = path.parse::<http::Uri>() else {
            return Ok(());
        };
        let provider = Arc::new(Noting::default());
        let reviewer = Arc::new(FakeReviewer::new());
        reviewer.rule(|_, _| AccessVerdict::Allowed(()));
        let api = Api::new(provider.clone(), || NOW, Telemetry::new().unwrap());
        let router = layers(&api, &reviewer);
        let request = http::Request::get(uri).body(Body::empty()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let answer = runtime.unwrap().block_on(router.oneshot(request)).unwrap();
        let asked = provider.0.lock().unwrap().clone();
        let reviewed: Vec<[String; 5]> = reviewer
            .asked()
            .into_iter()
            .filter_map(|(_, what)| match what {
                Access::Resource { group, namespace, resource, subresource, name, .. } => {
                    Some([group, namespace, resource, subresource, name])
                }
                Access::NonResource { .. } => None,
            })
            .collect();
        for asked in &asked {
            prop_assert!(reviewed.contains(asked), "{path}: {asked:?}, reviewed {reviewed:?}");
            // No external metric has these names.
            let is_findings = asked[0].starts_with("custom") && asked[1..] == ["", "findings", "", ""];
            let is_devices = asked[0].starts_with("custom") && asked[2] == "devices" && asked[4].is_empty();
            let wanted = if is_findings || is_devices { 200 } else { 404 };
            prop_assert_eq!(answer.status(), wanted);
        }
    }
}

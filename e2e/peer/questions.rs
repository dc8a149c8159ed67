//! The requests to both servers: every metric for every kind of object, and invalid
//! requests.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Method;

use super::objects::{NAMESPACES, names};

/// A request.
pub(super) type Question = (Method, String);

const CUSTOM: &str = "/apis/custom.metrics.k8s.io/v1beta2";
const CUSTOM_BEFORE: &str = "/apis/custom.metrics.k8s.io/v1beta1";
const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1";

/// Characters that stay unencoded in a path and in a query's value.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'*');

/// Selectors of series, for metrics of objects and for external ones.
const SELECTORS: &[&str] = &[
    "method=GET",
    "zone=a",
    "zone==a",
    "zone!=a",
    "zone in (a,b)",
    "zone in (a)",
    "zone notin (a)",
    "zone notin (a,b)",
    "zone",
    "!zone",
    "nope=x",
    "zone=a,pod=web-1",
    "pod=web-2",
    "namespace=prod",
    "zone=",
    "zone in ()",
    "name=orders",
    "zone>5",
    "zone<5",
    "a.b/c=d",
    "a-b=c",
    "=",
    "a=b=c",
    "zone=a%2C",
];

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

/// All requests, from the metrics that either server lists: `pods/http_requests`, and
/// whether it is namespaced; names of external metrics.
pub(super) fn all(
    custom: &BTreeMap<String, bool>,
    external: &BTreeMap<String, bool>,
) -> Vec<Question> {
    let mut paths = documents();
    let mut kinds = 0;
    for (name, namespaced) in custom {
        let Some((resource, metric)) = name.split_once('/') else {
            continue;
        };
        let metric = encoded(metric);
        custom_metric(&mut paths, resource, &metric, *namespaced);
        if resource == "pods" && kinds < 4 {
            kinds += 1;
            let all = format!("{CUSTOM}/namespaces/default/pods/*/{metric}");
            let some = SELECTORS
                .iter()
                .map(|it| format!("{all}?metricLabelSelector={}", encoded(it)));
            paths.extend(some);
        }
        if kinds == 1 && resource == "pods" {
            odd_custom(&mut paths, &metric);
        }
    }
    for (index, metric) in external.keys().enumerate() {
        external_metric(&mut paths, metric, index == 0);
    }
    let mut questions: Vec<Question> = paths.into_iter().map(|path| (Method::GET, path)).collect();
    questions.extend(other_methods(custom, external));
    questions
}

/// Discovery in every form, and invalid paths.
fn documents() -> Vec<String> {
    let groups = ["custom.metrics.k8s.io", "external.metrics.k8s.io"];
    let of_group = groups.iter().flat_map(|group| {
        [
            "",
            "/",
            "/v1beta1",
            "/v1beta1/",
            "/v1beta2",
            "/v1",
            "/v1beta1?pretty=1",
            "/v1beta1/x",
        ]
        .map(|rest| format!("/apis/{group}{rest}"))
    });
    let others = [
        "/apis",
        "/apis/",
        "/apis/nothing.metrics.k8s.io",
        "/healthz",
        "/livez",
        "/readyz",
        "/version",
        "/nothing",
    ];
    of_group.chain(others.map(str::to_owned)).collect()
}

fn custom_metric(paths: &mut Vec<String>, resource: &str, metric: &str, namespaced: bool) {
    if resource == "namespaces" {
        for namespace in NAMESPACES.iter().chain(&["*"]) {
            paths.push(format!("{CUSTOM}/namespaces/{namespace}/metrics/{metric}"));
            paths.push(format!(
                "{CUSTOM_BEFORE}/namespaces/{namespace}/metrics/{metric}"
            ));
        }
        paths.push(format!(
            "{CUSTOM}/namespaces/*/metrics/{metric}?labelSelector=app%3Dweb"
        ));
        paths.push(format!("{CUSTOM}/namespaces/default/{metric}"));
    }
    // Cluster-scoped kinds are listed as namespaced there, so both forms are
    // requested.
    if resource != "namespaces" {
        let in_cluster: Vec<&str> = names(resource, "").collect();
        if !namespaced || !in_cluster.is_empty() {
            of_objects(paths, &format!("{resource}/"), metric, &in_cluster);
        }
        if namespaced {
            for namespace in NAMESPACES {
                let there: Vec<&str> = names(resource, namespace).collect();
                of_objects(
                    paths,
                    &format!("namespaces/{namespace}/{resource}/"),
                    metric,
                    &there,
                );
            }
        }
    }
}

/// The objects of a kind and place: all, some, single ones.
fn of_objects(paths: &mut Vec<String>, place: &str, metric: &str, there: &[&str]) {
    paths.push(format!("{CUSTOM_BEFORE}/{place}*/{metric}"));
    for rest in [
        "",
        "?labelSelector=app%3Dweb",
        "?labelSelector=app%21%3Dweb",
        "?labelSelector=app%3Dnone",
    ] {
        paths.push(format!("{CUSTOM}/{place}*/{metric}{rest}"));
    }
    for name in there.iter().chain(&["gone"]) {
        paths.push(format!("{CUSTOM}/{place}{name}/{metric}"));
    }
    if let Some(name) = there.first() {
        paths.push(format!("{CUSTOM_BEFORE}/{place}{name}/{metric}"));
    }
}

/// Other spellings of a request for a pod's metric, and mistakes.
fn odd_custom(paths: &mut Vec<String>, metric: &str) {
    let pods = format!("{CUSTOM}/namespaces/default/pods");
    for query in [
        "labelSelector=%21%21",
        "labelSelector=app+in+(web,idle)",
        "labelSelector=app+in+(",
        "labelSelector=%21app",
        "labelSelector=app%3E5",
        "labelSelector=",
        "selector=app%3Dnone",
        "watch=true",
        "watch=1",
        "fieldSelector=metadata.name%3Dweb-1",
        "fieldSelector=%3D",
        "limit=1",
        "limit=x",
        "pretty=true",
        "unknown=1",
        "resourceVersion=0",
        "timeoutSeconds=1",
        "labelSelector=app%3Dweb&labelSelector=app%3Didle",
        "metricLabelSelector=zone%3Da&labelSelector=app%3Dweb",
    ] {
        paths.push(format!("{pods}/*/{metric}?{query}"));
    }
    for query in [
        "labelSelector=app%3Dnone",
        "labelSelector=%21%21",
        "metricLabelSelector=zone%3Db",
        "metricLabelSelector=%3D",
    ] {
        paths.push(format!("{pods}/web-1/{metric}?{query}"));
    }
    for rest in [
        "pods/%2A/M",
        "pod/*/M",
        "po/*/M",
        "Pods/*/M",
        "pods./*/M",
        "pods.v1/*/M",
        "pods.apps/*/M",
        "pods/*/M/",
        "pods//M",
        "pods/*/",
        "pods/*",
        "pods",
        "",
        "pods/*/M/x",
        "pods/*/no_such_metric",
        "nothings/*/M",
        "nothings.nowhere/*/M",
        "deployments/*/M",
        "deployments.apps/*/M",
        "deployments.app/*/M",
        "deployment.apps/web/M",
        "deployments.extensions/*/M",
        "nodes/*/M",
        "pods/we%22b/M",
        "pods/we%7Cb/M",
        "pods/we%2Fb/M",
        "pods/WEB-1/M",
        "pods/web-1%20/M",
        "pods/web.1/M",
        "pods/.*/M",
        "pods/web-*/M",
        "pods/*/%22",
        "pods/*/%2A",
        "metrics/no_such_metric",
        "metrics/",
        "metrics/M/x",
        "pods/%FF/M",
    ] {
        paths.push(format!(
            "{CUSTOM}/namespaces/default/{}",
            rest.replace('M', metric)
        ));
    }
    for path in [
        "pods/*/M",
        "pods/web-1/M",
        "nodes/*/M",
        "namespaces/*/M",
        "namespaces//pods/*/M",
        "namespaces/*/pods/*/M",
        "namespaces/de%22f/pods/*/M",
        "namespaces/DEFAULT/pods/*/M",
        "*/*/M",
        "namespaces/default/*/*/M",
        "namespaces/metrics/M",
    ] {
        paths.push(format!("{CUSTOM}/{}", path.replace('M', metric)));
    }
    paths.push(format!(
        "/apis/custom.metrics.k8s.io/v1/namespaces/default/pods/*/{metric}"
    ));
}

fn external_metric(paths: &mut Vec<String>, metric: &str, is_first: bool) {
    let name = encoded(metric);
    for namespace in NAMESPACES.iter().chain(&["*", "queue"]) {
        paths.push(format!("{EXTERNAL}/namespaces/{namespace}/{name}"));
    }
    let place = format!("{EXTERNAL}/namespaces/default");
    let selectors = SELECTORS
        .iter()
        .chain(&["case=low", "name in (orders,mails)", "queue!=mails"]);
    paths.extend(selectors.map(|it| format!("{place}/{name}?labelSelector={}", encoded(it))));
    paths.push(format!("{place}/{}", name.to_lowercase()));
    paths.push(format!("{place}/{}", name.to_uppercase()));
    if is_first {
        for query in [
            "fieldSelector=a%3Db",
            "metricLabelSelector=name%3Dorders",
            "watch=true",
            "watch=1",
            "limit=1",
            "unknown=1",
            "pretty=1",
        ] {
            paths.push(format!("{place}/{name}?{query}"));
        }
        for rest in ["no_such_metric", "", "M/", "M/x", "*", "%22"] {
            paths.push(format!("{place}/{}", rest.replace('M', &name)));
        }
        for rest in [
            "M",
            "namespaces",
            "namespaces/default",
            "namespaces//M",
            "namespaces/de%22f/M",
            "namespaces/DEFAULT/M",
        ] {
            paths.push(format!("{EXTERNAL}/{}", rest.replace('M', &name)));
        }
        paths.push(format!(
            "/apis/external.metrics.k8s.io/v1/namespaces/default/{name}"
        ));
    }
}

fn other_methods(
    custom: &BTreeMap<String, bool>,
    external: &BTreeMap<String, bool>,
) -> Vec<Question> {
    let methods = [
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::OPTIONS,
    ];
    let pod = custom.keys().find_map(|name| name.strip_prefix("pods/"));
    let pod =
        pod.map(|metric| format!("{CUSTOM}/namespaces/default/pods/web-1/{}", encoded(metric)));
    let external = external.keys().next();
    let external =
        external.map(|metric| format!("{EXTERNAL}/namespaces/default/{}", encoded(metric)));
    let paths: Vec<String> = [pod, external].into_iter().flatten().collect();
    let of = |path: &String| methods.clone().map(|method| (method, path.clone()));
    paths.iter().flat_map(of).collect()
}

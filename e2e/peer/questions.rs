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
    let of_pods = || custom.keys().filter_map(|name| name.strip_prefix("pods/"));
    let pod = of_pods().next().map(encoded);
    let first = external.keys().next().map(|metric| encoded(metric));
    let mut paths = fixed(pod.as_deref(), first.as_deref());
    for (name, namespaced) in custom {
        if let Some((resource, metric)) = name.split_once('/') {
            custom_metric(&mut paths, resource, &encoded(metric), *namespaced);
        }
    }
    for metric in of_pods().take(4) {
        let all = format!("{CUSTOM}/namespaces/default/pods/*/{}", encoded(metric));
        let some = SELECTORS.iter();
        paths.extend(some.map(|it| format!("{all}?metricLabelSelector={}", encoded(it))));
    }
    for metric in external.keys() {
        external_metric(&mut paths, metric);
    }
    let mut questions: Vec<Question> = paths.into_iter().map(|path| (Method::GET, path)).collect();
    let pod = pod.map(|metric| format!("{CUSTOM}/namespaces/default/pods/web-1/{metric}"));
    let first = first.map(|metric| format!("{EXTERNAL}/namespaces/default/{metric}"));
    for path in pod.into_iter().chain(first) {
        let others = [
            Method::HEAD,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
        ];
        questions.extend(others.map(|method| (method, path.clone())));
    }
    questions
}

/// The requests of `questions.txt`, with the first metric of pods and the first external
/// one. A section about a metric that is not listed is left out.
fn fixed(pod: Option<&str>, external: Option<&str>) -> Vec<String> {
    let sections = include_str!("questions.txt").split("\n\n");
    let listed = sections.filter(|section| {
        (pod.is_some() || !section.contains("METRIC"))
            && (external.is_some() || !section.contains("EXTERNAL"))
    });
    let lines = listed.flat_map(str::lines);
    lines
        .filter(|line| line.starts_with('/'))
        .map(|line| line.replace("METRIC", pod.unwrap_or_default()))
        .map(|line| line.replace("EXTERNAL", external.unwrap_or_default()))
        .collect()
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

fn external_metric(paths: &mut Vec<String>, metric: &str) {
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
}

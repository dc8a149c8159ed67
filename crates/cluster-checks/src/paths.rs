//! Paths of kube-apiserver's objects, and its version.

use k8s_openapi::apimachinery::pkg::version::Info;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use cluster_state::client::Client;

/// The minor version of Kubernetes 1 that kube-apiserver reports; `None` if there is none.
pub async fn minor_version(client: &Client) -> Option<u32> {
    let version: Info = client.object("/version").await.ok()?;
    // A provider may add a plus.
    let digits = version
        .minor
        .trim_end_matches(|last: char| !last.is_ascii_digit());
    (version.major == "1").then(|| digits.parse().ok())?
}

/// Encodes a segment of a path, or a value of a query.
#[must_use]
pub fn encode(text: &str) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'*')
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(text, KEPT).to_string()
}

/// The part of a path before a resource: `namespaces/NAME/`, or empty for all namespaces.
pub fn within(namespace: Option<&str>) -> String {
    namespace.map_or_else(String::new, |name| format!("namespaces/{}/", encode(name)))
}

pub fn autoscalers(namespace: Option<&str>) -> String {
    let place = within(namespace);
    format!("/apis/autoscaling/v2/{place}horizontalpodautoscalers")
}

pub fn pods(namespace: &str, selector: &str) -> String {
    let (place, selector) = (within(Some(namespace)), encode(selector));
    format!("/api/v1/{place}pods?labelSelector={selector}")
}

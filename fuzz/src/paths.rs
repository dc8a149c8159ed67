//! Paths, queries and selectors of requests: each prints as the text of the same, and
//! kube-apiserver authorizes the access that is served.

use aggregated_apiserver::security::reviewer::Access;
use apimachinery::field_selector::FieldSelector;
use apimachinery::selector::Selector;
use gpu_metrics_apiserver::api::params::Params;
use gpu_metrics_apiserver::api::path::{ApiTarget, ResourceKind, ResourceTarget, parse};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::form_urlencoded;

pub fn check(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else {
        return;
    };
    let (path, query) = text.split_once('?').unwrap_or((text, text));
    if let Ok(target) = parse(path) {
        match &target {
            ApiTarget::Resource(parts) => {
                assert_eq!(parse(&printed(parts)).ok().as_ref(), Some(&target));
                check_access(path, parts, target.access(false));
            }
            ApiTarget::OpenApi(path) | ApiTarget::Discovery(path) => {
                assert_eq!(parse(path).ok().as_ref(), Some(&target));
            }
            ApiTarget::Health(_) | ApiTarget::Metrics => {}
        }
    }
    check_selector(query);
    match Params::parse(Some(query)) {
        Ok(params) => {
            let selector = params.label_selector.to_string();
            let mut again = form_urlencoded::Serializer::new(String::new());
            again.append_pair("labelSelector", &selector);
            let again = Params::parse(Some(&again.finish()));
            assert_eq!(again.map(|it| it.label_selector), Ok(params.label_selector));
            if let Err(message) = FieldSelector::parse(&params.field_selector) {
                check_refusal(&message);
            }
        }
        Err(message) => check_refusal(&message),
    }
}

/// Messages about what a client sent are short too.
fn check_refusal(message: &str) {
    super::check_line(message);
    assert!(message.len() < 512, "{message}");
}

fn check_selector(text: &str) {
    match Selector::parse(text) {
        Ok(selector) => assert_eq!(Selector::parse(&selector.to_string()), Ok(selector)),
        Err(message) => check_refusal(&message),
    }
}

/// The path of a target, with all letters encoded that may be.
fn printed(target: &ResourceTarget) -> String {
    let mut path = format!("/apis/{}", target.of);
    let namespace = target.namespace.as_deref();
    let namespace = namespace.map_or_else(Vec::new, |name| vec!["namespaces", name]);
    let parts = [
        Some(&target.resource),
        target.name.as_ref(),
        target.subresource.as_ref(),
    ];
    for part in namespace
        .into_iter()
        .chain(parts.into_iter().flatten().map(String::as_str))
    {
        path.push('/');
        path.extend(utf8_percent_encode(part, NON_ALPHANUMERIC));
    }
    path
}

/// Compares with the access that Go's parser finds in the decoded path (apiserver
/// `pkg/endpoints/request/requestinfo.go`).
fn check_access(path: &str, target: &ResourceTarget, access: Option<Access>) {
    let decoded = percent_decode_str(path)
        .decode_utf8()
        .expect("a parsed path");
    let mut parts: Vec<&str> = decoded.trim_matches('/').split('/').skip(3).collect();
    let mut of_go = [""; 4];
    if parts[0] == "namespaces" && parts.len() > 1 {
        of_go[3] = parts[1];
        // Go reads an external metric with such a name as a part of the namespace. Its users
        // need both rights.
        let is_part = parts.len() > 2 && ["status", "finalize"].contains(&parts[2]);
        assert!(!is_part || target.kind == ResourceKind::ExternalMetric);
        parts.drain(..if parts.len() > 2 { 2 } else { 0 });
    }
    for (place, part) in parts.iter().enumerate() {
        of_go[place] = part;
    }
    let Some(Access::Resource {
        resource,
        subresource,
        namespace,
        name,
        ..
    }) = access
    else {
        panic!("no access: {path}");
    };
    assert_eq!(
        [&*resource, &name, &subresource, &namespace],
        of_go,
        "{path}"
    );
}

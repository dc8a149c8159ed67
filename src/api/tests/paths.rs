use proptest::prelude::*;

use crate::api::path::parse;
use aggregated_apiserver::security::reviewer::Access;

#[test]
fn names_have_limits() {
    let base = "/apis/custom.metrics.k8s.io/v1beta2";
    let found = |path: String| parse(&path).is_ok();
    let long = |length| "a".repeat(length);
    assert!(found(format!("{base}/namespaces/{}/pods/a/m", long(63))));
    assert!(!found(format!("{base}/namespaces/{}/pods/a/m", long(64))));
    assert!(found(format!("{base}/namespaces/ns/pods/{}/m", long(253))));
    assert!(!found(format!("{base}/namespaces/ns/pods/{}/m", long(254))));
    assert!(found(format!("{base}/namespaces/ns/pods/a/{}", long(512))));
    assert!(!found(format!("{base}/namespaces/ns/pods/a/{}", long(513))));
    for resource in ["Pods", "pods.", "pods_x", "pods.Apps", ".apps", "p*"] {
        let path = format!("{base}/namespaces/ns/{resource}/a/m");
        assert!(!found(path), "{resource}");
    }
    for namespace in ["-ns", "ns-", "n.s", "NS", "*"] {
        let path = format!("{base}/namespaces/{namespace}/pods/a/m");
        assert!(!found(path), "{namespace}");
    }
}

proptest! {
    #[test]
    fn a_parsed_path_has_no_dot_segment_or_slash(rest in "[a-z%2eEfF./*-]{0,40}") {
        let path = format!("/apis/custom.metrics.k8s.io/v1beta2/namespaces/{rest}");
        if let Ok(target) = parse(&path)
            && let Some(Access::Resource { namespace, resource, subresource, name, .. }) =
                target.access(false)
        {
            for piece in [namespace, resource, subresource, name] {
                prop_assert!(!piece.contains('/') && !piece.contains('%'));
                prop_assert!(piece != "." && piece != "..");
            }
        }
    }
}

use super::super::EXT;
use super::*;

fn resource(pieces: [&str; 7]) -> Access {
    let [verb, group, version, resource, subresource, namespace, name] = pieces.map(str::to_owned);
    Access::Resource {
        verb,
        group,
        version,
        resource,
        subresource,
        namespace,
        name,
    }
}

fn path(verb: &str, path: &str) -> Access {
    Access::NonResource {
        verb: verb.to_owned(),
        path: path.to_owned(),
    }
}

/// Targets and their reviews: the table of docs/protocol.md, "What a review asks".
fn table() -> Vec<(String, Access)> {
    const CUSTOM: &str = "custom.metrics.k8s.io";
    let own = |target: &str| format!("{V2}/{target}");
    let ext = format!("{EXT}/namespaces/ns/queue_depth");
    let custom =
        |resource_, sub, ns, name| resource(["get", CUSTOM, "v1beta2", resource_, sub, ns, name]);
    let external = |verb| {
        let group = "external.metrics.k8s.io";
        resource([verb, group, "v1beta1", "queue_depth", "", "ns", ""])
    };
    let usage = |target: &str| format!("/apis/metrics.k8s.io/v1beta1/{target}");
    let used = |verb, resource_, ns, name| {
        resource([verb, "metrics.k8s.io", "v1beta1", resource_, "", ns, name])
    };
    vec![
        (
            own("namespaces/ns/pods/*/m"),
            custom("pods", "m", "ns", "*"),
        ),
        (
            own("namespaces/ns/pods/%2A/m"),
            custom("pods", "m", "ns", "*"),
        ),
        (
            own("namespaces/ns/pods/*/m?watch=1"),
            custom("pods", "m", "ns", "*"),
        ),
        (
            own("namespaces/ns/deployments.apps/web/m"),
            custom("deployments.apps", "m", "ns", "web"),
        ),
        (own("nodes/n1/m"), custom("nodes", "m", "", "n1")),
        (
            own("namespaces/ns/metrics/m"),
            custom("metrics", "", "ns", "m"),
        ),
        (
            own("namespaces/*/metrics/m"),
            custom("metrics", "", "*", "m"),
        ),
        (
            VALUES.replace("v1beta2", "v1beta1"),
            resource(["get", CUSTOM, "v1beta1", "pods", "m", "ns", "a"]),
        ),
        (ext.clone(), external("list")),
        (format!("{ext}?watch=true"), external("watch")),
        (
            own("findings"),
            resource(["list", CUSTOM, "v1beta2", "findings", "", "", ""]),
        ),
        (
            own("devices?by=node"),
            resource(["list", CUSTOM, "v1beta2", "devices", "", "", ""]),
        ),
        (
            own("namespaces/ns/devices?watch=1"),
            resource(["watch", CUSTOM, "v1beta2", "devices", "", "ns", ""]),
        ),
        (
            format!("{EXT}/findings?watch=1"),
            resource([
                "watch",
                "external.metrics.k8s.io",
                "v1beta1",
                "findings",
                "",
                "",
                "",
            ]),
        ),
        (usage("nodes"), used("list", "nodes", "", "")),
        (usage("nodes?watch=1"), used("watch", "nodes", "", "")),
        (usage("nodes/n1"), used("get", "nodes", "", "n1")),
        (usage("pods"), used("list", "pods", "", "")),
        (usage("namespaces/ns/pods"), used("list", "pods", "ns", "")),
        (
            usage("namespaces/ns/pods/a?watch=1"),
            used("get", "pods", "ns", "a"),
        ),
        ("/apis".to_owned(), path("get", "/apis")),
        ("/apis/".to_owned(), path("get", "/apis/")),
        (
            "/apis/custom.metrics.k8s.io".to_owned(),
            path("get", "/apis/custom.metrics.k8s.io"),
        ),
        (V2.to_owned(), path("get", V2)),
        ("/metrics".to_owned(), path("get", "/metrics")),
        ("/readyz/ping".to_owned(), path("get", "/readyz/ping")),
        ("/openapi/v3/x".to_owned(), path("get", "/openapi/v3/x")),
        // These have no target, and are reviewed as non-resource paths.
        (usage("pods/a"), path("get", &usage("pods/a"))),
        (
            usage("namespaces/ns/nodes"),
            path("get", &usage("namespaces/ns/nodes")),
        ),
        (own("namespaces/ns/m"), path("get", &own("namespaces/ns/m"))),
        (
            own("namespaces/ns/metrics/m/x"),
            path("get", &own("namespaces/ns/metrics/m/x")),
        ),
        (own("watch/pods/a"), path("get", &own("watch/pods/a"))),
    ]
}

#[tokio::test]
async fn s078_the_review_has_the_attributes_of_the_request() {
    let scene = Scene::new().await;
    for (target, wanted) in table() {
        let before = scene.reviewer.asked().len();
        let groups = [("X-Remote-User", target.as_str()), ("X-Remote-Group", "g")];
        let code = scene.proxied(&target, &groups).await.status;
        assert!(matches!(code, 200 | 404 | 405), "{target}: {code}");
        let asked = &scene.reviewer.asked()[before..];
        // The names in a list of devices need one more review.
        let more = usize::from(target.contains("/devices"));
        assert_eq!(asked.len(), 1 + more, "{target}");
        let (who, what) = asked[0].clone();
        assert_eq!((who.user, what), (target.clone(), wanted));
        assert_eq!(who.groups, ["g", "system:authenticated"]);
    }
}

#[tokio::test]
async fn s078_other_methods_are_reviewed_with_their_verbs() {
    let scene = Scene::new().await;
    let proxy = scene.proxy();
    for (method, target, verb) in [
        ("POST", VALUES, "create"),
        ("PUT", VALUES, "update"),
        ("PATCH", VALUES, "patch"),
        ("DELETE", VALUES, "delete"),
        ("HEAD", VALUES, "get"),
        ("BREW", VALUES, ""),
        ("POST", "/apis", "post"),
    ] {
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Remote-User: bob\r\n\r\n"
        );
        let config = scene.config(Some(&proxy));
        let answer = scene.raw(config, request.as_bytes()).await;
        assert_eq!(answer.status, 405, "{method}");
        match scene.reviewer.last().1 {
            Access::Resource { verb: asked, .. } | Access::NonResource { verb: asked, .. } => {
                assert_eq!(asked, verb, "{method}");
            }
        }
    }
}

use super::super::EXT;
use super::*;

fn path(path: &str) -> (String, Access) {
    let access = Access::NonResource {
        verb: "get".to_owned(),
        path: path.to_owned(),
    };
    (path.to_owned(), access)
}

/// A target of a group, and its review: verb, resource, subresource, namespace and name,
/// with `-` for none.
fn resource(base: &str, (target, words): (&str, &str)) -> (String, Access) {
    let mut base_parts = base.split('/').skip(2).map(str::to_owned);
    let mut words = words.split(' ').map(|word| word.replace('-', ""));
    let [group, version] = [(); 2].map(|()| base_parts.next().unwrap());
    let [verb, resource, subresource, namespace, name] = [(); 5].map(|()| words.next().unwrap());
    let access = Access::Resource {
        verb,
        group,
        version,
        resource,
        subresource,
        namespace,
        name,
    };
    (format!("{base}/{target}"), access)
}

/// Targets and their reviews: the table of docs/protocol.md, "What a review asks".
fn table() -> Vec<(String, Access)> {
    const USAGE: &str = "/apis/metrics.k8s.io/v1beta1";
    let custom = [
        ("namespaces/ns/pods/*/m", "get pods m ns *"),
        ("namespaces/ns/pods/%2A/m", "get pods m ns *"),
        ("namespaces/ns/pods/*/m?watch=1", "get pods m ns *"),
        (
            "namespaces/ns/deployments.apps/web/m",
            "get deployments.apps m ns web",
        ),
        ("nodes/n1/m", "get nodes m - n1"),
        ("namespaces/ns/metrics/m", "get metrics - ns m"),
        ("namespaces/*/metrics/m", "get metrics - * m"),
        ("findings", "list findings - - -"),
        ("findings?watch=1", "watch findings - - -"),
        ("devices?by=node", "list devices - - -"),
        ("namespaces/ns/devices?watch=1", "watch devices - ns -"),
    ];
    let external = [
        ("namespaces/ns/queue_depth", "list queue_depth - ns -"),
        ("namespaces/ns/q?watch=true", "watch q - ns -"),
    ];
    let usage = [
        ("nodes", "list nodes - - -"),
        ("nodes?watch=1", "watch nodes - - -"),
        ("nodes/n1", "get nodes - - n1"),
        ("pods", "list pods - - -"),
        ("namespaces/ns/pods", "list pods - ns -"),
        ("namespaces/ns/pods/a?watch=1", "get pods - ns a"),
    ];
    let documents = "/apis /apis/ /apis/custom.metrics.k8s.io /metrics /readyz/ping /openapi/v3/x";
    let documents = documents.split(' ').chain([V2]);
    // These have no target, and are reviewed as non-resource paths.
    let without_target = [
        (USAGE, "pods/a"),
        (USAGE, "namespaces/ns/nodes"),
        (V2, "namespaces/ns/m"),
        (V2, "namespaces/ns/metrics/m/x"),
        (V2, "watch/pods/a"),
        (EXT, "findings"),
    ];
    let without_target = without_target.map(|(base, target)| path(&format!("{base}/{target}")));
    let mut table = vec![resource(super::super::V1, custom[0])];
    table.extend(custom.map(|row| resource(V2, row)));
    table.extend(external.map(|row| resource(EXT, row)));
    table.extend(usage.map(|row| resource(USAGE, row)));
    table.extend(documents.map(path));
    table.extend(without_target);
    table
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
        let request = head(method, target, &[("X-Remote-User", "bob")]);
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

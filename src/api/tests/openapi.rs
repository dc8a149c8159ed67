use std::collections::BTreeSet;

use super::*;

const V3: &str = "/openapi/v3";

/// Collects every `$ref` below a value.
fn references(value: &Json, found: &mut BTreeSet<String>) {
    match value {
        Json::Object(fields) => {
            for (name, field) in fields {
                if name == "$ref" {
                    found.insert(field.as_str().unwrap().to_owned());
                }
                references(field, found);
            }
        }
        Json::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// Checks that all references have a schema, and that every schema is referenced.
pub(super) fn check_references(document: &Json, schemas: &str) {
    let mut found = BTreeSet::new();
    references(document, &mut found);
    let defined: BTreeSet<String> = document
        .pointer(schemas)
        .unwrap()
        .as_object()
        .unwrap()
        .keys()
        .map(|name| format!("#{schemas}/{name}"))
        .collect();
    assert_eq!(found, defined);
}

/// Checks operations: they have the parameters of the path and unique ids.
pub(super) fn check_paths(document: &Json) {
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let in_path: BTreeSet<&str> = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
            .collect();
        let declared: BTreeSet<&str> = item["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|parameter| parameter["in"] == "path")
            .map(|parameter| {
                assert_eq!(parameter["required"], true, "{path}");
                parameter["name"].as_str().unwrap()
            })
            .collect();
        assert_eq!(in_path, declared, "{path}");
        let operation = &item["get"];
        let id = operation["operationId"].as_str().unwrap().to_owned();
        assert!(ids.insert(id), "{path}");
        let kind = &operation["x-kubernetes-group-version-kind"];
        let (group, version) = (kind["group"].as_str(), kind["version"].as_str());
        let prefix = format!("/apis/{}/{}/", group.unwrap(), version.unwrap());
        assert!(path.starts_with(&prefix), "{path}");
    }
}

#[tokio::test]
async fn s011_the_swagger_document_is_complete_and_has_a_tag() {
    let (server, fixture) = server().await;
    let answer = server
        .send("GET", "/openapi/v2", &[("Accept", "application/json")])
        .await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let body = answer.json();
    assert_eq!(body["swagger"], "2.0");
    assert!(body["info"]["title"].is_string() && body["info"]["version"].is_string());
    check_references(&body, "/definitions");
    check_paths(&body);
    assert_eq!(body["paths"].as_object().unwrap().len(), 7);
    let tag = answer.header("etag").unwrap();
    // A tag of another server is ignored.
    for (given, wanted) in [(tag, 304), ("\"ABCD\"", 200)] {
        let headers = [("Accept", "application/json"), ("If-None-Match", given)];
        let answer = server.send("GET", "/openapi/v2", &headers).await;
        assert_eq!(answer.status, wanted);
        assert_eq!(answer.body.is_empty(), wanted == 304);
    }
    let protobuf = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let headers = [("Accept", protobuf)];
    let answer = server.send("GET", "/openapi/v2", &headers).await;
    assert_eq!(status(&answer)["reason"], "NotAcceptable");
    assert_eq!(fixture.times_asked(), 0);
}

#[tokio::test]
async fn s012_the_root_has_the_url_of_every_version_with_its_hash() {
    let (server, _) = server().await;
    let root = server.get(V3).await;
    assert_eq!(root.status, 200);
    assert!(root.header("etag").is_some());
    let root = root.json();
    let paths = root["paths"].as_object().unwrap();
    assert_eq!(
        paths.keys().collect::<Vec<_>>(),
        [
            "apis/custom.metrics.k8s.io/v1beta1",
            "apis/custom.metrics.k8s.io/v1beta2",
            "apis/external.metrics.k8s.io/v1beta1"
        ]
    );
    for (name, entry) in paths {
        let url = entry["serverRelativeURL"].as_str().unwrap();
        let (path, hash) = url.split_once("?hash=").unwrap();
        assert_eq!(path, format!("{V3}/{name}"));
        let answer = server.get(url).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("etag"), Some(format!("\"{hash}\"").as_str()));
        assert_eq!(
            answer.header("cache-control"),
            Some("public, immutable, max-age=31536000")
        );
        assert_eq!(answer.header("vary"), Some("Accept"));
        let body = answer.json();
        assert_eq!(body["openapi"], "3.0.0");
        check_paths(&body);
        // The list of paths and the items of the lists.
        check_references(&body, "/components/schemas");
    }
    // kubectl explain finds an external metric by this path.
    let document = server.get(&format!("{V3}{EXT}")).await.json();
    let path = format!("{EXT}/namespaces/{{namespace}}/Queue_Depth");
    let kind = &document["paths"][path]["get"]["x-kubernetes-group-version-kind"];
    assert_eq!(kind["kind"], "ExternalMetricValueList");
}

#[tokio::test]
async fn s013_another_hash_gets_the_current_document_and_no_redirect() {
    let (server, _) = server().await;
    let path = format!("{V3}/apis/custom.metrics.k8s.io/v1beta2");
    for target in [format!("{path}?hash=ABCD"), path.clone()] {
        let answer = server.get(&target).await;
        assert_eq!(answer.status, 200, "{target}");
        assert_eq!(answer.header("cache-control"), Some("no-cache, private"));
        assert_eq!(answer.json()["openapi"], "3.0.0");
    }
    for wrong in [
        format!("{path}/"),
        format!("{V3}/apis/apps/v1"),
        format!("{V3}/"),
    ] {
        let answer = server.get(&wrong).await;
        assert_eq!(status(&answer)["code"], 404, "{wrong}");
    }
}

#[tokio::test]
async fn s014_nothing_is_redirected() {
    let (server, _) = server().await;
    let documents = [
        "/apis",
        "/apis/",
        V1,
        EXT,
        V3,
        "/openapi/v2",
        "/openapi/v3/apis/custom.metrics.k8s.io/v1beta2?hash=A",
        "/openapi",
        "/openapi/v2/",
        "/version",
        "/version/",
        "/metrics/",
        "/readyz/",
        "/livez",
        "/",
        "",
        "/index.html",
        "//apis",
    ];
    for target in documents {
        for headers in [&[][..], &[("If-None-Match", "*")]] {
            let answer = server.send("GET", target, headers).await;
            assert!(
                !(300..400).contains(&answer.status) || answer.status == 304,
                "{target}"
            );
            assert_eq!(answer.header("location"), None, "{target}");
        }
    }
}

/// The schema of a list's items, in the v3 document.
async fn item_schema(server: &TestServer, gv: &str, kind: &str) -> Json {
    let document = server.get(&format!("{V3}{gv}")).await.json();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let (group, version) = gv.strip_prefix("/apis/").unwrap().split_once('/').unwrap();
    let wanted = serde_json::json!([{"group": group, "version": version, "kind": kind}]);
    schemas
        .values()
        .find(|schema| schema["x-kubernetes-group-version-kind"] == wanted)
        .unwrap_or_else(|| panic!("{gv} {kind}"))
        .clone()
}

#[tokio::test]
async fn schemas_describe_the_answers() {
    let (server, _) = server().await;
    for (gv, kind, path) in [
        (V1, "MetricValue", "/namespaces/ns/pods/*/m"),
        (V2, "MetricValue", "/namespaces/ns/pods/*/m"),
        (EXT, "ExternalMetricValue", "/namespaces/ns/queue_depth"),
    ] {
        let selected = format!("{gv}{path}?metricLabelSelector=model%3DA100");
        let answer = server.get(&selected).await.json();
        let list = item_schema(&server, gv, &format!("{kind}List")).await;
        for field in answer.as_object().unwrap().keys() {
            assert!(list["properties"][field].is_object(), "{gv} {field}");
        }
        let schema = item_schema(&server, gv, kind).await;
        let item = answer["items"][0].as_object().unwrap();
        for field in item.keys() {
            assert!(schema["properties"][field].is_object(), "{gv} {field}");
        }
        for field in schema["required"].as_array().unwrap() {
            assert!(item.contains_key(field.as_str().unwrap()), "{gv} {field}");
        }
    }
}

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
fn check_references(document: &Json, schemas: &str) {
    let mut found = BTreeSet::new();
    references(document, &mut found);
    let defined = document.pointer(schemas).unwrap().as_object().unwrap();
    let defined = defined.keys().map(|name| format!("#{schemas}/{name}"));
    assert_eq!(found, defined.collect());
}

/// Checks operations: they have the parameters of the path and unique ids.
fn check_paths(document: &Json) {
    let mut ids = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let parts = path.split('/');
        let in_path = parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let in_path: BTreeSet<&str> = in_path.collect();
        let parameters = item["parameters"].as_array().unwrap().iter();
        let declared = parameters.filter(|it| it["in"] == "path" && it["required"] == true);
        let declared = declared.map(|parameter| parameter["name"].as_str().unwrap());
        assert_eq!(in_path, declared.collect(), "{path}");
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
    let ask = async |headers: &[_]| server.send("GET", "/openapi/v2", headers).await;
    let answer = ask(&[("Accept", "application/json")]).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let body = answer.json();
    assert_eq!(body["swagger"], "2.0");
    assert!(body["info"]["title"].is_string() && body["info"]["version"].is_string());
    check_references(&body, "/definitions");
    check_paths(&body);
    // Every path of a resource, as in docs/protocol.md, "Paths", for each version.
    assert_eq!(body["paths"].as_object().unwrap().len(), 17);
    let tag = answer.header("etag").unwrap();
    for (given, wanted) in [(tag, 304), ("\"ABCD\"", 200)] {
        let answer = ask(&[("If-None-Match", given)]).await;
        assert_eq!(answer.status, wanted, "{given}");
        assert_eq!(answer.body.is_empty(), wanted == 304);
    }
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
    let listed: Vec<String> = paths.keys().map(|path| format!("/{path}")).collect();
    assert_eq!(listed, [V1, V2, EXT]);
    for (name, entry) in paths {
        let url = entry["serverRelativeURL"].as_str().unwrap();
        let (path, hash) = url.split_once("?hash=").unwrap();
        assert_eq!(path, format!("{V3}/{name}"));
        let answer = server.get(url).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("etag").unwrap(), format!("\"{hash}\""));
        assert_eq!(answer.header("cache-control"), Some("no-cache, private"));
        assert_eq!(answer.header("vary"), Some("Accept"));
        let body = answer.json();
        assert_eq!(body["openapi"], "3.0.0");
        check_paths(&body);
        // The list of paths and the items of the lists.
        check_references(&body, "/components/schemas");
    }
}

/// Discovery and the checked-in documents have the same versions and kinds.
#[tokio::test]
async fn the_documents_describe_what_discovery_lists() {
    let (server, _) = server().await;
    let document = server.get(&format!("{V3}{V2}")).await.json();
    let described: BTreeSet<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .values()
        .map(|item| {
            let kind = &item["get"]["x-kubernetes-group-version-kind"];
            let text = |field: &str| kind[field].as_str().unwrap().to_owned();
            (
                format!("/apis/{}/{}", text("group"), text("version")),
                text("kind"),
            )
        })
        .collect();
    for group_version in [V1, V2, EXT] {
        let list = server.get(group_version).await.json();
        for resource in list["resources"].as_array().unwrap() {
            let kind = resource["kind"].as_str().unwrap().to_owned();
            assert!(described.contains(&(group_version.to_owned(), kind)));
        }
    }
}

/// The schema of a list's items, in the v3 document.
async fn item_schema(server: &TestServer, gv: &str, kind: &str) -> Json {
    let document = server.get(&format!("{V3}{gv}")).await.json();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let (group, version) = gv.strip_prefix("/apis/").unwrap().split_once('/').unwrap();
    let wanted = serde_json::json!([{"group": group, "version": version, "kind": kind}]);
    let is_it = |schema: &&Json| schema["x-kubernetes-group-version-kind"] == wanted;
    let found = schemas.values().find(is_it);
    found.unwrap_or_else(|| panic!("{gv} {kind}")).clone()
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

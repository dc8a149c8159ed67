//! OpenAPI: the schemas of this server's paths and lists (docs/protocol.md, "OpenAPI").
//!
//! kube-apiserver merges the v2 document into its own and passes the v3 documents on;
//! `kubectl explain` reads them. `openapi/v2.json` describes all versions of lists of
//! values. `openapi/resource.json` describes one version of resource metrics; all versions
//! are equal. A document contains the entries of the served versions. Types of apimachinery
//! are written out where they are used, because definitions would conflict with those of
//! kube-apiserver under the same names.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use aggregated_apiserver::api::documents::Tagged;
use aggregated_apiserver::api::json;

use super::group::{GroupVersion, MetricsGroup};

/// The most external metrics that have their own path in the v3 document, by which `kubectl
/// explain` finds a resource. Further ones are covered by the path with `{metric}`.
const MAX_PATHS: usize = 1_000;

/// All versions of lists of values in Swagger 2.0.
const VALUES: &str = include_str!("openapi/v2.json");

/// Resource metrics in Swagger 2.0, with [`VERSION`] as a placeholder for the version.
const RESOURCE: &str = include_str!("openapi/resource.json");
const VERSION: &str = "VERSION";

/// The prefixes of references to schemas in Swagger 2.0 and in OpenAPI 3.0.
const DEFINITIONS: &str = "#/definitions/";
const SCHEMAS: &str = "#/components/schemas/";

/// `/openapi/v2`.
pub(crate) fn v2(versions: &[GroupVersion]) -> Vec<u8> {
    json::document(&only(versions, DEFINITIONS))
}

/// `/openapi/v3`: the URLs of the documents. They contain the documents' hashes, so a
/// client may cache the documents permanently.
pub(crate) fn v3_root(documents: &[(GroupVersion, Tagged)]) -> Vec<u8> {
    let paths: Map<String, Json> = documents
        .iter()
        .map(|(of, document)| {
            let at = format!("apis/{of}");
            let url = format!("/openapi/v3/{at}?hash={}", document.hash);
            (at, json!({"serverRelativeURL": url}))
        })
        .collect();
    json::document(&json!({"paths": paths}))
}

/// `/openapi/v3/apis/<group>/<version>`; `external` are the configured external
/// metrics.
pub(crate) fn v3(of: GroupVersion, external: &[Arc<str>]) -> Vec<u8> {
    let mut swagger = only(&[of], SCHEMAS);
    let mut schemas = take(&mut swagger, "definitions");
    wrap_references(&mut schemas);
    let mut paths = take(&mut swagger, "paths");
    if let Some(paths) = paths.as_object_mut() {
        paths.values_mut().for_each(convert_path);
        if of.group == MetricsGroup::External {
            add_metrics(paths, external);
        }
    }
    json::document(&json!({
        "openapi": "3.0.0",
        "info": swagger["info"],
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

/// The paths and definitions of these versions; `schemas` is the prefix of references.
fn only(versions: &[GroupVersion], schemas: &str) -> Json {
    let (mut paths, mut definitions) = (Map::new(), Map::new());
    for of in versions {
        let text = match of.group {
            MetricsGroup::Resource => RESOURCE.replace(VERSION, of.version.name()),
            MetricsGroup::Custom | MetricsGroup::External => VALUES.to_owned(),
        };
        let text = text.replace(DEFINITIONS, schemas);
        // The text is a part of the program, and tests parse it.
        let mut described: Json = serde_json::from_str(&text).unwrap_or_default();
        for (part, prefix, entries) in [
            ("paths", path_prefix(of), &mut paths),
            ("definitions", schema_prefix(of), &mut definitions),
        ] {
            if let Json::Object(all) = take(&mut described, part) {
                let own = all
                    .into_iter()
                    .filter(|(name, _)| name.starts_with(&prefix));
                entries.extend(own);
            }
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "definitions": definitions,
    })
}

fn path_prefix(of: &GroupVersion) -> String {
    format!("/apis/{of}/")
}

/// The names of schemas contain the names of upstream's Go packages.
fn schema_prefix(of: &GroupVersion) -> String {
    let package = of.group.name().trim_end_matches(".k8s.io");
    let package = package.replace('.', "_");
    format!("io.k8s.metrics.pkg.apis.{package}.{}.", of.version.name())
}

/// Converts a path of Swagger 2.0 to OpenAPI 3.0.
fn convert_path(path: &mut Json) {
    let operation = &mut path["get"];
    take(operation, "schemes");
    let media_types = take(operation, "produces");
    let response = &mut operation["responses"]["200"];
    let schema = take(response, "schema");
    let media_types = media_types.as_array().into_iter().flatten();
    for media_type in media_types.filter_map(Json::as_str) {
        response["content"][media_type] = json!({"schema": schema});
    }
    for parameter in path["parameters"].as_array_mut().into_iter().flatten() {
        let (kind, unique) = (take(parameter, "type"), take(parameter, "uniqueItems"));
        parameter["schema"] = json!({"type": kind, "uniqueItems": unique});
    }
}

/// Wraps references in objects. OpenAPI 3.0 ignores all fields beside a reference, so a
/// default needs an object around it.
fn wrap_references(schema: &mut Json) {
    if schema.get("$ref").is_some() {
        *schema = json!({"allOf": [schema.take()], "default": {}});
        return;
    }
    match schema {
        Json::Object(fields) => fields.values_mut().for_each(wrap_references),
        Json::Array(items) => items.iter_mut().for_each(wrap_references),
        _ => {}
    }
}

/// Adds a path for each external metric, as a copy of the path with `{metric}`.
fn add_metrics(paths: &mut Map<String, Json>, external: &[Arc<str>]) {
    for (path, any) in paths.clone() {
        let named = external.iter().filter(|name| is_plain(name));
        for metric in named.take(MAX_PATHS) {
            let mut item = any.clone();
            let operation = &mut item["get"];
            let id = operation["operationId"].as_str().unwrap_or_default();
            operation["operationId"] = json!(format!("{id}_{metric}"));
            operation["description"] = json!("the values of this external metric");
            if let Some(parameters) = item["parameters"].as_array_mut() {
                parameters.retain(|parameter| parameter["name"] != "metric");
            }
            paths.insert(path.replace("{metric}", metric), item);
        }
    }
}

/// Whether a name needs no escaping in a path template.
fn is_plain(name: &str) -> bool {
    name.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte))
}

/// Removes a field of an object and returns it.
fn take(object: &mut Json, field: &str) -> Json {
    let fields = object.as_object_mut();
    fields
        .and_then(|fields| fields.remove(field))
        .unwrap_or_default()
}

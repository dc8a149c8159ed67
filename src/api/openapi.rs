//! OpenAPI: the schemas of this server's paths and lists (docs/protocol.md, "OpenAPI").
//!
//! kube-apiserver merges the v2 document into its own and forwards the v3 documents;
//! `kubectl explain` reads them. Types of apimachinery in the lists are inlined: as
//! definitions they would conflict with those of kube-apiserver of the same names.

use std::sync::Arc;

use serde_json::{Map, Value as Json, json};

use super::forms::Tagged;
use super::group::{Group, GroupVersion, Version};
use super::json;

mod schemas;
mod usage;

/// The most external metrics with a path of their own in the v3 document, by which
/// `kubectl explain` finds a resource; the path with `{metric}` covers the others.
const MAX_PATHS: usize = 1_000;

/// The two versions of the description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    /// Swagger 2.0.
    V2,
    /// OpenAPI 3.0.
    V3,
}

impl Dialect {
    const fn definitions(self) -> &'static str {
        match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        }
    }
}

/// `/openapi/v2`.
pub(crate) fn v2(versions: &[GroupVersion]) -> Vec<u8> {
    let (mut all_paths, mut definitions) = (Map::new(), Map::new());
    for of in versions {
        all_paths.append(&mut paths(Dialect::V2, *of));
        definitions.append(&mut schemas::all(Dialect::V2, *of));
    }
    json::document(&json!({
        "swagger": "2.0",
        "info": info(),
        "paths": all_paths,
        "definitions": definitions,
    }))
}

/// `/openapi/v3`: the addresses of the documents. They contain the documents' hashes, so
/// a client may cache them for good.
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
    let mut paths = paths(Dialect::V3, of);
    if of.group == Group::External {
        let named = external.iter().filter(|name| is_plain(name));
        for metric in named.take(MAX_PATHS) {
            let path = Path {
                below: format!("/namespaces/{{namespace}}/{metric}"),
                id: format!("{}NamespacedMetric_{metric}", id(of)),
                parameters: &["namespace"],
                action: "list",
                kind: of.group.list_kind(),
                description: "the values of this external metric",
            };
            paths.extend([path.document(Dialect::V3, of)]);
        }
    }
    json::document(&json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths,
        "components": {"schemas": schemas::all(Dialect::V3, of)},
    }))
}

/// Whether a name is valid in a path template.
fn is_plain(name: &str) -> bool {
    name.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte))
}

fn info() -> Json {
    json!({"title": "gpu-metrics-apiserver", "version": env!("CARGO_PKG_VERSION")})
}

/// The prefix of operation names, which are unique in the whole cluster.
const fn id(of: GroupVersion) -> &'static str {
    match (of.group, of.version) {
        (Group::Custom, Version::V1Beta1) => "getCustomMetricsV1beta1",
        (Group::Custom, Version::V1Beta2) => "getCustomMetricsV1beta2",
        (Group::External, _) => "getExternalMetricsV1beta1",
        (Group::Resource, _) => "getResourceMetricsV1beta1",
    }
}

fn paths(dialect: Dialect, of: GroupVersion) -> Map<String, Json> {
    let path = |below: &str, id_end, parameters, action, description| Path {
        below: below.to_owned(),
        id: format!("{}{id_end}", id(of)),
        parameters,
        action,
        kind: of.group.list_kind(),
        description,
    };
    let paths = match of.group {
        Group::Custom => vec![
            path(
                "/namespaces/{namespace}/metrics/{metric}",
                "NamespaceMetric",
                &["namespace", "metric"],
                "get",
                "a metric that describes the namespace itself",
            ),
            path(
                "/namespaces/{namespace}/{resource}/{name}/{metric}",
                "NamespacedMetric",
                &["namespace", "resource", "name", "metric"],
                "get",
                "a metric of an object in a namespace, or of all that labelSelector selects when the name is *",
            ),
            path(
                "/{resource}/{name}/{metric}",
                "ClusterMetric",
                &["resource", "name", "metric"],
                "get",
                "a metric of an object without a namespace, or of all that labelSelector selects when the name is *",
            ),
        ],
        Group::External => vec![path(
            "/namespaces/{namespace}/{metric}",
            "NamespacedMetric",
            &["namespace", "metric"],
            "list",
            "the values of an external metric",
        )],
        Group::Resource => usage::paths(id(of)),
    };
    paths
        .into_iter()
        .map(|path| path.document(dialect, of))
        .collect()
}

/// A path with its single operation.
struct Path {
    /// The part below the group's version.
    below: String,
    id: String,
    parameters: &'static [&'static str],
    action: &'static str,
    /// The kind it returns.
    kind: &'static str,
    description: &'static str,
}

impl Path {
    fn document(&self, dialect: Dialect, of: GroupVersion) -> (String, Json) {
        let at = format!("/apis/{of}{}", self.below);
        let given = schemas::name(of, self.kind);
        let schema = json!({"$ref": format!("{}{given}", dialect.definitions())});
        let mut operation = json!({
            "description": self.description,
            "operationId": self.id,
            "tags": [schemas::tag(of)],
            "x-kubernetes-action": self.action,
            "x-kubernetes-group-version-kind": schemas::kind(of, self.kind),
        });
        let response = match dialect {
            Dialect::V2 => {
                operation["produces"] =
                    json!(["application/json", "application/vnd.kubernetes.protobuf"]);
                operation["schemes"] = json!(["https"]);
                json!({"description": "OK", "schema": schema})
            }
            Dialect::V3 => json!({"description": "OK", "content": {
                "application/json": {"schema": schema},
                "application/vnd.kubernetes.protobuf": {"schema": schema},
            }}),
        };
        operation["responses"] = json!({"200": response});
        let in_path = self.parameters.iter().map(|name| {
            let meaning = match *name {
                "namespace" => "the objects' namespace",
                "resource" => "the objects' resource, plural or plural.group",
                "name" if of.group == Group::Resource => "the object's name",
                "name" => "the object's name, or *",
                _ => "the metric's name",
            };
            parameter(dialect, "path", name, meaning)
        });
        let in_query = query_parameters(of.group, self.action)
            .iter()
            .map(|(name, meaning)| parameter(dialect, "query", name, meaning));
        let parameters: Vec<Json> = in_path.chain(in_query).collect();
        (at, json!({"get": operation, "parameters": parameters}))
    }
}

fn query_parameters(group: Group, action: &str) -> &'static [(&'static str, &'static str)] {
    match group {
        Group::Custom => &[
            ("labelSelector", "selects objects by their labels"),
            ("metricLabelSelector", "selects series by their labels"),
        ],
        Group::External => &[("labelSelector", "selects series by their labels")],
        Group::Resource if action == "get" => &[],
        Group::Resource => &[
            ("fieldSelector", "selects objects by name and namespace"),
            ("labelSelector", "selects objects by their labels"),
        ],
    }
}

fn parameter(dialect: Dialect, place: &str, name: &str, meaning: &str) -> Json {
    let mut parameter = json!({"name": name, "in": place, "description": meaning});
    if place == "path" {
        parameter["required"] = json!(true);
    }
    parameter["uniqueItems"] = json!(true);
    match dialect {
        Dialect::V2 => parameter["type"] = json!("string"),
        Dialect::V3 => {
            if let Some(fields) = parameter.as_object_mut() {
                fields.remove("uniqueItems");
            }
            parameter["schema"] = json!({"type": "string", "uniqueItems": true});
        }
    }
    parameter
}

//! The schemas of resource metrics, as metrics `pkg/apis/metrics` defines them.

use serde_json::{Map, Value as Json, json};

use super::super::group::GroupVersion;
use super::schemas::{kind, name, quantity, refer, text, timestamp};
use super::{Dialect, Path};

/// Every path; `id` is the prefix of the operations' names.
pub(super) fn paths(id: &str) -> Vec<Path> {
    let path = |below: &str, id_end, parameters, action, kind, description| Path {
        below: below.to_owned(),
        id: format!("{id}{id_end}"),
        parameters,
        action,
        kind,
        description,
    };
    vec![
        path(
            "/nodes",
            "Nodes",
            &[],
            "list",
            "NodeMetricsList",
            "what nodes use",
        ),
        path(
            "/nodes/{name}",
            "Node",
            &["name"],
            "get",
            "NodeMetrics",
            "what a node uses",
        ),
        path(
            "/pods",
            "Pods",
            &[],
            "list",
            "PodMetricsList",
            "what pods use",
        ),
        path(
            "/namespaces/{namespace}/pods",
            "NamespacedPods",
            &["namespace"],
            "list",
            "PodMetricsList",
            "what the pods of a namespace use",
        ),
        path(
            "/namespaces/{namespace}/pods/{name}",
            "NamespacedPod",
            &["namespace", "name"],
            "get",
            "PodMetrics",
            "what a pod uses",
        ),
    ]
}

/// Every schema.
pub(super) fn schemas(dialect: Dialect, of: GroupVersion) -> Map<String, Json> {
    let usage = json!({
        "description": "CPU and memory as Kubernetes quantities.",
        "type": "object",
        "additionalProperties": quantity(),
    });
    let container = json!({
        "description": "What a container uses.",
        "type": "object",
        "required": ["name", "usage"],
        "properties": {"name": text("The container's name."), "usage": usage},
    });
    let containers = json!({
        "description": "The pod's containers.",
        "type": "array",
        "items": refer(dialect, of, "ContainerMetrics"),
        "x-kubernetes-list-type": "atomic",
    });
    let mut schemas = Map::from_iter([(name(of, "ContainerMetrics"), container)]);
    for (item, list, field, content) in [
        ("PodMetrics", "PodMetricsList", "containers", containers),
        ("NodeMetrics", "NodeMetricsList", "usage", usage),
    ] {
        let mut object = object(of, item);
        object["required"] = json!(["timestamp", "window", field]);
        object["properties"]["timestamp"] = timestamp();
        object["properties"]["window"] = text("The time that the samples look back: 5m0s.");
        object["properties"][field] = content;
        schemas.insert(name(of, item), object);
        let mut items = self::object(of, list);
        items["required"] = json!(["items"]);
        items["properties"]["items"] = json!({
            "description": "The objects.",
            "type": "array",
            "items": refer(dialect, of, item),
        });
        schemas.insert(name(of, list), items);
    }
    schemas
}

/// An object of a kind, without its own fields.
fn object(of: GroupVersion, of_kind: &str) -> Json {
    json!({
        "description": format!("{of_kind}: what is used of processors and memory."),
        "type": "object",
        "properties": {
            "apiVersion": text("The version of this representation."),
            "kind": text("The kind of this representation."),
            "metadata": {"description": "Standard metadata.", "type": "object"},
        },
        "x-kubernetes-group-version-kind": [kind(of, of_kind)],
    })
}

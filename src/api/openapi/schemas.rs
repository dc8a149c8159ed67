//! The schemas of the lists, as metrics `pkg/apis/{custom,external}_metrics` define the
//! types (docs/protocol.md, "Value lists").

use serde_json::{Map, Value as Json, json};

use super::super::group::{Group, GroupVersion, Version};
use super::{Dialect, usage};

const fn item_kind(group: Group) -> &'static str {
    match group {
        Group::Custom => "MetricValue",
        Group::External => "ExternalMetricValue",
        Group::Resource => "PodMetrics",
    }
}

/// The tag by which documentation tools group operations.
pub(super) const fn tag(of: GroupVersion) -> &'static str {
    match (of.group, of.version) {
        (Group::Custom, Version::V1Beta1) => "customMetrics_v1beta1",
        (Group::Custom, Version::V1Beta2) => "customMetrics_v1beta2",
        (Group::External, _) => "externalMetrics_v1beta1",
        (Group::Resource, _) => "metrics_v1beta1",
    }
}

/// The value of `x-kubernetes-group-version-kind` of an operation.
pub(super) fn kind(of: GroupVersion, kind: &str) -> Json {
    json!({"group": of.group.name(), "version": of.version.name(), "kind": kind})
}

/// A schema's name, as in upstream's Go packages.
pub(super) fn name(of: GroupVersion, kind: &str) -> String {
    let package = match of.group {
        Group::Custom => "custom_metrics",
        Group::External => "external_metrics",
        Group::Resource => "metrics",
    };
    let version = of.version.name();
    format!("io.k8s.metrics.pkg.apis.{package}.{version}.{kind}")
}

/// A reference to another schema of a version.
pub(super) fn refer(dialect: Dialect, of: GroupVersion, kind: &str) -> Json {
    let target = format!("{}{}", dialect.definitions(), name(of, kind));
    match dialect {
        Dialect::V2 => json!({"$ref": target}),
        // OpenAPI 3.0 ignores the siblings of a reference.
        Dialect::V3 => json!({"allOf": [{"$ref": target}], "default": {}}),
    }
}

/// Every schema of a version.
pub(super) fn all(dialect: Dialect, of: GroupVersion) -> Map<String, Json> {
    if of.group == Group::Resource {
        return usage::schemas(dialect, of);
    }
    let refer = |kind: &str| refer(dialect, of, kind);
    let mut schemas = Map::new();
    let mut add = |kind: &str, schema: Json| schemas.insert(name(of, kind), schema);
    let mut list = json!({
        "description": "Values of a metric at some point in time, one for each object or series.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": text("The version of this representation."),
            "kind": text("The kind of this representation."),
            "metadata": {
                "description": "Standard list metadata; none of it is set.",
                "type": "object",
            },
            "items": {
                "description": "The values.",
                "type": "array",
                "items": refer(item_kind(of.group)),
            },
        },
    });
    list["x-kubernetes-group-version-kind"] = json!([kind(of, of.group.list_kind())]);
    add(of.group.list_kind(), list);
    let mut item = match of.group {
        Group::Custom => custom_item(of.version, &refer),
        Group::External | Group::Resource => external_item(),
    };
    item["x-kubernetes-group-version-kind"] = json!([kind(of, item_kind(of.group))]);
    add(item_kind(of.group), item);
    if (of.group, of.version) == (Group::Custom, Version::V1Beta2) {
        add(
            "MetricIdentifier",
            json!({
                "description": "Identifies a metric by its name and, optionally, a selector.",
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": text("The metric's name."),
                    "selector": selector(),
                },
            }),
        );
    }
    schemas
}

fn custom_item(version: Version, refer: &dyn Fn(&str) -> Json) -> Json {
    let (required, own) = match version {
        Version::V1Beta1 => (
            json!(["describedObject", "metricName", "timestamp", "value"]),
            json!({
                "metricName": text("The metric's name."),
                "selector": selector(),
                "window": window(),
            }),
        ),
        Version::V1Beta2 => (
            json!(["describedObject", "metric", "timestamp", "value"]),
            json!({
                "metric": refer("MetricIdentifier"),
                "windowSeconds": window(),
            }),
        ),
    };
    let shared = json!({
        "describedObject": described_object(),
        "timestamp": timestamp(),
        "value": quantity(),
    });
    object(
        "A metric's value for some object.",
        &required,
        [shared, own],
    )
}

fn external_item() -> Json {
    let required = json!(["metricName", "metricLabels", "timestamp", "value"]);
    let properties = json!({
        "metricName": text("The metric's name."),
        "metricLabels": {
            "description": "The labels of this value within the metric.",
            "type": "object",
            "additionalProperties": {"type": "string", "default": ""},
        },
        "timestamp": timestamp(),
        "window": window(),
        "value": quantity(),
    });
    object(
        "A metric's value that belongs to no object of the cluster.",
        &required,
        [properties, json!({})],
    )
}

fn object(description: &str, required: &Json, properties: [Json; 2]) -> Json {
    let mut all = json!({
        "apiVersion": text("The version of this representation; set on the list only."),
        "kind": text("The kind of this representation; set on the list only."),
    });
    if let Some(all) = all.as_object_mut() {
        for part in properties {
            all.extend(part.as_object().cloned().unwrap_or_default());
        }
    }
    json!({
        "description": description,
        "type": "object",
        "required": required,
        "properties": all,
    })
}

pub(super) fn text(description: &str) -> Json {
    json!({"description": description, "type": "string"})
}

pub(super) fn timestamp() -> Json {
    let description = "When the newest sample behind the value was taken.";
    json!({"description": description, "type": "string", "format": "date-time"})
}

fn window() -> Json {
    let description = "The time over which the value was computed, in seconds.";
    json!({"description": description, "type": "integer", "format": "int64"})
}

pub(super) fn quantity() -> Json {
    text("The value as a Kubernetes quantity: 37500m is 37.5.")
}

fn described_object() -> Json {
    json!({
        "description": "The object that the value describes.",
        "type": "object",
        "properties": {
            "apiVersion": text("The API version of the object."),
            "fieldPath": text("Not set."),
            "kind": text("The kind of the object."),
            "name": text("The name of the object."),
            "namespace": text("The namespace of the object, if it lives in one."),
            "resourceVersion": text("Not set."),
            "uid": text("Not set."),
        },
    })
}

fn selector() -> Json {
    let strings = |description: &str| {
        json!({
            "description": description,
            "type": "array",
            "items": {"type": "string", "default": ""},
        })
    };
    let requirement = json!({
        "type": "object",
        "required": ["key", "operator"],
        "properties": {
            "key": text("The label."),
            "operator": text("In, NotIn, Exists or DoesNotExist."),
            "values": strings("The values."),
        },
    });
    json!({
        "description": "The selector by which series were chosen, if the request had one.",
        "type": "object",
        "properties": {
            "matchExpressions": {
                "description": "Requirements that must all be met.",
                "type": "array",
                "items": requirement,
            },
            "matchLabels": {
                "description": "Labels and their values.",
                "type": "object",
                "additionalProperties": {"type": "string", "default": ""},
            },
        },
    })
}

//! Conflicts between HPAs and VPAs.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Finding;
use super::codes::{GM507, GM510};
use super::names::listed;
use ::hpa::Hpa;
use ::hpa::hpa::MetricSource;

/// A VerticalPodAutoscaler's JSON (kubernetes/autoscaler
/// `vertical-pod-autoscaler/pkg/apis/autoscaling.k8s.io/v1/types.go`).
pub type Vpa = Value;

fn text<'v>(vpa: &'v Vpa, pointer: &str) -> &'v str {
    vpa.pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Whether a VPA sets a resource of at least one container.
fn controls(vpa: &Vpa, resource: &str) -> bool {
    let policies = vpa.pointer("/spec/resourcePolicy/containerPolicies");
    let controls = |policy: &Value| {
        let named = policy["controlledResources"].as_array();
        policy["mode"] != "Off" && named.is_none_or(|named| named.iter().any(|it| it == resource))
    };
    text(vpa, "/spec/updatePolicy/updateMode") != "Off"
        && policies
            .and_then(Value::as_array)
            .is_none_or(|all| all.iter().any(controls))
}

/// Namespace, kind and name of an HPA's target.
fn scaled(hpa: &Hpa) -> [&str; 3] {
    [&hpa.namespace, &hpa.scaled.kind, &hpa.scaled.name]
}

/// HPAs that the controller does not scale because of each other, and those with the same
/// target.
#[must_use]
pub fn ambiguous(hpas: &[Hpa]) -> Vec<Finding> {
    let mut by_target: BTreeMap<_, Vec<&Hpa>> = BTreeMap::new();
    for hpa in hpas {
        by_target.entry(scaled(hpa)).or_default().push(hpa);
    }
    let found = hpas.iter().filter_map(|hpa| {
        let told = hpa.status.message("AmbiguousSelector");
        let others = by_target.get(&scaled(hpa)).into_iter().flatten();
        let others = others.filter(|other| other.name != hpa.name);
        let others = listed(others.map(|other| format!("{}/{}", other.namespace, other.name)));
        let same = (!others.is_empty()).then(|| format!("{others} scales the same"));
        let message = format!("{}: none of them scales", told.map(str::to_owned).or(same)?);
        let remedy =
            "delete one, or give the pods of each target labels that no other selector matches";
        Some(Finding::new(&GM507, hpa.to_string(), message, remedy))
    });
    found.collect()
}

/// HPAs on a resource that a VPA sets for the same target.
#[must_use]
pub fn vertical(hpas: &[Hpa], vpas: &[Vpa]) -> Vec<Finding> {
    fn target(vpa: &Vpa) -> [&str; 3] {
        let parts = [
            "/metadata/namespace",
            "/spec/targetRef/kind",
            "/spec/targetRef/name",
        ];
        parts.map(|pointer| text(vpa, pointer))
    }
    let by_target: BTreeMap<[&str; 3], &Vpa> = vpas.iter().map(|vpa| (target(vpa), vpa)).collect();
    let found = hpas.iter().filter_map(|hpa| {
        let vpa = by_target.get(&scaled(hpa))?;
        let resource = hpa.metrics.iter().find_map(|metric| match &metric.source {
            MetricSource::Resource { resource, .. } if controls(vpa, resource) => Some(resource),
            _ => None,
        })?;
        let namespace = &hpa.namespace;
        let message = format!(
            "scales on {resource}, which VerticalPodAutoscaler {namespace}/{} changes: they work against each other",
            text(vpa, "/metadata/name")
        );
        let remedy = "set the VPA's updatePolicy.updateMode to Off, or scale on GPU metrics only, which a VPA does not affect";
        Some(Finding::new(&GM510, hpa.to_string(), message, remedy))
    });
    found.collect()
}

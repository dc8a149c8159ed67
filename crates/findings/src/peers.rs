//! Conflicts between HPAs and ScaledObjects.

use std::collections::BTreeMap;

use serde_json::Value;

use super::codes::GM507;
use super::names::listed;
use super::{Finding, text};
use ::hpa::Hpa;

/// A ScaledObject's JSON (kedacore/keda `apis/keda/v1alpha1/scaledobject_types.go`).
pub type ScaledObject = Value;

/// Namespace, kind and name of a ScaledObject's target. KEDA's default kind is Deployment.
fn scaled_by(scaled_object: &ScaledObject) -> [&str; 3] {
    let kind = text(scaled_object, "/spec/scaleTargetRef/kind");
    let name = text(scaled_object, "/spec/scaleTargetRef/name");
    let kind = if kind.is_empty() { "Deployment" } else { kind };
    [text(scaled_object, "/metadata/namespace"), kind, name]
}

/// The name of the HPA that KEDA creates for a ScaledObject, or takes over.
fn own_hpa(scaled_object: &ScaledObject) -> String {
    const NAME: &str = "/spec/advanced/horizontalPodAutoscalerConfig/name";
    match text(scaled_object, NAME) {
        "" => format!("keda-hpa-{}", text(scaled_object, "/metadata/name")),
        named => named.to_owned(),
    }
}

/// The annotation that pauses a ScaledObject, and the prefix of a longer one with a number
/// of replicas.
pub const PAUSED: &str = "autoscaling.keda.sh/paused";

/// Values that Go's `strconv.ParseBool` parses as false; KEDA reads the annotation with it.
const FALSE: [&str; 6] = ["0", "f", "F", "false", "False", "FALSE"];

/// Whether annotations pause a ScaledObject: KEDA then deletes its HPA.
fn is_paused(scaled_object: &ScaledObject) -> bool {
    let annotations = &scaled_object["metadata"]["annotations"];
    let paused = annotations[PAUSED].as_str();
    paused.is_some_and(|it| !FALSE.contains(&it))
        || annotations[format!("{PAUSED}-replicas")].is_string()
}

/// Namespace, kind and name of an HPA's target.
fn scaled(hpa: &Hpa) -> [&str; 3] {
    [&hpa.namespace, &hpa.scaled.kind, &hpa.scaled.name]
}

/// For each HPA the finding that its selector overlaps with that of another, or that another
/// HPA or a ScaledObject has the same target. The controller scales none of them.
#[must_use]
pub fn ambiguous(hpas: &[Hpa], scaled_objects: &[ScaledObject]) -> Vec<Option<Finding>> {
    let mut by_target: BTreeMap<_, Vec<&Hpa>> = BTreeMap::new();
    for hpa in hpas {
        by_target.entry(scaled(hpa)).or_default().push(hpa);
    }
    let active = scaled_objects.iter().filter(|it| !is_paused(it));
    let of_keda: BTreeMap<_, _> = active.map(|it| (scaled_by(it), it)).collect();
    let found = hpas.iter().map(|hpa| {
        let scaled_object = of_keda.get(&scaled(hpa));
        if let Some(it) = scaled_object.filter(|it| own_hpa(it) != hpa.name) {
            return Some(beside_keda(hpa, it));
        }
        let told = hpa.status.message("AmbiguousSelector");
        let others = by_target.get(&scaled(hpa)).into_iter().flatten();
        let others = others.filter(|other| other.name != hpa.name);
        let others = listed(others.map(|other| format!("{}/{}", other.namespace, other.name)));
        let same = (!others.is_empty()).then(|| format!("{others} scales the same"));
        let message = format!("{}: none of them scales", told.map(str::to_owned).or(same)?);
        Some(Finding::new(&GM507, hpa.to_string(), message))
    });
    found.collect()
}

fn beside_keda(hpa: &Hpa, scaled_object: &ScaledObject) -> Finding {
    let message = format!(
        "ScaledObject {}/{} scales the same through HorizontalPodAutoscaler {}: neither of the two autoscalers scales",
        hpa.namespace,
        text(scaled_object, "/metadata/name"),
        own_hpa(scaled_object),
    );
    let remedy = "delete one of the two; a ScaledObject can read this server's metrics through a trigger of type metrics-api: docs/migrate/keda.md";
    Finding::new(&GM507, hpa.to_string(), message).with_remedy(remedy)
}

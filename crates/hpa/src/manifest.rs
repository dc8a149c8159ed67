//! Reads manifests of autoscalers as strictly as kubectl and kube-apiserver do
//! (`k8s.io/kubernetes` `pkg/apis/autoscaling/validation`): a field that the controller
//! would ignore is an error.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::Value;

use super::Hpa;

/// Parses a document of `autoscaling/v2`. Returns the object and the controller's view of it.
///
/// # Errors
/// When kube-apiserver rejects the document; the error names the field.
pub fn read(document: &Value) -> Result<(HorizontalPodAutoscaler, Hpa), String> {
    let read = serde_path_to_error::deserialize(document);
    let object: HorizontalPodAutoscaler = read.map_err(|error| error.to_string())?;
    let known = serde_json::to_value(&object).map_err(|error| error.to_string())?;
    if let Some(place) = unknown(document, &known, "") {
        return Err(format!("{place}: there is no such field"));
    }
    let hpa = Hpa::try_from(&object)?;
    for (field, text) in [("kind", &hpa.scaled.kind), ("name", &hpa.scaled.name)] {
        if text.is_empty() {
            return Err(format!("spec.scaleTargetRef.{field} is missing"));
        }
    }
    let Hpa { min, max, .. } = hpa;
    if max < 1 {
        return Err("spec.maxReplicas is missing or below 1".to_owned());
    }
    if min > max {
        return Err(format!(
            "spec.minReplicas, {min}, is above spec.maxReplicas, {max}"
        ));
    }
    Ok((object, hpa))
}

/// The place of the first unknown field.
fn unknown(written: &Value, known: &Value, place: &str) -> Option<String> {
    match (written, known) {
        (Value::Object(written), Value::Object(known)) => {
            let given = written.iter().filter(|(_, value)| !value.is_null());
            let mut within = given.filter_map(|(key, value)| {
                let dot = if place.is_empty() { "" } else { "." };
                let place = format!("{place}{dot}{key}");
                match known.get(key) {
                    Some(known) => unknown(value, known, &place),
                    None => Some(place),
                }
            });
            within.next()
        }
        (Value::Array(written), Value::Array(known)) => {
            let pairs = written.iter().zip(known).enumerate();
            let mut within = pairs.filter_map(|(index, (one, other))| {
                unknown(one, other, &format!("{place}[{index}]"))
            });
            within.next()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn manifest() -> Value {
        json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "a", "labels": {"any": "thing"}, "creationTimestamp": null},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"},
                "minReplicas": 1, "maxReplicas": 4,
                "metrics": [{"type": "Pods", "pods": {
                    "metric": {"name": "gpu_memory_utilization", "selector": {"matchLabels": {"window": "2m"}}},
                    "target": {"type": "AverageValue", "averageValue": "50"},
                }}],
                "behavior": {"scaleDown": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}},
            },
        })
    }

    #[test]
    fn a_manifest_that_kube_apiserver_accepts_is_read() {
        read(&manifest()).unwrap();
    }

    /// Where, the JSON there | the error. `TARGET` is the target of the metric.
    const REFUSED: &str = r#"
/spec/maxReplica 9 | spec.maxReplica: there is no such field
/spec/metric [] | spec.metric: there is no such field
TARGET/averageValu "50" | spec.metrics[0].pods.target.averageValu: there is no such field
/spec/minReplicas 20 | spec.minReplicas, 20, is above spec.maxReplicas, 4
/spec/maxReplicas 0 | spec.maxReplicas is missing or below 1
/spec/scaleTargetRef {"kind":"Deployment"} | spec.scaleTargetRef.name is missing
/spec/scaleTargetRef null | spec.scaleTargetRef.kind is missing
TARGET/type "Averagevalue" | spec.metrics[0].pods.target.type: "Averagevalue" is not known; Utilization, Value or AverageValue
TARGET/averageValue "-5" | spec.metrics[0].pods.target.averageValue: "-5" is no quantity above zero
"#;

    #[test]
    fn an_error_names_the_field_that_kube_apiserver_rejects() {
        for row in REFUSED.trim().lines() {
            let (change, said) = row.split_once(" | ").unwrap();
            let (at, value) = change.split_once(' ').unwrap();
            let at = at.replace("TARGET", "/spec/metrics/0/pods/target");
            let mut document = manifest();
            let (parent, key) = at.rsplit_once('/').unwrap();
            document.pointer_mut(parent).unwrap()[key] = serde_json::from_str(value).unwrap();
            assert_eq!(read(&document).unwrap_err(), said, "{row}");
        }
    }
}

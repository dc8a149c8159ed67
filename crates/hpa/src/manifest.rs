//! Reads manifests of autoscalers, and refuses those whose values kube-apiserver refuses
//! (`k8s.io/kubernetes` `pkg/apis/autoscaling/validation`). kubectl names unknown fields.

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
    let hpa = Hpa::try_from(&object)?;
    let least = hpa.min.max(1);
    if hpa.max < least {
        return Err(format!("spec.maxReplicas must be at least {least}"));
    }
    if hpa.min == 0 && !hpa.has_metric_without_pods() {
        return Err("spec.minReplicas is 0, which needs an Object or External metric".to_owned());
    }
    Ok((object, hpa))
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
                "minReplicas": 4, "maxReplicas": 4,
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
TARGET/averageValue null | spec.metrics[0].pods.target.averageValue is missing
/spec/minReplicas 20 | spec.maxReplicas must be at least 20
/spec/minReplicas 0 | spec.minReplicas is 0, which needs an Object or External metric
/spec/maxReplicas 0 | spec.maxReplicas must be at least 4
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

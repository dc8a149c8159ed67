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

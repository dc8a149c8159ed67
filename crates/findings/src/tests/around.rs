//! Other HPAs and ScaledObjects beside an HPA.

use serde_json::{Value, json};

use super::{autoscaler, codes_of, failing, pods};
use crate::Finding;
use crate::peers::{self, ScaledObject};
use hpa::Hpa;

fn ambiguous(hpas: &[Hpa], scaled_objects: &[ScaledObject]) -> Vec<Finding> {
    let found = peers::ambiguous(hpas, scaled_objects);
    assert_eq!(found.len(), hpas.len());
    found.into_iter().flatten().collect()
}

#[test]
fn gm507_is_about_hpas_with_one_target_and_about_ambiguous_selectors() {
    let one = autoscaler(&json!([pods("50")]), &json!({}));
    let mut other = one.clone();
    other.name = "again".to_owned();
    let found = ambiguous(&[one.clone(), other.clone()], &[]);
    assert_eq!(codes_of(found), ["GM507", "GM507"]);
    other.namespace = "elsewhere".to_owned();
    assert_eq!(ambiguous(&[one, other], &[]), []);
    let condition = json!({"type": "ScalingActive", "status": "False", "reason": "AmbiguousSelector",
        "message": "pods by selector app=x are controlled by multiple HPAs"});
    let given_up = failing(&json!([pods("50")]), &json!({}), &condition);
    let found = ambiguous(&[given_up], &[]);
    assert!(found[0].message.contains("multiple HPAs"), "{found:?}");
}

#[test]
fn gm507_names_the_scaled_object_with_the_same_target() {
    let mine = autoscaler(&json!([pods("50")]), &json!({}));
    let mut of_keda = mine.clone();
    of_keda.name = "keda-hpa-llm".to_owned();
    let hpas = [mine, of_keda];
    let scaled_object = |spec: Value, annotations: Value| -> ScaledObject {
        let mut spec = spec;
        spec["triggers"] = json!([{"type": "cpu"}]);
        json!({"metadata": {"name": "llm", "namespace": "team", "annotations": annotations}, "spec": spec})
    };
    let target = json!({"scaleTargetRef": {"name": "infer"}});
    let found = ambiguous(&hpas, &[scaled_object(target.clone(), json!({}))]);
    assert_eq!(found.len(), 2, "{found:?}");
    let said =
        "ScaledObject team/llm scales the same through HorizontalPodAutoscaler keda-hpa-llm:";
    assert!(found[0].message.starts_with(said), "{found:?}");
    assert!(found[1].object.ends_with("keda-hpa-llm"), "{found:?}");

    // The ScaledObject's own HPA does not conflict with it.
    let taken = json!({"scaleTargetRef": {"kind": "Deployment", "name": "infer"},
        "advanced": {"horizontalPodAutoscalerConfig": {"name": hpas[0].name}}});
    let other = json!({"scaleTargetRef": {"kind": "StatefulSet", "name": "infer"}});
    let paused =
        |key: &str, value: &str| json!({format!("autoscaling.keda.sh/paused{key}"): value});
    for (spec, annotations) in [
        (taken, json!({})),
        (other, json!({})),
        (target.clone(), paused("", "true")),
        (target.clone(), paused("-replicas", "2")),
    ] {
        let found = ambiguous(&hpas[..1], &[scaled_object(spec.clone(), annotations)]);
        assert_eq!(found, [], "{spec}");
    }
    let resumed = scaled_object(target, paused("", "false"));
    let found = ambiguous(&hpas[..1], &[resumed]);
    assert_eq!(codes_of(found), ["GM507"]);
}

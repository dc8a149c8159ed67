//! Other HPAs beside an HPA.

use serde_json::json;

use super::{autoscaler, codes_of, failing, pods};
use crate::Finding;
use crate::peers;
use hpa::Hpa;

fn ambiguous(hpas: &[Hpa]) -> Vec<Finding> {
    let found = peers::ambiguous(hpas);
    assert_eq!(found.len(), hpas.len());
    found.into_iter().flatten().collect()
}

#[test]
fn gm507_is_about_hpas_with_one_target_and_about_ambiguous_selectors() {
    let one = autoscaler(&json!([pods("50")]), &json!({}));
    let mut other = one.clone();
    other.name = "again".to_owned();
    let found = ambiguous(&[one.clone(), other.clone()]);
    assert!(found[0].message.starts_with("team/again scales the same"));
    assert_eq!(codes_of(found), ["GM507", "GM507"]);
    other.namespace = "elsewhere".to_owned();
    assert_eq!(ambiguous(&[one, other]), []);
    let condition = json!({"type": "ScalingActive", "status": "False", "reason": "AmbiguousSelector",
        "message": "pods by selector app=x are controlled by multiple HPAs"});
    let given_up = failing(&json!([pods("50")]), &json!({}), &condition);
    let found = ambiguous(&[given_up]);
    assert!(found[0].message.contains("multiple HPAs"), "{found:?}");
}

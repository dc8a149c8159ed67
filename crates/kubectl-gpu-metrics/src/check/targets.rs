//! What HPAs scale, and which tools write it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use cluster_state::error::CallError;
use findings::Skipped;
use findings::codes::OF_TARGETS;
use findings::target::owned_replicas;
use hpa::Hpa;

use cluster_checks::Inspection;
use cluster_checks::paths::{encode, within};

/// The checked kinds. Their names in paths are regular plurals.
const KINDS: [&str; 3] = ["Deployment", "StatefulSet", "ReplicaSet"];

/// Any object.
#[derive(Debug, Deserialize)]
struct Target {
    metadata: ObjectMeta,
}

pub(super) async fn check(inspection: &mut Inspection<'_>, hpas: &[Hpa]) -> Result<(), CallError> {
    for hpa in hpas {
        let (kind, name) = (hpa.scaled.kind.as_str(), encode(&hpa.scaled.name));
        let what = format!("the scale target of {hpa}");
        if !KINDS.contains(&kind) {
            let reason = format!("{kind} is not a Deployment, StatefulSet or ReplicaSet");
            let remedy = "no action is needed: the owners of its replicas are not checked";
            let skipped = Skipped::new(what, reason, remedy);
            inspection.report.skipped.insert(skipped.of(OF_TARGETS));
            continue;
        }
        let place = within(Some(&hpa.namespace));
        let path = format!("/apis/apps/v1/{place}{}s/{name}", kind.to_lowercase());
        let target = inspection.read::<Target>(&path, &what, OF_TARGETS).await?;
        let target = target.found();
        let of_tool = target.and_then(|it| owned_replicas(hpa, &it.metadata));
        inspection.report.findings.extend(of_tool);
    }
    Ok(())
}

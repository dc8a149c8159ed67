//! What HPAs scale: workloads and their pods.

use k8s_openapi::api::core::v1::Pod;
use kube::core::Selector;

use cluster_state::error::CallError;
use findings::Skipped;
use findings::codes::{Code, GM508, OF_TARGETS};
use findings::target::{self, ScaledWorkload};
use hpa::Hpa;

use crate::values::List;
use cluster_checks::Inspection;
use cluster_checks::paths::{self, encode, within};

/// The checked kinds. Their names in paths are regular plurals.
const KINDS: [&str; 3] = ["Deployment", "StatefulSet", "ReplicaSet"];

pub(super) async fn check(inspection: &mut Inspection<'_>, hpas: &[Hpa]) -> Result<(), CallError> {
    for hpa in hpas {
        let Some(workload) = workload(inspection, hpa).await? else {
            continue;
        };
        let of_tool = target::owned_replicas(hpa, &workload.metadata);
        inspection.report.findings.extend(of_tool);
        let pods = pods_of(inspection, &workload).await?;
        let strangers = pods.and_then(|pods| target::strangers(hpa, &pods));
        inspection.report.findings.extend(strangers);
    }
    Ok(())
}

async fn workload(
    inspection: &mut Inspection<'_>,
    hpa: &Hpa,
) -> Result<Option<ScaledWorkload>, CallError> {
    let target = &hpa.scaled;
    let kind = target.kind.as_str();
    let what = format!("the scale target of {hpa}");
    if !KINDS.contains(&kind) {
        let reason = format!("{kind} is not a Deployment, StatefulSet or ReplicaSet");
        let remedy = "no action is needed: the checks of its pods and replicas are skipped";
        let skipped = Skipped::new(what, reason, remedy);
        inspection.report.skipped.insert(skipped.of(OF_TARGETS));
        return Ok(None);
    }
    let place = within(Some(&hpa.namespace));
    let plural = format!("{}s", kind.to_lowercase());
    let path = format!("/apis/apps/v1/{place}{plural}/{}", encode(&target.name));
    Ok(inspection.read(&path, &what, OF_TARGETS).await?.found())
}

async fn pods_of(
    inspection: &mut Inspection<'_>,
    workload: &ScaledWorkload,
) -> Result<Option<Vec<Pod>>, CallError> {
    let selector = Selector::try_from(workload.spec.selector.clone()).ok();
    // An empty selector would match all pods, and the API refuses it.
    let Some(selector) = selector.filter(|it| !it.selects_all()) else {
        return Ok(None);
    };
    let namespace = workload.metadata.namespace.as_deref().unwrap_or("default");
    let path = paths::pods(namespace, &selector.to_string());
    let what = format!("Pods of {namespace}");
    let codes: &[&'static Code] = &[&GM508];
    let list = inspection.read::<List<Pod>>(&path, &what, codes).await?;
    Ok(list.found().map(|it| it.items))
}

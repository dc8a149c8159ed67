//! What HPAs scale: workloads, their pods, and the nodes.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::core::Selector;

use cluster_state::error::CallError;
use findings::Skipped;
use findings::codes::{GM508, GM513, OF_TARGETS};
use findings::rights::{ReadRight, right};
use findings::target::{self, ScaledWorkload};
use gpu_metrics::resources::GpuResources;
use hpa::Hpa;

use crate::values::List;
use cluster_checks::Inspection;
use cluster_checks::paths::{self, encode, within};

static READ_WORKLOADS: ReadRight = right(
    "get",
    "apps",
    "v1",
    "deployments, statefulsets, replicasets",
)
.checks(OF_TARGETS);
static READ_PODS: ReadRight = right("list", "", "v1", "pods").checks(&[&GM508]);
static READ_NODES: ReadRight = right("list", "", "v1", "nodes").checks(&[&GM513]);

/// The checked kinds. Their names in paths are regular plurals.
const KINDS: [&str; 3] = ["Deployment", "StatefulSet", "ReplicaSet"];

pub(super) async fn check(
    inspection: &mut Inspection<'_>,
    hpas: &[Hpa],
    gpus: &GpuResources,
) -> Result<(), CallError> {
    if hpas.is_empty() {
        return Ok(());
    }
    let nodes = inspection
        .read::<List<Node>>("/api/v1/nodes", "GPUs of nodes", &READ_NODES)
        .await?;
    let allocatable = nodes.found().map(|it| target::allocatable(gpus, &it.items));
    for hpa in hpas {
        let Some(workload) = workload(inspection, hpa).await? else {
            continue;
        };
        let found = &mut inspection.report.findings;
        found.extend(target::owned_replicas(hpa, &workload.metadata));
        if let Some(allocatable) = &allocatable {
            let template = &workload.spec.template;
            found.extend(target::capacity(hpa, gpus, template, allocatable));
        }
        if let Some(pods) = pods_of(inspection, &workload).await? {
            inspection
                .report
                .findings
                .extend(target::strangers(hpa, &pods));
        }
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
        let remedy = "no action is needed: the checks of its pods, replicas and GPUs are skipped";
        let skipped = Skipped::new(what, reason, remedy);
        inspection.report.skipped.insert(skipped.of(OF_TARGETS));
        return Ok(None);
    }
    let place = within(Some(&hpa.namespace));
    let plural = format!("{}s", kind.to_lowercase());
    let path = format!("/apis/apps/v1/{place}{plural}/{}", encode(&target.name));
    Ok(inspection
        .read(&path, &what, &READ_WORKLOADS)
        .await?
        .found())
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
    pods(inspection, namespace, &selector, "").await
}

/// The pods of a namespace with these labels; `why` is the reason for reading them.
pub(super) async fn pods(
    inspection: &mut Inspection<'_>,
    namespace: &str,
    selector: &Selector,
    why: &str,
) -> Result<Option<Vec<Pod>>, CallError> {
    let path = paths::pods(namespace, &selector.to_string());
    let what = format!("Pods of {namespace}{why}");
    let list = inspection.read::<List<Pod>>(&path, &what, &READ_PODS);
    Ok(list.await?.found().map(|it| it.items))
}

//! What HPAs scale: workloads, their pods, and the nodes.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::core::Selector;

use crate::app::inspect::{Look, encode};
use crate::cli::values::List;
use cluster_state::error::CallError;
use findings::rights::{Right, right};
use findings::Skipped;
use findings::target::{self, Workload};
use gpu_metrics::resources::GpuResources;
use hpa::Hpa;

const READ_WORKLOADS: Right = right(
    "get",
    "apps",
    "v1",
    "deployments, statefulsets, replicasets",
);
const READ_PODS: Right = right("list", "", "v1", "pods");
const READ_NODES: Right = right("list", "", "v1", "nodes");

/// The checked kinds, and their names in paths.
const KINDS: [(&str, &str); 3] = [
    ("Deployment", "deployments"),
    ("StatefulSet", "statefulsets"),
    ("ReplicaSet", "replicasets"),
];

pub(super) async fn check(
    look: &mut Look<'_>,
    hpas: &[Hpa],
    gpus: &GpuResources,
) -> Result<(), CallError> {
    if hpas.is_empty() {
        return Ok(());
    }
    let nodes = look
        .read::<List<Node>>("/api/v1/nodes", "GPUs of nodes", &READ_NODES)
        .await?;
    let allocatable = nodes.found().map(|it| target::allocatable(gpus, &it.items));
    for hpa in hpas {
        let Some(workload) = workload(look, hpa).await? else {
            continue;
        };
        let found = &mut look.report.findings;
        found.extend(target::owned_replicas(hpa, &workload.metadata));
        if let Some(allocatable) = &allocatable {
            let template = &workload.spec.template;
            found.extend(target::capacity(hpa, gpus, template, allocatable));
        }
        if let Some(pods) = pods_of(look, &workload).await? {
            look.report.findings.extend(target::strangers(hpa, &pods));
        }
    }
    Ok(())
}

async fn workload(look: &mut Look<'_>, hpa: &Hpa) -> Result<Option<Workload>, CallError> {
    let target = &hpa.scaled;
    let kind = KINDS.iter().find(|(kind, _)| *kind == target.kind);
    let what = format!("what {hpa} scales");
    let Some((_, plural)) = kind else {
        look.report.skipped.insert(Skipped {
            what,
            reason: format!(
                "{} is no Deployment, StatefulSet or ReplicaSet",
                target.kind
            ),
            remedy: "nothing: its pods, who sets its replicas and its GPUs are not looked at"
                .to_owned(),
        });
        return Ok(None);
    };
    let namespace = encode(&hpa.namespace);
    let path = format!(
        "/apis/apps/v1/namespaces/{namespace}/{plural}/{}",
        encode(&target.name)
    );
    Ok(look.read(&path, &what, &READ_WORKLOADS).await?.found())
}

async fn pods_of(look: &mut Look<'_>, workload: &Workload) -> Result<Option<Vec<Pod>>, CallError> {
    let Ok(selector) = Selector::try_from(workload.spec.selector.clone()) else {
        return Ok(None);
    };
    // An empty selector would match all pods, and the API refuses it.
    if selector.selects_all() {
        return Ok(None);
    }
    let namespace = workload.metadata.namespace.as_deref().unwrap_or("default");
    pods(look, namespace, &selector, "").await
}

/// The pods of a namespace with these labels; `why` is the reason for reading them.
pub(super) async fn pods(
    look: &mut Look<'_>,
    namespace: &str,
    selector: &Selector,
    why: &str,
) -> Result<Option<Vec<Pod>>, CallError> {
    let path = format!(
        "/api/v1/namespaces/{}/pods?labelSelector={}",
        encode(namespace),
        encode(&selector.to_string())
    );
    let what = format!("Pods of {namespace}{why}");
    let list = look.read::<List<Pod>>(&path, &what, &READ_PODS).await?;
    Ok(list.found().map(|it| it.items))
}

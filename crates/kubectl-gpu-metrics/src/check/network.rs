//! Whether a NetworkPolicy cuts the server off from a Prometheus in the cluster.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::core::Selector;
use url::Url;

use cluster_state::error::CallError;
use findings::Finding;
use findings::codes::GM301;
use findings::network::{self, ConnectingPods, LabelMap};
use findings::rights::{ReadRight, right};
use findings::source::PROMETHEUS;

use crate::cluster::{encode, within};
use crate::inspect::Inspection;
use crate::values::List;

use super::files::{value, words_behind};
use super::targets;

// Without these rights the finding that Prometheus does not answer is still reported.
static READ_NAMESPACES: ReadRight = right("get", "", "v1", "namespaces").checks(&[]);
static READ_POLICIES: ReadRight =
    right("list", "networking.k8s.io", "v1", "networkpolicies").checks(&[]);

const WHY: &str = " (whether one blocks the server from Prometheus)";

/// Parts of the server's messages that Prometheus does not answer.
const SILENT: [&str; 2] = ["(unreachable", "(timeout"];

/// Names the policy that cuts the server off, in the finding that Prometheus does not
/// answer. `namespace` is the server's, `deployments` run it.
pub(super) async fn check(
    inspection: &mut Inspection<'_>,
    namespace: &str,
    deployments: &[Deployment],
) -> Result<(), CallError> {
    let is_silent = |it: &Finding| {
        let is_first = it.code == GM301.id && it.object == PROMETHEUS;
        is_first && SILENT.iter().any(|words| it.message.contains(words))
    };
    let Some(place) = inspection.report.findings.iter().position(is_silent) else {
        return Ok(());
    };
    for deployment in deployments {
        let Some((service, of)) = prometheus(deployment, namespace) else {
            continue;
        };
        let client = client(inspection, namespace, deployment).await?;
        let (selector, pods) = pods(inspection, &of, &service).await?;
        let path = format!(
            "/apis/networking.k8s.io/v1/{}networkpolicies",
            within(Some(&of))
        );
        let what = format!("NetworkPolicies{WHY}");
        let policies = inspection.read::<List<NetworkPolicy>>(&path, &what, &READ_POLICIES);
        let policies = policies.await?.found().map_or_else(Vec::new, |it| it.items);
        if let (Some(client), false) = (client, pods.is_empty())
            && let Some(policy) = network::shut_out(&policies, &pods, &client)
            && let Some(finding) = inspection.report.findings.get_mut(place)
        {
            network::name(finding, policy, &selector, &client);
            return Ok(());
        }
    }
    Ok(())
}

/// Name and namespace of the Service at `--prometheus-url`: `NAME`,
/// `NAME.NAMESPACE`, `NAME.NAMESPACE.svc` and longer.
fn prometheus(deployment: &Deployment, namespace: &str) -> Option<(String, String)> {
    let words = words_behind(deployment);
    let url = Url::parse(value(&words, "--prometheus-url")?).ok()?;
    let mut parts = url.domain()?.split('.');
    let service = parts.next()?;
    let of = parts.next().unwrap_or(namespace);
    let is_service = parts.next().is_none_or(|part| part == "svc");
    is_service.then(|| (service.to_owned(), of.to_owned()))
}

async fn client(
    inspection: &mut Inspection<'_>,
    namespace: &str,
    deployment: &Deployment,
) -> Result<Option<ConnectingPods>, CallError> {
    let path = format!("/api/v1/namespaces/{}", encode(namespace));
    let what = format!("Namespace {namespace}");
    let found = inspection
        .read::<Namespace>(&path, &what, &READ_NAMESPACES)
        .await?;
    Ok(found.found().map(|found| ConnectingPods {
        namespace: namespace.to_owned(),
        namespace_labels: found.metadata.labels.unwrap_or_default(),
        labels: labels_of_pods(deployment).cloned().unwrap_or_default(),
    }))
}

pub(super) fn labels_of_pods(deployment: &Deployment) -> Option<&LabelMap> {
    let template = &deployment.spec.as_ref()?.template;
    template.metadata.as_ref()?.labels.as_ref()
}

async fn pods(
    inspection: &mut Inspection<'_>,
    namespace: &str,
    service: &str,
) -> Result<(LabelMap, Vec<LabelMap>), CallError> {
    let found = inspection.service(namespace, service).await?;
    let selector = found.and_then(|it| it.spec?.selector);
    let Some(selector) = selector.filter(|selector| !selector.is_empty()) else {
        return Ok((LabelMap::new(), Vec::new()));
    };
    let labels: Selector = selector.clone().into_iter().collect();
    let pods = targets::pods(inspection, namespace, &labels, WHY).await?;
    let pods = pods.into_iter().flatten();
    let labels = pods.map(|pod| pod.metadata.labels.unwrap_or_default());
    Ok((selector, labels.collect()))
}

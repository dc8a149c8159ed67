//! The NetworkPolicies that may be the reason why the server does not reach Prometheus.
//!
//! Their rules are not evaluated.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::core::{Selector, SelectorExt as _};
use url::Url;

use cluster_state::error::CallError;
use findings::Finding;
use findings::codes::GM301;
use findings::rights::{ReadRight, right};
use findings::source::PROMETHEUS;

use crate::values::List;
use cluster_checks::Inspection;
use cluster_checks::paths::within;

use super::files::{value, words_behind};
use super::targets;

// Without this right the finding that Prometheus does not answer is still reported.
static READ_POLICIES: ReadRight =
    right("list", "networking.k8s.io", "v1", "networkpolicies").checks(&[]);

const WHY: &str = " (whether one blocks the server from Prometheus)";

/// Parts of the server's messages that Prometheus does not answer.
const SILENT: [&str; 2] = ["(unreachable", "(timeout"];

/// Labels of a pod.
pub(super) type LabelMap = BTreeMap<String, String>;

/// Names the policies of the pods of both sides in the finding that Prometheus does not
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
    let own: Vec<LabelMap> = deployments.iter().filter_map(labels_of_pods).collect();
    let mut named = policies(inspection, namespace, &own, "Egress").await?;
    for deployment in deployments {
        if let Some((service, of)) = prometheus(deployment, namespace) {
            let pods = pods(inspection, &of, &service).await?;
            named.extend(policies(inspection, &of, &pods, "Ingress").await?);
        }
    }
    named.dedup();
    if let (false, Some(finding)) = (named.is_empty(), inspection.report.findings.get_mut(place)) {
        let named = named.join(", ");
        finding.message += &format!("; a NetworkPolicy may be the cause: {named}");
        finding.remedy +=
            "; let these NetworkPolicies allow connections of the server to Prometheus";
    }
    Ok(())
}

/// The policies of a namespace for one direction that select one of these pods:
/// `monitoring/prometheus-k8s (Ingress)`.
async fn policies(
    inspection: &mut Inspection<'_>,
    namespace: &str,
    pods: &[LabelMap],
    direction: &str,
) -> Result<Vec<String>, CallError> {
    let place = within(Some(namespace));
    let path = format!("/apis/networking.k8s.io/v1/{place}networkpolicies");
    let what = format!("NetworkPolicies of {namespace}{WHY}");
    let list = inspection.read::<List<NetworkPolicy>>(&path, &what, &READ_POLICIES);
    let list = list.await?.found().map_or_else(Vec::new, |it| it.items);
    let selecting = list.into_iter().filter(|it| selects(it, pods, direction));
    let name = |it: NetworkPolicy| it.metadata.name.unwrap_or_default();
    let said = selecting.map(|it| format!("{namespace}/{} ({direction})", name(it)));
    Ok(said.collect())
}

fn selects(policy: &NetworkPolicy, pods: &[LabelMap], direction: &str) -> bool {
    let Some(spec) = &policy.spec else {
        return false;
    };
    let is_of_direction = match &spec.policy_types {
        Some(types) => types.iter().any(|it| it == direction),
        None => direction == "Ingress" || spec.egress.is_some(),
    };
    let selector = Selector::try_from(spec.pod_selector.clone().unwrap_or_default());
    let is_selected = |it: Selector| pods.iter().any(|labels| it.matches(labels));
    is_of_direction && selector.is_ok_and(is_selected)
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

pub(super) fn labels_of_pods(deployment: &Deployment) -> Option<LabelMap> {
    let template = &deployment.spec.as_ref()?.template;
    template.metadata.as_ref()?.labels.clone()
}

/// The labels of the pods that a Service selects.
async fn pods(
    inspection: &mut Inspection<'_>,
    namespace: &str,
    service: &str,
) -> Result<Vec<LabelMap>, CallError> {
    let found = inspection.service(namespace, service).await?;
    let selector = found.and_then(|it| it.spec?.selector).unwrap_or_default();
    let selector: Selector = selector.into_iter().collect();
    if selector.selects_all() {
        return Ok(Vec::new());
    }
    let pods = targets::pods(inspection, namespace, &selector, WHY).await?;
    let pods = pods.into_iter().flatten();
    Ok(pods.filter_map(|pod| pod.metadata.labels).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_policy_is_named_for_the_direction_and_the_pods_that_it_has() {
        let pods = [LabelMap::from([("app".to_owned(), "a".to_owned())])];
        for (spec, is_named) in [
            (
                json!({"podSelector": {"matchLabels": {"app": "a"}}}),
                [true, false],
            ),
            (json!({"podSelector": {}, "egress": []}), [true, true]),
            (
                json!({"podSelector": {}, "policyTypes": ["Egress"]}),
                [false, true],
            ),
            (
                json!({"podSelector": {"matchLabels": {"app": "b"}}}),
                [false, false],
            ),
        ] {
            let policy = serde_json::from_value(json!({"spec": spec})).unwrap();
            let named = ["Ingress", "Egress"].map(|it| selects(&policy, &pods, it));
            assert_eq!(named, is_named, "{policy:?}");
        }
    }
}

//! A Prometheus, directly or through kube-apiserver.

use std::time::Duration;

use serde_json::value::RawValue;
use url::{Host, Url};

use apimachinery::time::Timestamp;
use cluster_checks::paths::encode;
use cluster_state::error::CallError;
use configuration::PROMETHEUS_SERVICE;
use gpu_metrics::batch::Batch;
use prometheus_source::query::{parameters_at, range_parameters};
use prometheus_source::{KeyHasher, Prometheus, matrix};

use crate::Failure;
use crate::cluster::Cluster;
use crate::values::FindingList;

/// Why a server names no store.
pub(crate) const UNNAMED: &str =
    "it is no Service of the cluster, or the server sends it headers or matchers of its own";

/// What to do where the server's store cannot be found or asked.
const REMEDY: &str = "give --prometheus-url http://host:port, for example of kubectl port-forward";

/// Where queries are sent.
#[derive(Debug)]
pub(super) enum Store {
    Direct(Prometheus),
    /// Through kube-apiserver with the user's rights: the path before `/api/v1`.
    Proxied(Box<Cluster>, String),
}

impl Store {
    /// The store that the server of a cluster says it reads.
    pub(super) async fn of_server(cluster: Result<&Cluster, String>) -> Result<Self, Failure> {
        let failed = |why: String| {
            Failure::Usage(format!(
                "the Prometheus that the server reads is unknown: {why}: {REMEDY}"
            ))
        };
        let cluster = cluster.map_err(failed)?;
        let said = FindingList::read(cluster).await;
        let said = said.map_err(|error| failed(error.to_string()))?;
        let address = said.setting(PROMETHEUS_SERVICE).and_then(proxy_path);
        let path = address.ok_or_else(|| failed(UNNAMED.into()))?;
        Ok(Self::Proxied(Box::new(cluster.clone()), path))
    }

    /// The values of a query from the first to the last of these times.
    pub(super) async fn range(
        &self,
        promql: &str,
        ends: [Timestamp; 2],
        step: Duration,
    ) -> Result<Batch, Failure> {
        match self {
            Self::Direct(prometheus) => {
                let answer = prometheus.range(promql, ends, step).await;
                answer.map_err(|error| Failure::Failed(error.to_string()))
            }
            Self::Proxied(cluster, path) => {
                let parameters = range_parameters(promql, ends, step);
                proxied(cluster, &format!("{path}/api/v1/query_range?{parameters}")).await
            }
        }
    }

    /// The samples of a selector with a range before a time, as they are stored.
    pub(super) async fn samples(&self, selector: &str, at: Timestamp) -> Result<Batch, Failure> {
        match self {
            Self::Direct(prometheus) => {
                let answer = prometheus.samples(selector, at).await;
                answer.map_err(|error| Failure::Failed(error.to_string()))
            }
            Self::Proxied(cluster, path) => {
                let parameters = parameters_at(selector, at);
                proxied(cluster, &format!("{path}/api/v1/query?{parameters}")).await
            }
        }
    }
}

/// The answer at a path of a Prometheus behind kube-apiserver.
async fn proxied(cluster: &Cluster, path: &str) -> Result<Batch, Failure> {
    let answer = cluster.read::<Box<RawValue>>(path).await;
    let answer = answer.map_err(|error| match error {
        CallError::Forbidden { text, .. } => Failure::Refused(format!(
            "access denied: {text}: bind a role with the verb get on services/proxy, or {REMEDY}"
        )),
        error => Failure::Failed(format!(
            "Prometheus does not answer through kube-apiserver: {error}: {REMEDY}"
        )),
    })?;
    matrix(answer.get().as_bytes(), &KeyHasher::new())
        .map_err(|error| Failure::Failed(format!("Prometheus, through kube-apiserver: {error}")))
}

/// The path of a Service's address at kube-apiserver; `None`: it is of no Service.
fn proxy_path(address: &str) -> Option<String> {
    let url = Url::parse(address).ok()?;
    let Host::Domain(host) = url.host()? else {
        return None;
    };
    let mut labels = host.split('.');
    let (name, namespace) = (labels.next()?, labels.next()?);
    labels.next().filter(|it| *it == "svc")?;
    let (name, namespace) = (encode(name), encode(namespace));
    let scheme = if url.scheme() == "https" {
        "https:"
    } else {
        ""
    };
    let port = url.port_or_known_default()?;
    let prefix = url.path().trim_end_matches('/');
    Some(format!(
        "/api/v1/namespaces/{namespace}/services/{scheme}{name}:{port}/proxy{prefix}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_service_is_a_path_at_kube_apiserver() {
        for (address, path) in [
            (
                "http://prometheus.monitoring.svc:9090",
                Some("monitoring/services/prometheus:9090/proxy"),
            ),
            (
                "https://thanos.a.svc.cluster.local/prefix/",
                Some("a/services/https:thanos:443/proxy/prefix"),
            ),
            ("http://prometheus.example.com", None),
            ("http://10.0.0.1:9090", None),
        ] {
            let path = path.map(|it| format!("/api/v1/namespaces/{it}"));
            assert_eq!(proxy_path(address), path, "{address}");
        }
    }
}

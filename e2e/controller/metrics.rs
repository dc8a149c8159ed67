//! A metrics server with the answers of the situations. Each question for the first metric
//! begins a sync, so the state of the cluster before the answer is the result of the sync
//! before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use aggregated_apiserver::certificates::authority::CertificateAuthority;
use aggregated_apiserver::testing::http_server;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::situations::Situation;
use super::written;
use crate::asking::ApiClient;
use crate::controlplane::authority::{authority, serving};

/// The time of all values: metrics of pods are older than no pod.
const AT: &str = "2026-06-01T00:00:00Z";

/// The questions for one situation, and what the controller wrote after each sync.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// When each sync asked for its first metric.
    pub(super) begun: Vec<Instant>,
    /// The path of the question for each metric.
    pub(super) paths: BTreeMap<usize, String>,
    /// The results of all syncs but the last.
    pub(super) written: Vec<Value>,
}

/// What all connections share.
#[derive(Debug)]
pub(super) struct Metrics {
    api: ApiClient,
    situations: BTreeMap<String, Arc<Situation>>,
    asked: Mutex<BTreeMap<String, Asked>>,
}

impl Metrics {
    pub(super) fn new(api: ApiClient, situations: &[Arc<Situation>]) -> Arc<Self> {
        let named = situations.iter().map(|it| (it.id.clone(), Arc::clone(it)));
        Arc::new(Self {
            api,
            situations: named.collect(),
            asked: Mutex::default(),
        })
    }

    /// Serves as [`serve`] does.
    pub(super) async fn serve(self: &Arc<Self>) -> (u16, CertificateAuthority) {
        let shared = Arc::clone(self);
        serve(move |request| {
            let shared = Arc::clone(&shared);
            async move { shared.respond(request).await }
        })
        .await
    }

    /// Whether all syncs of a situation have their results.
    pub(super) fn is_done(&self, situation: &Situation) -> bool {
        let due = situation.syncs.len() + usize::from(situation.begins_unasked);
        self.of(situation, |asked| asked.written.len() >= due)
    }

    pub(super) fn of<T>(&self, situation: &Situation, read: impl FnOnce(&mut Asked) -> T) -> T {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        read(asked.entry(situation.id.clone()).or_default())
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let path = request.uri().to_string();
        let Some([group, namespace, last]) = question(&path) else {
            return no_resources();
        };
        let Some(situation) = self.situations.get(namespace) else {
            return reply(404, &json!({}));
        };
        let index = match last {
            "pods" => 0,
            name => name.trim_start_matches('m').parse().unwrap(),
        };
        if index == 0 {
            self.begin(situation).await;
        }
        let sync = self.of(situation, |asked| {
            asked.paths.insert(index, path.clone());
            asked.begun.len().saturating_sub(1)
        });
        let sync = situation.syncs.get(sync).or(situation.syncs.last());
        match sync.and_then(|answers| answers.get(index)) {
            Some(answer) => body(group, (namespace, last), answer),
            None => reply(
                404,
                &json!({"kind": "Status", "code": 404, "message": "no answer"}),
            ),
        }
    }

    /// Keeps the result of the sync before, if there was one.
    async fn begin(&self, situation: &Situation) {
        let is_first = self.of(situation, |asked| asked.begun.is_empty());
        if !self.is_done(situation) && (!is_first || situation.begins_unasked) {
            let written = written(&self.api, situation).await;
            self.of(situation, |asked| asked.written.push(written));
        }
        self.of(situation, |asked| asked.begun.push(Instant::now()));
    }
}

/// Serves for the Service `metrics/metrics`. Returns the port and the authority of the
/// certificate.
pub(crate) async fn serve<F>(
    respond: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
) -> (u16, CertificateAuthority)
where
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let authority = authority("metrics");
    let issued = serving(&authority, &["metrics.metrics.svc"]);
    let chain = CertificateDer::from_pem_slice(issued.cert.pem().as_bytes()).unwrap();
    let key = issued.signing_key.serialize_pem();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![chain], key).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let tls = TlsAcceptor::from(Arc::new(config));
    // It serves until the test ends.
    drop(http_server::serve(listener, Some(tls), move |request| {
        let responded = respond(request);
        async move {
            let boxed = |body: Full<Bytes>| body.map_err(|never| match never {}).boxed_unsync();
            responded.await.map(boxed)
        }
    }));
    (port, authority)
}

/// The group, namespace and metric or resource of a question; `None`: it is none.
pub(crate) fn question(path: &str) -> Option<[&str; 3]> {
    let (plain, _) = path.split_once('?').unwrap_or((path, ""));
    let parts: Vec<&str> = plain.trim_matches('/').split('/').collect();
    let [_, group, _, "namespaces", namespace, .., last] = parts[..] else {
        return None;
    };
    Some([group, namespace, last])
}

/// The answer to what is no question for a metric.
pub(crate) fn no_resources() -> Response<Full<Bytes>> {
    reply(200, &json!({"kind": "APIResourceList", "resources": []}))
}

/// The answer in the form of its API.
pub(crate) fn body(
    group: &str,
    (namespace, metric): (&str, &str),
    answer: &Value,
) -> Response<Full<Bytes>> {
    if let Some(message) = answer["failed"].as_str() {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "message": message, "reason": "NotFound", "code": 404,
        });
        return reply(404, &status);
    }
    let of_pods = |key: &str| answer[key].as_object().into_iter().flatten();
    let mut items: Vec<Value> = of_pods("pods")
        .map(|(pod, value)| {
            let object = json!({"kind": "Pod", "namespace": namespace, "name": pod, "apiVersion": "/v1"});
            json!({"describedObject": object, "metric": {"name": metric}, "timestamp": AT, "value": value})
        })
        .collect();
    items.extend(of_pods("usage").map(|(pod, usage)| {
        let containers = usage.as_object().into_iter().flatten();
        let containers = containers.map(|(name, cpu)| json!({"name": name, "usage": {"cpu": cpu}}));
        json!({
            "metadata": {"name": pod, "namespace": namespace}, "timestamp": AT, "window": "30s",
            "containers": containers.collect::<Vec<_>>(),
        })
    }));
    items.extend(
        answer["values"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|value| {
                json!({
                    "describedObject": {"kind": "Target", "name": "target", "namespace": namespace},
                    "metric": {"name": metric}, "metricName": metric, "metricLabels": {},
                    "timestamp": AT, "value": value,
                })
            }),
    );
    let (kind, version) = match group {
        "custom.metrics.k8s.io" => ("MetricValueList", "v1beta2"),
        "external.metrics.k8s.io" => ("ExternalMetricValueList", "v1beta1"),
        _ => ("PodMetricsList", "v1beta1"),
    };
    let version = format!("{group}/{version}");
    reply(
        200,
        &json!({"kind": kind, "apiVersion": version, "metadata": {}, "items": items}),
    )
}

fn reply(code: u16, body: &Value) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = code.try_into().unwrap();
    let json = "application/json".try_into().unwrap();
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

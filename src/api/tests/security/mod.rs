//! Authentication, authorization and limits over real TLS connections, with a reviewer that
//! records reviews.

mod any_path;
mod attributes;
mod authorization;
mod certificates;
mod devices;
mod floods;
mod headers;
mod limits;
mod tokens;
mod transport;
mod trust;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use http::HeaderMap;
use rustls::ClientConfig;
use tokio::io::AsyncWriteExt;
use tower::ServiceExt;

use aggregated_apiserver::api::context::RequestContext;
use aggregated_apiserver::api::service::into_service;
use aggregated_apiserver::certificates::authority::{CertificateAuthority, Issued};
use aggregated_apiserver::security::Security;
use aggregated_apiserver::security::counters::Counters;
use aggregated_apiserver::security::identity::Identity;
use aggregated_apiserver::security::peer::Peer;
use aggregated_apiserver::security::reviewer::{Access, AccessVerdict};
use aggregated_apiserver::security::settings::SecuritySettings;
use aggregated_apiserver::security::trust::TrustStore;
use aggregated_apiserver::serve::listener::Limits;
use aggregated_apiserver::serve::tls::ClientAuth;
use aggregated_apiserver::testing::fake_reviewer::FakeReviewer;
use aggregated_apiserver::testing::test_server::{
    TestResponse, TestServer, read_answer, until, validity,
};

use crate::api::{Api, router};
use crate::telemetry::Telemetry;

use super::fixture::Fixture;
use super::{NOW, V2, status};

/// A path with values.
const VALUES: &str = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/pods/a/m";

/// A request that reached the handler.
#[derive(Clone, Debug)]
struct Served {
    who: Arc<Identity>,
    headers: HeaderMap,
    address: SocketAddr,
}

/// A cluster with its authorities, and the server in it.
struct Scene {
    clients: CertificateAuthority,
    proxies: CertificateAuthority,
    trust: Arc<TrustStore>,
    reviewer: Arc<FakeReviewer>,
    counters: Arc<Counters>,
    fixture: Arc<Fixture>,
    telemetry: Telemetry,
    served: Arc<Mutex<Vec<Served>>>,
    /// How many seconds the server's clock is ahead.
    ahead: Arc<AtomicU64>,
    server: TestServer,
}

/// The ConfigMap as a kube-apiserver would write it.
fn config_map(clients: &str, proxies: &str) -> BTreeMap<String, String> {
    [
        ("client-ca-file", clients),
        ("requestheader-client-ca-file", proxies),
        ("requestheader-allowed-names", r#"["front-proxy-client"]"#),
        ("requestheader-username-headers", r#"["X-Remote-User"]"#),
        ("requestheader-group-headers", r#"["X-Remote-Group"]"#),
        (
            "requestheader-extra-headers-prefix",
            r#"["X-Remote-Extra-"]"#,
        ),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// Records the requests that reach the handler, then responds with the real API. Two
/// headers make the handler misbehave.
async fn record(request: Request, served: Arc<Mutex<Vec<Served>>>, next: Next) -> Response {
    let context = request.extensions().get::<Arc<RequestContext>>().unwrap();
    served.lock().unwrap().push(Served {
        who: context.user.get().unwrap().identity.clone(),
        headers: request.headers().clone(),
        address: request.extensions().get::<Peer>().unwrap().address,
    });
    if request.headers().contains_key("x-test-sleep") {
        tokio::time::sleep(Duration::from_secs(3600)).await;
    }
    assert!(!request.headers().contains_key("x-test-panic"), "on demand");
    next.run(request).await
}

impl Scene {
    async fn new() -> Self {
        Self::with(SecuritySettings::default()).await
    }

    async fn with(settings: SecuritySettings) -> Self {
        let scene = Self::unloaded(settings).await;
        let data = scene.data();
        assert!(scene.trust.load(&data).is_empty());
        scene
    }

    /// A server that has no authorities yet.
    async fn unloaded(settings: SecuritySettings) -> Self {
        let trust = Arc::new(TrustStore::default());
        let reviewer = Arc::new(FakeReviewer::new());
        let fixture = Arc::new(Fixture::new());
        let served = Arc::new(Mutex::new(Vec::new()));
        let ahead = Arc::new(AtomicU64::new(0));
        let telemetry = Telemetry::new();
        let api = Api::new(fixture.clone(), || NOW, telemetry.clone());
        let counters = Arc::clone(api.counters());
        let recorded = served.clone();
        let routes = router::routes(&api).layer(from_fn(move |request: Request, next: Next| {
            record(request, recorded.clone(), next)
        }));
        let late = ahead.clone();
        let clock = move || SystemTime::now() + Duration::from_secs(late.load(Ordering::SeqCst));
        let security = Security::new(
            trust.clone(),
            reviewer.clone(),
            Arc::new(clock),
            settings,
            &counters,
        );
        let authority = |name| CertificateAuthority::new(name, validity()).unwrap();
        let service = into_service(router::secured(routes, &api, &Arc::new(security)));
        let server = TestServer::with(
            service,
            authority("server"),
            &ClientAuth::Asked,
            Limits::default(),
        )
        .await;
        Self {
            clients: authority("clients"),
            proxies: authority("proxies"),
            trust,
            reviewer,
            counters,
            fixture,
            telemetry,
            served,
            ahead,
            server,
        }
    }

    fn data(&self) -> BTreeMap<String, String> {
        config_map(
            &self.clients.certificate_pem(),
            &self.proxies.certificate_pem(),
        )
    }

    /// Changes one key of the ConfigMap.
    fn set(&self, key: &str, value: &str) {
        let mut data = self.data();
        data.insert(key.to_owned(), value.to_owned());
        let problems = self.trust.load(&data);
        assert!(problems.is_empty(), "{problems:?}");
    }

    fn proxy(&self) -> Issued {
        proxy_of(&self.proxies)
    }

    fn config(&self, shown: Option<&Issued>) -> ClientConfig {
        self.server.client_config(shown, &["http/1.1"])
    }

    /// Sends a request with this certificate, over a new connection.
    async fn ask(
        &self,
        shown: Option<&Issued>,
        target: &str,
        headers: &[(&str, &str)],
    ) -> TestResponse {
        let head = head(target, headers);
        self.raw(self.config(shown), head.as_bytes()).await
    }

    async fn raw(&self, config: ClientConfig, request: &[u8]) -> TestResponse {
        let mut stream = self.server.connect_with(config).await.unwrap();
        // A server that refuses the handshake may close the connection before this is sent.
        let _ = stream.write_all(request).await;
        read_answer(&mut stream).await
    }

    /// Sends a request on the open connection of a client.
    async fn over(
        &self,
        client: &reqwest::Client,
        target: &str,
        headers: &[(&str, &str)],
    ) -> reqwest::Response {
        let mut request = client.get(self.server.url(target));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap()
    }

    /// Sends a request without a certificate.
    async fn direct(&self, target: &str, headers: &[(&str, &str)]) -> TestResponse {
        self.ask(None, target, headers).await
    }

    /// Sends a request through the front proxy.
    async fn proxied(&self, target: &str, headers: &[(&str, &str)]) -> TestResponse {
        self.ask(Some(&self.proxy()), target, headers).await
    }

    async fn by_user(&self, user: &str, target: &str) -> TestResponse {
        self.proxied(target, &[("X-Remote-User", user)]).await
    }

    /// The latest request that reached the handler.
    fn served(&self) -> Served {
        self.served
            .lock()
            .unwrap()
            .last()
            .expect("a request")
            .clone()
    }

    fn times_served(&self) -> usize {
        self.served.lock().unwrap().len()
    }

    /// The user of the latest access review.
    fn reviewed(&self) -> Identity {
        self.reviewer.last().0
    }
}

/// The head of a request that is the only one of its connection.
fn head(target: &str, headers: &[(&str, &str)]) -> String {
    let lines = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"));
    let lines: String = lines.collect();
    format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{lines}\r\n")
}

/// An API with its layers, without a network. Every client is anonymous.
fn layers(api: &Api, reviewer: &Arc<FakeReviewer>) -> Router {
    secured(
        router::routes(api),
        api,
        reviewer,
        SecuritySettings::default(),
    )
}

fn secured(
    routes: Router,
    api: &Api,
    reviewer: &Arc<FakeReviewer>,
    settings: SecuritySettings,
) -> Router {
    let security = Security::new(
        Arc::new(TrustStore::default()),
        reviewer.clone(),
        Arc::new(SystemTime::now),
        settings,
        api.counters(),
    );
    router::secured(routes, api, &Arc::new(security))
}

fn proxy_of(authority: &CertificateAuthority) -> Issued {
    authority
        .client("front-proxy-client", None, validity())
        .unwrap()
}

/// Checks a refusal and returns its message.
fn refused(answer: &TestResponse, code: u16) -> String {
    let body = status(answer);
    assert_eq!(answer.status, code, "{body}");
    body["message"].as_str().unwrap().to_owned()
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

//! Authentication, authorization and limits over real TLS connections, with a reviewer that
//! records reviews.

mod any_path;
mod authorization;
mod certificates;
mod exchanges;
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
use aggregated_apiserver::testing::authority::{ClientCertificates as _, authority};
use aggregated_apiserver::testing::fake_reviewer::FakeReviewer;
use aggregated_apiserver::testing::test_server::{
    TestResponse, TestServer, head, read_answer, until, validity,
};

use crate::api::{Api, router};
use crate::telemetry::Telemetry;

use super::fixture::Fixture;
use super::{NOW, V2, status};

/// A path with values.
const VALUES: &str = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/pods/a/m";

/// A member of `system:masters`, whose requests need no review.
const MASTER: [(&str, &str); 2] = [
    ("X-Remote-User", "kas"),
    ("X-Remote-Group", "system:masters"),
];

/// A request that reached the handler.
#[derive(Clone, Debug)]
struct Served {
    identity: Arc<Identity>,
    headers: HeaderMap,
    address: SocketAddr,
}

/// A cluster with its authorities, and the server in it.
struct Scene {
    clients: CertificateAuthority,
    proxies: CertificateAuthority,
    /// No server trusts it.
    foreign: CertificateAuthority,
    trust: Arc<TrustStore>,
    reviewer: Arc<FakeReviewer>,
    counters: Arc<Counters>,
    fixture: Arc<Fixture>,
    telemetry: Telemetry,
    served: Arc<Mutex<Vec<Served>>>,
    /// How many seconds the server's clock is ahead.
    ahead: Arc<AtomicU64>,
    router: Router,
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
        identity: context.user.get().unwrap().identity.clone(),
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
        Self::with(|_| ()).await
    }

    /// A scene with other settings than the default ones.
    async fn with(change: impl FnOnce(&mut SecuritySettings)) -> Self {
        let mut settings = SecuritySettings::default();
        change(&mut settings);
        let scene = Self::unloaded(settings).await;
        let data = scene.data();
        assert!(scene.trust.load(&data).is_empty());
        scene
    }

    /// A server that has no authorities yet.
    async fn unloaded(settings: SecuritySettings) -> Self {
        let fixture = Arc::new(Fixture::new());
        let api = Api::new(fixture.clone(), || NOW, Telemetry::new().unwrap());
        Self::of(&api, fixture, settings).await
    }

    /// A server of this API, which has no authorities yet.
    async fn of(api: &Arc<Api>, fixture: Arc<Fixture>, settings: SecuritySettings) -> Self {
        let trust = Arc::new(TrustStore::default());
        let reviewer = Arc::new(FakeReviewer::new());
        let served = Arc::new(Mutex::new(Vec::new()));
        let ahead = Arc::new(AtomicU64::new(0));
        let counters = Arc::clone(&api.counters);
        let recorded = served.clone();
        let routes = router::routes(api).layer(from_fn(move |request: Request, next: Next| {
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
        let router = router::secured(routes, api, &Arc::new(security));
        Self {
            clients: authority("clients"),
            proxies: authority("proxies"),
            foreign: authority("foreign"),
            trust,
            reviewer,
            counters,
            fixture,
            telemetry: api.telemetry.clone(),
            served,
            ahead,
            server: TestServer::start(into_service(router.clone())).await,
            router,
        }
    }

    fn data(&self) -> BTreeMap<String, String> {
        let proxies = self.proxies.certificate_pem();
        config_map(&self.clients.certificate_pem(), &proxies)
    }

    /// Changes one key of the ConfigMap.
    fn set(&self, key: &str, value: &str) {
        let mut data = self.data();
        data.insert(key.to_owned(), value.to_owned());
        let problems = self.trust.load(&data);
        assert!(problems.is_empty(), "{problems:?}");
    }

    /// The certificate of a user.
    fn client(&self, name: &str) -> Issued {
        self.clients.client(name, None, validity()).unwrap()
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
        let head = head("GET", target, headers);
        self.raw(self.config(shown), head.as_bytes()).await
    }

    async fn raw(&self, config: ClientConfig, request: &[u8]) -> TestResponse {
        self.server.raw_with(config, request).await
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
        let served = self.served.lock().unwrap();
        served.last().expect("a request").clone()
    }

    fn times_served(&self) -> usize {
        self.served.lock().unwrap().len()
    }

    /// The user of the latest access review.
    fn reviewed(&self) -> Identity {
        self.reviewer.last().0
    }
}

/// An API with its layers, without a network. Every client is anonymous.
fn layers(api: &Arc<Api>, reviewer: &Arc<FakeReviewer>) -> Router {
    let settings = SecuritySettings::default();
    secured(router::routes(api), api, reviewer, settings)
}

fn secured(
    routes: Router,
    api: &Arc<Api>,
    reviewer: &Arc<FakeReviewer>,
    settings: SecuritySettings,
) -> Router {
    let security = Security::new(
        Arc::new(TrustStore::default()),
        reviewer.clone(),
        Arc::new(SystemTime::now),
        settings,
        &api.counters,
    );
    router::secured(routes, api, &Arc::new(security))
}

fn proxy_of(authority: &CertificateAuthority) -> Issued {
    let issued = authority.client("front-proxy-client", None, validity());
    issued.unwrap()
}

/// Checks a refusal and returns its message.
fn refused(answer: &TestResponse, code: u16) -> String {
    let body = status(answer);
    assert_eq!(answer.status, code, "{body}");
    body["message"].as_str().unwrap().to_owned()
}

//! A permit is held until the answer is written.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Router;

use aggregated_apiserver::api::service::into_service;
use aggregated_apiserver::certificates::authority::CertificateAuthority;
use aggregated_apiserver::security::Security;
use aggregated_apiserver::security::reviewer::AccessVerdict;
use aggregated_apiserver::security::settings::SecuritySettings;
use aggregated_apiserver::security::trust::TrustStore;
use aggregated_apiserver::serve::listener::Limits;
use aggregated_apiserver::serve::tls::ClientAuth;
use aggregated_apiserver::testing::fake_reviewer::FakeReviewer;
use aggregated_apiserver::testing::frames::Frames;
use aggregated_apiserver::testing::test_server::{TestServer, validity};
use apimachinery::time::Timestamp;

use crate::api::{Api, router};
use crate::provider::gpu::GpuProvider;
use crate::provider::served::ServedGpus;
use crate::telemetry::Telemetry;

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn an_answer_counts_as_a_request_until_it_is_taken() {
    const PATH: &str = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/pods/a/m";
    let reviewer = FakeReviewer::new();
    reviewer.rule(|_, _| AccessVerdict::Allowed);
    let provider = Arc::new(ServedGpus::from(Arc::new(GpuProvider::new(&[]))));
    let api = Api::new(provider, || Timestamp::from_secs(0), Telemetry::new());
    let settings = SecuritySettings {
        anonymous_in_flight: 1,
        ..SecuritySettings::default()
    };
    let security = Security::new(
        Arc::new(TrustStore::default()),
        Arc::new(reviewer),
        Arc::new(SystemTime::now),
        settings,
        api.counters(),
    );
    let routes = Router::new().fallback(async || "an answer");
    let service = into_service(router::secured(routes, &api, &Arc::new(security)));
    let authority = CertificateAuthority::new("test", validity()).unwrap();
    let limits = Limits {
        read: HOUR,
        idle: HOUR,
        stall: HOUR,
        drain: HOUR,
        ..Limits::default()
    };
    let server = TestServer::with(service, authority, &ClientAuth::Asked, limits).await;
    let mut client = Frames::connect(&server, 0).await;
    let stream = client.get(PATH).await.unwrap();
    client.began(1).await;
    assert_eq!(server.get(PATH).await.status, 429);
    client.open(stream, 1 << 20).await;
    client.answered(1).await;
    assert_eq!(server.get(PATH).await.status, 200);
}

//! The API over real TLS connections. A test whose name begins with a number, and a section of
//! `exchanges/*.txt` with that number, checks that statement of `statements.md`.

mod discovery;
mod fixture;
mod messages;
mod openapi;
mod operation;
mod paths;
mod security;
mod usage;
mod values;

use std::sync::Arc;

use fixture::{Fixture, NOW};
use serde_json::Value as Json;

use aggregated_apiserver::api::service::into_service;
use aggregated_apiserver::serve::listener::Service;
use aggregated_apiserver::testing::test_server::{TestResponse, TestServer};

use crate::api::{Api, router};
use crate::telemetry::Telemetry;

const V1: &str = "/apis/custom.metrics.k8s.io/v1beta1";
const V2: &str = "/apis/custom.metrics.k8s.io/v1beta2";
const EXT: &str = "/apis/external.metrics.k8s.io/v1beta1";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

fn api(fixture: &Arc<Fixture>) -> Arc<Api> {
    Api::new(fixture.clone(), || NOW, Telemetry::new().unwrap())
}

/// The API without authentication, as the service of a listener.
fn open(api: &Arc<Api>) -> Service {
    into_service(router::open(api))
}

async fn server() -> (TestServer, Arc<Fixture>) {
    let fixture = Arc::new(Fixture::new());
    (TestServer::start(open(&api(&fixture))).await, fixture)
}

/// The answer to a request below [`V2`].
async fn get(server: &TestServer, target: &str) -> TestResponse {
    server.get(&format!("{V2}/{target}")).await
}

/// A server of another fixture.
async fn changed(change: impl FnOnce(&mut Fixture)) -> TestServer {
    let mut fixture = Fixture::new();
    change(&mut fixture);
    TestServer::start(open(&api(&Arc::new(fixture)))).await
}

/// Checks that an answer is a `Status` and returns it.
fn status(answer: &TestResponse) -> Json {
    let body = answer.json();
    assert_eq!(body["kind"], "Status", "{body}");
    assert_eq!(body["apiVersion"], "v1", "{body}");
    assert_eq!(body["status"], "Failure", "{body}");
    assert_eq!(body["code"], answer.status, "{body}");
    assert!(body["reason"].is_string(), "{body}");
    let message = body["message"].as_str().unwrap();
    assert!(!message.contains('\n') && message.len() <= 512, "{body}");
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(answer.header("location"), None);
    body
}

/// Percent-encodes a query value.
fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

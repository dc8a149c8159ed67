use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use prost::Message;
use serde::Serialize;

use aggregated_apiserver::api::encode;
use aggregated_apiserver::api::negotiate::Encoding;

use super::messages as values;
use super::*;

async fn accept(server: &TestServer, target: &str, accept: &str) -> TestResponse {
    server.send("GET", target, &[("Accept", accept)]).await
}

fn pods() -> String {
    format!("{V2}/namespaces/ns/pods/*/m")
}

/// Decodes the envelope: version, kind and the object's bytes.
fn open(body: &[u8]) -> (String, String, Vec<u8>) {
    assert_eq!(&body[..4], [0x6b, 0x38, 0x73, 0x00]);
    let envelope = values::Unknown::decode(&body[4..]).unwrap();
    let meta = envelope.type_meta.unwrap();
    let (version, kind) = (meta.api_version.unwrap(), meta.kind.unwrap());
    (version, kind, envelope.raw.unwrap())
}

/// A list in protobuf, encoded again by serde and by prost.
fn read<L: Message + Default + Serialize>(body: &[u8]) -> [Vec<u8>; 2] {
    let (api_version, kind, raw) = open(body);
    let list = L::decode(raw.as_slice()).unwrap();
    [Encoding::Json, Encoding::Protobuf]
        .map(|encoding| encode::object(encoding, &api_version, &kind, &list))
}

#[tokio::test]
async fn s044_s048_s049_the_preferred_type_is_used_and_json_is_the_default() {
    const JSON: &str = "application/json";
    let (server, _) = server().await;
    let plain = server.get(&pods()).await;
    assert_eq!(plain.header("content-type"), Some(JSON));
    let all = "*/* application/* application/json;charset=utf-8 application/json APPLICATION/JSON \
               application/json;stream=watch text/html,*/*;q=0.1 \
               application/json;q=0.9,application/vnd.kubernetes.protobuf;q=0.1";
    for wish in all.split(' ') {
        let answer = accept(&server, &pods(), wish).await;
        assert_eq!(answer.header("content-type"), Some(JSON), "{wish}");
        assert!(answer.body == plain.body, "{wish}");
    }
    let protobuf = "application/json;q=0.1,application/vnd.kubernetes.protobuf;q=0.9";
    let answer = accept(&server, &pods(), protobuf).await;
    assert_eq!(answer.header("content-type"), Some(PROTOBUF));
    let none = "text/html application/xml application/yaml text/* application/json;q=0 ,,;; \
                application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    for wish in none.split_whitespace() {
        let answer = accept(&server, &pods(), wish).await;
        assert_eq!(status(&answer)["code"], 406, "{wish}");
    }
}

#[tokio::test]
async fn s045_protobuf_has_the_content_of_json() {
    let (server, _) = server().await;
    let wish = "application/vnd.kubernetes.protobuf, */*";
    let same = async |target: String, read: fn(&[u8]) -> [Vec<u8>; 2]| {
        let answer = accept(&server, &target, wish).await;
        assert_eq!(answer.header("content-type"), Some(PROTOBUF));
        let json = server.get(&target).await.body;
        assert!(read(&answer.body) == [json, answer.body], "{target}");
    };
    for target in [
        "namespaces/ns/pods/*/m",
        "namespaces/ns/pods/a/m?metricLabelSelector=gpu%3D1",
        "namespaces/ns/metrics/m",
        "nodes/*/m",
        "namespaces/broken/pods/*/m",
        "namespaces/large/pods/*/m",
    ] {
        same(format!("{V2}/{target}"), read::<values::ListV1Beta2>).await;
    }
    let old = format!("{V1}/namespaces/ns/pods/*/m?metricLabelSelector=gpu%3D0");
    same(old, read::<values::ListV1Beta1>).await;
    let external = format!("{EXT}/namespaces/ns/queue_depth");
    same(external, read::<values::ExternalList>).await;
}

#[tokio::test]
async fn s046_errors_are_available_in_protobuf() {
    let (server, _) = server().await;
    let target = format!("{V2}/namespaces/ns/pods/c/m");
    let answer = accept(&server, &target, PROTOBUF).await;
    assert_eq!(answer.status, 404);
    assert_eq!(answer.header("content-type"), Some(PROTOBUF));
    let (api_version, kind, raw) = open(&answer.body);
    assert_eq!((api_version.as_str(), kind.as_str()), ("v1", "Status"));
    let read = Status::decode(raw.as_slice()).unwrap();
    let json = status(&server.get(&target).await);
    assert_eq!(json["message"], read.message.unwrap());
    assert_eq!(json["reason"], read.reason.unwrap());
    assert_eq!(read.code, Some(404));
}

/// The fields of `metav1.Status` that clients read.
#[derive(Clone, PartialEq, prost::Message)]
struct Status {
    #[prost(string, optional, tag = "3")]
    message: Option<String>,
    #[prost(string, optional, tag = "4")]
    reason: Option<String>,
    #[prost(int32, optional, tag = "6")]
    code: Option<i32>,
}

#[tokio::test]
async fn s047_tables_are_not_supported() {
    let (server, _) = server().await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let both = accept(&server, &pods(), &format!("{table},application/json")).await;
    assert_eq!(names(&both), ["a", "b"]);
    let alone = accept(&server, &pods(), table).await;
    let body = status(&alone);
    assert_eq!(body["code"], 406);
    assert_eq!(body["reason"], "NotAcceptable");
    let types = format!("application/json, {PROTOBUF}");
    let message = format!("only the following media types are accepted: {types}");
    assert_eq!(body["message"], message);
}

#[tokio::test]
async fn s050_answers_are_never_compressed() {
    let (server, _) = server().await;
    let large = format!("{V2}/namespaces/large/pods/*/m");
    let answer = server
        .send("GET", &large, &[("Accept-Encoding", "gzip")])
        .await;
    assert!(answer.body.len() > 128 * 1024);
    assert_eq!(answer.header("content-encoding"), None);
}

#[tokio::test]
async fn s052_hostile_accept_headers_are_answered_at_once() {
    let (server, fixture) = server().await;
    let clauses = "text/html;q=0.5,".repeat(1000);
    let semicolons = ";".repeat(10_000);
    let long = "x".repeat(10_240);
    let short = ["////", ";q=", "*/*;q=nan", ",,,", "\"", "/"];
    for wish in [&*clauses, &semicolons, &long].into_iter().chain(short) {
        let answer = accept(&server, &pods(), wish).await;
        assert!(matches!(answer.status, 200 | 400 | 406), "{wish:.20}");
        // The duration of the response without connection and handshake. The shortest of
        // several counts, because the machine has other load.
        let request = http::Request::get(pods()).header("accept", wish).body(());
        let (parts, ()) = request.unwrap().into_parts();
        let took = (0..10).map(|_| {
            let began = Instant::now();
            api(&fixture).handle(&parts).now_or_never().unwrap();
            began.elapsed()
        });
        assert!(took.min() < Some(Duration::from_millis(50)), "{wish:.20}");
    }
}

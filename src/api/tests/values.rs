//! Values as quantities, in protobuf, and for any Accept header.

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
async fn s035_s036_served_quantities_read_back_as_the_value() {
    let (server, _) = server().await;
    let list = get(&server, "namespaces/large/pods/*/m").await.json();
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 1000);
    for (index, item) in items.iter().enumerate() {
        let milli = apimachinery::quantity::parse_milli(item["value"].as_str().unwrap());
        let wanted = apimachinery::quantity::milli_from_f64(index as f64 / 7.0);
        assert_eq!(milli, wanted, "{item}");
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
async fn s052_hostile_accept_headers_are_answered_at_once() {
    let (server, fixture) = server().await;
    let clauses = "text/html;q=0.5,".repeat(1000);
    let semicolons = ";".repeat(10_000);
    let long = "x".repeat(10_240);
    for wish in [&*clauses, &semicolons, &long] {
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

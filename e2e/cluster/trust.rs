//! Trust in clients follows the ConfigMap that kube-apiserver publishes: on open
//! connections too, and never as a result of an invalid text.

use std::time::{Duration, Instant};

use serde_json::json;

use super::asking::{Came, Way, connected_to, identity};
use super::lab::PATIENCE;
use super::stand::{Stand, certificates};
use crate::controlplane::{ControlPlane, Extent};

/// A path that needs authentication.
const PATH: &str = "/apis/custom.metrics.k8s.io/v1beta2";

/// A front proxy like kube-apiserver's aggregator.
fn proxy(plane: &ControlPlane, port: u16) -> Way {
    let (certificate, key) = plane.front_proxy_client();
    Way::straight(port, Some(identity((&certificate, &key))))
}

const MASTER: [(&str, &str); 2] = [
    ("X-Remote-User", "somebody"),
    ("X-Remote-Group", "system:masters"),
];

async fn ask(proxy: &Way) -> Came {
    proxy.get_with(PATH, &MASTER).await
}

/// Repeats a request until the answer has this code. Returns how long that took.
async fn await_code(proxy: &Way, code: u16) -> Duration {
    let begun = Instant::now();
    proxy.until_code(PATH, &MASTER, code).await;
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
async fn s073_a_front_proxy_counts_while_its_authority_is_published() {
    let plane = ControlPlane::lend(Extent::Api);
    let admin = plane.kubeconfig().to_owned();
    let (_dir, own) = certificates();
    let stand = Stand::start([&admin; 3], &[&own]);
    stand.await_well("").await;
    let old = proxy(&plane, stand.port);
    await_code(&old, 200).await;
    let connections = connected_to(stand.port);
    assert_eq!(connections.len(), 1, "{connections:?}");

    let next = plane.trust_another_front_proxy();
    plane.show_front_proxy(&next);
    let new = proxy(&plane, stand.port);
    let took = await_code(&new, 200).await;
    println!("the new authority counts {took:.2?} after it was published");
    assert_eq!(ask(&old).await.code(), Some(200), "both are published");
    plane.publish_front_proxy(&next.authority);
    let begun = Instant::now();
    loop {
        let open = connected_to(stand.port);
        let came = ask(&old).await;
        if came.code() == Some(401) {
            assert!(open.is_superset(&connections), "it was the open connection");
            break;
        }
        assert_eq!(came.code(), Some(200), "{came:?}");
        assert!(begun.elapsed() < PATIENCE, "{came:?}");
    }
    println!("the old one no longer counts {:.2?} later", begun.elapsed());
    assert_eq!(ask(&old).await.code(), Some(401), "nor on a new connection");
    assert_eq!(ask(&new).await.code(), Some(200));
}

#[tokio::test(flavor = "multi_thread")]
async fn s074_what_cannot_be_read_of_the_config_map_changes_nothing() {
    let plane = ControlPlane::lend(Extent::Api);
    let admin = plane.kubeconfig().to_owned();
    let (_dir, own) = certificates();
    let stand = Stand::start([&admin; 3], &[&own]);
    stand.await_well("").await;
    let known = proxy(&plane, stand.port);
    await_code(&known, 200).await;
    let good = std::fs::read_to_string(plane.front_proxy_ca()).unwrap();

    let names = "requestheader-allowed-names";
    let authority = "requestheader-client-ca-file";
    let broken = "-----BEGIN CERTIFICATE-----\ngarbage\n-----END CERTIFICATE-----\n";
    for (key, text, told) in [
        (names, "[front-proxy-client", "not a JSON list of strings"),
        (authority, "", "it holds no certificate"),
        (authority, broken, "write PEM certificates"),
    ] {
        plane.patch_published(&json!({key: text}));
        stand.server.await_stderr(told);
        assert_eq!(ask(&known).await.code(), Some(200), "after {key}: {text:?}");
        stand.await_well("").await;
    }
    one_that_never_knew_better_believes_nobody(&plane).await;

    let map = ["delete", "configmap", "extension-apiserver-authentication"];
    plane.kubectl(&[&map[..], &["--namespace=kube-system"]].concat());
    assert_eq!(ask(&known).await.code(), Some(200), "after it was deleted");
    // kube-apiserver creates it again.
    plane.await_published().unwrap();
    plane.publish_front_proxy(&good);
    assert_eq!(ask(&known).await.code(), Some(200));
}

/// Two servers that start now: one cannot parse the text, and one has no right to
/// read it.
async fn one_that_never_knew_better_believes_nobody(plane: &ControlPlane) {
    let admin = plane.kubeconfig().to_owned();
    let (_dir, own) = certificates();
    let late = Stand::start([&admin; 3], &[&own]);
    let words = ["requestheader-client-ca-file", "write PEM certificates"];
    let said = late.await_failing("client-authorities", &words).await;
    println!("{said}");
    late.await_unready(&["client-authorities"]).await;
    assert_eq!(ask(&proxy(plane, late.port)).await.code(), Some(401));

    let account = plane.service_account_kubeconfig("default", "nobody");
    let (_dir, own) = certificates();
    let blind = Stand::start([&admin, &account, &admin], &[&own]);
    let words = ["bind the Role extension-apiserver-authentication-reader"];
    blind.await_failing("authentication", &words).await;
    assert!(!blind.unready().await.is_empty());
    assert_eq!(ask(&proxy(plane, blind.port)).await.code(), Some(401));
}

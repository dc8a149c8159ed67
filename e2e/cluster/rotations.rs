//! Certificates and authorities are replaced during constant requests.

use std::time::{Duration, Instant};

use reqwest::Identity;
use serde_json::Value;

use super::lab::{APISERVICES, HOME, PATIENCE, SECRET};
use super::scene::{ALL, Scene};
use crate::asking::ApiClient;
use crate::program::{eventually, ok_if};

const PERCENT: u32 = 60;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make test-slow"]
async fn s073_certificates_and_authorities_rotate_under_requests() {
    let scene = Scene::start(PERCENT).await;
    the_secret_is_deleted(&scene);
    the_front_proxy_gets_another_authority(&scene).await;
    scene.lab.plane.rotate_front_proxy();
    scene.await_answers(scene.trickle.now(), &ALL);
    let steady = u64::from(PERCENT);
    scene.assert_right(scene.settled, &(steady..=steady));
}

/// Rotation by an administrator. The server makes another authority, and signs a certificate.
/// Requests may fail until it is trusted.
fn the_secret_is_deleted(scene: &Scene) {
    let plane = &scene.lab.plane;
    let bundles =
        || APISERVICES.map(|name| plane.object(&["apiservice", name])["spec"]["caBundle"].clone());
    let before = bundles();
    let began = Instant::now();
    plane.kubectl(&["delete", "secret", SECRET, "-n", HOME]);
    eventually("another authority in every bundle", PATIENCE, || {
        let (admin, key) = (plane.kubeconfig(), "jsonpath={.data.ca\\.crt}");
        let authority =
            plane.kubectl_as(admin, &["get", "secret", SECRET, "-n", HOME, "-o", key])?;
        let now = bundles();
        let is_new = |it: &Value| *it == *authority && !before.contains(it);
        ok_if(now.iter().all(is_new), &now)
    });
    let from = scene.trickle.now();
    scene.await_answers(from, &ALL);
    println!("another authority and answers after {:?}", began.elapsed());
    // New connections use the new certificate.
    let from = scene.trickle.now();
    std::thread::sleep(Duration::from_secs(5));
    scene.assert_answered(from, &ALL);
}

/// The steps of an administrator: every server trusts the new authority beside the old one
/// before a certificate of it is in use.
async fn the_front_proxy_gets_another_authority(scene: &Scene) {
    let from = scene.trickle.now();
    let plane = &scene.lab.plane;
    let next = plane.trust_another_front_proxy();
    let client = &next.client;
    let pem = client.cert.pem() + &client.signing_key.serialize_pem();
    let proxy = Identity::from_pem(pem.as_bytes()).unwrap();
    let proxy = ApiClient::proxied(scene.lab.port, proxy, "admin", "system:masters");
    proxy.until_code("/apis", 200).await;
    plane.show_front_proxy(&next);
    // kube-apiserver checks the files of its own certificate once a minute, and
    // sooner after a notification by the kernel.
    std::thread::sleep(Duration::from_secs(10));
    scene.assert_answered(from, &ALL);
    let from = scene.trickle.now();
    plane.publish_front_proxy(&next.authority);
    std::thread::sleep(Duration::from_secs(10));
    scene.await_answers(scene.trickle.now(), &ALL);
    scene.assert_answered(from, &ALL);
}

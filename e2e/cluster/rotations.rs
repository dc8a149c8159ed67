//! Certificates and authorities are replaced during constant requests.

use std::time::{Duration, SystemTime};

use aggregated_apiserver::certificates::managed::ManagedSettings;
use aggregated_apiserver::certificates::managed::content::Data;
use aggregated_apiserver::certificates::managed::decide::decide;
use aggregated_apiserver::certificates::managed::store::ServiceName;
use k8s_openapi::ByteString;
use serde_json::{Map, json};

use super::lab::{HOME, NAME, PATIENCE, SECRET};
use super::scene::{ALL, Scene};
use crate::program::{eventually, ok_if};

const DAY: Duration = Duration::from_secs(24 * 3600);

const PERCENT: u32 = 60;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make test-slow"]
async fn s073_certificates_and_authorities_rotate_under_requests() {
    let scene = Scene::start(PERCENT).await;
    the_serving_authority_comes_of_age(&scene);
    the_secret_is_deleted(&scene);
    the_front_proxy_gets_another_authority(&scene);
    scene.lab.plane.rotate_front_proxy();
    scene.await_answers(scene.trickle.now(), &ALL);
    let steady = u64::from(PERCENT);
    scene.assert_right(scene.settled, &(steady..=steady));
}

/// The Secret has an authority that another replica made 250 days ago, its certificate, and its
/// successor of two days ago. The server trusts both, and the successor signs.
fn the_serving_authority_comes_of_age(scene: &Scene) {
    let from = scene.trickle.now();
    let mut data = Map::new();
    for (key, value) in aged() {
        data.insert(key, json!(ByteString(value)));
    }
    let data = json!({"data": data});
    scene
        .lab
        .plane
        .patch(&["secret", SECRET, "-n", HOME], &data);
    await_log(scene, "the signature of the new authority", |said| {
        said.contains("a new authority signs from now on")
    });
    await_log(scene, "the new authority's certificate", |said| {
        said.matches("serving certificate in force").count() > 1
    });
    // New connections use the replaced certificate.
    std::thread::sleep(Duration::from_secs(5));
    scene.assert_answered(from, &ALL);
}

/// The server keeps its current certificate, and fills the Secret that an administrator
/// creates.
fn the_secret_is_deleted(scene: &Scene) {
    let from = scene.trickle.now();
    let plane = &scene.lab.plane;
    plane.kubectl(&["delete", "secret", SECRET, "-n", HOME]);
    await_log(scene, "the missing Secret", |said| {
        said.contains("does not exist")
    });
    plane.kubectl(&["create", "secret", "generic", SECRET, "-n", HOME]);
    eventually("certificates in the Secret", PATIENCE, || {
        let secret = plane.object(&["secret", SECRET, "-n", HOME]);
        let data = secret["data"].as_object().map_or(0, Map::len);
        ok_if(data > 0, &secret)
    });
    // A replica keeps its certificate until the new authority is a day old.
    std::thread::sleep(Duration::from_secs(5));
    scene.assert_answered(from, &ALL);
}

fn aged() -> Data {
    let service = ServiceName {
        namespace: HOME.to_owned(),
        name: NAME.to_owned(),
    };
    let settings = ManagedSettings::new(service);
    let mut data = Data::new();
    for days in [250, 60, 2] {
        let then = SystemTime::now() - days * DAY;
        let (content, reason) = decide(&data, (None, &[]), &settings, then).unwrap();
        assert!(reason.is_some(), "each step is written");
        data = content.data(then);
    }
    data
}

/// The steps of an administrator: the new authority is trusted beside the old one before a
/// certificate of it is in use.
fn the_front_proxy_gets_another_authority(scene: &Scene) {
    let from = scene.trickle.now();
    let plane = &scene.lab.plane;
    let next = plane.trust_another_front_proxy();
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

fn await_log(scene: &Scene, what: &str, found: impl Fn(&str) -> bool) {
    let server = scene.lab.server.as_ref().unwrap();
    server.find_in_stderr(what, PATIENCE, |said| found(said).then_some(()));
}

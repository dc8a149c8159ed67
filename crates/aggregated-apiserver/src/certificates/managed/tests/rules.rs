//! One replica, one fault at a time.

use super::super::RESOURCE_APISERVICES;
use super::super::content::{self, anchors};
use super::super::decide::decide;
use super::super::store::{Entry, ServiceName};
use super::world::{DAY, Stepped, World, ours, settings, start};
use crate::certificates::Registration;
use crate::certificates::authority::{CertificateAuthority, Validity};
use std::sync::atomic::Ordering;

const NAME: &str = "v1beta2.custom.metrics.k8s.io";

fn scene() -> (World, Stepped) {
    let settings = settings(1);
    let world = World::new(&settings);
    let mut replica = Stepped::new(&world, &settings);
    replica.pass(start());
    (world, replica)
}

fn other() -> ServiceName {
    ServiceName {
        namespace: "monitoring".to_owned(),
        name: "prometheus-adapter".to_owned(),
    }
}

fn foreign_authority() -> String {
    let validity = Validity {
        not_before: start() - DAY,
        not_after: start() + DAY * 3650,
    };
    let authority = CertificateAuthority::new("somebody else", validity).unwrap();
    authority.certificate_pem()
}

#[test]
fn the_first_pass_makes_registers_and_serves_a_pair() {
    let (world, replica) = scene();
    assert_eq!(replica.registration(NAME), Registration::Registered);
    let pair = replica.serving.pair().unwrap();
    let names = [
        "gpu-metrics-apiserver.gpu-metrics.svc",
        "gpu-metrics-apiserver.gpu-metrics.svc.cluster.local",
        "gpu-metrics-apiserver.gpu-metrics",
    ];
    assert_eq!(pair.names(), names);
    assert_eq!(pair.validity().not_after, start() + DAY * 90);
    assert_eq!(pair.validity().not_before, start() - DAY / 24);
    let bundle = world.entry(NAME).bundle;
    assert_eq!(bundle, world.data()[content::CA_CERTIFICATE]);
    let (_, parsed) = x509_parser::parse_x509_certificate(&pair.chain()[0]).unwrap();
    let usage = parsed.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.server_auth && !usage.client_auth && !usage.any);
}

#[test]
fn a_new_authority_joins_the_bundles_a_day_before_it_signs() {
    let (world, mut replica) = scene();
    let mut now = start();
    for _ in 0..3 {
        now += DAY * 61;
        replica.pass(now);
    }
    let leaf = replica.leaf();
    now += DAY * 61;
    world.lock().bundle_writes_fail = Some("forbidden".to_owned());
    for _ in 0..3 {
        replica.pass(now);
        now += DAY;
    }
    assert_eq!(replica.leaf(), leaf, "no bundle holds it");
    let status = replica.serving.status.borrow().clone();
    assert!(status.registered().unwrap_err().contains("forbidden"));
    replica.restart();
    replica.pass(now);
    assert_eq!(replica.leaf(), leaf, "kube-apiserver trusts what it serves");
    world.lock().bundle_writes_fail = None;
    replica.pass(now);
    assert_eq!(replica.leaf(), leaf, "kube-apiserver may not have read it");
    replica.pass(now);
    assert_ne!(replica.leaf(), leaf);
    let bundle = anchors(&world.entry(NAME).bundle).unwrap();
    assert_eq!(bundle.len(), 2, "the old authority stays trusted");
    assert_eq!(world.lock().secret_writes, 6, "one new authority");
}

#[test]
fn a_replica_whose_certificate_no_bundle_trusts_any_more_uses_the_new_one_at_once() {
    let (world, mut replica) = scene();
    let (leaf, authority) = (replica.leaf(), world.entry(NAME).bundle);
    world.change_secret(std::collections::BTreeMap::clear);
    world.change_entry(NAME, |entry| entry.bundle.clear());
    replica.pass(start());
    let bundle = anchors(&world.entry(NAME).bundle).unwrap();
    assert!(bundle.contains(&anchors(&authority).unwrap()[0]));
    assert_eq!(replica.leaf(), leaf, "the bundle has its authority again");
    // Another replica does not know the authority.
    world.change_secret(std::collections::BTreeMap::clear);
    world.change_entry(NAME, |entry| entry.bundle.clear());
    Stepped::new(&world, &settings(1)).pass(start());
    replica.pass(start());
    assert_ne!(replica.leaf(), leaf);
    replica.is_well();
}

#[test]
fn an_apiservice_that_another_server_rewrites_leaves_no_replica_without_a_pair() {
    let settings = settings(1);
    let world = World::new(&settings);
    let mut replica = Stepped::new(&world, &settings);
    for day in [0, 61, 91] {
        let now = start() + DAY * day;
        world.change_entry(NAME, |entry| entry.bundle = foreign_authority().into());
        while replica.step(now).is_none() {}
        assert_eq!(replica.serving.pair().unwrap().check(now), Ok(()));
    }
}

/// Checks that an APIService with this change keeps its bundle, and is reported.
fn is_only_reported(change: impl FnOnce(&World), words: &str, bundle: &[u8]) {
    let (world, mut replica) = scene();
    change(&world);
    replica.pass(start());
    assert_eq!(world.entry(NAME).bundle, bundle);
    let status = replica.serving.status.borrow();
    let why = status.registered().unwrap_err();
    assert!(why.contains(words), "{why}");
    assert_eq!(status.ready(start()), Ok(()), "the other groups are served");
}

#[test]
fn an_apiservice_of_another_server_or_of_cert_manager_is_only_reported() {
    let words = "refers to Service monitoring/prometheus-adapter and not";
    is_only_reported(|world| world.apply(NAME, other()), words, b"");
    let injected = |entry: &mut Entry| {
        entry.injected = Some("cert-manager.io/inject-ca-from".to_owned());
        entry.bundle = b"theirs".to_vec();
    };
    let words = "annotation cert-manager.io/inject-ca-from";
    is_only_reported(|world| world.change_entry(NAME, injected), words, b"theirs");
}

#[test]
fn an_apiservice_of_another_server_is_taken_over_with_the_flag() {
    let mut settings = settings(1);
    settings.take_over = true;
    let world = World::new(&settings);
    world.apply(NAME, other());
    let mut replica = Stepped::new(&world, &settings);
    replica.pass(start());
    let entry = world.entry(NAME);
    assert_eq!(entry.service, Some(ours()));
    assert!(!entry.bundle.is_empty());
    assert_eq!(replica.registration(NAME), Registration::Registered);
}

#[test]
fn the_apiservices_of_resource_metrics_are_managed_while_they_are_served() {
    let settings = settings(1);
    let world = World::new(&settings);
    for name in RESOURCE_APISERVICES {
        world.apply(name, ours());
    }
    let mut replica = Stepped::new(&world, &settings);
    replica.pass(start());
    for name in RESOURCE_APISERVICES {
        assert!(world.entry(name).bundle.is_empty(), "{name}");
    }
    settings.serves_resources.store(true, Ordering::Relaxed);
    replica.pass(start());
    for name in RESOURCE_APISERVICES {
        assert_eq!(replica.registration(name), Registration::Registered);
        assert!(!world.entry(name).bundle.is_empty(), "{name}");
    }
    let manifest = "apply manifests/optional/resource-metrics.yaml";
    for (name, remedy) in [
        (NAME, "apply manifests/apiservices.yaml"),
        (RESOURCE_APISERVICES[0], manifest),
    ] {
        let entry = world.entry(name);
        world.remove_entry(name);
        replica.pass(start());
        let status = replica.serving.status.borrow().clone();
        let why = status.registered().unwrap_err();
        assert!(why.contains(remedy), "{why}");
        assert_eq!(status.ready(start()), Ok(()));
        world.apply(name, entry.service.unwrap());
    }
    settings.serves_resources.store(false, Ordering::Relaxed);
    replica.pass(start());
    assert_eq!(replica.serving.status.borrow().registered(), Ok(()));
}

#[test]
fn every_changed_bundle_is_repaired_and_the_pair_stays() {
    let (world, mut replica) = scene();
    let leaf = replica.leaf();
    let foreign = foreign_authority();
    let changes: [&dyn Fn(&mut Entry); 4] = [
        &|entry| entry.bundle.clear(),
        &|entry| entry.bundle = b"garbage".to_vec(),
        &|entry| entry.bundle.extend(foreign.as_bytes()),
        &|entry| {
            entry.insecure = true;
            entry.bundle.clear();
        },
    ];
    for change in changes {
        world.change_entry(NAME, change);
        replica.pass(start());
        let entry = world.entry(NAME);
        assert_eq!(anchors(&entry.bundle).unwrap().len(), 1);
        assert!(!entry.insecure);
        assert_eq!(replica.leaf(), leaf);
    }
}

#[test]
fn every_broken_value_of_the_secret_is_repaired_and_the_pair_stays_trusted() {
    for key in content::ALL {
        for garbage in ["", "garbage", &foreign_authority()] {
            let (world, mut replica) = scene();
            let mut fresh = Stepped::new(&world, &settings(1));
            world.change_secret(|data| drop(data.insert(key.to_owned(), garbage.into())));
            fresh.pass(start());
            let now = start() + DAY;
            for now in [start(), now] {
                replica.pass(now);
                fresh.pass(now);
            }
            let found = (None, &world.bundles()[..]);
            let (_, reason) = decide(&world.data(), found, &settings(1), now).unwrap();
            assert_eq!(reason, None, "{key}: {garbage}");
            assert_eq!(replica.leaf(), fresh.leaf(), "{key}: {garbage}");
            replica.is_well();
        }
    }
}

#[test]
fn a_secret_that_cannot_be_read_leaves_the_pair_in_force() {
    let (world, mut replica) = scene();
    let leaf = replica.leaf();
    world.lock().secret_fails = Some("forbidden: allow it".to_owned());
    let bundle = world.entry(NAME).bundle;
    world.change_entry(NAME, |entry| entry.bundle.clear());
    replica.pass(start());
    assert_eq!(world.entry(NAME).bundle, bundle, "it is repaired");
    let status = replica.serving.status.borrow().clone();
    assert_eq!(status.lost().unwrap().text, "forbidden: allow it");
    assert_eq!(replica.leaf(), leaf);
    assert_eq!(status.ready(start()), Ok(()));
    let expired = status.ready(start() + DAY * 91).unwrap_err();
    assert!(expired.contains("forbidden: allow it"), "{expired}");
    world.lock().secret_fails = None;
    replica.pass(start());
    replica.is_well();
}

#[test]
fn without_a_secret_from_the_start_nothing_is_served_and_readiness_has_the_reason() {
    let settings = settings(1);
    let world = World::new(&settings);
    world.lock().secret_fails = Some("forbidden: allow it".to_owned());
    let mut replica = Stepped::new(&world, &settings);
    replica.pass(start());
    let status = replica.serving.status.borrow();
    assert_eq!(status.lost(), None, "there is none to lose");
    assert_eq!(status.ready(start()), Err("forbidden: allow it".to_owned()));
    assert!(replica.serving.pair().is_none());
}

#[test]
fn replicas_whose_services_differ_agree_on_the_names_of_both() {
    let (world, mut replica) = scene();
    let mut renamed = settings(1);
    renamed.service.name = "renamed".to_owned();
    world.apply(NAME, renamed.service.clone());
    let mut other = Stepped::new(&world, &renamed);
    for _ in 0..3 {
        other.pass(start());
        replica.pass(start());
    }
    assert_eq!(world.lock().secret_writes, 2);
    let names = other.serving.pair().unwrap().names().to_vec();
    assert_eq!(names[0], "renamed.gpu-metrics.svc");
    assert_eq!(names.len(), 6, "{names:?}");
}

#[test]
fn a_foreign_authority_in_the_secret_is_trusted() {
    let (world, mut replica) = scene();
    let pem = foreign_authority();
    world.change_secret(|data| {
        let bundle = data.get_mut(content::CA_CERTIFICATE).unwrap();
        bundle.extend(pem.as_bytes());
    });
    replica.pass(start());
    let bundle = anchors(&world.entry(NAME).bundle).unwrap();
    assert!(bundle.contains(&anchors(pem.as_bytes()).unwrap()[0]));
}

#[test]
fn an_authority_removed_from_the_secret_stays_in_the_bundles_until_it_expires() {
    let (world, mut replica) = scene();
    let before = world.entry(NAME).bundle;
    world.change_secret(std::collections::BTreeMap::clear);
    Stepped::new(&world, &settings(1)).pass(start());
    replica.pass(start());
    let held = |world: &World| {
        let bundle = anchors(&world.entry(NAME).bundle).unwrap();
        bundle.contains(&anchors(&before).unwrap()[0])
    };
    replica.pass(start() + DAY * 364);
    assert!(held(&world));
    replica.pass(start() + DAY * 366);
    assert!(!held(&world));
}

//! One replica, one fault at a time.

use super::super::RESOURCE_APISERVICES;
use super::super::store::{ApiService, CA_CERTIFICATE, KEYS, ServiceName};
use super::world::{DAY, Stepped, World, ours, settings, start, verify};
use crate::certificates::authority::{CertificateAuthority, Validity};

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

fn foreign_authority(days: u32) -> CertificateAuthority {
    let validity = Validity {
        not_before: start() - DAY,
        not_after: start() + DAY * days,
    };
    CertificateAuthority::new("somebody else", validity).unwrap()
}

#[test]
fn the_first_pass_makes_registers_and_serves_a_certificate() {
    let (world, replica) = scene();
    replica.is_well();
    let pair = replica.pair();
    assert_eq!(pair.validity().not_after, start() + DAY * 90);
    assert_eq!(pair.validity().not_before, start() - DAY / 24);
    assert_eq!(world.entry(NAME).bundle, world.data()[CA_CERTIFICATE]);
    let (_, parsed) = x509_parser::parse_x509_certificate(&pair.chain()[0]).unwrap();
    let usage = parsed.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.server_auth && !usage.client_auth && !usage.any);
    let names = parsed.subject_alternative_name().unwrap().unwrap();
    let names: Vec<String> = names
        .value
        .general_names
        .iter()
        .map(ToString::to_string)
        .collect();
    let wanted = [
        "DNSName(gpu-metrics-apiserver.gpu-metrics.svc)",
        "DNSName(gpu-metrics-apiserver.gpu-metrics.svc.cluster.local)",
        "DNSName(gpu-metrics-apiserver.gpu-metrics)",
    ];
    assert_eq!(names, wanted);
    let keys: Vec<String> = world.data().into_keys().collect();
    assert_eq!(keys, KEYS[..2], "no key of a certificate");
}

#[test]
fn a_certificate_is_replaced_after_sixty_days_and_the_authority_stays() {
    let (world, mut replica) = scene();
    let leaf = replica.leaf();
    replica.pass(start() + DAY * 59);
    assert_eq!(replica.leaf(), leaf);
    let now = start() + DAY * 61;
    replica.pass(now);
    assert_ne!(replica.leaf(), leaf);
    verify(&world, &[replica], now);
    assert_eq!(world.writes(), (1, 1));
}

#[test]
fn a_deleted_secret_gives_every_replica_another_authority_in_its_next_pass() {
    let (world, mut replica) = scene();
    let mut second = Stepped::new(&world, &settings(1));
    second.pass(start());
    let (bundle, leaf) = (world.entry(NAME).bundle, replica.leaf());
    world.change_secret(std::collections::BTreeMap::clear);
    second.pass(start());
    replica.pass(start());
    assert_ne!(world.entry(NAME).bundle, bundle);
    assert_ne!(replica.leaf(), leaf);
    let replicas = [replica, second];
    verify(&world, &replicas, start());
    replicas[0].is_well();
}

#[test]
fn a_certificate_never_outlives_its_authority() {
    let (world, mut replica) = scene();
    let authority = foreign_authority(30);
    let pem = authority.certificate_pem();
    let key = authority.key_pem();
    let values = KEYS
        .map(str::to_owned)
        .into_iter()
        .zip([pem, key].map(String::into_bytes));
    world.change_secret(|data| *data = values.collect());
    replica.pass(start());
    let end = replica.pair().validity().not_after;
    assert_eq!(end, start() + DAY * 30);
    verify(&world, &[replica], start());
}

/// Checks that an APIService with this change keeps its bundle, and is reported.
fn is_only_reported(change: impl FnOnce(&World), words: &str, bundle: &[u8]) {
    let (world, mut replica) = scene();
    change(&world);
    replica.pass(start());
    assert_eq!(world.entry(NAME).bundle, bundle);
    let status = replica.status();
    let why = status.registered().unwrap_err();
    assert!(why.contains(words), "{why}");
    assert_eq!(status.ready(start()), Ok(()), "the other groups are served");
}

#[test]
fn an_apiservice_of_another_server_or_of_cert_manager_is_only_reported() {
    let words = "refers to Service monitoring/prometheus-adapter and not";
    is_only_reported(|world| world.apply(NAME, other()), words, b"");
    let injected = |entry: &mut ApiService| {
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
    replica.is_well();
}

#[test]
fn an_absent_apiservice_is_reported_with_its_manifest() {
    let mut settings = settings(1);
    settings.apiservices.extend(RESOURCE_APISERVICES);
    let world = World::new(&settings);
    let mut replica = Stepped::new(&world, &settings);
    replica.pass(start());
    replica.is_well();
    let manifest = "apply manifests/optional/resource-metrics.yaml";
    for (name, remedy) in [
        (NAME, "apply manifests/apiservices.yaml"),
        (RESOURCE_APISERVICES[0], manifest),
    ] {
        world.remove_entry(name);
        replica.pass(start());
        let why = replica.status().registered().unwrap_err();
        assert!(why.contains(remedy), "{why}");
        assert_eq!(replica.status().ready(start()), Ok(()));
        world.apply(name, ours());
    }
}

#[test]
fn every_changed_bundle_is_repaired_and_the_certificate_stays() {
    let (world, mut replica) = scene();
    let (leaf, bundle) = (replica.leaf(), world.entry(NAME).bundle);
    let foreign = foreign_authority(3650).certificate_pem();
    let changes: [&dyn Fn(&mut ApiService); 4] = [
        &|found| found.bundle.clear(),
        &|found| found.bundle = b"garbage".to_vec(),
        &|found| found.bundle.extend(foreign.as_bytes()),
        &|found| {
            found.insecure = true;
            found.bundle.clear();
        },
    ];
    for change in changes {
        world.change_entry(NAME, change);
        replica.pass(start());
        let found = world.entry(NAME);
        assert_eq!(found.bundle, bundle);
        assert!(!found.insecure);
        assert_eq!(replica.leaf(), leaf);
    }
}

#[test]
fn every_broken_value_of_the_authority_is_replaced() {
    let foreign = foreign_authority(3650).certificate_pem();
    for key in &KEYS[..2] {
        for garbage in ["", "garbage", &foreign] {
            let (world, mut replica) = scene();
            world.change_secret(|data| drop(data.insert((*key).to_owned(), garbage.into())));
            replica.pass(start());
            replica.is_well();
            verify(&world, &[replica], start());
            assert_eq!(world.lock().secret_writes, 2, "{key}: {garbage}");
        }
    }
}

#[test]
fn a_secret_that_cannot_be_read_leaves_the_certificate_in_force() {
    let (world, mut replica) = scene();
    let leaf = replica.leaf();
    world.lock().secret_fails = Some("forbidden: allow it".to_owned());
    replica.pass(start());
    let status = replica.status();
    assert_eq!(status.lost().unwrap(), "forbidden: allow it");
    assert_eq!(replica.leaf(), leaf);
    assert_eq!(status.ready(start()), Ok(()));
    let expired = status.ready(start() + DAY * 91).unwrap_err();
    assert!(expired.contains("forbidden: allow it"), "{expired}");
    world.lock().secret_fails = None;
    replica.pass(start());
    replica.is_well();
}

#[test]
fn without_a_secret_from_the_start_the_next_pass_is_soon_and_readiness_has_the_reason() {
    let settings = settings(1);
    let world = World::new(&settings);
    world.lock().secret_fails = Some("forbidden: allow it".to_owned());
    let mut replica = Stepped::new(&world, &settings);
    let soon = std::iter::repeat_with(|| replica.step(start())).find_map(|done| done);
    assert_eq!(soon, Some(true));
    let status = replica.status();
    assert_eq!(status.lost(), None, "there is none to lose");
    assert_eq!(status.ready(start()), Err("forbidden: allow it".to_owned()));
    assert!(status.registered().unwrap_err().contains("not checked yet"));
}

//! One replica, one fault at a time.

mod properties;
mod world;

use aggregated_apiserver::certificates::authority::{CertificateAuthority, Validity};
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::registration::{APISERVICES, RESOURCE_APISERVICES};
use crate::testing::fake_kube::Fault;
use world::{
    DAY, OURS, SECRET, TestReplica, World, apiservice, path, settings, start, unregistered,
};

const NAME: &str = APISERVICES[0];

async fn scene() -> (World, TestReplica) {
    let world = World::new(settings(1)).await;
    let mut replica = TestReplica::new(&world);
    replica.pass(start()).await;
    (world, replica)
}

fn foreign_authority(days: u32) -> CertificateAuthority {
    let validity = Validity {
        not_before: start() - DAY,
        not_after: start() + DAY * days,
    };
    CertificateAuthority::new("somebody else", validity).unwrap()
}

fn base64(text: &str) -> Value {
    json!(ByteString(text.as_bytes().to_vec()))
}

#[tokio::test]
async fn the_first_pass_makes_registers_and_serves_a_certificate() {
    let (world, replica) = scene().await;
    replica.is_well();
    let validity = replica.pair().validity();
    assert_eq!(validity.not_after, start() + DAY * 90);
    assert_eq!(validity.not_before, start() - DAY / 24);
    assert_eq!(world.bundle(NAME), world.value("ca.crt"));
    let secret = world.kube.read(SECRET);
    let keys: Vec<&String> = secret["data"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["ca.crt", "ca.key"], "no key of a certificate");
    let writes = world.kube.queries(SECRET).into_iter();
    let named = writes.filter(|it| *it == format!("fieldManager={OURS}"));
    assert_eq!(named.count(), 1);
    world.verify(&[replica], start());
}

#[tokio::test]
async fn a_certificate_is_replaced_after_sixty_days_and_the_authority_stays() {
    let (world, mut replica) = scene().await;
    let leaf = replica.leaf();
    replica.pass(start() + DAY * 59).await;
    assert_eq!(replica.leaf(), leaf);
    let now = start() + DAY * 61;
    replica.pass(now).await;
    assert_ne!(replica.leaf(), leaf);
    world.verify(&[replica], now);
    assert_eq!(world.writes(), (1, 1));
}

#[tokio::test]
async fn a_deleted_secret_gives_every_replica_another_authority_in_its_next_pass() {
    let (world, mut replica) = scene().await;
    let mut second = TestReplica::new(&world);
    second.pass(start()).await;
    let (bundle, leaf) = (world.bundle(NAME), replica.leaf());
    world.kube.unwrite(SECRET);
    second.pass(start()).await;
    replica.pass(start()).await;
    assert_eq!(world.kube.read(SECRET)["metadata"]["name"], "serving");
    assert_ne!(world.bundle(NAME), bundle);
    assert_ne!(replica.leaf(), leaf);
    replica.is_well();
    world.verify(&[replica, second], start());
}

#[tokio::test]
async fn a_certificate_never_outlives_its_authority() {
    let (world, mut replica) = scene().await;
    let authority = foreign_authority(30);
    let (pem, key) = (authority.certificate_pem(), authority.key_pem());
    let values = json!({"ca.crt": base64(&pem), "ca.key": base64(&key)});
    world.change(SECRET, |secret| secret["data"] = values);
    replica.pass(start()).await;
    let end = replica.pair().validity().not_after;
    assert_eq!(end, start() + DAY * 30);
    world.verify(&[replica], start());
}

#[tokio::test]
async fn every_broken_value_of_the_authority_is_replaced_and_other_values_stay() {
    let foreign = foreign_authority(3650).certificate_pem();
    for key in ["ca.crt", "ca.key"] {
        for garbage in ["", "garbage", &foreign] {
            let (world, mut replica) = scene().await;
            world.change(SECRET, |secret| {
                secret["metadata"]["labels"] = json!({"a": "b"});
                secret["data"]["theirs"] = json!("eA==");
                secret["data"][key] = base64(garbage);
            });
            replica.pass(start()).await;
            replica.is_well();
            assert_eq!(world.writes().0, 2, "{key}: {garbage}");
            assert_eq!(world.value("theirs"), b"x");
            let labels = &world.kube.read(SECRET)["metadata"]["labels"];
            assert_eq!(*labels, json!({"a": "b"}));
            world.verify(&[replica], start());
        }
    }
}

#[tokio::test]
async fn a_secret_that_cannot_be_read_leaves_the_certificate_in_force() {
    let (world, mut replica) = scene().await;
    let leaf = replica.leaf();
    let key = r#"{"metadata": {"resourceVersion": "1"}, "data": {"tls.key": "SECRET KEY"}}"#;
    let rule = "run the command that check prints for GM201";
    for (fault, wanted) in [
        (Fault::Forbidden, rule),
        (Fault::Status(404), "not found"),
        (Fault::Text(key.to_owned()), "no Secret"),
        (Fault::Text("SECRET KEY".to_owned()), "no Secret"),
        (Fault::Status(500), "HTTP 500"),
    ] {
        let passes = fault == Fault::Status(500);
        world.kube.fault(SECRET, fault);
        replica.pass(start()).await;
        let status = replica.status();
        let text = status.condition.state().reason().unwrap().to_string();
        assert!(text.contains(wanted), "{text}");
        assert!(text.starts_with("Secret gpu-metrics/serving: "), "{text}");
        assert!(!text.contains("SECRET KEY"), "{text}");
        assert_eq!(status.lost().is_none(), passes, "{text}");
        assert_eq!(replica.leaf(), leaf);
        assert!(status.is_ready(start()));
        assert!(!status.is_ready(start() + DAY * 91));
    }
    world.kube.heal(SECRET);
    replica.pass(start()).await;
    replica.is_well();
}

#[tokio::test]
async fn without_a_secret_from_the_start_the_server_is_not_ready() {
    let world = World::new(settings(1)).await;
    world.kube.fault(SECRET, Fault::Forbidden);
    let mut replica = TestReplica::new(&world);
    replica.pass(start()).await;
    let status = replica.status();
    assert_eq!(status.lost(), None, "there is none to lose");
    assert!(!status.is_ready(start()));
    let why = status.condition.state().reason().unwrap().to_string();
    assert!(why.contains("check prints for GM201"), "{why}");
}

/// Checks that an APIService with this change keeps its bundle, and is reported.
async fn is_only_reported(change: impl FnOnce(&mut Value), words: &str) {
    let (world, mut replica) = scene().await;
    world.change(&path(NAME), change);
    let before = world.kube.read(&path(NAME));
    replica.pass(start()).await;
    assert_eq!(world.kube.read(&path(NAME)), before);
    let status = replica.status();
    let why = unregistered(&status).unwrap();
    assert!(why.contains(words), "{why}");
    assert!(status.is_ready(start()), "the other groups are served");
}

#[tokio::test]
async fn an_apiservice_of_another_server_or_of_cert_manager_is_only_reported() {
    let words = "refers to Service monitoring/prometheus-adapter and not";
    let other = apiservice("monitoring", "prometheus-adapter");
    is_only_reported(|found| *found = other, words).await;
    let local = json!({"metadata": {}, "spec": {"group": "apps"}});
    is_only_reported(|found| *found = local, "refers to kube-apiserver itself").await;
    let annotation = "cert-manager.io/inject-ca-from";
    let injected = |found: &mut Value| {
        found["metadata"]["annotations"] = json!({annotation: "a/b"});
        found["spec"]["caBundle"] = json!("eA==");
    };
    is_only_reported(injected, &format!("annotation {annotation}")).await;
    let garbled = json!({"metadata": {}, "spec": {"caBundle": "?"}});
    is_only_reported(|found| *found = garbled, &format!("APIService {NAME}: ")).await;
}

#[tokio::test]
async fn an_apiservice_of_another_server_is_taken_over_with_the_flag() {
    let mut settings = settings(1);
    settings.take_over = true;
    let world = World::new(settings).await;
    world.kube.write(&path(NAME), apiservice("a", "b"));
    let mut replica = TestReplica::new(&world);
    replica.pass(start()).await;
    let service = &world.kube.read(&path(NAME))["spec"]["service"];
    let wanted = json!({"namespace": "gpu-metrics", "name": OURS});
    assert_eq!(*service, wanted, "port 443 is the API's default");
    replica.is_well();
    world.verify(&[replica], start());
}

#[tokio::test]
async fn an_absent_or_forbidden_apiservice_is_reported_with_its_remedy() {
    let mut settings = settings(1);
    settings.apiservices.extend(RESOURCE_APISERVICES);
    let world = World::new(settings).await;
    let mut replica = TestReplica::new(&world);
    replica.pass(start()).await;
    replica.is_well();
    let manifest = "apply manifests/optional/resource-metrics.yaml";
    for (name, to_make, to_allow) in [
        (
            NAME,
            "apply manifests/apiservices.yaml",
            "check prints for GM201",
        ),
        (RESOURCE_APISERVICES[0], manifest, manifest),
    ] {
        let object = world.kube.read(&path(name));
        world.kube.unwrite(&path(name));
        replica.pass(start()).await;
        let why = unregistered(&replica.status()).unwrap();
        assert!(why.contains(to_make), "{why}");
        world.kube.write(&path(name), object);
        world.kube.fault(&path(name), Fault::Forbidden);
        replica.pass(start()).await;
        let why = unregistered(&replica.status()).unwrap();
        assert!(why.contains(to_allow), "{why}");
        assert!(replica.status().is_ready(start()));
        world.kube.heal(&path(name));
        replica.pass(start()).await;
        replica.is_well();
    }
    // What an outage hides stays as it was.
    world.kube.fault(&path(NAME), Fault::Status(503));
    replica.pass(start()).await;
    replica.is_well();
}

#[tokio::test]
async fn every_changed_bundle_is_repaired_and_the_certificate_and_other_fields_stay() {
    let (world, mut replica) = scene().await;
    let (leaf, object) = (replica.leaf(), world.kube.read(&path(NAME)));
    assert_eq!(object["spec"]["service"]["port"], 6443);
    let foreign = foreign_authority(3650).certificate_pem();
    let both = String::from_utf8(world.bundle(NAME)).unwrap() + &foreign;
    for (bundle, is_insecure) in [
        (Value::Null, false),
        (base64("garbage"), false),
        (base64(&both), false),
        (Value::Null, true),
    ] {
        world.change(&path(NAME), |found| {
            let spec = found["spec"].as_object_mut().unwrap();
            spec.insert("caBundle".to_owned(), bundle);
            spec.retain(|_, value| !value.is_null());
            if is_insecure {
                spec.insert("insecureSkipTLSVerify".to_owned(), true.into());
            }
        });
        replica.pass(start()).await;
        let found = world.kube.read(&path(NAME));
        assert_eq!(found["spec"], object["spec"]);
        let annotations = &found["metadata"]["annotations"];
        assert_eq!(*annotations, json!({"kept": "yes"}));
        assert_eq!(replica.leaf(), leaf);
    }
}

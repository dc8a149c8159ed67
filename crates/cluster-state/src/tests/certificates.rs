//! The shared Secret and the APIServices over HTTP.

use serde_json::{Value, json};

use super::super::certificates::CertificateObjects;
use super::fixture::connect;
use crate::testing::fake_kube::{FakeKube, Fault};
use aggregated_apiserver::certificates::Trouble;
use aggregated_apiserver::certificates::managed::store::{
    CertificateStore, Change, SecretData, ServiceName,
};
use aggregated_apiserver::certificates::managed::{APISERVICES, RESOURCE_APISERVICES};

const SECRET: &str = "/api/v1/namespaces/gpu-metrics/secrets/serving";
const NAME: &str = APISERVICES[0];
/// The name of the Service.
const OURS: &str = "gpu-metrics-apiserver";

fn path(name: &str) -> String {
    format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}")
}

fn service() -> ServiceName {
    ServiceName {
        namespace: "gpu-metrics".to_owned(),
        name: OURS.to_owned(),
    }
}

fn apiservice(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": {"name": NAME, "annotations": {"kept": "yes"}},
        "spec": {"group": "custom.metrics.k8s.io", "versionPriority": 200,
                 "service": {"namespace": namespace, "name": name, "port": 6443}},
    })
}

/// A Secret and APIServices as in `manifests/`.
async fn applied() -> (FakeKube, CertificateObjects) {
    let kube = FakeKube::start().await;
    let secret = json!({"metadata": {"name": "serving"}, "type": "Opaque"});
    kube.write(SECRET, secret);
    for name in APISERVICES {
        kube.write(&path(name), apiservice("gpu-metrics", OURS));
    }
    let client = connect(&kube).await;
    let [namespace, name] = ["gpu-metrics", "serving"].map(str::to_owned);
    (kube, CertificateObjects::new(client, namespace, name))
}

fn data(text: &str) -> SecretData {
    SecretData::from([("ca.key".to_owned(), text.as_bytes().to_vec())])
}

#[tokio::test]
async fn a_secret_is_read_and_written_with_its_version() {
    let (kube, objects) = applied().await;
    let stored = objects.secret().await.unwrap();
    assert!(stored.data.is_empty());
    let write = async |text| objects.write_secret(&stored.version, &data(text)).await;
    write("one").await.unwrap();
    assert_eq!(write("two").await, Err(Trouble::Conflict));
    assert_eq!(objects.secret().await.unwrap().data, data("one"));
    let queries = kube.queries(SECRET).into_iter();
    let patches = queries.filter(|it| *it == format!("fieldManager={OURS}"));
    assert_eq!(patches.count(), 2);
}

#[tokio::test]
async fn an_absent_secret_is_created_without_values() {
    let (kube, objects) = applied().await;
    kube.unwrite(SECRET);
    let stored = objects.secret().await.unwrap();
    assert!(stored.data.is_empty());
    let created = objects.write_secret(&stored.version, &data("one")).await;
    created.unwrap();
    assert_eq!(kube.read(SECRET)["metadata"]["name"], "serving");
    assert_eq!(objects.secret().await.unwrap().data, data("one"));
}

#[tokio::test]
async fn foreign_keys_in_the_secret_stay_and_those_of_a_serving_certificate_go() {
    let (kube, objects) = applied().await;
    let values = json!({"theirs": "eA==", "ca.key": "eA==", "tls.crt": "eA==", "tls.key": "eA=="});
    let secret = json!({"metadata": {"labels": {"a": "b"}}, "data": values});
    kube.write(SECRET, secret);
    let stored = objects.secret().await.unwrap();
    let written = objects.write_secret(&stored.version, &data("one")).await;
    written.unwrap();
    let object = kube.read(SECRET);
    assert_eq!(object["data"], json!({"theirs": "eA==", "ca.key": "b25l"}));
    assert_eq!(object["metadata"]["labels"], json!({"a": "b"}));
}

#[tokio::test]
async fn troubles_with_the_secret_name_the_remedy_and_no_key() {
    let (kube, objects) = applied().await;
    let key = r#"{"metadata": {"resourceVersion": "1"}, "data": {"tls.key": "SECRET KEY"}}"#;
    let rule = "allow get, patch and create of it: run the command that check prints for GM201";
    for (fault, wanted) in [
        (Fault::Forbidden, rule),
        (Fault::Status(404), "not found"),
        (Fault::Text(key.to_owned()), "no Secret"),
        (Fault::Text("SECRET KEY".to_owned()), "no Secret"),
        (Fault::Status(500), "HTTP 500"),
    ] {
        kube.fault(SECRET, fault);
        let text = objects.secret().await.unwrap_err().to_string();
        assert!(text.contains(wanted), "{text}");
        assert!(text.starts_with("Secret gpu-metrics/serving: "), "{text}");
        assert!(!text.contains("SECRET KEY"), "{text}");
    }
    kube.fault(SECRET, Fault::Forbidden);
    let error = objects.write_secret("1", &data("one")).await.unwrap_err();
    assert!(
        matches!(&error, Trouble::Lasting(it) if it.contains("check prints for GM201")),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_write_changes_the_bundle_of_an_apiservice_and_keeps_other_fields() {
    let (kube, services) = applied().await;
    let mut object = apiservice("gpu-metrics", OURS);
    object["spec"]["insecureSkipTLSVerify"] = json!(true);
    kube.write(&path(NAME), object);
    let entry = services.apiservice(NAME).await.unwrap().unwrap();
    assert!(entry.insecure && entry.bundle.is_empty());
    assert_eq!(entry.service, Some(service()));
    let change = Change {
        version: entry.version,
        bundle: "one".to_owned(),
        service: None,
    };
    services.write_apiservice(NAME, &change).await.unwrap();
    let again = services.write_apiservice(NAME, &change).await;
    assert_eq!(again, Err(Trouble::Conflict));
    let object = kube.read(&path(NAME));
    let spec = json!({
        "group": "custom.metrics.k8s.io", "versionPriority": 200, "caBundle": "b25l",
        "service": {"namespace": "gpu-metrics", "name": "gpu-metrics-apiserver", "port": 6443},
    });
    assert_eq!(object["spec"], spec);
    assert_eq!(object["metadata"]["annotations"], json!({"kept": "yes"}));
    let entry = services.apiservice(NAME).await.unwrap().unwrap();
    assert_eq!(entry.bundle, b"one");
    let taken = Change {
        version: entry.version,
        service: Some(service()),
        ..change
    };
    services.write_apiservice(NAME, &taken).await.unwrap();
    let wanted = json!({"namespace": "gpu-metrics", "name": "gpu-metrics-apiserver"});
    let service = &kube.read(&path(NAME))["spec"]["service"];
    assert_eq!(*service, wanted, "port 443 is the API's default");
}

#[tokio::test]
async fn an_apiservice_may_be_absent_local_annotated_or_garbled() {
    let (kube, services) = applied().await;
    assert_eq!(services.apiservice("v1.absent.k8s.io").await, Ok(None));
    let local = json!({"metadata": {}, "spec": {"group": "apps"}});
    kube.write(&path("v1.apps"), local);
    let local = services.apiservice("v1.apps").await.unwrap().unwrap();
    assert_eq!(local.service, None);
    let mut object = apiservice("a", "b");
    let annotation = "cert-manager.io/inject-ca-from";
    object["metadata"]["annotations"] = json!({annotation: "a/b"});
    kube.write(&path(NAME), object);
    let entry = services.apiservice(NAME).await.unwrap().unwrap();
    assert_eq!(entry.injected.as_deref(), Some(annotation));
    let garbled = json!({"metadata": {}, "spec": {"caBundle": "?"}});
    kube.write(&path(NAME), garbled);
    let error = async |name| services.apiservice(name).await.unwrap_err().to_string();
    let text = error(NAME).await;
    assert!(text.starts_with(&format!("APIService {NAME}: ")), "{text}");
    let manifest = "apply manifests/optional/resource-metrics.yaml";
    let others = RESOURCE_APISERVICES.map(|name| (name, manifest));
    let rule = (NAME, "allow get and patch of it");
    for (name, remedy) in others.into_iter().chain([rule]) {
        kube.fault(&path(name), Fault::Forbidden);
        let text = error(name).await;
        assert!(text.contains(remedy), "{text}");
    }
}

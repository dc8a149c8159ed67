//! The shared Secret and the APIServices over HTTP.

use std::time::{Duration, SystemTime};

use http::Method;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::super::apiservice::ApiServices;
use super::super::client::{Client, ClusterAccess};
use super::super::secret::SharedSecret;
use crate::testing::fake_registry::FakeRegistry;
use aggregated_apiserver::certificates::managed::content::{self, Data};
use aggregated_apiserver::certificates::managed::store::{
    ApiServiceStore, Change, SecretStore, ServiceName, WriteError,
};
use aggregated_apiserver::certificates::managed::{
    self, APISERVICES, ManagedSettings, RESOURCE_APISERVICES,
};
use aggregated_apiserver::certificates::{CertificateStatus, Registration, serving};

const SECRET: &str = "/api/v1/namespaces/gpu-metrics/secrets/serving";
const NAME: &str = APISERVICES[0];

/// A timeout that only a hang reaches.
const GENEROUS: Duration = Duration::from_secs(60);

fn path(name: &str) -> String {
    format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}")
}

fn service() -> ServiceName {
    ServiceName {
        namespace: "gpu-metrics".to_owned(),
        name: "gpu-metrics-apiserver".to_owned(),
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
async fn applied() -> (FakeRegistry, Client) {
    let kube = FakeRegistry::start().await;
    kube.put(
        SECRET,
        json!({"metadata": {"name": "serving"}, "type": "Opaque"}),
    );
    for name in APISERVICES {
        kube.put(
            &path(name),
            apiservice("gpu-metrics", "gpu-metrics-apiserver"),
        );
    }
    let access = ClusterAccess::Kubeconfig(kube.kubeconfig());
    let client = Client::connect(&access).await.unwrap();
    (kube, client)
}

fn secret(client: &Client) -> SharedSecret {
    SharedSecret::new(
        client.clone(),
        "gpu-metrics".to_owned(),
        "serving".to_owned(),
    )
}

fn data(text: &str) -> Data {
    Data::from([(content::KEY.to_owned(), text.as_bytes().to_vec())])
}

#[tokio::test]
async fn a_secret_is_read_and_written_with_its_version() {
    let (kube, client) = applied().await;
    let secret = secret(&client);
    let stored = secret.read().await.unwrap();
    assert!(stored.data.is_empty());
    secret.write(&stored.version, &data("one")).await.unwrap();
    let again = secret.read().await.unwrap();
    assert_eq!(again.data, data("one"));
    let late = secret.write(&stored.version, &data("two")).await;
    assert_eq!(late, Err(WriteError::Conflict));
    assert_eq!(secret.read().await.unwrap().data, data("one"));
    let patch = format!("PATCH {SECRET}?fieldManager=gpu-metrics-apiserver");
    assert_eq!(kube.requests().iter().filter(|it| **it == patch).count(), 2);
}

#[tokio::test]
async fn values_of_others_in_the_secret_stay() {
    let (kube, client) = applied().await;
    kube.put(
        SECRET,
        json!({"metadata": {"labels": {"a": "b"}}, "data": {"theirs": "eA==", "ca.key": "eA=="}}),
    );
    let secret = secret(&client);
    let stored = secret.read().await.unwrap();
    secret.write(&stored.version, &data("one")).await.unwrap();
    let object = kube.object(SECRET);
    assert_eq!(object["data"], json!({"theirs": "eA==", "tls.key": "b25l"}));
    assert_eq!(object["metadata"]["labels"], json!({"a": "b"}));
}

#[tokio::test]
async fn troubles_with_the_secret_name_the_remedy_and_no_key() {
    let (kube, client) = applied().await;
    let secret = secret(&client);
    let key = r#"{"metadata": {"resourceVersion": "1"}, "data": {"tls.key": "SECRET KEY"}}"#;
    for (status, body, wanted) in [
        (
            403,
            r#"{"message": "User \"x\" cannot get"}"#,
            "allow get and patch of the Secret serving",
        ),
        (404, "{}", "create secret generic serving"),
        (200, key, "no Secret"),
        (200, "SECRET KEY", "no Secret"),
        (500, "{}", "HTTP 500"),
    ] {
        kube.fault(Method::GET, SECRET, status, body);
        let text = secret.read().await.unwrap_err().to_string();
        assert!(text.contains(wanted), "{text}");
        assert!(!text.contains("SECRET KEY"), "{text}");
    }
    kube.heal();
    kube.fault(Method::PATCH, SECRET, 403, r#"{"message": "cannot patch"}"#);
    let error = secret.write("1", &data("one")).await.unwrap_err();
    let WriteError::Failed(trouble) = error else {
        panic!("{error:?}");
    };
    assert!(
        trouble.remedy.contains("check prints for GM201"),
        "{trouble}"
    );
}

#[tokio::test]
async fn an_apiservice_gets_its_bundle_and_keeps_the_rest() {
    let (kube, client) = applied().await;
    let services = ApiServices::new(client);
    let mut object = apiservice("gpu-metrics", "gpu-metrics-apiserver");
    object["spec"]["insecureSkipTLSVerify"] = json!(true);
    kube.put(&path(NAME), object);
    let entry = services.read(NAME).await.unwrap().unwrap();
    assert!(entry.insecure && entry.bundle.is_empty());
    assert_eq!(entry.service, Some(service()));
    let change = Change {
        version: entry.version,
        bundle: "one".to_owned(),
        service: None,
    };
    services.write(NAME, &change).await.unwrap();
    assert_eq!(
        services.write(NAME, &change).await,
        Err(WriteError::Conflict)
    );
    let object = kube.object(&path(NAME));
    let spec = json!({
        "group": "custom.metrics.k8s.io", "versionPriority": 200, "caBundle": "b25l",
        "service": {"namespace": "gpu-metrics", "name": "gpu-metrics-apiserver", "port": 6443},
    });
    assert_eq!(object["spec"], spec);
    assert_eq!(object["metadata"]["annotations"], json!({"kept": "yes"}));
    let entry = services.read(NAME).await.unwrap().unwrap();
    assert_eq!(entry.bundle, b"one");
}

#[tokio::test]
async fn an_apiservice_may_be_absent_local_annotated_or_garbled() {
    let (kube, client) = applied().await;
    let services = ApiServices::new(client);
    assert_eq!(services.read("v1.absent.k8s.io").await, Ok(None));
    kube.put(
        &path("v1.apps"),
        json!({"metadata": {}, "spec": {"group": "apps"}}),
    );
    let local = services.read("v1.apps").await.unwrap().unwrap();
    assert_eq!(local.service, None);
    let mut object = apiservice("a", "b");
    object["metadata"]["annotations"] = json!({"cert-manager.io/inject-ca-from": "a/b"});
    kube.put(&path(NAME), object);
    let entry = services.read(NAME).await.unwrap().unwrap();
    assert_eq!(
        entry.injected.as_deref(),
        Some("cert-manager.io/inject-ca-from")
    );
    kube.put(
        &path(NAME),
        json!({"metadata": {}, "spec": {"caBundle": "?"}}),
    );
    let text = services.read(NAME).await.unwrap_err().to_string();
    assert!(text.starts_with(&format!("APIService {NAME}: ")), "{text}");
    kube.fault(Method::GET, &path(NAME), 403, "{}");
    let text = services.read(NAME).await.unwrap_err().to_string();
    assert!(
        text.contains("allow get and patch of the APIService"),
        "{text}"
    );
    for name in RESOURCE_APISERVICES {
        kube.fault(Method::GET, &path(name), 403, "{}");
        let text = services.read(name).await.unwrap_err().to_string();
        assert!(
            text.contains("apply manifests/optional/resource-metrics.yaml"),
            "{text}"
        );
    }
}

/// Runs two replicas until both have the wanted state.
async fn replicas(
    kube: &FakeRegistry,
    client: &Client,
    take_over: bool,
    wanted: impl Fn(&CertificateStatus) -> bool + Copy,
    then: impl AsyncFnOnce(&mut [watch::Receiver<CertificateStatus>]),
) {
    let (stop, stopped) = watch::channel(false);
    let mut statuses = Vec::new();
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let (publisher, serving) = serving();
        let settings = ManagedSettings {
            take_over,
            every: Duration::from_millis(10),
            ..ManagedSettings::new(service())
        };
        let stores = (secret(client), ApiServices::new(client.clone()));
        tasks.push(tokio::spawn(managed::run(
            settings,
            stores,
            publisher,
            SystemTime::now,
            stopped.clone(),
        )));
        statuses.push(serving.status);
    }
    for status in &mut statuses {
        until(kube, status, wanted).await;
    }
    then(&mut statuses).await;
    stop.send(true).unwrap();
    for task in tasks {
        task.await.unwrap();
    }
}

async fn until(
    kube: &FakeRegistry,
    status: &mut watch::Receiver<CertificateStatus>,
    wanted: impl Fn(&CertificateStatus) -> bool,
) {
    let waiting = tokio::time::timeout(GENEROUS, status.wait_for(wanted));
    let found = waiting.await.is_ok();
    if !found {
        panic!("never: {:?} {:?}", status.borrow(), kube.requests().last());
    }
}

fn registered(status: &CertificateStatus) -> bool {
    status.ready(SystemTime::now()).is_ok() && status.registered().is_ok()
}

#[tokio::test]
async fn replicas_register_themselves_against_rivals_and_heal_what_is_emptied() {
    let (kube, client) = applied().await;
    kube.rivals(3);
    replicas(&kube, &client, false, registered, async |_| {
        let bundle = kube.object(&path(NAME))["spec"]["caBundle"].clone();
        for name in APISERVICES {
            let object = kube.object(&path(name));
            assert_eq!(object["spec"]["caBundle"], bundle);
            assert!(object["spec"].get("insecureSkipTLSVerify").is_none());
        }
        kube.put(
            &path(NAME),
            apiservice("gpu-metrics", "gpu-metrics-apiserver"),
        );
        let healed = async {
            while kube.object(&path(NAME))["spec"]["caBundle"] != bundle {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(GENEROUS, healed).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_apiservice_of_another_server_stays_with_it_without_an_order() {
    let (kube, client) = applied().await;
    kube.put(&path(NAME), apiservice("monitoring", "prometheus-adapter"));
    let foreign = |status: &CertificateStatus| {
        let found = status.registrations.iter().find(|(name, _)| name == NAME);
        let found = found.map(|(_, state)| state);
        let ready = status.ready(SystemTime::now()).is_ok();
        ready && matches!(found, Some(Registration::Foreign(_)))
    };
    replicas(&kube, &client, false, foreign, async |_| {
        let spec = &kube.object(&path(NAME))["spec"];
        assert_eq!(spec["service"]["name"], "prometheus-adapter");
        assert!(spec.get("caBundle").is_none());
    })
    .await;
    replicas(&kube, &client, true, registered, async |_| {
        let spec = &kube.object(&path(NAME))["spec"];
        let wanted = json!({"namespace": "gpu-metrics", "name": "gpu-metrics-apiserver"});
        assert_eq!(spec["service"], wanted, "port 443 is the API's default");
    })
    .await;
}

#[tokio::test]
async fn a_missing_right_is_said_and_the_pair_in_force_stays() {
    let (kube, client) = applied().await;
    replicas(&kube, &client, false, registered, async |statuses| {
        kube.fault(Method::GET, SECRET, 403, r#"{"message": "cannot get"}"#);
        kube.fault(
            Method::GET,
            &path(NAME),
            403,
            r#"{"message": "cannot get"}"#,
        );
        for status in &mut *statuses {
            until(&kube, status, |status| status.registered().is_err()).await;
            let status = status.borrow();
            assert!(status.ready(SystemTime::now()).is_ok());
            let text = status.registered().unwrap_err();
            assert!(text.contains("check prints for GM201"), "{text}");
        }
        kube.heal();
        for status in statuses {
            until(&kube, status, registered).await;
        }
    })
    .await;
}

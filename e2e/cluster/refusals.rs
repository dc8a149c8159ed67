//! The server's messages for invalid input, and that it keeps its previous state.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::asking::{Came, Way, identity};
use super::lab::{APISERVICES, HOME, NAME, PATIENCE, TEAM};
use super::stand::{Stand, certificates};
use crate::controlplane::{Authority, ControlPlane, Extent, Identity};
use crate::program::{Program, eventually};

/// Valid use that failed.
const FAILURE: i32 = 1;

const OURS: &str = "--service=gpu-metrics/gpu-metrics-apiserver";

/// A kubeconfig of a cluster that does not exist.
fn nowhere(dir: &TempDir) -> PathBuf {
    let path = dir.path().join("nowhere.kubeconfig");
    std::fs::write(&path, kubeconfig(&json!({"token": "x"})).to_string()).unwrap();
    path
}

fn kubeconfig(user: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:9"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "users": [{"name": "a", "user": user}],
    })
}

#[test]
fn a_kubeconfig_that_cannot_be_used_is_named_with_the_remedy() {
    let dir = TempDir::new().unwrap();
    let good = nowhere(&dir);
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let mut lost = kubeconfig(&json!({}));
    lost["current-context"] = json!("b");
    let mut proxied = kubeconfig(&json!({}));
    proxied["clusters"][0]["cluster"]["proxy-url"] = json!("http://127.0.0.1:3128");
    let keyless = kubeconfig(&json!({
        "client-certificate-data": "Z2FyYmFnZQ==", "client-key-data": "Z2FyYmFnZQ==",
    }));
    let readable = "name a readable kubeconfig";
    let cases = [
        (dir.path().join("missing"), readable),
        (dir.path().to_owned(), readable),
        (write("binary", "\u{0}\u{1}"), readable),
        (write("text", "no kubeconfig"), readable),
        (write("empty", ""), readable),
        (write("lost", &lost.to_string()), readable),
        (write("proxied", &proxied.to_string()), "without a proxy"),
        (
            write("keyless", &keyless.to_string()),
            "check certificates, keys",
        ),
    ];
    let names = ["lister", "authentication", "authorization"];
    for (wrong, remedy) in &cases {
        for (place, _) in names.iter().enumerate() {
            let mut command = Program::command(["--secure-port=0", OURS]);
            command.arg("--prometheus-url=http://127.0.0.1:9");
            for (index, name) in names.iter().enumerate() {
                let path = if index == place { wrong } else { &good };
                command.arg(format!("--{name}-kubeconfig")).arg(path);
            }
            let end = Program::run(command);
            end.assert_orderly();
            assert_eq!(end.code, Some(FAILURE), "{wrong:?}: {end:?}");
            for word in [&wrong.display().to_string(), *remedy] {
                assert!(end.stderr.contains(word), "no {word:?}: {}", end.stderr);
            }
        }
    }
}

/// A certificate's files, as `--tls-cert-file` names them.
struct Pair {
    dir: TempDir,
}

impl Pair {
    fn write(&self, certificate: &str, key: &str) {
        std::fs::write(self.path("tls.crt"), certificate).unwrap();
        std::fs::write(self.path("tls.key"), key).unwrap();
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }
}

fn issue(authority: &Authority) -> Identity {
    authority.server(&["localhost"])
}

/// Waits until the server's certificate is of this authority.
async fn await_shown(port: u16, authority: &Authority) {
    // A connection that failed is not used again.
    let way = Way::verified(port, &authority.pem());
    way.until("/readyz", &[], Came::code).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s102_a_wrong_key_is_told_and_the_certificate_in_force_stays() {
    let dir = TempDir::new().unwrap();
    let nowhere = nowhere(&dir);
    let pair = Pair { dir };
    let (one, other) = (Authority::new("one"), Authority::new("other"));
    let (first, second) = (issue(&one), issue(&other));
    pair.write(&first.certificate, &second.key);
    let flags = [
        format!("--tls-cert-file={}", pair.path("tls.crt")),
        format!("--tls-private-key-file={}", pair.path("tls.key")),
    ];
    let stand = Stand::start([&nowhere; 3], &flags.each_ref().map(String::as_str));
    let said = stand
        .await_failing("certificate", &["tls.key", "tls.crt"])
        .await;
    println!("without a certificate: {said}");
    assert!(stand.unready().await.contains(&"certificate".to_owned()));
    stand
        .server
        .await_stderr("no certificate yet, waiting for it");
    let nobody = Way::straight(stand.port, None).get("/readyz").await;
    assert!(matches!(nobody, Came::Lost(_)), "{nobody:?}");

    pair.write(&first.certificate, &first.key);
    stand.await_well("certificate").await;
    await_shown(stand.port, &one).await;

    pair.write(&second.certificate, &first.key);
    stand
        .server
        .await_stderr("the certificate in force stays in use, retrying");
    stand.await_well("certificate").await;
    await_shown(stand.port, &one).await;

    let begun = Instant::now();
    pair.write(&second.certificate, &second.key);
    await_shown(stand.port, &other).await;
    println!("new files are served after {:.1?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_rights_are_named_and_taken_into_use_without_a_restart() {
    let plane = ControlPlane::lend(Extent::Api);
    manifests(&plane, &["namespace", "secret", "apiservices"]);
    let account = plane.service_account_kubeconfig(HOME, NAME);
    let stand = Stand::start([&account; 3], &[OURS]);
    let right = "list";
    for (check, words) in [
        (
            "cluster-objects",
            [
                "ClusterRoleBinding",
                "gpu-metrics-apiserver:inventory is missing",
            ],
        ),
        (
            "authentication",
            [right, "extension-apiserver-authentication-reader"],
        ),
        (
            "certificate",
            [
                "allow get and patch of the Secret",
                "check prints for GM201",
            ],
        ),
    ] {
        let said = stand.await_failing(check, &words).await;
        println!("{check}: {said}");
        assert!(stand.unready().await.contains(&check.to_owned()));
    }
    let begun = Instant::now();
    manifests(&plane, &["rbac"]);
    let reviews = "gpu-metrics-apiserver:auth-delegator";
    plane.kubectl(&["delete", "clusterrolebinding", reviews]);
    for check in [
        "cluster-objects",
        "authentication",
        "certificate",
        "registration",
    ] {
        stand.await_well(check).await;
        println!(
            "{check}: well {:.1?} after the rights came",
            begun.elapsed()
        );
    }
    stand.await_unready(&["reviews"]).await;
    reviews_are_refused(&plane, &stand).await;
    manifests(&plane, &["rbac"]);
    stand.await_well("").await;
    let proxy = front_proxy(&plane, stand.port);
    // The user has no rights.
    proxy.until_code(&metric(), &AS_ADA, 403).await;
}

/// A server without the right to create reviews authorizes no request.
async fn reviews_are_refused(plane: &ControlPlane, stand: &Stand) {
    let proxy = front_proxy(plane, stand.port);
    let failed = |came: &Came| match came {
        Came::Status(500, body) => Some(body.clone()),
        _ => None,
    };
    // The right expires with kube-apiserver's own cache.
    let body = proxy.until(&metric(), &AS_ADA, failed).await;
    println!("a review that is refused: {body}");
    for secret in ["127.0.0.1", "serviceaccount", "subjectaccessreviews"] {
        assert!(!body.contains(secret), "{secret} in {body}");
    }
    stand
        .server
        .await_stderr("kubectl create clusterrolebinding gpu-metrics-apiserver:auth-delegator");
    let words = ["gpu-metrics-apiserver:auth-delegator is missing"];
    stand.await_failing("reviews", &words).await;
    let token = [("Authorization", "Bearer of-nobody")];
    let straight = Way::straight(stand.port, None);
    let came = straight.get_with(&metric(), &token).await;
    assert_eq!(came.code(), Some(401), "{came:?}");
}

fn metric() -> String {
    format!("/apis/custom.metrics.k8s.io/v1beta2/namespaces/{TEAM}/pods/%2A/gpu_held_count")
}

fn front_proxy(plane: &ControlPlane, port: u16) -> Way {
    let (certificate, key) = plane.front_proxy_client();
    Way::straight(port, Some(identity((&certificate, &key))))
}

const AS_ADA: [(&str, &str); 1] = [("X-Remote-User", "ada")];

/// Applies files of `manifests/`.
fn manifests(plane: &ControlPlane, names: &[&str]) {
    for name in names {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("manifests/{name}.yaml"));
        plane.kubectl(&["apply", "--filename", &file.display().to_string()]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apiservice_of_another_server_is_left_alone_unless_it_shall_be_taken() {
    let plane = ControlPlane::lend(Extent::Api);
    manifests(&plane, &["namespace", "secret", "apiservices"]);
    let theirs = json!({"spec": {"service": {"namespace": "monitoring", "name": "adapter"}}});
    for name in APISERVICES {
        let patch = theirs.to_string();
        plane.kubectl(&["patch", "apiservice", name, "--type=merge", "-p", &patch]);
    }
    let admin = plane.kubeconfig().to_owned();
    let modest = Stand::start([&admin; 3], &[OURS]);
    let words =
        APISERVICES.map(|name| format!("APIService {name} refers to Service monitoring/adapter"));
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    words.push("start with --take-over to take it over");
    let said = modest.await_failing("registration", &words).await;
    println!("{said}");
    modest
        .server
        .await_stderr("refers to Service monitoring/adapter");
    // Two passes later.
    tokio::time::sleep(Duration::from_secs(15)).await;
    for name in APISERVICES {
        let spec = spec(&plane, name);
        assert_eq!(spec["service"]["name"], "adapter", "{spec}");
        assert_eq!(spec["caBundle"], Value::Null, "{spec}");
    }
    assert!(!modest.unready().await.contains(&"registration".to_owned()));

    let bold = Stand::start([&admin; 3], &[OURS, "--take-over"]);
    bold.await_well("registration").await;
    for name in APISERVICES {
        let spec = spec(&plane, name);
        let service = json!({"namespace": HOME, "name": NAME, "port": 443});
        assert_eq!(spec["service"], service);
        assert!(spec["caBundle"].is_string(), "{spec}");
    }
    // The modest server finds that they refer to its Service now.
    modest.await_well("registration").await;
    lead_to(&plane, bold.port);
    let document = "/apis/custom.metrics.k8s.io/v1beta2";
    eventually("discovery through kube-apiserver", PATIENCE, || {
        plane.kubectl_as(&admin, &["get", "--raw", document])
    });
}

fn spec(plane: &ControlPlane, apiservice: &str) -> Value {
    let mut said = plane.object(&["apiservice", apiservice]);
    said["spec"].take()
}

/// The Service is a process of this machine.
fn lead_to(plane: &ControlPlane, port: u16) {
    plane.apply(&json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": NAME, "namespace": HOME},
        "spec": {
            "type": "ExternalName", "externalName": "localhost",
            "ports": [{"port": port, "protocol": "TCP"}],
        },
    }));
    let patch = json!({"spec": {"service": {"port": port}}}).to_string();
    for name in APISERVICES {
        plane.kubectl(&["patch", "apiservice", name, "--type=merge", "-p", &patch]);
    }
}

/// A certificate that is not verified is used where verification is not needed.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_cluster_it_says_what_it_waits_for() {
    let dir = TempDir::new().unwrap();
    let nowhere = nowhere(&dir);
    let (_dir, own) = certificates();
    let stand = Stand::start([&nowhere; 3], &[&own]);
    let away = "kube-apiserver at https://127.0.0.1:9 cannot be reached";
    stand.await_failing("cluster-objects", &[away]).await;
    stand.await_failing("authentication", &[away]).await;
    let said = stand.server.stderr();
    let told = said.matches(away).count();
    assert!((1..=2).contains(&told), "one for each board: {said}");
}

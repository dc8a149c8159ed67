//! The control plane has the properties that other tests rely on.

mod stand_in;

use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::kubectl::PUBLISHED;
use super::process::{Part, Watchman};
use super::{Authority, ControlPlane, Extent, Registration, parts};
use crate::cluster::workload::deployment;
use crate::program::eventually;
use stand_in::StandIn;

/// A generous limit for operations of some seconds.
const SOON: Duration = Duration::from_secs(120);

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| panic!("no JSON: {text}"))
}

#[test]
fn kubectl_and_the_server_are_of_the_release_that_go_mod_names() {
    let plane = &ControlPlane::lend(Extent::CLUSTER);
    let versions = json(&plane.kubectl(&["version", "--output=json"]));
    for side in ["clientVersion", "serverVersion"] {
        let found = versions[side]["gitVersion"].as_str().unwrap();
        if std::env::var_os(parts::ASSETS).is_some() {
            assert!(found.starts_with("v1."), "somebody's choice: {found}");
            continue;
        }
        let line = format!("k8s.io/kubernetes {found}\n");
        assert!(include_str!("kubernetes/go.mod").contains(&line), "{line}");
    }
}

#[test]
fn pods_of_a_deployment_get_gpus_and_become_ready() {
    let plane = &ControlPlane::lend(Extent::CLUSTER);
    plane.kubectl(&["create", "namespace", "gpus"]);
    let (labels, limits) = (json!({"app": "infer"}), json!({"nvidia.com/gpu": 1}));
    plane.apply(&deployment(("gpus", "infer"), 3, &labels, &limits));
    eventually("three ready pods", SOON, || {
        let said = plane.kubectl(&["get", "deploy", "infer", "-n", "gpus", "-o", "json"]);
        let ready = json(&said)["status"]["readyReplicas"].as_u64();
        (ready == Some(3)).then_some(()).ok_or(said)
    });
    let pods = plane.object(&["pods", "-n", "gpus"]);
    for pod in pods["items"].as_array().unwrap() {
        assert_eq!(pod["spec"]["nodeName"], "gpu-node-0");
    }
}

#[test]
fn users_and_service_accounts_are_who_they_say() {
    let plane = &ControlPlane::lend(Extent::CLUSTER);
    let whoami = |kubeconfig: &Path| {
        let said = plane.kubectl_as(kubeconfig, &["auth", "whoami", "--output=json"]);
        let mut review = json(&said.unwrap());
        let mut user = review["status"]["userInfo"].take();
        (user["username"].take(), user["groups"].take())
    };
    let everybody = "system:authenticated";

    let (user, groups) = whoami(&plane.user_kubeconfig("ada", &["readers"]));
    assert_eq!(
        (user, groups),
        (json!("ada"), json!(["readers", everybody]))
    );

    let (user, groups) = whoami(&plane.user_kubeconfig("ada", &["one", "two"]));
    assert_eq!(
        (user, groups),
        (json!("ada"), json!(["one", "two", everybody]))
    );

    let account = plane.service_account_kubeconfig("default", "reader");
    let (user, groups) = whoami(&account);
    assert_eq!(user, "system:serviceaccount:default:reader");
    assert!(
        groups
            .as_array()
            .unwrap()
            .contains(&json!("system:serviceaccounts"))
    );

    let refused = plane.kubectl_as(&account, &["get", "nodes"]).unwrap_err();
    assert!(refused.contains("Forbidden"), "{refused}");
}

/// The aggregator passes a request on to a server of this machine with the user's
/// name, as a client with the front proxy's certificate.
#[test]
fn a_registered_process_is_asked_in_the_users_name() {
    let plane = &ControlPlane::lend(Extent::CLUSTER);
    let authority = Authority::new("serving-ca");
    let identity = authority.server(&["stand-in.lab.svc"]);
    let server = StandIn::start(&identity, &plane.front_proxy_ca());
    plane.register(Registration {
        namespace: "lab",
        service: "stand-in",
        port: server.port(),
        ca: &authority.pem(),
        apis: &[("lab.test", "v1")],
    });
    eventually("an available APIService", SOON, || {
        let said = plane.kubectl(&["get", "apiservice", "v1.lab.test", "-o", "json"]);
        let conditions = json(&said)["status"]["conditions"].take();
        let available =
            |condition: &Value| condition["type"] == "Available" && condition["status"] == "True";
        let conditions = conditions.as_array().into_iter().flatten();
        conditions
            .filter(|&condition| available(condition))
            .map(drop)
            .next()
            .ok_or(said)
    });
    let user = plane.user_kubeconfig("ada", &["readers"]);
    // kube-apiserver starts to pass requests on a little after it reports that it
    // does.
    let said = eventually("an answer", SOON, || {
        plane.kubectl_as(&user, &["get", "--raw", "/apis/lab.test/v1"])
    });
    let asked = json(&said);
    assert_eq!(asked["user"], "ada");
    assert_eq!(asked["groups"], json!(["readers", "system:authenticated"]));
    plane.kubectl(&["delete", "apiservice", "v1.lab.test"]);
}

#[test]
fn a_restarted_apiserver_has_its_address_and_objects_and_a_rotated_authority_is_published() {
    let plane = ControlPlane::start(Extent::Api);
    plane.kubectl(&["create", "namespace", "kept"]);
    plane.stop_apiserver();
    let refused = plane.kubectl_as(plane.kubeconfig(), &["get", "--raw", "/readyz"]);
    assert!(refused.unwrap_err().contains("refused"));
    plane.start_apiserver();
    plane.kubectl(&["get", "namespace", "kept"]);

    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let old = read(&plane.front_proxy_ca());
    let (old_client, _) = plane.front_proxy_client();
    let old_client = read(&old_client);
    plane.rotate_front_proxy();
    let new = read(&plane.front_proxy_ca());
    assert_ne!(new, old);
    assert_ne!(read(&plane.front_proxy_client().0), old_client);
    let published = plane.kubectl(PUBLISHED);
    assert!(published.contains(new.trim()), "{published}");
    assert!(
        published.contains(old.trim()),
        "kept for its clients: {published}"
    );
    plane.restart_apiserver();
    plane.kubectl(&["get", "namespace", "kept"]);
}

#[test]
fn nothing_is_left_of_an_ended_control_plane() {
    let plane = ControlPlane::start(Extent::Api);
    let dir = plane.dir().to_owned();
    assert!(plane.logs().contains("--- kube-apiserver\n"));
    assert_eq!(running(&dir).len(), 3, "etcd, kube-apiserver, the watchman");
    drop(plane);
    assert_eq!(running(&dir), Vec::<String>::new());
    assert!(!dir.exists());
}

#[test]
fn the_watchman_ends_what_a_killed_test_leaves() {
    let dir = TempDir::new().unwrap();
    let mut watchman = Watchman::post(dir.path()).unwrap();
    let log = dir.path().join("left.log").display().to_string();
    let tail = Path::new("/usr/bin/tail");
    let mut left = Part::start(dir.path(), "left", tail, &["-f".to_owned(), log]).unwrap();
    let mut stranger = Stranger(Command::new("sleep").arg("600").spawn().unwrap());
    // Its process id once belonged to another program.
    let stale = dir.path().join("pids").join("stale");
    std::fs::write(stale, stranger.0.id().to_string()).unwrap();
    let command = format!("/proc/{}/cmdline", left.id());
    eventually("the launched program", SOON, || {
        let line = std::fs::read_to_string(&command).unwrap_or_default();
        line.starts_with("/usr/bin/tail").then_some(()).ok_or(line)
    });
    watchman.dismiss();
    eventually("its end", SOON, || left.ended().ok_or_else(String::new));
    assert!(stranger.0.try_wait().unwrap().is_none());
    assert!(!dir.path().exists());
}

/// A process that the watchman must not end.
struct Stranger(Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command lines of processes that contain a folder's name.
fn running(dir: &Path) -> Vec<String> {
    let dir = dir.display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap();
    let lines = processes.filter_map(|entry| {
        let line = std::fs::read(entry.unwrap().path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).replace('\0', " "))
    });
    lines.filter(|line| line.contains(&dir)).collect()
}

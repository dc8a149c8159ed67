//! The installation of `manifests/` by `kubectl apply -k`.
//!
//! Two things differ from a cluster with running pods. The Deployment is scaled to zero
//! after its pods became ready, and a process on this machine replaces them. The Service
//! therefore refers to `localhost`, and the APIServices name the process' port: for a
//! Service of type ExternalName, kube-apiserver uses the APIService's port unchanged
//! (`k8s.io/apiserver` `pkg/util/proxy/proxy.go`, `ResolveCluster`).

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

use super::lab::{APISERVICES, HOME, Lab, NAME, PATIENCE, PODS, SECRET, TEAM};
use super::workload::arguments;
use crate::asking::ApiClient;
use crate::chart::root;
use crate::controlplane::ControlPlane;
use crate::program::{Program, eventually, ok_if};
use crate::prometheus::free_port;

/// A file or folder of `manifests/`.
pub(super) fn manifest(name: &str) -> String {
    root().join("manifests").join(name).display().to_string()
}

/// Applies the unchanged manifests. Their pods are admitted by the namespace's policy
/// and become ready (they run no program); then they are scaled to zero.
pub(super) fn install(plane: &ControlPlane) {
    plane.kubectl(&["apply", "-k", &manifest("")]);
    eventually("ready pods of the manifests", PATIENCE, || {
        let said = plane.found(HOME, &format!("deployments/{NAME}"));
        let status = &said["status"];
        ok_if(status["readyReplicas"] == said["spec"]["replicas"], &status)
    });
    plane.kubectl(&["scale", "deploy", NAME, "-n", HOME, "--replicas=0"]);
}

/// Directs the Service to a port of this machine.
pub(super) fn lead(plane: &ControlPlane, port: u16) {
    let service = json!({"spec": {
        "type": "ExternalName", "externalName": "localhost",
        "ports": [{"name": "https", "port": port, "targetPort": "https"}],
    }});
    plane.patch(&["service", NAME, "-n", HOME], &service);
    let port = json!({"spec": {"service": {"port": port}}});
    plane.patch(&[&["apiservice"], &APISERVICES[..]].concat(), &port);
}

/// The command of the server with the arguments of the manifests, and with the rights of this
/// kubeconfig.
pub(super) fn server(plane: &ControlPlane, account: &Path, config: &Path) -> Command {
    let deployment = plane.object(&["deploy", NAME, "-n", HOME]);
    let here = ["--config=", "--secure-port=", "--prometheus-url="];
    let mut command = Program::command(arguments(&deployment, &here));
    command.arg("--config").arg(config);
    command.args(Program::kubeconfig_flags(account));
    command
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifests_make_a_server_that_is_verified_and_has_the_rights_it_needs() {
    let lab = Lab::start().await;
    kube_apiserver_verifies_the_certificate(&lab);
    lab.deploy(2);
    lab.gpus.work(40);
    lab.await_values(PODS, 2, "40");
    s109_every_form_of_path_is_answered(&lab);
    s109_kubectl_is_content(&lab);
    s114_rights_count_by_name_and_namespace(&lab);
    the_server_asks_for_itself(&lab);
    let said = lab.server.as_ref().unwrap().stderr();
    // The server refused other clients as expected, and no request of the server was refused.
    let own = said
        .lines()
        .filter(|line| !line.contains("request refused"));
    let bad = |line: &&str| line.contains("orbidden") || line.contains("panicked");
    let bad: Vec<&str> = own.filter(bad).collect();
    assert_eq!(bad, Vec::<&str>::new());
}

/// The pods of a new installation: there is no authority, and their rights are younger than
/// they are.
#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_that_start_together_become_ready() {
    let mut lab = Lab::start().await;
    let _ = lab.end_server("TERM");
    lab.plane.kubectl(&["delete", "secret", SECRET, "-n", HOME]);
    let rights = manifest("rbac.yaml");
    lab.plane.kubectl(&["delete", "-f", &rights]);
    let ports = [lab.port, free_port()];
    let replicas = ports.map(|port| lab.replica(port, &[]));
    lab.plane.kubectl(&["apply", "-f", &rights]);
    let began = Instant::now();
    for port in ports {
        let client = ApiClient::direct(port, None);
        client.until_code("/readyz", 200).await;
        println!("ready {:?} after its rights", began.elapsed());
    }
    lab.await_available();
    println!("available {:?} after its rights", began.elapsed());
    drop(replicas);
}

/// Verification is not skipped, and the bundle is that of the server.
fn kube_apiserver_verifies_the_certificate(lab: &Lab) {
    for name in APISERVICES {
        let spec = &lab.plane.object(&["apiservice", name])["spec"];
        assert!(spec["insecureSkipTLSVerify"].is_null(), "{spec}");
        let bundle = bundle(spec);
        assert!(
            bundle.starts_with("-----BEGIN CERTIFICATE-----"),
            "{bundle}"
        );
    }
}

fn bundle(spec: &Value) -> String {
    let bytes: k8s_openapi::ByteString = serde_json::from_value(spec["caBundle"].clone()).unwrap();
    String::from_utf8(bytes.0).unwrap()
}

/// Every form of path in docs/protocol.md, "Paths", by its name there.
fn s109_every_form_of_path_is_answered(lab: &Lab) {
    for version in ["v1beta1", "v1beta2"] {
        let api = format!("/apis/custom.metrics.k8s.io/{version}");
        for (form, path, value) in [
            ("C1", "nodes/gpu-node-0/gpu_held_count", "2"),
            ("C1", "nodes/*/gpu_held_count", "2"),
            ("C2", "namespaces/team/pods/*/gpu_held_count", "1"),
            (
                "C2",
                "namespaces/team/deployments.apps/infer/gpu_held_count",
                "2",
            ),
            ("C3", "namespaces/team/metrics/gpu_memory_utilization", "40"),
        ] {
            println!("{form} {path}");
            lab.await_answer(&format!("{api}/{path}"), |said| {
                said.contains(&format!(r#""value":"{value}""#))
            });
        }
    }
    let external = "/apis/external.metrics.k8s.io/v1beta1/namespaces/team";
    for (metric, value) in [
        ("gpu_memory_utilization_sum", "80"),
        ("cluster_gpu_held_count", "2"),
        ("avg_GPU_utilization", "40"),
    ] {
        let path = format!("{external}/{metric}");
        lab.await_answer(&path, |said| {
            said.contains(&format!(r#""value":"{value}""#))
        });
    }
}

/// kubectl reports an error for groups without discovery and documents without a schema.
fn s109_kubectl_is_content(lab: &Lab) {
    lab.plane.kubectl(&["api-resources"]);
    let versions = lab.plane.kubectl(&["api-versions"]);
    for name in APISERVICES {
        let (version, group) = name.split_once('.').unwrap();
        let wanted = format!("{group}/{version}\n");
        assert!(versions.contains(&wanted), "{versions}");
    }
    let said = lab.plane.run("explain hpa.spec.metrics.pods.metric");
    assert!(said.contains("HorizontalPodAutoscaler"), "{said}");
}

fn s114_rights_count_by_name_and_namespace(lab: &Lab) {
    let plane = &lab.plane;
    let grant = |user: &str, resources: &[&str]| {
        plane.apply(&json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": user, "namespace": TEAM},
            "rules": [{
                "apiGroups": ["custom.metrics.k8s.io"],
                "resources": resources, "verbs": ["get"],
            }],
        }));
        let (role, user) = (format!("--role={user}"), format!("--user={user}"));
        let name = user.trim_start_matches("--user=");
        plane.kubectl(&["create", "rolebinding", name, &role, &user, "-n", TEAM]);
        plane.user_kubeconfig(name, None)
    };
    let stranger = plane.user_kubeconfig("stranger", None);
    let named = grant("named", &["pods/gpu_memory_utilization"]);
    // The second rule shows that the binding is in effect.
    let starred = grant("starred", &["pods/*", "pods/gpu_power_usage"]);
    let of = |metric: &str| PODS.replace("gpu_memory_utilization", metric);
    let (flagship, power) = (PODS.to_owned(), of("gpu_power_usage"));
    for (user, path) in [(&named, &flagship), (&starred, &power)] {
        eventually("a right in force", PATIENCE, || {
            plane.kubectl_as(user, &["get", "--raw", path])
        });
    }
    let elsewhere = flagship.replace("/team/", "/default/");
    let unknown = of("no_such_metric");
    for (user, path) in [
        (&stranger, &flagship),
        (&stranger, &unknown),
        (&named, &elsewhere),
        (&named, &power),
        (&starred, &flagship),
    ] {
        let said = plane.kubectl_as(user, &["get", "--raw", path]);
        let said = said.unwrap_err();
        assert!(said.contains("(Forbidden)"), "{path}: {said}");
    }
}

/// The server's Service without kube-apiserver: by name, with a token, and with the
/// authority in the APIServices.
fn the_server_asks_for_itself(lab: &Lab) {
    let reader = manifest("optional/metrics-reader.yaml");
    lab.plane.kubectl(&["apply", "-f", &reader]);
    let said = lab.plane.object(&["apiservice", APISERVICES[0]]);
    let authority = lab.plane.dir().join("bundle.crt");
    std::fs::write(&authority, bundle(&said["spec"])).unwrap();
    let authority = format!("--certificate-authority={}", authority.display());
    let server = format!("--server=https://localhost:{}", lab.port);
    let name = format!("--tls-server-name={NAME}.{HOME}.svc");
    let account = lab.plane.service_account_kubeconfig(TEAM, "account");
    let ask = || {
        let arguments = ["get", "--raw", PODS, &authority, &server, &name];
        lab.plane.kubectl_as(&account, &arguments)
    };
    let said = ask().unwrap_err();
    let wanted = r#"cannot get resource "pods/gpu_memory_utilization" in API group "custom.metrics.k8s.io" in the namespace "team""#;
    assert!(
        said.contains("(Forbidden)") && said.contains(wanted),
        "{said}"
    );
    let view = "--clusterrole=view --serviceaccount=team:account";
    let place = format!("create rolebinding account -n {TEAM} {view}");
    lab.plane.run(&place);
    eventually("an account's values", PATIENCE, ask);
}

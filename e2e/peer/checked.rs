//! `check` during a migration from prometheus-adapter to this server. Each fault is made
//! on a real kube-apiserver and found, its printed remedy is run unchanged, and the
//! finding ends.
//!
//! The server is installed by Helm under prometheus-adapter's name, so no object has its
//! name in `manifests/`.

use std::time::{Duration, SystemTime};

use aggregated_apiserver::certificates::authority::CertificateAuthority;
use aggregated_apiserver::certificates::managed::APISERVICES;
use aggregated_apiserver::x509::Validity;
use serde_json::{Value, json};

use super::dropin::{NAMESPACE, Pod, follow, lead};
use super::objects;
use super::pair::{Scene, Side};
use crate::chart::{self, migration};
use crate::cluster::check::{check, check_with};
use crate::cluster::lab::listening;
use crate::controlplane::{ControlPlane, Extent};
use crate::manual::{commands, run};
use crate::program::eventually;

const PATIENCE: Duration = Duration::from_secs(120);

const CUSTOM: &str = "v1beta1.custom.metrics.k8s.io";
const EXTERNAL: &str = "v1beta1.external.metrics.k8s.io";

const FULL: &str = "prometheus-adapter";

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_that_check_prints_correct_the_faults() {
    let migration = migration::Scene {
        plane: ControlPlane::start(Extent::Api),
    };
    let plane = &migration.plane;
    let prometheus = objects::prometheus().await;
    let scene = Scene {
        plane,
        prometheus: &prometheus,
    };
    plane.kubectl(&["create", "namespace", NAMESPACE]);
    let config = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/e2e/peer/configs/defaults.yaml"
    );
    chart::install_adapter(plane, &["--set-file", &format!("config={config}")]);
    follow(plane, "set image");
    let (theirs, ours) = Pod::of(plane).both(scene).await;
    before_the_migration(plane, &theirs);
    after_another_image(plane, &ours);
    drop(ours);

    let lines = commands("docs/migrate/prometheus-adapter.md", "Helm: there");
    run(plane.kubeconfig(), &lines[1].replace("-f values.yaml ", ""));
    let server = migration.serve("prometheus-adapter-gpu-metrics-apiserver");
    let port = listening(&server);
    lead(plane, port, &APISERVICES);
    await_codes(plane, "a server that is well", &[]);
    rights(plane);
    an_apiservice_that_is_gone(plane);
    another_server_takes_the_custom_metrics(plane, theirs.port());
    an_authority_that_has_ended(plane);
}

/// The findings about registration, rights and autoscalers, in order.
fn found(said: &Value) -> Vec<&Value> {
    let of_cluster = |it: &&Value| {
        let code = it["code"].as_str().unwrap();
        ["GM1", "GM2", "GM5"].iter().any(|of| code.starts_with(of))
    };
    let findings = said["findings"].as_array().unwrap().iter();
    findings.filter(of_cluster).collect()
}

fn codes<'v>(found: &[&'v Value]) -> Vec<&'v str> {
    found
        .iter()
        .map(|it| it["code"].as_str().unwrap())
        .collect()
}

/// Waits until exactly these codes are found. Returns the output.
fn await_codes(plane: &ControlPlane, what: &str, wanted: &[&str]) -> Value {
    eventually(what, PATIENCE, || {
        let said = check(plane.kubeconfig()).1;
        let is_it = codes(&found(&said)) == wanted;
        is_it.then(|| said.clone()).ok_or_else(|| said.to_string())
    })
}

/// Runs every command that is printed with these findings.
fn mend(plane: &ControlPlane, said: &Value) {
    let printed = found(said)
        .into_iter()
        .filter_map(|it| it["command"].as_str());
    let mut printed: Vec<&str> = printed.collect();
    printed.dedup();
    assert!(!printed.is_empty(), "{said}");
    for line in printed {
        run(plane.kubeconfig(), line);
    }
    assert!(!said.to_string().contains("manifests/"), "{said}");
}

fn before_the_migration(plane: &ControlPlane, theirs: &Side) {
    lead(plane, theirs.port(), &[CUSTOM]);
    let (code, said) = check_with(plane.kubeconfig(), &["--pre"]);
    let found = found(&said);
    assert_eq!((code, codes(&found)), (Some(1), vec!["GM101"; 2]), "{said}");
    for it in found {
        let remedy = it["remedy"].as_str().unwrap();
        assert!(
            remedy.contains("docs/migrate/prometheus-adapter.md"),
            "{it}"
        );
        assert!(
            it["command"].is_null() && !remedy.contains("uninstall"),
            "{it}"
        );
    }
}

/// The adapter's chart grants no rights to nodes and owners.
fn after_another_image(plane: &ControlPlane, ours: &Side) {
    lead(plane, ours.port(), &[CUSTOM, EXTERNAL]);
    // The chart of prometheus-adapter sets insecureSkipTLSVerify.
    let wanted = ["GM201", "GM103", "GM103"];
    let said = await_codes(plane, "the image of this server", &wanted);
    mend(plane, &said);
    await_codes(plane, "all rights", &wanted[1..]);
}

fn delete(plane: &ControlPlane, kind: &str, role: &str, namespace: &str) {
    let name = format!("{FULL}:{role}");
    plane.kubectl(&["delete", kind, &name, "-n", namespace]);
}

fn rights(plane: &ControlPlane) {
    const CLUSTER: &str = "clusterrolebinding";
    for (kind, role, namespace, says) in [
        (CLUSTER, "inventory", "", "watch"),
        (CLUSTER, "auth-delegator", "", "tokenreviews"),
        (
            "rolebinding",
            "authentication-reader",
            "kube-system",
            "configmaps",
        ),
        (CLUSTER, "registration", "", "get, patch apiservices"),
        (
            "rolebinding",
            "certificates",
            NAMESPACE,
            "get, patch secrets",
        ),
    ] {
        delete(plane, kind, role, namespace);
        if role == "inventory" {
            // The most important rights, without watches.
            let lists = ["--verb=list", "--resource=pods,nodes,namespaces,services"];
            plane.kubectl(&[&["create", "clusterrole", "lists"], &lists[..]].concat());
            let account = format!("--serviceaccount={NAMESPACE}:{FULL}");
            plane.kubectl(&["create", CLUSTER, "lists", "--clusterrole=lists", &account]);
        }
        let said = eventually(role, PATIENCE, || {
            let said = check(plane.kubeconfig()).1;
            let lacks = |it: &&Value| {
                let message = it["message"].as_str().unwrap();
                it["code"] == "GM201" && message.contains(says)
            };
            let is_found = found(&said).iter().any(lacks);
            is_found
                .then(|| said.clone())
                .ok_or_else(|| said.to_string())
        });
        mend(plane, &said);
        await_codes(plane, &format!("{role} again"), &[]);
    }
    plane.kubectl(&[
        "delete",
        CLUSTER,
        "system:controller:horizontal-pod-autoscaler",
    ]);
    delete(plane, CLUSTER, "autoscaler", "");
    let said = await_codes(plane, "an HPA controller without rights", &["GM202"]);
    mend(plane, &said);
    await_codes(plane, "an HPA controller with rights", &[]);
}

fn an_apiservice_that_is_gone(plane: &ControlPlane) {
    plane.kubectl(&["delete", "apiservice", EXTERNAL]);
    let said = await_codes(plane, "no APIService", &["GM102"]);
    mend(plane, &said);
    await_codes(plane, "the APIService again", &[]);
}

fn change(plane: &ControlPlane, name: &str, spec: &Value) {
    let patch = format!("--patch={}", json!({"spec": spec}));
    plane.kubectl(&["patch", "apiservice", name, "--type=merge", &patch]);
}

/// The other server's settings are no findings.
fn another_server_takes_the_custom_metrics(plane: &ControlPlane, port: u16) {
    plane.kubectl(&[
        "create",
        "service",
        "externalname",
        "other",
        "--external-name=localhost",
        "-n",
        NAMESPACE,
    ]);
    let service = json!({"namespace": NAMESPACE, "name": "other", "port": port});
    for name in &APISERVICES[..2] {
        let spec = json!({"service": service, "caBundle": null, "insecureSkipTLSVerify": true});
        change(plane, name, &spec);
    }
    let said = await_codes(plane, "another server", &["GM101", "GM101"]);
    mend(plane, &said);
    await_codes(plane, "the custom metrics again", &[]);
}

/// The server has lost the right to renew the authority.
fn an_authority_that_has_ended(plane: &ControlPlane) {
    let day = Duration::from_secs(24 * 3600);
    let now = SystemTime::now();
    let validity = Validity {
        not_before: now - day * 2,
        not_after: now - day,
    };
    let authority = CertificateAuthority::new("ended", validity).unwrap();
    let bundle = k8s_openapi::ByteString(authority.certificate_pem().into_bytes());
    delete(plane, "clusterrolebinding", "registration", "");
    for name in APISERVICES {
        change(plane, name, &json!({"caBundle": bundle}));
    }
    let wanted = ["GM104", "GM104", "GM104", "GM201"];
    let said = await_codes(plane, "an authority that has ended", &wanted);
    assert_eq!(found(&said)[0]["severity"], "error", "{said}");
    mend(plane, &said);
    await_codes(plane, "an authority of the server", &[]);
}

//! From a release of prometheus-adapter to this chart, and back, with the real Helm,
//! a real kube-apiserver, and the real server, which fills in its authority.
//!
//! `chart/adapter` replaces the old chart: it has its names, labels and selectors.

use std::time::Duration;

use cluster_state::registration::APISERVICES;
use serde_json::json;

use super::*;
use crate::cluster::workload::Pod;
use crate::controlplane::{ControlPlane, Extent};
use crate::program::{Program, eventually, listening, ok_if};

const PATIENCE: Duration = Duration::from_secs(60);

const PAGE: &str = include_str!("../../docs/migrate/prometheus-adapter.md");

/// The commands of a section of the page, in order: as many as the test knows.
fn commands<const N: usize>(section: &str) -> [String; N] {
    let lines = crate::manual::commands("docs/migrate/prometheus-adapter.md", section);
    lines
        .try_into()
        .unwrap_or_else(|lines| panic!("{section}: {lines:?}"))
}

/// A cluster with a release.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) plane: ControlPlane,
}

/// A release name of our choice, which is also the name of the chart's objects.
const OURS: &str = "gpu-metrics-apiserver";

impl Scene {
    pub(super) fn new() -> Self {
        let plane = ControlPlane::start(Extent::Api);
        plane.kubectl(&["create", "namespace", NAMESPACE]);
        Self { plane }
    }

    /// With prometheus-adapter, installed with these values.
    fn with_adapter(values: &str) -> Self {
        let scene = Self::new();
        let [chart, values] = [adapter(), fixture(values)].map(|it| it.display().to_string());
        scene.helm(&["install", RELEASE, &chart, "-f", &values]);
        scene
    }

    /// Runs a line of the page in a folder with a checkout's charts.
    fn try_line(&self, line: &str) -> Result<String, String> {
        let dir = self.plane.dir();
        let charts = dir.join("charts");
        if !charts.exists() {
            std::os::unix::fs::symlink(root().join("charts"), charts).unwrap();
        }
        crate::manual::shell(line, dir, self.plane.kubeconfig())
    }

    fn line(&self, line: &str) -> String {
        self.try_line(line)
            .unwrap_or_else(|said| panic!("{line}: {said}"))
    }

    pub(super) fn helm(&self, arguments: &[&str]) -> String {
        let place = ["--namespace", NAMESPACE];
        let arguments = [arguments, &place].concat();
        run(&arguments, Some(self.plane.kubeconfig()))
            .unwrap_or_else(|said| panic!("helm {arguments:?}: {said}"))
    }

    fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let flags = ["-n", NAMESPACE, "-o", "json", "--ignore-not-found"];
        let said = self
            .plane
            .kubectl(&[&["get", kind, name][..], &flags].concat());
        (!said.is_empty()).then(|| serde_json::from_str(&said).unwrap())
    }

    pub(super) fn object(&self, kind: &str, name: &str) -> Value {
        self.get(kind, name)
            .unwrap_or_else(|| panic!("no {kind} {name}"))
    }

    pub(super) fn names(&self, kind: &str) -> Vec<String> {
        let output = "-o=jsonpath={.items[*].metadata.name}";
        let said = self.plane.kubectl(&["get", kind, "-n", NAMESPACE, output]);
        said.split_whitespace().map(str::to_owned).collect()
    }

    pub(super) fn registered(&self, name: &str) -> Value {
        self.object("apiservice", name)["spec"].clone()
    }

    /// The server as the Deployment starts it, with its ServiceAccount's rights.
    fn serve(&self, deployment: &str) -> Program {
        let here = ["--config=", "--secure-port="];
        let pod = Pod::of(&self.plane, (NAMESPACE, deployment), &here);
        let config = self.plane.dir().join("config.yaml");
        std::fs::write(&config, pod.config).unwrap();
        let mut command = Program::command(pod.arguments);
        command.args(["--secure-port=0", "--config"]).arg(config);
        command.args(Program::kubeconfig_flags(&pod.account));
        Program::start(command)
    }

    /// Fields that only the server fills in: the bundles and the Secret's data.
    fn filled(&self) -> Result<Vec<Value>, String> {
        let mut filled: Vec<Value> = APISERVICES
            .iter()
            .map(|name| self.registered(name)["caBundle"].clone())
            .collect();
        let mut secrets = self.names("secret").into_iter();
        let secret = secrets.find(|name| name.ends_with("-certificates"));
        filled.push(self.object("secret", &secret.unwrap())["data"].clone());
        match filled.iter().any(Value::is_null) {
            true => Err(json!(filled).to_string()),
            false => Ok(filled),
        }
    }
}

/// With names of each chart, and with one name for both.
#[test]
#[ignore = "takes minutes: make test-slow"]
fn an_adapters_release_becomes_ours_and_the_adapters_again() {
    let [values, upgrade, _] = &commands("Helm: there");
    for (fixture, full, deployment) in [
        ("default", FULL, DEPLOYMENT),
        (
            "fullname-override",
            "adapter",
            "adapter-gpu-metrics-apiserver",
        ),
    ] {
        let scene = Scene::with_adapter(fixture);
        assert_eq!(scene.names("deployment"), [full]);
        scene.line(values);
        let notes = scene.line(upgrade);
        for name in APISERVICES {
            assert!(notes.contains(&format!("apiservice/{name}")), "{notes}");
        }
        assert!(
            notes.contains(&format!("logs deployment/{deployment} ")),
            "{notes}"
        );

        assert_eq!(scene.names("deployment"), [deployment]);
        assert_eq!(scene.names("service"), [full]);
        let old = "prometheus-adapter-system-auth-delegator";
        assert_eq!(scene.get("clusterrolebinding", old), None);
        for name in APISERVICES {
            let spec = scene.registered(name);
            assert_eq!(spec["insecureSkipTLSVerify"], Value::Null, "{spec}");
            assert_eq!(spec["service"]["name"], full);
        }

        let server = scene.serve(deployment);
        let before = eventually("what the server fills in", PATIENCE, || scene.filled());
        scene.line(&format!("{upgrade} --set logLevel=2"));
        let object = scene.object("deployment", deployment);
        assert_eq!(flag(&[object], "v").unwrap(), "2");
        assert_eq!(scene.filled().unwrap(), before, "an upgrade took something");

        if full == FULL {
            too_early(&scene);
        }
        back(&scene, server, full);
        scene.line(upgrade);
        assert_eq!(scene.names("deployment"), [deployment]);
    }
}

/// Skips the second command, and recovers from the error: after the failed revision, Helm
/// no longer records which objects belonged to this chart.
fn too_early(scene: &Scene) {
    let [_, _, rollback] = &commands("Helm: back");
    let said = scene.try_line(rollback).unwrap_err();
    let words = "may not be true if caBundle is present";
    assert!(said.contains(words) && PAGE.contains(words), "{said}");
    assert_eq!(scene.names("deployment"), [RELEASE, DEPLOYMENT]);
    let [_, upgrade, _] = &commands("Helm: there");
    scene.line(upgrade);
    assert_eq!(scene.names("deployment"), [DEPLOYMENT]);
}

fn back(scene: &Scene, server: Program, full: &str) {
    let [stop, delete, rollback] = &commands("Helm: back");
    let deployment = &scene.names("deployment")[0];
    scene.line(stop);
    let stopped = scene.object("deployment", deployment);
    assert_eq!(stopped["spec"]["replicas"], 0, "{stop}");
    // Done by the Deployment's controller and the kubelet in a real cluster.
    drop(server);
    scene.line(delete);
    scene.line(rollback);
    assert_eq!(scene.names("deployment"), [full]);
    assert_eq!(scene.names("service"), [full]);
    for name in &APISERVICES[1..] {
        let spec = scene.registered(name);
        assert_eq!(spec["service"]["name"], full);
        assert_eq!(spec["insecureSkipTLSVerify"], true);
        assert_eq!(spec["caBundle"], Value::Null);
    }
    assert_eq!(scene.get("apiservice", APISERVICES[0]), None);
}

/// The second release changes no object of the other release and needs none of them.
#[test]
#[ignore = "takes minutes: make test-slow"]
fn beside_the_adapter_a_second_release_takes_nothing_from_it() {
    let scene = Scene::with_adapter("default");
    let [values, _, _] = &commands("Helm: there");
    let [beside] = &commands("Helm: beside it first");
    scene.line(values);
    let registered = || -> Vec<Value> {
        let theirs = APISERVICES[1..].iter();
        theirs.map(|name| scene.registered(name)).collect()
    };
    let before = registered();
    let all = beside.replace("=false", "=true");
    let said = scene.try_line(&all).unwrap_err();
    assert!(
        said.contains("cannot be imported into the current release"),
        "{said}"
    );
    assert!(said.contains("custom.metrics.k8s.io"), "{said}");
    assert_eq!(scene.names("deployment"), [RELEASE]);
    let notes = scene.line(beside);
    assert_eq!(scene.names("deployment"), [OURS, RELEASE]);
    // The server may read the other owner's APIServices, and does not change them.
    let server = scene.serve(OURS);
    server.await_stderr("refers to Service monitoring/prometheus-adapter");
    assert!(!server.stderr().contains("orbidden"), "{}", server.stderr());
    assert_eq!(registered(), before);

    // The forwarded port is the server's own port here.
    let lines = notes
        .lines()
        .filter_map(|line| line.strip_prefix("  kubectl "));
    let lines: Vec<String> = lines.map(|line| format!("kubectl {line}")).collect();
    let [forward, authority, ask, _] = &lines[..] else {
        panic!("{notes}");
    };
    assert!(
        forward.contains(&format!("service/{OURS} 6443:443")),
        "{forward}"
    );
    scene.line(authority);
    let port = listening(&server);
    let ask = ask.replace("localhost:6443", &format!("localhost:{port}"));
    // The request is verified and authorized; there is no Prometheus.
    eventually("the server's own answer", PATIENCE, || {
        let said = scene.try_line(&ask).unwrap_err();
        let own = said.contains("queries have failed since");
        ok_if(own, &said)
    });
}

/// An APIService made by kubectl belongs to no release. Helm leaves its
/// `insecureSkipTLSVerify`, which it never wrote, and the server removes it.
#[test]
#[ignore = "takes minutes: make test-slow"]
fn an_adapter_that_helm_did_not_install_is_taken_over_too() {
    let [_, _, take] = &commands("Helm: there");
    let scene = Scene::new();
    let rendered = scene.plane.dir().join("adapter.yaml");
    let adapter = adapter();
    let text = scene.helm(&["template", RELEASE, adapter.to_str().unwrap()]);
    std::fs::write(&rendered, text).unwrap();
    let file = rendered.to_str().unwrap();
    scene.plane.kubectl(&["apply", "-f", file]);
    scene.line(take);
    let _server = scene.serve(OURS);
    eventually("what the server fills in", PATIENCE, || scene.filled());
    for name in APISERVICES {
        let spec = scene.registered(name);
        assert_eq!(spec["insecureSkipTLSVerify"], Value::Null, "{spec}");
        assert_eq!(spec["service"]["name"], OURS);
    }
}

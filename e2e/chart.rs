//! The chart, rendered and installed by the real Helm.
//!
//! `chart/fixtures` has values files: those of the tests of prometheus-adapter's
//! chart, typical values of its users, and our own keys.

mod migration;
mod monitoring;
mod objects;
mod release;
mod rendered;
mod umbrella;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use serde_json::Value;

use crate::program::{built, output};

/// The name of a release, which prometheus-adapter had before.
const RELEASE: &str = "prometheus-adapter";
const NAMESPACE: &str = "monitoring";
/// Names that the chart gives its objects: the old ones, except for the Deployment.
const FULL: &str = RELEASE;
const DEPLOYMENT: &str = "prometheus-adapter-gpu-metrics-apiserver";

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn chart() -> PathBuf {
    root().join("charts/gpu-metrics-apiserver")
}

fn fixture(name: &str) -> PathBuf {
    root().join(format!("e2e/chart/fixtures/{name}.yaml"))
}

/// The names of all fixtures.
fn fixtures() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("e2e/chart/fixtures")).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert!(names.len() > 10, "{names:?}");
    names
}

/// Helm as built by `make helm`.
pub(crate) fn helm() -> PathBuf {
    built("chart", "helm", "make helm").unwrap()
}

/// Runs Helm. Returns its output or its error.
fn run<S: AsRef<std::ffi::OsStr>>(
    arguments: &[S],
    kubeconfig: Option<&Path>,
) -> Result<String, String> {
    // Helm uses no files of the user.
    let home = tempfile::tempdir().unwrap();
    let nowhere = home.path().join("no.kubeconfig");
    let mut helm = Command::new(helm());
    helm.args(arguments)
        .env("HOME", home.path())
        .env("HELM_CACHE_HOME", home.path())
        .env("HELM_CONFIG_HOME", home.path())
        .env("HELM_DATA_HOME", home.path())
        .env("KUBECONFIG", kubeconfig.unwrap_or(&nowhere));
    output(&mut helm)
}

/// A stand-in for prometheus-adapter's chart.
fn adapter() -> PathBuf {
    root().join("e2e/chart/adapter")
}

/// The chart rendered with a fixture and settings (`key=value`).
fn try_render(name: &str, settings: &[&str]) -> Result<Vec<Value>, String> {
    render_file(&fixture(name), settings)
}

/// The chart rendered with a file of values and settings.
fn render_file(file: &Path, settings: &[&str]) -> Result<Vec<Value>, String> {
    let chart = chart();
    let mut arguments: Vec<&str> = vec!["template", RELEASE, chart.to_str().unwrap()];
    arguments.extend(["--namespace", NAMESPACE, "-f", file.to_str().unwrap()]);
    // Without it, a Helm that was built here renders for Kubernetes 1.20.
    arguments.extend(["--kube-version", "1.37.0"]);
    for setting in settings {
        arguments.extend(["--set", setting]);
    }
    let said = run(&arguments, None)?;
    let objects: Vec<Value> =
        serde_saphyr::from_multiple(&said).map_err(|error| format!("{error}: {said}"))?;
    Ok(objects.into_iter().filter(|it| !it.is_null()).collect())
}

/// The chart rendered with a fixture, once for all tests.
fn render(name: &str) -> Vec<Value> {
    static RENDERED: Mutex<BTreeMap<String, Vec<Value>>> = Mutex::new(BTreeMap::new());
    let known = RENDERED.lock().unwrap().get(name).cloned();
    known.unwrap_or_else(|| {
        let objects = try_render(name, &[]).unwrap_or_else(|said| panic!("{name}: {said}"));
        let mut rendered = RENDERED.lock().unwrap();
        rendered.insert(name.to_owned(), objects.clone());
        objects
    })
}

pub(crate) fn of<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|it| it["kind"] == kind).collect()
}

/// The only object of its kind, not counting the extra manifests.
fn one<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let found = of(objects, kind);
    let [it] = found[..] else {
        panic!("{} of {kind}", found.len());
    };
    it
}

pub(crate) fn named<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects
        .iter()
        .find(|it| it["kind"] == kind && it["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// The pod template of the Deployment.
fn pod(objects: &[Value]) -> &Value {
    &one(objects, "Deployment")["spec"]["template"]["spec"]
}

fn container(objects: &[Value]) -> &Value {
    &pod(objects)["containers"][0]
}

fn arguments(objects: &[Value]) -> Vec<String> {
    let arguments = container(objects)["args"].as_array().unwrap().iter();
    arguments
        .map(|it| it.as_str().unwrap().to_owned())
        .collect()
}

/// The value of a flag, which occurs once.
fn flag(objects: &[Value], name: &str) -> Option<String> {
    let prefix = format!("--{name}=");
    let all = arguments(objects);
    let found: Vec<&str> = all
        .iter()
        .filter_map(|it| it.strip_prefix(&prefix))
        .collect();
    assert!(found.len() < 2, "{all:?}");
    found.first().map(|it| (*it).to_owned())
}

/// The text of the server's configuration.
fn configuration(objects: &[Value]) -> &str {
    let name = &pod(objects)["volumes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["name"] == "config")
        .unwrap()["configMap"]["name"];
    named(objects, "ConfigMap", name.as_str().unwrap())["data"]["config.yaml"]
        .as_str()
        .unwrap()
}

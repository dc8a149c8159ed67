//! Files: manifests and configurations, with one or more documents.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::Value;

use ::hpa::{Hpa, manifest};
use configuration::retired;
use configuration::{Config, Flags};
use findings::codes::OF_TARGETS;
use findings::hpa::ServedMetrics;
use findings::peers::{self, ScaledObject};
use findings::{Finding, Report, Skipped, config, hpa};
use limits::file::yaml;

use crate::Failure;

/// Keys that identify a configuration file.
const SECTIONS: [&str; 6] = [
    "presets",
    "rules",
    "externalRules",
    "resourceRules",
    "gpu",
    "prometheus",
];

/// Parts of the names of images that accept the server's flags.
const IMAGES: [&str; 2] = ["prometheus-adapter", "gpu-metrics-apiserver"];

#[derive(Debug)]
pub(super) struct File {
    path: String,
    text: String,
    documents: Vec<Value>,
}

/// Data of all files, against which each file is checked.
#[derive(Default)]
struct KnownOf<'f> {
    hpas: Vec<(Hpa, &'f str)>,
    scaled_objects: Vec<ScaledObject>,
    /// The longest window that any configuration among them allows.
    longest: Option<Duration>,
}

/// Reads files as YAML, which includes JSON, and lists those that cannot be read.
pub(super) fn read(paths: &[PathBuf]) -> (Vec<File>, Vec<Skipped>) {
    let (mut files, mut broken) = (Vec::new(), Vec::new());
    for path in paths {
        match read_file(path) {
            Ok(file) => files.push(file),
            Err(skipped) => broken.push(skipped),
        }
    }
    (files, broken)
}

fn read_file(path: &Path) -> Result<File, Skipped> {
    let shown = path.display().to_string();
    let broken = |reason: String, remedy: &str| Skipped::new(&*shown, reason, remedy);
    let text = fs::read_to_string(path)
        .map_err(|error| broken(error.to_string(), "name an existing YAML file"))?;
    let documents = serde_saphyr::from_multiple_with_options::<Value>(&text, yaml::options())
        .map_err(|error| broken(yaml::report(&error), "correct the YAML there"))?;
    Ok(File {
        documents: documents.into_iter().flat_map(unpacked).collect(),
        path: shown,
        text,
    })
}

/// The items of a list, or the document itself.
fn unpacked(mut document: Value) -> Vec<Value> {
    let is_list = document["kind"]
        .as_str()
        .is_some_and(|kind| kind.ends_with("List"));
    match document.get_mut("items") {
        Some(Value::Array(items)) if is_list => std::mem::take(items),
        _ => vec![document],
    }
}

/// The HPAs of some files, as they are written and as their controller sees them, each
/// with the name of its file.
pub(crate) fn autoscalers(
    paths: &[PathBuf],
) -> Result<Vec<(HorizontalPodAutoscaler, Hpa, String)>, Failure> {
    let (files, broken) = read(paths);
    if let Some(Skipped { what, reason, .. }) = broken.first() {
        return Err(Failure::Unchecked(format!("{what}: {reason}")));
    }
    let mut found = Vec::new();
    for file in files {
        let documents = file.documents.iter();
        for document in documents.filter(|it| it["kind"] == "HorizontalPodAutoscaler") {
            let hpa = autoscaler(document);
            let failed =
                |why| Failure::Usage(format!("{}: {}: {why}", file.path, object(document)));
            let (object, hpa) = hpa.map_err(failed)?;
            found.push((object, hpa, file.path.clone()));
        }
    }
    Ok(found)
}

/// Checks all files against the served names and the minor version of Kubernetes. HPAs of
/// different files can conflict too.
pub(super) fn check(
    files: &[File],
    (served, minor): (Option<&ServedMetrics>, Option<u32>),
    report: &mut Report,
) {
    let mut known_of = KnownOf::default();
    let (mut any_checked, mut any_broken) = (false, false);
    for file in files {
        let before = report.findings.len();
        let documents = file.documents.iter();
        let checked: Vec<Checked> = documents
            .map(|document| document_of(file, document, report, &mut known_of))
            .collect();
        for finding in &mut report.findings[before..] {
            finding.file = Some(file.path.clone());
        }
        any_checked |= checked.contains(&Checked::Yes);
        any_broken |= checked.contains(&Checked::Broken);
        if checked.iter().all(|it| *it == Checked::No) {
            report.skipped.insert(Skipped::new(
                &*file.path,
                "contains nothing that can be checked",
                "name files with HorizontalPodAutoscalers, or a configuration",
            ));
        }
    }
    report.looked = any_checked && !any_broken;
    let hpas = &known_of.hpas;
    if !hpas.is_empty() {
        let codes: Vec<&str> = OF_TARGETS.iter().map(|code| code.id).collect();
        let codes = codes.join(", ");
        let skipped = Skipped::new(
            format!("the scale targets of HPAs: workloads, pods, GPUs of nodes ({codes})"),
            "files do not show them",
            "check the cluster too: check -n NAMESPACE",
        );
        report.skipped.insert(skipped.of(OF_TARGETS));
    }
    let in_file = |mut finding: Finding, path: &str| {
        finding.file = Some(path.to_owned());
        finding
    };
    for (hpa, path) in hpas.iter().filter(|(hpa, _)| hpa::is_ours(hpa)) {
        let mut found = hpa::check(hpa, served, minor);
        found.extend(hpa::too_long(hpa, known_of.longest));
        let found = found.into_iter().map(|finding| in_file(finding, path));
        report.findings.extend(found);
    }
    let all: Vec<Hpa> = hpas.iter().map(|(hpa, _)| hpa.clone()).collect();
    for finding in peers::ambiguous(&all, &known_of.scaled_objects) {
        let of = hpas
            .iter()
            .find(|(hpa, _)| hpa.to_string() == finding.object);
        let path = of.map_or("", |(_, path)| path);
        report.findings.push(in_file(finding, path));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checked {
    Yes,
    No,
    Broken,
}

fn document_of<'f>(
    file: &'f File,
    document: &Value,
    report: &mut Report,
    known: &mut KnownOf<'f>,
) -> Checked {
    let found = &mut report.findings;
    let is_checked = match document["kind"].as_str() {
        None if SECTIONS.iter().any(|key| document.get(key).is_some()) => {
            let object = format!("File {}", file.path);
            found.extend(known.configuration(&object, &file.path, &file.text));
            true
        }
        Some("HorizontalPodAutoscaler") => match autoscaler(document) {
            Ok((_, mut hpa)) => {
                if hpa.namespace.is_empty() {
                    "default".clone_into(&mut hpa.namespace);
                }
                known.hpas.push((hpa, &file.path));
                true
            }
            Err(reason) => {
                let what = format!("{} in {}", object(document), file.path);
                let remedy = "correct the manifest: kube-apiserver accepts only valid objects of autoscaling/v2";
                report.skipped.insert(Skipped::new(what, reason, remedy));
                return Checked::Broken;
            }
        },
        Some("ScaledObject") => {
            let mut scaled_object = document.clone();
            let metadata = scaled_object.pointer_mut("/metadata");
            if let Some(metadata) = metadata.and_then(Value::as_object_mut) {
                metadata.entry("namespace").or_insert("default".into());
            }
            known.scaled_objects.push(scaled_object);
            true
        }
        Some("ConfigMap") => {
            let data = document["data"].as_object().into_iter().flatten();
            let texts = data.filter_map(|(_, text)| text.as_str());
            let configs = texts.filter(|text| {
                let parsed = yaml::first_document::<Value>(text);
                parsed.is_ok_and(|(it, _)| SECTIONS.iter().any(|key| it.get(key).is_some()))
            });
            let object = object(document);
            let mut any = false;
            for text in configs {
                found.extend(known.configuration(&object, &object, text));
                any = true;
            }
            any
        }
        Some(_) => {
            let words = words(document, is_named);
            let is_ours = !words.is_empty();
            let (_, sentences) = retired::take_out(words);
            found.extend(config::flags(&object(document), &sentences));
            is_ours
        }
        None => false,
    };
    if is_checked {
        Checked::Yes
    } else {
        Checked::No
    }
}

/// `Kind namespace/name`.
fn object(document: &Value) -> String {
    let text = |pointer: &str, other| {
        let found = document.pointer(pointer).and_then(Value::as_str);
        found.unwrap_or(other).to_owned()
    };
    let (kind, name) = (text("/kind", "?"), text("/metadata/name", "?"));
    format!("{kind} {}/{name}", text("/metadata/namespace", "default"))
}

fn autoscaler(document: &Value) -> Result<(HorizontalPodAutoscaler, Hpa), String> {
    let mut document = document.clone();
    match document["apiVersion"].as_str() {
        // For the checks here, v2beta2 is the same.
        Some("autoscaling/v2beta2") => document["apiVersion"] = "autoscaling/v2".into(),
        Some("autoscaling/v2") => {}
        other => return Err(format!("is of apiVersion {}", other.unwrap_or("none"))),
    }
    manifest::read(&document)
}

impl KnownOf<'_> {
    fn configuration(&mut self, object: &str, file: &str, text: &str) -> Vec<Finding> {
        match Config::from_yaml(file, text, &Flags::default()) {
            Err(error) => vec![config::refused(object, &error.to_string())],
            Ok(read) => {
                self.longest = self.longest.max(Some(read.policy.max_window));
                let raw = yaml::first_document(text).map_or(Value::Null, |(raw, _)| raw);
                config::check(object, &raw, &read.warnings)
            }
        }
    }
}

/// The value of a flag on a command line, in the same word or the next one.
pub(super) fn value<'w>(words: &'w [OsString], flag: &str) -> Option<&'w str> {
    let mut words = words.iter().filter_map(|word| word.to_str());
    let word = words.find(|word| word.split('=').next() == Some(flag))?;
    let value = word.split_once('=').map(|(_, value)| value);
    value.or_else(|| words.next())
}

/// Whether an image has the name of this server or of prometheus-adapter.
fn is_named(image: &str) -> bool {
    IMAGES.iter().any(|name| image.contains(name))
}

/// The command line of a Deployment behind the server's Service. If no image has a known
/// name, as in a mirror, all containers count.
pub(super) fn words_behind(deployment: &Deployment) -> Vec<OsString> {
    let document = serde_json::to_value(deployment).unwrap_or_default();
    let named = words(&document, is_named);
    match named.is_empty() {
        true => words(&document, |_| true),
        false => named,
    }
}

fn words(document: &Value, is_ours: impl Fn(&str) -> bool) -> Vec<OsString> {
    let containers = document.pointer("/spec/template/spec/containers");
    let containers = containers.and_then(Value::as_array).into_iter().flatten();
    let ours = containers.filter(|it| is_ours(it["image"].as_str().unwrap_or_default()));
    let words = ours.flat_map(|it| [&it["command"], &it["args"]]);
    let words = words.flat_map(|list| list.as_array().into_iter().flatten());
    words
        .filter_map(Value::as_str)
        .map(OsString::from)
        .collect()
}

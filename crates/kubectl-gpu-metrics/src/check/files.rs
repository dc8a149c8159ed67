//! Files: manifests, configurations and values of charts, with one or more documents.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use ::hpa::{Hpa, manifest};
use adapter_rules::registry::{Registry, Shape};
use adapter_rules::rule::Rule;
use apimachinery::kinds::Kinds;
use configuration::{Config, Flags};
use findings::hpa::ServedMetrics;
use findings::peers;
use findings::{Finding, Report, Severity, Skipped, config, hpa};
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

/// The values of the chart, whose keys prometheus-adapter's chart has too.
const VALUES: &str = include_str!("../../../../charts/gpu-metrics-apiserver/values.yaml");

/// The lists of rules below `rules` in a chart's values, and their keys in the configuration.
const CHART_RULES: [(&str, &str); 3] = [
    ("custom", "rules"),
    ("external", "externalRules"),
    ("resource", "resourceRules"),
];

/// The object of a finding about a configuration file.
const CONFIGURATION: &str = "Configuration";

#[derive(Debug)]
pub(super) struct File {
    path: String,
    text: String,
    documents: Vec<Value>,
}

/// What a cluster says, for the checks of files.
#[derive(Default)]
pub(super) struct Served {
    /// The names of metrics; `None`: the built-in ones are assumed.
    pub(super) names: Option<ServedMetrics>,
    /// The minor version of Kubernetes.
    pub(super) minor: Option<u32>,
}

/// The checks of all files, which depend on each other.
struct Checks<'f> {
    served: &'f Served,
    report: &'f mut Report,
    hpas: Vec<(Hpa, &'f str)>,
    rules: usize,
    /// Metrics of rules whose series are named.
    names: BTreeSet<String>,
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
    let broken = |reason: String, remedy: String| Skipped::new(&*shown, reason, remedy);
    let text = fs::read_to_string(path).map_err(|error| {
        let remedy = match path.is_dir() {
            true => format!("name the files in it: check {shown}/*.yaml"),
            false => "name an existing YAML file".to_owned(),
        };
        broken(error.to_string(), remedy)
    })?;
    let documents = serde_saphyr::from_multiple_with_options::<Value>(&text, yaml::options());
    let documents = documents.map_err(|error| {
        let remedy = match text.contains("{{") {
            true => "check what `helm template` makes of it",
            false => "correct the YAML there",
        };
        broken(yaml::report(&error), remedy.to_owned())
    })?;
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

/// The HPAs of some files, each with the name of its file.
pub(crate) fn autoscalers(paths: &[PathBuf]) -> Result<Vec<(Hpa, String)>, Failure> {
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
            found.push((hpa.map_err(failed)?, file.path.clone()));
        }
    }
    Ok(found)
}

/// Checks all files. HPAs of different files can conflict too.
pub(super) fn check(files: &[File], served: &Served, report: &mut Report) {
    let mut checks = Checks {
        served,
        report,
        hpas: Vec::new(),
        rules: 0,
        names: BTreeSet::new(),
    };
    for file in files {
        let before = checks.report.findings.len();
        let mut is_any = false;
        for document in &file.documents {
            is_any |= checks.document(file, document);
        }
        for finding in &mut checks.report.findings[before..] {
            finding.file = Some(file.path.clone());
        }
        checks.report.looked |= is_any;
        let is_of_keda = |it: &Value| it["kind"] == "ScaledObject";
        if !is_any && !file.documents.iter().any(is_of_keda) {
            checks.report.skipped.insert(Skipped::new(
                &*file.path,
                "contains nothing that can be checked",
                "name files with HorizontalPodAutoscalers of autoscaling/v2, or a configuration",
            ));
        }
    }
    checks.autoscalers();
}

impl<'f> Checks<'f> {
    /// Checks a document. Returns whether there is something to check in it.
    fn document(&mut self, file: &'f File, document: &Value) -> bool {
        let has_section = SECTIONS.iter().any(|key| document.get(key).is_some());
        match document["kind"].as_str() {
            None if is_values(document) => self.values(file, document),
            None if has_section => {
                self.configuration(CONFIGURATION, &file.path, &file.text);
            }
            // It scales on CPU only: no metric of this server is in it.
            Some("HorizontalPodAutoscaler") if document["apiVersion"] == "autoscaling/v1" => {
                return false;
            }
            Some("HorizontalPodAutoscaler") => self.autoscaler(file, document),
            Some("ConfigMap") => return self.config_map(document),
            Some("ScaledObject") => {
                self.report.skipped.insert(Skipped::new(
                    object(document),
                    "KEDA reads the metrics of its triggers, which are not checked",
                    "apply it, then run check in its namespace: KEDA makes an HPA of it",
                ));
                return false;
            }
            _ => return false,
        }
        true
    }

    fn autoscaler(&mut self, file: &'f File, document: &Value) {
        let version = document["apiVersion"].as_str();
        let read = autoscaler(document);
        let error = read.as_ref().err().map(String::as_str);
        let refused = hpa::refused(&object(document), version, self.served.minor, error);
        self.report.findings.extend(refused);
        if let Ok(mut hpa) = read {
            if hpa.namespace.is_empty() {
                "default".clone_into(&mut hpa.namespace);
            }
            self.hpas.push((hpa, &file.path));
        }
    }

    fn config_map(&mut self, document: &Value) -> bool {
        let data = document["data"].as_object().into_iter().flatten();
        let texts = data.filter_map(|(_, text)| text.as_str());
        let configs = texts.filter(|text| {
            let parsed = yaml::first_document::<Value>(text);
            parsed.is_ok_and(|(it, _)| SECTIONS.iter().any(|key| it.get(key).is_some()))
        });
        let object = object(document);
        let configs: Vec<&str> = configs.collect();
        for text in &configs {
            self.configuration(&object, &object, text);
        }
        !configs.is_empty()
    }

    /// The rules of a chart's values.
    fn values(&mut self, file: &File, document: &Value) {
        let rules = &document["rules"];
        if rules["default"] != false {
            let served = "the default rules of the chart are served too: rules.default";
            self.report.checked.push(served.to_owned());
        }
        for (value, key) in CHART_RULES {
            let is_empty = match &rules[value] {
                Value::Object(map) => map.is_empty(),
                Value::Array(list) => list.is_empty(),
                other => other.is_null(),
            };
            if !is_empty {
                // The places of faults are those of the file that the chart makes.
                let object = format!("rules.{value}, in the configuration {key}");
                let text = json!({key: rules[value]}).to_string();
                self.configuration(&object, &file.path, &text);
            }
        }
    }

    fn configuration(&mut self, object: &str, file: &str, text: &str) {
        let found = match Config::from_yaml(file, text, &Flags::default()) {
            Err(error) => vec![config::refused(object, &error.to_string())],
            Ok(read) => {
                let finding = |text: &String| {
                    let warning = config::warning(object, text);
                    match read.faults.contains(text) {
                        true => warning.with_severity(Severity::Error),
                        false => warning,
                    }
                };
                let mut found: Vec<Finding> = read.warnings.iter().map(finding).collect();
                for (rules, is_external) in [(&read.rules, false), (&read.external_rules, true)] {
                    for rule in &rules.usable {
                        self.rules += 1;
                        let of_rule = config::rule(object, rule, is_external);
                        let is_faulty = of_rule.iter().any(|it| it.severity == Severity::Error);
                        found.extend(of_rule);
                        match metrics_of(rule).filter(|_| !is_faulty) {
                            Some((_, names)) if !names.is_empty() => self.names.extend(names),
                            Some((series, _)) => {
                                found.push(config::unmatched(object, &rule.place, series));
                            }
                            None => {}
                        }
                    }
                }
                found
            }
        };
        self.report.findings.extend(found);
    }

    /// The findings about all HPAs of the files.
    fn autoscalers(self) {
        let Self {
            served,
            report,
            hpas,
            ..
        } = self;
        let counts = [
            (hpas.len(), "HorizontalPodAutoscalers"),
            (self.rules, "rules"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        report
            .checked
            .extend(counts.map(|(count, what)| format!("{count} {what}")));
        if !self.names.is_empty() {
            let names: Vec<String> = self.names.into_iter().collect();
            let served = format!(
                "the rules serve {}, and what else Prometheus finds for them; docs/rules.md says what differs from prometheus-adapter",
                names.join(", ")
            );
            report.checked.push(served);
        }
        let in_file = |mut finding: Finding, path: &str| {
            finding.file = Some(path.to_owned());
            finding
        };
        for (hpa, path) in hpas.iter().filter(|(hpa, _)| hpa::is_ours(hpa)) {
            let found = hpa::check(hpa, served.names.as_ref(), served.minor).into_iter();
            let found = found.map(|finding| in_file(finding, path));
            report.findings.extend(found);
        }
        let all: Vec<Hpa> = hpas.iter().map(|(hpa, _)| hpa.clone()).collect();
        let conflicts = peers::ambiguous(&all).into_iter();
        for (conflict, (_, path)) in conflicts.zip(&hpas) {
            let found = conflict.map(|finding| in_file(finding, path));
            report.findings.extend(found);
        }
    }
}

/// Whether a document has the values of a chart, and not a configuration.
fn is_values(document: &Value) -> bool {
    let keys = yaml::first_document::<Value>(VALUES).map_or(Value::Null, |(it, _)| it);
    let is_of_chart = |key: &str| keys.get(key).is_some() && !SECTIONS.contains(&key);
    let mut own = document.as_object().into_iter().flat_map(|it| it.keys());
    document["rules"].is_object()
        || document["prometheus"].get("port").is_some()
        || own.any(|key| is_of_chart(key))
}

/// The series of a rule and its metrics; `None`: only Prometheus knows its series.
fn metrics_of(rule: &Rule) -> Option<(&str, Vec<String>)> {
    let series = rule.series_query.split(['{', ' ']).next();
    let series = series.filter(|name| !name.is_empty())?;
    let shape = Shape {
        name: series.into(),
        labels: BTreeSet::new(),
    };
    let mut registry = Registry::new(Kinds::default());
    registry.add_external(&Arc::new(rule.clone()), &[shape]);
    let names = registry.external.keys().map(ToString::to_string);
    Some((series, names.collect()))
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

/// An HPA of `autoscaling/v2`, or of the older `v2beta2` with the same fields.
fn autoscaler(document: &Value) -> Result<Hpa, String> {
    let mut document = document.clone();
    document["apiVersion"] = "autoscaling/v2".into();
    manifest::read(&document).map(|(_, hpa)| hpa)
}

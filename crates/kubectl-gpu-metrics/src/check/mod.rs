//! `check`: finds mistakes, and how to correct them.

pub(super) mod files;
pub(super) mod live;

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use findings::{Finding, Report, Severity, Skipped, codes};

use super::Failure;
use super::cluster::ClusterArgs;
use super::document::text::Layout;
use super::document::{self, Document};
use super::terminal::{Output, print, say};

/// A valid autoscaler, which `demo` writes for its users.
pub const SAMPLE_HPA: &str = include_str!("hpa.yaml");

/// Looks for what is wrong: registration, rights and HPAs of a cluster, or
/// manifests and configuration files.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: 0 no finding of the level of --fail-on, 1 findings, 2 usage, 3 nothing could be checked, or a file is not valid.

Examples:
  kubectl gpu-metrics check -A
  kubectl gpu-metrics check -n ml -o json
  kubectl gpu-metrics check --pre
  kubectl gpu-metrics check --offline hpa.yaml config.yaml
  kubectl gpu-metrics check --explain GM504"
)]
pub struct CheckArgs {
    /// Manifests (HPAs, ConfigMaps), configuration files and values of the charts of this
    /// server or of prometheus-adapter. Without files, the cluster is checked
    files: Vec<PathBuf>,
    /// All namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Check a cluster before the installation of the server
    #[arg(long, conflicts_with = "files")]
    pre: bool,
    /// Check the files only, without asking a cluster which metrics are served
    #[arg(long, requires = "files")]
    offline: bool,
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
    output: Output,
    /// Exit with 1 from this severity on
    #[arg(long, default_value = "error", value_parser = severity())]
    fail_on: Severity,
    /// Print the page of a code, and check nothing
    #[arg(long, value_name = "CODE", exclusive = true)]
    explain: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

fn severity() -> impl TypedValueParser<Value = Severity> {
    let names = PossibleValuesParser::new(Severity::ALL.map(Severity::name));
    names.map(|name| {
        let mut all = Severity::ALL.into_iter();
        all.find(|it| it.name() == name).unwrap_or(Severity::Error)
    })
}

/// Runs the checks and prints the findings.
pub async fn run(args: CheckArgs) -> Result<(), Failure> {
    if let Some(id) = &args.explain {
        return explain(id);
    }
    let report = match args.files.is_empty() {
        true => live::inspect(&args).await?,
        false => files(&args).await?,
    };
    let level = args.fail_on;
    say(&document(&report), args.output, Layout::default())?;
    match (report.has(level), report.looked) {
        (true, _) => Err(Failure::Findings),
        (false, true) => Ok(()),
        (false, false) => Err(Failure::Unchecked(format!(
            "{} checks did not run: see above",
            report.skipped.len()
        ))),
    }
}

fn explain(id: &str) -> Result<(), Failure> {
    let code = codes::find(id).ok_or_else(|| Failure::Usage(format!("{id} is not a code")))?;
    print(code.page.trim_end());
    Ok(())
}

async fn files(args: &CheckArgs) -> Result<Report, Failure> {
    let (documents, broken) = files::read(&args.files);
    let mut report = Report::default();
    let served = match args.offline {
        true => files::Served::default(),
        false => live::served_for_files(args, &mut report).await,
    };
    files::check(&documents, &served, &mut report);
    report.looked &= broken.is_empty();
    report.skipped.extend(broken);
    report.sort();
    Ok(report)
}

const fn shown(severity: Severity) -> document::Severity {
    match severity {
        Severity::Error => document::Severity::Error,
        Severity::Warning => document::Severity::Warning,
        Severity::Info => document::Severity::Note,
    }
}

/// A report as a document, the worst finding first.
pub(super) fn document(report: &Report) -> Document {
    let mut document = Document::new("Findings");
    let counts = report.counts();
    let named = Severity::ALL
        .into_iter()
        .zip(["errors", "warnings", "notes"]);
    let said = counts.iter().zip(named.clone());
    let said: Vec<String> = said
        .map(|(count, (_, name))| format!("{name}: {count}"))
        .collect();
    let worst = counts.iter().zip(named).find(|(count, _)| **count > 0);
    let unknown = !report.looked || !report.skipped.is_empty();
    let severity = match worst {
        Some((_, (severity, _))) => shown(severity),
        None if unknown => document::Severity::Unknown,
        None => document::Severity::Good,
    };
    let found = report.findings.iter().map(of_finding);
    let skipped = report.skipped.iter().map(of_skipped);
    document.findings(found.chain(skipped));
    let skipped = report.skipped.len();
    let said = format!("{}; skipped: {skipped}", said.join(", "));
    document.verdict(severity, said);
    let checked = report.checked.iter().map(|it| format!("checked: {it}"));
    let hint = "kubectl gpu-metrics check --explain CODE prints the page of a code".to_owned();
    let hint = (!report.findings.is_empty()).then_some(hint);
    document.notes(checked.chain(hint));
    document
}

pub(super) fn of_finding(it: &Finding) -> document::Finding {
    document::Finding {
        severity: shown(it.severity),
        code: it.code.to_string(),
        object: match &it.file {
            Some(file) => format!("{} in {file}", it.object),
            None => it.object.clone(),
        },
        message: it.message.clone(),
        remedy: it.remedy.clone(),
        command: it.command.clone(),
        consequences: it.consequences.iter().map(of_finding).collect(),
    }
}

pub(super) fn of_skipped(it: &Skipped) -> document::Finding {
    document::Finding {
        severity: document::Severity::Unknown,
        code: String::new(),
        object: format!("Skipped: {}", it.what),
        message: it.reason.clone(),
        remedy: it.remedy.clone(),
        command: None,
        consequences: Vec::new(),
    }
}

#[cfg(test)]
mod tests;

//! `check`: finds mistakes, and how to correct them.

pub(super) mod files;
pub(super) mod live;
mod network;
mod targets;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use serde_json::json;

use apimachinery::duration::parse_duration;
use findings::{Finding, Report, Severity, codes};

use super::Failure;
use super::cluster::ClusterArgs;
use super::terminal::print;

/// A valid autoscaler, which `demo` writes for its users.
pub const SAMPLE_HPA: &str = include_str!("hpa.yaml");

/// The time between two checks with `--wait`.
const AGAIN: Duration = Duration::from_secs(2);

/// Looks for what is wrong: registration, rights and HPAs of a cluster, or
/// manifests and configuration files.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code: 0 no finding of the level of --fail-on, 1 findings, 2 usage, 3 nothing could be checked, or a file is not valid.

Examples:
  check -A
  check -n ml -o json
  check --pre
  check --offline hpa.yaml config.yaml
  check --explain GM504"
)]
pub struct CheckArgs {
    /// Manifests (HPAs, ConfigMaps, Deployments) and configuration files of this server or
    /// of prometheus-adapter. Without files, the cluster is checked
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
    /// Repeat the check until there is no finding, for at most this time
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration, conflicts_with = "files")]
    wait: Duration,
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
    output: CheckOutput,
    /// Lowest severity of a finding that makes the exit code 1
    #[arg(long, default_value = "error", value_parser = severity())]
    fail_on: Severity,
    /// Print the page of a code, and check nothing
    #[arg(long, value_name = "CODE", exclusive = true)]
    explain: Option<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CheckOutput {
    /// With remedies, for people
    Text,
    /// Everything, for programs
    Json,
    /// A line each
    Short,
    /// Annotations of GitHub Actions
    Github,
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
    let report = if args.files.is_empty() {
        wait(&args).await?
    } else {
        files(&args).await?
    };
    let level = args.fail_on;
    let success = report.looked && !report.has(level);
    let page = page(&report, args.output, success);
    print(&page);
    match (report.has(level), report.looked) {
        (true, _) => Err(Failure::Findings),
        (false, true) => Ok(()),
        (false, false) => Err(Failure::Unchecked(
            "the requested checks could not run, or not all of them".to_owned(),
        )),
    }
}

fn explain(id: &str) -> Result<(), Failure> {
    let Some(code) = codes::find(id) else {
        let mut known: Vec<&str> = codes::ALL.iter().map(|code| code.id).collect();
        known.sort_unstable();
        let known = known.join(", ");
        return Err(Failure::Usage(format!(
            "{id} is not a code: the codes are {known}"
        )));
    };
    print(code.page.trim_end());
    Ok(())
}

async fn wait(args: &CheckArgs) -> Result<Report, Failure> {
    let until = tokio::time::Instant::now() + args.wait;
    loop {
        let outcome = live::inspect(args).await;
        let is_well = |report: &Report| report.looked && !report.has(args.fail_on);
        let over = tokio::time::Instant::now() + AGAIN > until;
        if over || outcome.as_ref().is_ok_and(is_well) {
            return outcome;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn files(args: &CheckArgs) -> Result<Report, Failure> {
    let (documents, broken) = files::read(&args.files);
    let mut report = Report::default();
    let (served, minor) = if args.offline {
        (None, None)
    } else {
        live::served_for_files(args, &mut report).await
    };
    files::check(&documents, (served.as_ref(), minor), &mut report);
    report.looked &= broken.is_empty();
    report.skipped.extend(broken);
    report.sort();
    Ok(report)
}

pub(crate) const fn mark(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "×",
        Severity::Warning => "‼",
        Severity::Info => "i",
    }
}

fn page(report: &Report, output: CheckOutput, success: bool) -> String {
    match output {
        CheckOutput::Json => {
            let Report {
                findings, skipped, ..
            } = report;
            let value = json!({"success": success, "findings": findings, "skipped": skipped});
            serde_json::to_string_pretty(&value).unwrap_or_default()
        }
        CheckOutput::Text => text(report).trim_end().to_owned(),
        CheckOutput::Short => lines(report, |it| {
            let name = it.severity.name();
            format!("{} {name} {}: {}", it.code, place(it), it.message)
        }),
        CheckOutput::Github => lines(report, annotation),
    }
}

fn place(finding: &Finding) -> String {
    match &finding.file {
        Some(file) => format!("{} in {file}", finding.object),
        None => finding.object.clone(),
    }
}

fn text(report: &Report) -> String {
    let mut parts: Vec<String> = Vec::new();
    for it in &report.findings {
        let head = format!("{} {}  {}", mark(it.severity), it.code, place(it));
        let mut part = format!("{head}\n  {}\n  → {}\n", it.message, it.remedy);
        if let Some(command) = &it.command {
            part.push_str(&format!("    {command}\n"));
        }
        part.push_str(&format!("  {}, or: check --explain {}\n", it.url, it.code));
        parts.push(part);
    }
    for it in &report.skipped {
        parts.push(format!(
            "- skipped: {}\n  {}\n  → {}\n",
            it.what, it.reason, it.remedy
        ));
    }
    let [errors, warnings, notes] = report.counts();
    parts.push(format!(
        "errors: {errors}, warnings: {warnings}, notes: {notes}; skipped: {}",
        report.skipped.len()
    ));
    parts.join("\n")
}

fn lines(report: &Report, line: impl Fn(&Finding) -> String) -> String {
    let found = report.findings.iter().map(line);
    let skipped = report.skipped.iter();
    let skipped = skipped.map(|it| format!("skipped {}: {}: {}", it.what, it.reason, it.remedy));
    let skipped = skipped.map(|line| line.replace('\n', " "));
    found.chain(skipped).collect::<Vec<_>>().join("\n")
}

/// A workflow command (GitHub's documentation, "Workflow commands").
fn annotation(finding: &Finding) -> String {
    let data = |text: &str| {
        text.replace('%', "%25")
            .replace('\r', "%0D")
            .replace('\n', "%0A")
    };
    let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
    let command = match finding.severity {
        Severity::Info => "notice",
        severity => severity.name(),
    };
    let file = finding.file.as_deref();
    let file = file.map_or_else(String::new, |file| format!("file={},", property(file)));
    let title = property(&format!("{} {}", finding.code, finding.object));
    let remedy = finding.command.as_ref();
    let remedy = remedy.map(|run| format!("{}: {run}", finding.remedy));
    let remedy = remedy.as_ref().unwrap_or(&finding.remedy);
    let message = data(&format!("{}: {remedy}", finding.message));
    format!("::{command} {file}title={title}::{message}")
}

#[cfg(test)]
mod tests;

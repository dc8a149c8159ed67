//! `check`: finds mistakes, and how to correct them.

pub(super) mod files;
pub(super) mod live;
mod network;
pub(super) mod print;
mod targets;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};

use apimachinery::duration::parse_duration;
use findings::{Report, Severity, codes};

use super::Failure;
use super::cluster::ClusterArgs;
use super::wrap;

/// A valid autoscaler, which `demo` writes for its users.
pub const SAMPLE_HPA: &str = include_str!("hpa.yaml");

/// How often the cluster is asked again with `--wait`.
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
    let page = print::page(&report, args.output, success);
    wrap::print(&page);
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
        let known: Vec<&str> = codes::ALL.iter().map(|code| code.id).collect();
        let known = known.join(", ");
        return Err(Failure::Usage(format!(
            "{id} is not a code: the codes are {known}"
        )));
    };
    wrap::print(code.page.trim_end());
    Ok(())
}

async fn wait(args: &CheckArgs) -> Result<Report, Failure> {
    let until = tokio::time::Instant::now() + args.wait;
    loop {
        let outcome = live::look(args).await;
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

#[cfg(test)]
mod tests;

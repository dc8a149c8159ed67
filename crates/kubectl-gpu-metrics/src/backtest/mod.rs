//! `backtest`: the replicas that an autoscaler would have set for the recorded demand.

mod read;
mod report;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use apimachinery::duration::{format_duration, parse_duration};
use apimachinery::time::Timestamp;
use cluster_state::clock;
use configuration::Flags;

use crate::replay::{Plan, Trial};

use super::Failure;
use super::check::files;
use super::cluster::ClusterArgs;
use super::document::Document;
use super::document::text::Layout;
use super::explain::hpa::{self, a_second_or_more};
use super::history::{History, period};
use super::terminal::{Output, say};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// What an autoscaler would have done with the demand of the last days, beside what
/// was: read from Prometheus, through the server's windows and the controller's
/// arithmetic.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kubectl gpu-metrics backtest hpa.yaml
  kubectl gpu-metrics backtest hpa.yaml --last 14d --sweep
  kubectl gpu-metrics backtest hpa.yaml --prometheus-url http://localhost:9090 --sweep --max-shortage 30m")]
pub struct BacktestArgs {
    /// Manifests of HorizontalPodAutoscalers; each is computed separately
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Start: a time (2026-01-02T03:04:05Z) or a duration before now (7d)
    #[arg(long, value_name = "TIME", value_parser = period::time, conflicts_with = "last")]
    from: Option<Timestamp>,
    /// End, in the same form [default: now]
    #[arg(long, value_name = "TIME", value_parser = period::time, conflicts_with = "last")]
    to: Option<Timestamp>,
    /// Length of the period, up to now
    #[arg(long, value_name = "DURATION", default_value = "7d", value_parser = a_second_or_more)]
    last: Duration,
    /// Time between two readings: the scrape interval [default: as measured]
    #[arg(long, value_name = "DURATION", value_parser = a_second_or_more)]
    step: Option<Duration>,
    /// Time from the order of a replica to its first work: scheduling, image pull, loading
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_duration)]
    ready_after: Duration,
    /// Try other targets, and mark the one with the fewest GPU-hours
    #[arg(long)]
    sweep: bool,
    /// The most time that demand may exceed the serving GPUs with the marked target
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    max_shortage: Duration,
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
    output: Output,
    /// Version of Kubernetes whose defaults kube-controller-manager has
    #[arg(long, value_name = "VERSION", default_value = "1.37", value_parser = minor)]
    kubernetes_version: u32,
    #[command(flatten)]
    prometheus: Flags,
    #[command(flatten)]
    flags: hpa::FlagArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

impl BacktestArgs {
    /// The ends of the requested period.
    fn ends(&self) -> [Timestamp; 2] {
        let to = self.to.unwrap_or_else(clock::now);
        [self.from.unwrap_or(to - self.last), to]
    }
}

/// The minor version of `1.33`, `v1.33.4` or `v1.33.4-gke.1`.
fn minor(text: &str) -> Result<u32, String> {
    let rest = text.strip_prefix('v').unwrap_or(text).strip_prefix("1.");
    let minor = rest.and_then(|rest| rest.split('.').next()?.parse().ok());
    minor.ok_or_else(|| "write a version such as 1.37".to_owned())
}

/// Computes what the autoscalers would have done and prints it.
pub async fn run(args: BacktestArgs) -> Result<(), Failure> {
    let objects = files::autoscalers(&args.files)?;
    if objects.is_empty() {
        let what = "no HorizontalPodAutoscaler in these files: name its manifest";
        return Err(Failure::Usage(what.to_owned()));
    }
    let history = History::open(&args.prometheus, &args.cluster).await?;
    let policy = &history.config.policy;
    let namespace = args.cluster.namespace.as_deref();
    let namespace = namespace.or(history.cluster.as_ref().map(|it| &*it.namespace));
    let mut plans: Vec<Plan> = Vec::new();
    for (_, hpa, file) in objects {
        let name = hpa.name.clone();
        let plan = Plan::read(hpa, namespace.unwrap_or("default"));
        let plan = plan.map_err(|why| Failure::Usage(format!("{file}: {name}: {why}")))?;
        let longest = policy.max_window;
        if plan.asked.iter().any(|it| it.window > Some(longest)) {
            return Err(Failure::Usage(format!(
                "{file}: {name}: a window is longer than gpu.maxWindow, {}: the server would refuse it",
                format_duration(longest)
            )));
        }
        plans.push(plan);
    }
    let flags = args.flags.or_defaults(args.kubernetes_version);
    let mut document = Document::new("Backtest");
    for plan in plans {
        let read = read::Read::of(&history, &args, &plan).await?;
        let report = report::Report {
            args: &args,
            notes: &read.notes,
            trial: Trial {
                past: &read.past,
                plan: &plan,
                policy,
                flags: &flags,
                ready_after: args.ready_after,
            },
        };
        // A backtest computes for up to hours and must not block the runtime.
        tokio::task::block_in_place(|| report.add_to(&mut document));
    }
    say(&document, args.output, Layout::default())
}

//! `backtest`: the replicas that an autoscaler would have set for the recorded demand.

mod read;
mod report;
mod rule;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use apimachinery::duration::{format_duration, parse_duration};
use configuration::Flags;
use hpa::ControllerFlags;

use crate::replay::{Plan, Trial};

use super::Failure;
use super::check::files;
use super::cluster::ClusterArgs;
use super::document::Document;
use super::document::text::Layout;
use super::explain::hpa::{FlagArgs, a_second_or_more};
use super::history::History;
use super::history::period::PeriodArgs;
use super::terminal::{Output, say};

const SYNC: &str = "horizontal-pod-autoscaler-sync-period";

/// What an autoscaler would have done with the demand of the last days, beside what
/// was: read from Prometheus, through the server's windows and the controller's
/// arithmetic.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kubectl gpu-metrics backtest hpa.yaml
  kubectl gpu-metrics backtest hpa.yaml --since 14d --sweep
  kubectl gpu-metrics backtest hpa.yaml --prometheus-url http://localhost:9090 --sweep --max-shortage 30m")]
pub struct BacktestArgs {
    /// Manifests of HorizontalPodAutoscalers; each is computed separately
    #[arg(required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    period: PeriodArgs,
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
    #[command(flatten)]
    prometheus: Flags,
    #[command(flatten)]
    flags: FlagArgs,
    /// Sync period of the controller
    #[arg(long = SYNC, value_name = "DURATION", value_parser = a_second_or_more, default_value = "15s")]
    sync_period: Duration,
    #[command(flatten)]
    cluster: ClusterArgs,
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
    for (hpa, file) in objects {
        let name = hpa.name.clone();
        let plan = Plan::read(hpa, namespace.unwrap_or("default"));
        let plan = plan.map_err(|why| Failure::Usage(format!("{file}: {name}: {why}")))?;
        let longest = policy.max_window;
        if plan.metric.and_then(|it| it.window) > Some(longest) {
            return Err(Failure::Usage(format!(
                "{file}: {name}: a window is longer than gpu.maxWindow, {}: the server would refuse it",
                format_duration(longest)
            )));
        }
        plans.push(plan);
    }
    let flags = ControllerFlags {
        sync_period: args.sync_period,
        ..args.flags.or_defaults(hpa::NEWEST)
    };
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

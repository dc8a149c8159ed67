//! `backtest`: the replicas that an autoscaler would have set for the recorded demand.

mod read;
mod report;
#[cfg(test)]
mod tests;
mod when;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use apimachinery::duration::{format_duration, parse_duration};
use apimachinery::time::{Timestamp, millis};
use cluster_state::clock;
use configuration::Flags;

use crate::replay::{Plan, Trial};

use super::Failure;
use super::check::files;
use super::document::text::{self, Layout};
use super::document::{Document, json};
use super::explain::hpa::{self, a_second_or_more};
use super::terminal::{self, print};

/// The largest number of moments: two years of scrapes at 15 s.
const MOST_MOMENTS: usize = 5_000_000;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// The shortest timeout of a query, because reading a day of many series takes long.
const PATIENCE: Duration = Duration::from_secs(120);

/// What an autoscaler would have done with the demand of the last days, beside what
/// was: read from Prometheus, through the server's windows and the controller's
/// arithmetic.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kubectl gpu-metrics backtest hpa.yaml --prometheus-url http://localhost:9090
  kubectl gpu-metrics backtest hpa.yaml --prometheus-url http://localhost:9090 --last 14d --sweep
  kubectl gpu-metrics backtest hpa.yaml --prometheus-url http://localhost:9090 --sweep --max-shortage 30m")]
pub struct BacktestArgs {
    /// Manifests of HorizontalPodAutoscalers; each is computed separately
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Namespace of manifests without a namespace
    #[arg(long, short, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Start: a time (2026-01-02T03:04:05Z) or a duration before now (7d)
    #[arg(long, value_name = "TIME", value_parser = when::parse, conflicts_with = "last")]
    from: Option<Timestamp>,
    /// End, in the same form [default: now]
    #[arg(long, value_name = "TIME", value_parser = when::parse, conflicts_with = "last")]
    to: Option<Timestamp>,
    /// Length of the period, up to now
    #[arg(long, value_name = "DURATION", default_value = "7d", value_parser = a_second_or_more)]
    last: Duration,
    /// Time between two readings: the scrape interval [default: as measured]
    #[arg(long, value_name = "DURATION", value_parser = a_second_or_more)]
    step: Option<Duration>,
    /// Time from the creation of a replica to its first work [default: as measured]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    ready_after: Option<Duration>,
    /// Allow a period of less than a day
    #[arg(long)]
    allow_short: bool,
    /// Price of a GPU for an hour
    #[arg(long, value_name = "NUMBER", value_parser = price)]
    gpu_hour_price: Option<f64>,
    /// Try other targets, and mark the one with the fewest GPU-hours
    #[arg(long)]
    sweep: bool,
    /// The most time that demand may exceed the serving GPUs with the marked target
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    max_shortage: Duration,
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
    output: BacktestOutput,
    /// Version of Kubernetes whose defaults kube-controller-manager has
    #[arg(long, value_name = "VERSION", default_value = "1.37", value_parser = minor)]
    kubernetes_version: u32,
    #[command(flatten)]
    prometheus: Flags,
    #[command(flatten)]
    flags: hpa::FlagArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BacktestOutput {
    /// Tables, for people
    Text,
    /// For programs
    Json,
}

fn price(text: &str) -> Result<f64, String> {
    let price = text.parse().ok().filter(|it| (0.0..1e9).contains(it));
    price.ok_or_else(|| "write a number such as 2.5".to_owned())
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
    let (mut config, _) = args.prometheus.load()?;
    if let Some(settings) = &mut config.prometheus {
        settings.timeout = settings.timeout.max(PATIENCE);
    }
    // A backtest reads `prometheus.url` only.
    let promql = config.client()?;
    let mut plans: Vec<Plan> = Vec::new();
    for (_, hpa, file) in objects {
        let name = hpa.name.clone();
        let plan = Plan::read(hpa, &args.namespace);
        let plan = plan.map_err(|why| Failure::Usage(format!("{file}: {name}: {why}")))?;
        let longest = config.policy.max_window;
        if plan.asked.iter().any(|it| it.window > Some(longest)) {
            return Err(Failure::Usage(format!(
                "{file}: {name}: a window is longer than gpu.maxWindow, {}: the server would refuse it",
                format_duration(longest)
            )));
        }
        if let Some(other) = plans.iter().find(|other| target(other) == target(&plan)) {
            let what = format!(
                "{other} and {plan} scale the same {} {}: the controller follows neither; try one \
                 at a time",
                plan.hpa.scaled.kind, plan.hpa.scaled.name
            );
            return Err(Failure::Usage(what));
        }
        plans.push(plan);
    }
    let flags = args.flags.or_defaults(args.kubernetes_version);
    let mut document = Document::new("Backtest");
    for plan in plans {
        let store = read::Store {
            promql: &promql,
            config: &config,
            args: &args,
        };
        let read = store.read(&plan).await?;
        let report = report::Report {
            args: &args,
            notes: &read.notes,
            trial: Trial {
                past: &read.past,
                plan: &plan,
                policy: &config.policy,
                flags: &flags,
                ready_after: read.ready_after,
            },
        };
        // A backtest computes for up to hours and must not block the runtime.
        tokio::task::block_in_place(|| report.add_to(&mut document));
    }
    let layout = Layout {
        width: terminal::size().map(|(columns, _)| columns),
        ..Layout::default()
    };
    print(&match args.output {
        BacktestOutput::Text => text::lines(&document, &layout).join("\n"),
        BacktestOutput::Json => serde_json::to_string_pretty(&json::value(&document))?,
    });
    Ok(())
}

fn target(plan: &Plan) -> [&str; 3] {
    let scaled = &plan.hpa.scaled;
    [&plan.hpa.namespace, &scaled.kind, &scaled.name]
}

/// The requested period on whole steps: its start and its number of moments.
fn span(args: &BacktestArgs, step: Duration) -> Result<(Timestamp, usize), Failure> {
    let step_ms = millis(step).max(1);
    let to = args.to.unwrap_or_else(clock::now);
    let from = args.from.unwrap_or(to - args.last);
    let count = (to.millis() - from.millis()) / step_ms;
    let moments = usize::try_from(count).ok().filter(|count| *count > 1);
    if moments.is_some_and(|count| count > MOST_MOMENTS) {
        return Err(Failure::Usage(format!(
            "from {} to {} there are more than {MOST_MOMENTS} moments: select a shorter period",
            from.date(),
            to.date()
        )));
    }
    let moments = moments.ok_or_else(|| {
        let (from, to) = (from.date(), to.date());
        Failure::Usage(format!(
            "the period from {from} to {to} is empty: give --from before --to"
        ))
    })?;
    let start = to.millis().div_euclid(step_ms) - count + 1;
    Ok((Timestamp::from_millis(start * step_ms), moments))
}

//! `backtest`: the replicas that an autoscaler would have set for the recorded demand.

mod page;
mod print;
mod read;
mod when;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde::Serialize;

use ::hpa::ControllerFlags;
use ::hpa::ratio::Tolerances;
use apimachinery::duration::{format_duration, parse_duration};
use apimachinery::time::{Timestamp, millis};
use cluster_state::clock;
use configuration::Config;
use configuration::Flags;
use findings::{self, Severity};

use crate::replay::past::{self, SATURATED};
use crate::replay::sweep::{self, Variant, VariantFigures};
use crate::replay::{Conservation, Figures, MOST_CENSORED, Past, Plan, Sweep, Tick, Trial};

use super::Failure;
use super::check::files;
use super::explain::hpa::{self, a_second_or_more};
use super::terminal::print;

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
  backtest hpa.yaml --prometheus-url http://prometheus:9090
  backtest hpa.yaml --prometheus-url http://prometheus:9090 --last 14d --sweep
  backtest hpa.yaml --prometheus-url http://prometheus:9090 -o html > report.html")]
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
    /// PromQL of another measure of the load (requests, queue length), one number at each
    /// time. It is used where the GPUs were at their limit
    #[arg(long, value_name = "PROMQL")]
    demand: Option<String>,
    /// Price of a GPU for an hour
    #[arg(long, value_name = "NUMBER", value_parser = price)]
    gpu_hour_price: Option<f64>,
    /// Search other targets, windows and stabilization windows: selected on the first two
    /// thirds of the period, evaluated on the last third
    #[arg(long)]
    sweep: bool,
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
    /// Everything, for programs
    Json,
    /// A page with charts, in one file
    Html,
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

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    namespace: String,
    name: String,
    target: String,
    from: String,
    to: String,
    sync_seconds: f64,
    gpus_per_pod: f64,
    ready_after_seconds: f64,
    /// Assumptions, and their sources.
    notes: Vec<String>,
    /// Reasons to doubt the figures.
    warnings: Vec<String>,
    /// The share of the time in which the demand is a lower bound, 0 to 1.
    censored: f64,
    conservation: Option<Conservation>,
    recorded: Figures,
    simulated: Figures,
    clairvoyant: Option<Figures>,
    /// Time and number of each change of the replicas, including the first.
    recorded_replicas: Vec<(String, i32)>,
    simulated_replicas: Vec<(String, i32)>,
    sweep: Option<Sweep>,
    #[serde(skip)]
    ticks: [Vec<Tick>; 2],
    #[serde(skip)]
    plan: Plan,
    #[serde(skip)]
    past: Past,
    #[serde(skip)]
    tolerances: Tolerances,
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
    let mut plans: Vec<(HorizontalPodAutoscaler, Plan)> = Vec::new();
    for (object, hpa, file) in objects {
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
        let mut others = plans.iter();
        let same = others.find(|(_, other)| target(other) == target(&plan));
        if let Some((_, other)) = same {
            let what = format!(
                "{other} and {plan} scale the same {} {}: the controller follows neither; try one \
                 at a time",
                plan.hpa.scaled.kind, plan.hpa.scaled.name
            );
            return Err(Failure::Usage(what));
        }
        plans.push((object, plan));
    }
    let mut reports = Vec::new();
    for (object, plan) in plans {
        let store = read::Store {
            promql: &promql,
            config: &config,
            args: &args,
        };
        let read = store.read(&plan).await?;
        // A backtest computes for up to hours and must not block the runtime.
        let report = tokio::task::block_in_place(|| report(&args, &config, (&object, plan), read));
        reports.push(report?);
    }
    let text = match args.output {
        BacktestOutput::Text => print::text(&reports),
        BacktestOutput::Json => serde_json::to_string_pretty(&reports)?,
        BacktestOutput::Html => page::html(&reports).into_string(),
    };
    print(text.trim_end());
    Ok(())
}

fn target(plan: &Plan) -> [&str; 3] {
    let scaled = &plan.hpa.scaled;
    [&plan.hpa.namespace, &scaled.kind, &scaled.name]
}

fn report(
    args: &BacktestArgs,
    config: &Config,
    (object, plan): (&HorizontalPodAutoscaler, Plan),
    read: read::Read,
) -> Result<Report, Failure> {
    let past = read.past;
    let flags = args.flags.or_defaults(args.kubernetes_version);
    let trial = Trial {
        past: &past,
        plan: &plan,
        policy: &config.policy,
        flags: &flags,
        ready_after: read.ready_after,
    };
    let conservation = Conservation::of(&past, read.ready_after);
    let censored = past.censored();
    let mut warnings = warnings(&past, conservation.as_ref(), censored);
    let found = findings::hpa::check(&plan.hpa, None, Some(args.kubernetes_version)).into_iter();
    let found = found.filter(|it| it.severity != Severity::Info);
    warnings.extend(found.map(|it| format!("{}: {}", it.code, it.message)));
    let figures = |ticks: &[Tick]| trial.figures(ticks, args.gpu_hour_price);
    let (recorded, simulated) = (trial.recorded(), trial.run());
    let sweep = args.sweep.then(|| {
        let withheld = withheld(conservation.as_ref(), censored);
        sweep(&trial, object, (figures, &simulated), withheld)
    });
    let mut notes = read.notes;
    notes.extend(assumed(args, &flags));
    Ok(Report {
        namespace: plan.hpa.namespace.clone(),
        name: plan.hpa.name.clone(),
        target: format!("{} {}", plan.hpa.scaled.kind, plan.hpa.scaled.name),
        from: past.start.date(),
        to: past.end().date(),
        sync_seconds: flags.sync_period.as_secs_f64(),
        gpus_per_pod: past.gpus_per_pod,
        ready_after_seconds: read.ready_after.as_secs_f64(),
        notes,
        warnings,
        censored,
        conservation,
        recorded: figures(&recorded),
        simulated: figures(&simulated),
        clairvoyant: trial.clairvoyant().map(|ticks| figures(&ticks)),
        recorded_replicas: changes(&recorded),
        simulated_replicas: changes(&simulated),
        sweep,
        tolerances: flags.tolerances(&plan.hpa),
        ticks: [recorded, simulated],
        plan,
        past,
    })
}

fn assumed(args: &BacktestArgs, flags: &ControllerFlags) -> [String; 2] {
    let written = args.flags.written();
    [
        format!("flags of kube-controller-manager 1.{}: {written}", flags.minor),
        "the simulation assumes that demand does not depend on the replicas, is shared evenly, and \
         is lost if the replicas cannot serve it"
            .to_owned(),
    ]
}

fn changes(ticks: &[Tick]) -> Vec<(String, i32)> {
    let changes = past::changes(ticks).into_iter();
    changes
        .map(|(at, replicas)| (at.date(), replicas))
        .collect()
}

fn warnings(past: &Past, conservation: Option<&Conservation>, censored: f64) -> Vec<String> {
    let mut warnings = Vec::new();
    let length = past.end().since(past.start);
    // The newest scrapes may not be stored yet.
    if length < 7 * DAY - HOUR {
        warnings.push(format!(
            "{} are less than a week: weekends and rare peaks may be missing",
            format_duration(Duration::from_secs(length.as_secs()))
        ));
    }
    if censored > 0.0 {
        warnings.push(format!(
            "in {:.1} % of the time most GPUs were at {SATURATED} % or more: the demand may be \
             higher than shown; set --demand to measure it",
            100.0 * censored
        ));
    }
    match conservation {
        None => warnings.push(
            "fewer than three changes of the replicas can be evaluated separately: conservation of \
             demand was not tested"
                .to_owned(),
        ),
        Some(it) if !it.holds() => warnings.push(it.sentence().to_owned()),
        Some(_) => {}
    }
    warnings
}

fn withheld(conservation: Option<&Conservation>, censored: f64) -> Option<String> {
    if censored > MOST_CENSORED {
        return Some(format!(
            "in {:.0} % of the time the demand was higher than the GPUs could serve, so it is \
             unknown; set --demand, or select a period with more GPUs",
            100.0 * censored
        ));
    }
    let broken = conservation.filter(|it| !it.holds());
    broken.map(|it| it.sentence().to_owned())
}

/// Runs all variants, as many concurrently as there are processors.
fn sweep(
    trial: &Trial<'_>,
    object: &HorizontalPodAutoscaler,
    (figures, simulated): (impl Fn(&[Tick]) -> Figures + Sync, &[Tick]),
    withheld: Option<String>,
) -> Sweep {
    let variants = sweep::variants(trial.plan, trial.past.gpus_per_pod);
    let row = |variant: &Variant| {
        let trial = Trial {
            plan: &variant.plan,
            ..*trial
        };
        VariantFigures::of(Some(variant), &figures, &trial.run())
    };
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let share = variants.len().div_ceil(workers).max(1);
    let rows: Vec<VariantFigures> = std::thread::scope(|scope| {
        let parts: Vec<_> = variants
            .chunks(share)
            .map(|part| scope.spawn(|| part.iter().map(row).collect::<Vec<_>>()))
            .collect();
        let done = parts.into_iter().filter_map(|part| part.join().ok());
        done.flatten().collect()
    });
    let as_it_is = VariantFigures::of(None, &figures, simulated);
    Sweep::judge(as_it_is, rows, withheld).with_patch(object, &variants)
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

//! `usage`: GPU-hours held, active and idle, by owner.

mod price;
mod report;
pub(crate) mod tally;

use std::time::Duration;

use clap::{Args, ValueEnum};

use apimachinery::duration::format_duration;
use configuration::Flags;
use gpu_metrics::policy::DeviceValue;

use super::Failure;
use super::cluster::ClusterArgs;
use super::document::Document;
use super::document::text::Layout;
use super::history::History;
use super::history::owners::Owners;
use super::history::period::{Period, PeriodArgs};
use super::terminal::{Output, print, say};

use price::Prices;
use tally::{Tally, Usage};

/// The most instants: a week of minutes.
const MOST: u64 = 7 * 24 * 60;

const MINUTE: Duration = Duration::from_secs(60);

/// GPU-hours that pods held, used and wasted, by owner, those that wasted most first: read
/// from Prometheus, with the server's rules for devices and their holders.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kubectl gpu-metrics usage --since 7d
  kubectl gpu-metrics usage --since 30d --by workload --price H100=2.5,A100=1.8
  kubectl gpu-metrics usage --since 24h --by label=team -o csv --prometheus-url http://localhost:9090")]
pub struct UsageArgs {
    #[command(flatten)]
    period: PeriodArgs,
    /// Owners: namespace, workload, node, or label=KEY with a label of pods
    #[arg(long, value_name = "OWNER", default_value = "namespace", value_parser = By::parse)]
    by: By,
    /// Price of a GPU for an hour: a number, MODEL=NUMBER for each model, or a file with such
    /// lines. A word of the model is enough
    #[arg(long, value_name = "PRICES", value_parser = Prices::parse)]
    price: Option<Prices>,
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
    output: UsageOutput,
    #[command(flatten)]
    prometheus: Flags,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// The owners of the rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum By {
    Namespace,
    Workload,
    Node,
    /// The value of this label of pods.
    Label(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum UsageOutput {
    /// Tables, for people
    Text,
    /// For programs
    Json,
    /// The rows of owners, for spreadsheets
    Csv,
}

impl By {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "namespace" | "ns" => Ok(Self::Namespace),
            "workload" => Ok(Self::Workload),
            "node" => Ok(Self::Node),
            _ => match text.strip_prefix("label=") {
                Some(key) if !key.is_empty() => Ok(Self::Label(key.to_owned())),
                _ => Err("write namespace, workload, node or label=KEY".to_owned()),
            },
        }
    }
}

/// Reads the past and prints the use of GPUs by owner.
pub async fn run(args: UsageArgs) -> Result<(), Failure> {
    let history = History::open(&args.prometheus, &args.cluster).await?;
    let document = document(&args, &history).await?;
    let output = match args.output {
        UsageOutput::Csv => {
            print(&report::csv(&document));
            return Ok(());
        }
        UsageOutput::Text => Output::Text,
        UsageOutput::Json => Output::Json,
    };
    say(&document, output, Layout::default())
}

/// Adds the sums of all, and the workloads with most idle GPU-hours.
pub(crate) fn add_worst(document: &mut Document, owners: &Owners, period: Period, usage: &Usage) {
    let report = report::Report {
        by: &By::Workload,
        prices: None,
        owners,
        period,
        how: String::new(),
    };
    report.add_worst(document, usage);
}

async fn document(args: &UsageArgs, history: &History) -> Result<Document, Failure> {
    let ends = args.period.ends();
    let namespace = args.cluster.namespace.as_deref();
    let queries = history.of_devices(DeviceValue::MemoryUtilization, namespace);
    let scrape = history.scrape_interval(&queries, ends).await?;
    let Some(scrape) = scrape else {
        return Err(Failure::Failed(format!(
            "no series of {} are in the store in this period: check --since, the retention of the \
             store, and --prometheus-url",
            queries.names
        )));
    };
    let minutes = ends[1].since(ends[0]).as_secs().div_ceil(MOST * 60).max(1);
    let step = scrape.max(MINUTE * u32::try_from(minutes).unwrap_or(u32::MAX));
    let period = Period::of(ends, step)?;
    let label = match &args.by {
        By::Label(key) => Some(key.as_str()),
        _ => None,
    };
    let owners = match args.by {
        By::Namespace | By::Node => Owners::default(),
        _ => Owners::read(history, ends, namespace, label).await?,
    };
    let mut tally = Tally::new(period);
    // A pod holds a GPU until two scrapes in a row do not name it.
    let take = |range, rows| tally.take(&rows, range);
    history
        .each_of_devices(&queries, 2 * scrape, period, take)
        .await?;
    let how = format!(
        "Each GPU is read every {}, and scraped every {}. Active: {} is above 0.",
        format_duration(period.step),
        format_duration(scrape),
        queries.names
    );
    let report = report::Report {
        by: &args.by,
        prices: args.price.as_ref(),
        owners: &owners,
        period,
        how,
    };
    Ok(report.document(&tally.finish()))
}

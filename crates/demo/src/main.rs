//! The demonstration: everything in one process, without installation.
//!
//! It runs a simulated fleet with its Prometheus (or uses a real Prometheus), the poll
//! loop, and the API over TLS with new certificates. It has the commands of
//! `kubectl gpu-metrics` too, so that those that it prints work.

mod autoscalers;
mod files;
mod fleet;
mod show;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Parser};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use url::Url;

use aggregated_apiserver::api::service::into_service;
use aggregated_apiserver::serve::listener::{Limits, Listener};
use cluster_state::client::Client;
use cluster_state::clock;
use configuration::flags::AddressParser;
use configuration::{Config, Flags};
use gpu_metrics::inventory::Inventory;
use gpu_metrics_apiserver::standalone::Standalone;
use gpu_metrics_apiserver::telemetry;
use kubectl_gpu_metrics::commands::Command;
use kubectl_gpu_metrics::ui::{self, Local};
use kubectl_gpu_metrics::{Failure, process};
use prometheus_source::Prometheus;
use prometheus_source::settings::{PrometheusSettings, parse_url};

use autoscalers::Autoscalers;
use show::Shown;

/// The time limit of open connections: kubectl must not delay Ctrl-C.
const DRAIN: Duration = Duration::from_secs(2);

/// Runs everything on a laptop: a simulated GPU fleet, served over TLS.
#[derive(Debug, Parser)]
#[command(
    name = "demo",
    version,
    args_conflicts_with_subcommands = true,
    args_override_self = true
)]
struct Line {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    demo: DemoArgs,
}

#[derive(Debug, Args)]
struct DemoArgs {
    /// Directory for the kubeconfig, the CA and the configuration file [default: a
    /// temporary directory, removed at the end]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Port of the API on 127.0.0.1; 0 selects a free port
    #[arg(long, default_value_t = 6443)]
    port: u16,
    /// Number of GPUs of the simulated fleet
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(8..=16384))]
    gpus: u32,
    /// Seed of the simulated fleet
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Read this Prometheus instead of simulating a fleet
    #[arg(long, value_parser = AddressParser, conflicts_with_all = ["gpus", "seed"])]
    prometheus_url: Option<Url>,
    /// Configuration file
    #[arg(long)]
    config: Option<PathBuf>,
}

fn main() -> ExitCode {
    let Line { command, demo } = Line::parse();
    process::run(async {
        match command {
            Some(command) => command.run().await,
            None => run(demo).await,
        }
    })
}

/// Runs the demonstration until Ctrl-C.
///
/// # Errors
/// When the configuration is invalid, the directory cannot be written or the port is in use.
async fn run(args: DemoArgs) -> Result<(), Failure> {
    let flags = Flags {
        config: args.config.clone(),
        prometheus_url: args.prometheus_url.clone(),
        ..Flags::default()
    };
    let mut config = flags.load()?.0;
    // With a real Prometheus the log also shows what was found. With the simulation it
    // shows only warnings.
    let level = match config.prometheus {
        Some(_) => tracing::Level::INFO,
        None => tracing::Level::WARN,
    };
    telemetry::init(level, telemetry::LineFormat::Text);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let failed = |error: std::io::Error| {
        Failure::Failed(format!(
            "cannot listen on {address}: {error}: stop the program that uses the port, or choose \
             another with --port (0 takes a free one)"
        ))
    };
    let tcp = TcpListener::bind(address).await.map_err(failed)?;
    let address = tcp.local_addr().map_err(failed)?;
    let page = Local::bind(0).await?;
    let directory = files::Directory::prepare(args.dir.as_deref())?;
    let identity = files::DemoCertificates::make(clock::now())?;
    let namespace = match &config.prometheus {
        Some(_) => "default",
        None => fleet::NAMESPACE,
    };
    directory.write(&identity, (address, namespace))?;
    let (source, inventory, autoscalers) = match config.prometheus {
        Some(_) => {
            let (source, inventory) = prometheus(&config)?;
            (source, inventory, None)
        }
        None => {
            if config.policy.scrape_interval.is_none() {
                config.policy.scrape_interval = Some(fleet::SCRAPE);
                config.poll = Some(fleet::SCRAPE);
            }
            let (fleet, source) = fleet::simulate(args.gpus, args.seed).await?;
            let address = parse_url(fleet::SERVICE);
            let address = address.map_err(|error| Failure::Failed(error.to_string()))?;
            config.prometheus = Some(PrometheusSettings::new(address));
            let inventory = fleet::inventory(Arc::clone(&fleet));
            (source, inventory, Some(Autoscalers::new(fleet)))
        }
    };
    let server = Standalone::start(config, source, inventory);
    let server = server.map_err(|error| Failure::Failed(error.to_string()))?;
    let mut open = server.routes.clone();
    let mut autoscaled = None;
    let (stop, stopped) = watch::channel(false);
    // Dropping the set ends the tasks at once.
    let mut tasks = JoinSet::new();
    if let Some(autoscalers) = autoscalers {
        open = open.merge(autoscalers.routes());
        autoscaled = autoscalers.first();
        tasks.spawn(autoscalers.control(Client::of_service(open.clone())));
    }
    let pages = ui::routes(Client::of_service(open.clone()), None, "demo", flags);
    let url = page.url();
    let showing = tokio::spawn(page.serve(pages, stopped.clone()));
    let limits = Limits {
        drain: DRAIN,
        ..Limits::default()
    };
    let listener = Listener::new(tcp, identity.tls()?, limits);
    let serving = tokio::spawn(listener.run(into_service(open), stopped));
    let shown = Shown {
        server,
        kubeconfig: directory.kubeconfig(),
        address,
        page: url,
        autoscaled,
    };
    tasks.spawn(shown.run());
    let interrupted = process::interrupted().await;
    drop(tasks);
    show::say("stopping");
    let _ = stop.send(true);
    let _ = tokio::join!(serving, showing);
    drop(directory);
    interrupted.map_err(|error| Failure::Failed(format!("no signal handler: {error}")))
}

/// The client of a real Prometheus, and an empty inventory, because there is no cluster.
fn prometheus(config: &Config) -> Result<(Prometheus, watch::Receiver<Arc<Inventory>>), Failure> {
    let source = config.client();
    let source = source.map_err(|error| Failure::Failed(error.to_string()))?;
    tracing::info!(
        "no cluster is connected: pods, namespaces and nodes are those that the series name; \
         label selectors and workloads find nothing"
    );
    let (_, none) = watch::channel(Arc::default());
    Ok((source, none))
}

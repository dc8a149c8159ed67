//! The demonstration: everything in one process, without installation.
//!
//! It runs a simulated fleet with its Prometheus, the poll loop, and the API over TLS with new
//! certificates. It has the commands of `kubectl gpu-metrics` too, so that those that it
//! prints work.

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

use aggregated_apiserver::api::service::into_service;
use aggregated_apiserver::serve::listener::{Limits, Listener};
use cluster_state::client::Client;
use cluster_state::clock;
use configuration::{Config, Flags};
use gpu_metrics_apiserver::standalone::Standalone;
use gpu_metrics_apiserver::telemetry;
use kubectl_gpu_metrics::commands::Command;
use kubectl_gpu_metrics::ui::{self, Local};
use kubectl_gpu_metrics::{Failure, process};

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
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(8..=4096))]
    gpus: u32,
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
/// When the directory cannot be written or the port is in use.
async fn run(args: DemoArgs) -> Result<(), Failure> {
    telemetry::init(tracing::Level::WARN, telemetry::LineFormat::Text);
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
    directory.write(&identity, address)?;
    let (fleet, source, url) = fleet::simulate(args.gpus).await?;
    let inventory = fleet::inventory(Arc::clone(&fleet));
    let autoscalers = Autoscalers::new(fleet);
    let flags = Flags {
        prometheus_url: Some(url),
        ..Flags::default()
    };
    let mut config = Config::built_in(&Flags::default());
    config.policy.scrape_interval = Some(fleet::SCRAPE);
    config.poll = Some(fleet::SCRAPE);
    let server = Standalone::start(config, source, inventory);
    let server = server.map_err(|error| Failure::Failed(error.to_string()))?;
    let open = server.routes.clone().merge(autoscalers.routes());
    let autoscaled = autoscalers.first();
    let (stop, stopped) = watch::channel(false);
    // Dropping the set ends the tasks at once.
    let mut tasks = JoinSet::new();
    tasks.spawn(autoscalers.control(Client::of_service(open.clone())));
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

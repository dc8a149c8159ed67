//! `demo`: everything in one process, without installation.
//!
//! A simulated fleet as real dcgm-exporter endpoints, scraped directly (or a
//! real Prometheus, read as in production), the poll loop, and the API over TLS
//! with new certificates.

mod autoscalers;
mod files;
mod fleet;
mod show;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use clap::Args;
use tokio::net::TcpListener;
use tokio::sync::watch;

use aggregated_apiserver::api::service::into_service;
use aggregated_apiserver::serve::listener::{Limits, Listener};
use cluster_state::client::Client;
use cluster_state::clock;
use configuration::address::AddressParser;
use configuration::{Config, Flags};
use gpu_metrics::dcgm::metrics;
use gpu_metrics::inventory::Inventory;
use gpu_metrics::pipeline::Settings;
use gpu_metrics::policy::MetricSpec;
use kubectl_gpu_metrics::signals::Signals;
use kubectl_gpu_metrics::ui::{self, Local};
use kubectl_gpu_metrics::{Failure, number};
use prometheus_source::settings::{Addresses, PrometheusSettings};
use prometheus_source::{KeyHasher, Prometheus, Source};

use crate::api::{Api, router};
use crate::app::engine::Checks;
use crate::app::{Engine, EngineSettings, relist};
use crate::provider::gpu::GpuProvider;
use crate::provider::served::ServedGpus;
use crate::telemetry::{self, Telemetry};

use autoscalers::Autoscalers;

/// An open connection of kubectl must not delay Ctrl-C.
const DRAIN: Duration = Duration::from_secs(2);

/// Flags of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Directory for the kubeconfig, the CA and the configuration file [default: a
    /// temporary directory, removed at the end]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Port of the API on 127.0.0.1; 0 selects a free port
    #[arg(long, default_value_t = 6443, value_parser = number(0..=u16::MAX))]
    port: u16,
    /// Number of GPUs of the simulated fleet
    #[arg(long, default_value_t = 24, value_parser = number(8..=4096_u32))]
    gpus: u32,
    /// Seed of the simulated fleet
    #[arg(long, default_value_t = 42, value_parser = number(0..=u64::MAX))]
    seed: u64,
    /// Read this Prometheus instead of simulating a fleet
    #[arg(long, value_parser = AddressParser, conflicts_with_all = ["gpus", "seed"])]
    prometheus_url: Option<Addresses>,
    /// Configuration file
    #[arg(long)]
    config: Option<PathBuf>,
}

/// Runs the demonstration until Ctrl-C.
///
/// # Errors
/// When the configuration is wrong, the directory cannot be written or the
/// port is taken.
pub(crate) async fn run(args: DemoArgs) -> Result<(), Failure> {
    let config = configuration(&args)?;
    // With a real Prometheus the log says what was found; with the simulation only
    // what is wrong.
    let level = match config.prometheus {
        Some(_) => tracing::Level::INFO,
        None => tracing::Level::WARN,
    };
    telemetry::init(level, telemetry::LineFormat::Text);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    let mut signals = Signals::new()?;
    let tcp = bind(args.port).await?;
    let address = tcp
        .local_addr()
        .map_err(|error| Failure::Failed(error.to_string()))?;
    let page = Local::bind(0).await?;
    let directory = files::Directory::prepare(args.dir.as_deref())?;
    let identity = files::DemoCertificates::make(clock::now())?;
    let namespace = match &config.prometheus {
        Some(_) => "default",
        None => fleet::NAMESPACE,
    };
    directory.write(&identity, (address, namespace))?;
    let (mut feed, autoscalers) = match &config.prometheus {
        Some(settings) => (Feed::prometheus(settings.clone())?, None),
        None => {
            let (feed, fleet) = fleet::simulate(args.gpus, args.seed).await?;
            (feed, Some(Autoscalers::new(fleet)))
        }
    };
    feed.adjust(&config);
    let metrics: Vec<MetricSpec> = metrics::built_in()
        .into_iter()
        .chain(config.metrics.clone())
        .collect();
    let provider = Arc::new(GpuProvider::new(&metrics));
    let telemetry = Telemetry::new();
    telemetry.configuration.store(Arc::new(config.shown()));
    let (stop, stopped) = watch::channel(false);
    let engine = engine(config, feed, metrics, &provider, &telemetry);
    let polling = tokio::spawn(engine.run(stopped.clone()));
    let served = Arc::new(ServedGpus::from(Arc::clone(&provider)));
    let api = Api::new(served, clock::now, telemetry);
    let mut open = router::open(&api);
    let mut autoscaler = None;
    if let Some(autoscalers) = autoscalers {
        open = open.merge(autoscalers.routes());
        autoscaler = autoscalers.first();
        tokio::spawn(autoscalers.control(Client::of_service(open.clone()), stopped.clone()));
    }
    let pages = ui::routes(Client::of_service(open.clone()), None, "demo");
    let url = page.url();
    let showing_page = tokio::spawn(page.serve(pages, stopped.clone()));
    let server = into_service(open);
    let limits = Limits {
        drain: DRAIN,
        ..Limits::default()
    };
    let listener = Listener::new(tcp, identity.tls()?, limits);
    let serving = tokio::spawn(listener.run(server, stopped.clone()));
    let showing = tokio::spawn(show::run(
        Arc::clone(&provider),
        directory.kubeconfig(),
        (address, url, autoscaler),
        stopped,
    ));
    signals.wait().await;
    show::say("stopping");
    let _ = stop.send(true);
    let _ = tokio::join!(polling, serving, showing, showing_page);
    drop(directory);
    Ok(())
}

fn configuration(args: &DemoArgs) -> Result<Config, Failure> {
    let flags = Flags {
        prometheus_url: args.prometheus_url.clone(),
        ..Flags::default()
    };
    let Some(path) = &args.config else {
        return Ok(Config::built_in(&flags));
    };
    Config::load(path, &flags).map_err(|error| Failure::Usage(error.to_string()))
}

async fn bind(port: u16) -> Result<TcpListener, Failure> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpListener::bind(address).await.map_err(|error| {
        Failure::Failed(format!(
            "cannot listen on {address}: {error}: end the program that has the port, or choose another with --port \
             (0 takes a free one)"
        ))
    })
}

/// The sources of samples and inventory.
struct Feed {
    source: Source,
    inventory: Box<dyn Fn(apimachinery::time::Timestamp) -> Arc<Inventory> + Send>,
    /// The scrape interval, where this process scrapes.
    scrape: Option<Duration>,
}

impl Feed {
    fn prometheus(settings: PrometheusSettings) -> Result<Self, Failure> {
        let source = Prometheus::new(settings, KeyHasher::new())
            .map_err(|error| Failure::Failed(error.to_string()))?;
        tracing::info!(
            "no cluster is connected: pods, namespaces and nodes are those that the series name; \
             label selectors and workloads find nothing"
        );
        let none = Arc::new(Inventory::default());
        Ok(Self {
            source: Source::Prometheus(Box::new(source)),
            inventory: Box::new(move |_| Arc::clone(&none)),
            scrape: None,
        })
    }

    fn adjust(&mut self, config: &Config) {
        if config.policy.scrape_interval.is_some() {
            self.scrape = None;
        }
    }
}

fn engine(
    mut config: Config,
    feed: Feed,
    metrics: Vec<MetricSpec>,
    provider: &Arc<GpuProvider>,
    telemetry: &Telemetry,
) -> Engine {
    if let Some(scrape) = feed.scrape {
        config.policy.scrape_interval = Some(scrape);
        config.poll = Some(scrape);
    }
    let served = Arc::new(ArcSwap::new(Arc::clone(provider)));
    Engine::new(EngineSettings {
        pipeline: Settings {
            policy: config.policy,
            signals: config.signals,
            metrics,
            exporter: config.exporters,
        },
        source: feed.source,
        inventory: feed.inventory,
        poll: config.poll,
        relist: relist::RelistTimes::default().relist,
        provider: Arc::clone(provider),
        checks: Checks::register(&telemetry.health, &served),
        served,
        telemetry: telemetry.clone(),
    })
}

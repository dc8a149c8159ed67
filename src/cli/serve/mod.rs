//! The server of a cluster, from its flags.

mod certificate;
mod flags;
#[cfg(test)]
mod tests;
mod trust;

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Mutex;
use tracing::Level;

use configuration::clients::Clients;

use crate::app::relist::RelistTimes;
use crate::app::server::{self, ServerSettings};
use crate::telemetry;

use super::{Failure, certs};
pub(crate) use flags::ServeArgs;
use flags::{Logging, MinVersion, RuleFlags};

/// Serves until a signal stops it. `without_effect` are warnings about flags that were
/// removed from the command line.
///
/// # Errors
/// When flags or files are invalid, or a port is in use.
pub(crate) async fn run(args: ServeArgs, without_effect: Vec<String>) -> Result<(), Failure> {
    start_logging(&args.logging);
    for warning in without_effect.iter().chain(&ignored(&args)) {
        tracing::warn!("{warning}");
    }
    let handler =
        |kind| signal(kind).map_err(|error| Failure::Failed(format!("no signal handler: {error}")));
    let interrupts = handler(SignalKind::interrupt())?;
    let signals = Mutex::new((interrupts, handler(SignalKind::terminate())?));
    // The first signal drains, the second stops at once.
    let next = async || {
        let (interrupts, terminations) = &mut *signals.lock().await;
        tokio::select! {
            _ = interrupts.recv() => {}
            _ = terminations.recv() => {}
        }
    };
    let settings = settings(&args).await?;
    server::run(settings, next(), next())
        .await
        .map_err(|error| Failure::Failed(error.to_string()))
}

/// Binds a port, which `flag` selects.
async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::Failed(format!(
            "cannot listen on {address}: {error}: stop the program that uses the port, or choose \
             another with {flag}"
        ))
    })
}

/// The settings of the flags, with the ports bound.
async fn settings(args: &ServeArgs) -> Result<ServerSettings, Failure> {
    let (config, file) = args.prometheus.load()?;
    let clients = Clients::new(&config)?;
    let certificate = certificate::default(&args.listening)?;
    let offer = certificate::offer(&args.listening)?;
    let security = trust::security(args)?;
    let listening = &args.listening;
    let tcp = bind(
        SocketAddr::new(listening.bind_address, listening.secure_port),
        "--secure-port",
    )
    .await?;
    let operators = match listening.metrics_bind_address {
        Some(address) => Some(bind(address, "--metrics-bind-address").await?),
        None => None,
    };
    if let Ok(address) = tcp.local_addr() {
        tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "listening");
    }
    Ok(ServerSettings {
        config,
        file,
        clients,
        relist: relist_times(&args.rules),
        tcp,
        operators,
        offer,
        certificate,
        named: listening.tls_sni_cert_key.clone(),
        ways: trust::ways(&args.cluster),
        lookup: trust::lookup(&args.cluster),
        overlay: trust::overlay(&args.trust),
        security,
        shutdown_delay: listening.shutdown_delay_duration,
    })
}

/// Warnings about given flags and settings that have no effect in this combination.
fn ignored(args: &ServeArgs) -> Vec<String> {
    let mut sentences = Vec::new();
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    // `serve` is the name of what the server does anyway.
    let words = words.strip_prefix(&["serve"]).unwrap_or(&words);
    if !words.is_empty() {
        let words = words.join(" ");
        sentences.push(format!("arguments without a flag have no effect: {words}"));
    }
    let oldest = args.listening.tls_min_version;
    if matches!(oldest, MinVersion::Tls10 | MinVersion::Tls11) {
        let sentence = "--tls-min-version: the oldest supported version is TLS 1.2";
        sentences.push(sentence.to_owned());
    }
    sentences
}

/// Maps klog's verbosity. Up to 4, which prometheus-adapter's chart sets, only lines that
/// need an action are logged.
fn start_logging(logging: &Logging) {
    let level = match logging.v {
        0..=4 => Level::INFO,
        5 => Level::DEBUG,
        6.. => Level::TRACE,
    };
    telemetry::init(level, logging.logging_format);
}

fn relist_times(rules: &RuleFlags) -> RelistTimes {
    RelistTimes {
        relist: rules.metrics_relist_interval,
        // prometheus-adapter's default of zero means unset.
        max_age: match rules.metrics_max_age {
            None | Some(Duration::ZERO) => rules.metrics_relist_interval,
            Some(age) => age,
        },
        answer: rules.rule_max_age,
    }
}

//! `serve`: the server of a cluster, also the default command.

mod certificate;
mod flags;
#[cfg(test)]
mod tests;
mod trust;

use std::future::Future;
use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpListener;
use tracing::Level;

use configuration::clients::Clients;
use kubectl_gpu_metrics::signals::Signals;
use kubectl_gpu_metrics::{Failure, ui};

use crate::app::relist;
use crate::app::server::{self, ServerSettings};
use crate::app::shutdown::ShutdownTimes;
use crate::telemetry::{self, LineFormat};

use super::certs;
pub(crate) use flags::ServeArgs;
use flags::{LogFormat, Logging, MinVersion, RuleFlags};

/// Serves until a signal stops it. `without_effect` are sentences about flags that
/// were removed from the command line.
///
/// # Errors
/// When flags or files are wrong, or a port is taken.
pub(crate) async fn run(args: ServeArgs, without_effect: Vec<String>) -> Result<(), Failure> {
    start_logging(&args.logging);
    for warning in without_effect.iter().chain(&ignored(&args)) {
        tracing::warn!("{warning}");
    }
    let [stop, hurry] = signals()?;
    let settings = settings(&args).await?;
    server::run(settings, stop, hurry)
        .await
        .map_err(|error| Failure::Failed(error.to_string()))
}

/// The settings by the flags, with the ports bound.
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
        pages: match listening.ui {
            true => Some(ui::for_operators),
            false => None,
        },
        offer,
        certificate,
        named: certificate::named(&args.listening),
        ways: trust::ways(&args.cluster),
        lookup: trust::lookup(&args.cluster),
        overlay: trust::overlay(&args.trust),
        security,
        times: ShutdownTimes {
            delay: listening.shutdown_delay_duration,
            ..ShutdownTimes::default()
        },
    })
}

/// Given flags and settings without effect, other than flags that never have one.
fn ignored(args: &ServeArgs) -> Vec<String> {
    let mut sentences = Vec::new();
    if !args.words.is_empty() {
        let words = args.words.join(" ");
        sentences.push(format!("words without a flag have no effect: {words}"));
    }
    let oldest = args.listening.tls_min_version;
    if matches!(oldest, MinVersion::Tls10 | MinVersion::Tls11) {
        let sentence = "--tls-min-version: the oldest version that is spoken here is TLS 1.2";
        sentences.push(sentence.to_owned());
    }
    for pair in &args.listening.tls_sni_cert_key {
        let names = pair.names.iter();
        for address in names.filter(|name| name.parse::<IpAddr>().is_ok()) {
            sentences.push(format!(
                "--tls-sni-cert-key: {address} is an address: a client that connects by address sends \
                 no server name and gets the default certificate"
            ));
        }
    }
    sentences
}

/// klog's verbosity: up to 4, what prometheus-adapter's chart sets, is what operators act on.
fn start_logging(logging: &Logging) {
    let level = match logging.v {
        0..=4 => Level::INFO,
        5 => Level::DEBUG,
        6.. => Level::TRACE,
    };
    let lines = match logging.logging_format {
        LogFormat::Text => LineFormat::Text,
        LogFormat::Json => LineFormat::Json,
    };
    telemetry::init(level, lines);
}

fn relist_times(rules: &RuleFlags) -> relist::RelistTimes {
    relist::RelistTimes {
        relist: rules.metrics_relist_interval,
        // prometheus-adapter's default of zero means unset.
        max_age: match rules.metrics_max_age {
            None | Some(std::time::Duration::ZERO) => rules.metrics_relist_interval,
            Some(age) => age,
        },
        answer: rules.rule_max_age,
    }
}

async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::Failed(format!(
            "cannot listen on {address}: {error}: end the program that has the port, or choose \
             another with {flag}"
        ))
    })
}

/// The first signal, which drains, and the second, which stops at once.
fn signals() -> Result<[impl Future<Output = ()>; 2], Failure> {
    let mut signals = Signals::new()?;
    let (sender, received) = tokio::sync::watch::channel(0);
    tokio::spawn(async move {
        loop {
            signals.wait().await;
            sender.send_modify(|count| *count += 1);
        }
    });
    Ok([1, 2].map(|least| {
        let mut received = received.clone();
        async move {
            let _ = received.wait_for(|count| *count >= least).await;
        }
    }))
}

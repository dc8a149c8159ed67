//! The server of a cluster, from its flags.

mod certificate;
mod flags;
#[cfg(test)]
mod tests;
mod trust;

use std::fmt::Display;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpListener;
use tracing::Level;

use configuration::Flags;
use configuration::clients::Clients;

use crate::app::reload::Loaded;
use crate::app::rule_discovery::RuleTimes;
use crate::app::server::{self, Ended, ServerSettings};
use crate::app::signals::Signals;
use crate::telemetry;

use super::Failure;
pub(crate) use flags::ServeArgs;
use flags::{Listening, Logging, MinVersion, RuleFlags};

/// Serves until a signal stops it, again and again while the configuration changes.
/// `without_effect` are warnings about flags that were removed from the command line.
///
/// # Errors
/// When flags or files are invalid, a port is in use, or a task ends.
pub(crate) async fn run(args: ServeArgs, without_effect: Vec<String>) -> Result<(), Failure> {
    start_logging(&args.logging);
    for warning in without_effect.iter().chain(&ignored(&args)) {
        tracing::warn!("{warning}");
    }
    let failed = |error: &dyn Display| Failure::Failed(error.to_string());
    let mut signals = Signals::of_process().map_err(|error| failed(&error))?;
    let mut loaded = load(&args.prometheus)?;
    let ports = Ports::bind(&args.listening).await?;
    loop {
        let settings = settings(&args, loaded, &ports)?;
        let ended = server::run(settings, &mut signals).await;
        match ended.map_err(|error| failed(&error))? {
            Ended::Stopped => return Ok(()),
            Ended::Changed(changed) => {
                for warning in &changed.config.warnings {
                    tracing::warn!("{warning}");
                }
                tracing::info!("the configuration has changed: the server starts again");
                loaded = *changed;
            }
        }
    }
}

fn load(flags: &Flags) -> Result<Loaded, Failure> {
    let (config, file) = flags.load()?;
    let clients = Clients::new(&config)?;
    Ok(Loaded {
        config,
        file,
        clients,
    })
}

/// The bound ports, which stay bound while the server starts again: clients wait then.
#[derive(Debug)]
struct Ports {
    api: std::net::TcpListener,
    operators: Option<std::net::TcpListener>,
}

impl Ports {
    async fn bind(args: &Listening) -> Result<Self, Failure> {
        let address = SocketAddr::new(args.bind_address, args.secure_port);
        let api = bind(address, "--secure-port").await?;
        let operators = match args.metrics_bind_address {
            Some(address) => Some(bind(address, "--metrics-bind-address").await?),
            None => None,
        };
        if let Ok(address) = api.local_addr() {
            tracing::info!(%address, version = env!("CARGO_PKG_VERSION"), "listening");
        }
        Ok(Self { api, operators })
    }
}

/// Binds a port, which `flag` selects. `[::]` also accepts IPv4, and is `0.0.0.0` where the
/// kernel has no IPv6.
async fn bind(address: SocketAddr, flag: &str) -> Result<std::net::TcpListener, Failure> {
    let bound = match TcpListener::bind(address).await {
        Err(_) if address.ip() == Ipv6Addr::UNSPECIFIED => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    };
    bound.and_then(TcpListener::into_std).map_err(|error| {
        Failure::Failed(format!(
            "cannot listen on {address}: {error}: stop the program that uses the port, or choose \
             another with {flag}"
        ))
    })
}

/// Another handle of a bound port.
fn listener(port: &std::net::TcpListener) -> Result<TcpListener, Failure> {
    let listener = port.try_clone().and_then(TcpListener::from_std);
    listener.map_err(|error| Failure::Failed(format!("cannot listen: {error}")))
}

/// The settings of the flags with a configuration.
fn settings(args: &ServeArgs, loaded: Loaded, ports: &Ports) -> Result<ServerSettings, Failure> {
    let listening = &args.listening;
    Ok(ServerSettings {
        loaded,
        rules: rule_times(&args.rules),
        tcp: listener(&ports.api)?,
        operators: ports.operators.as_ref().map(listener).transpose()?,
        offer: certificate::offer(listening),
        certificate: certificate::default(listening)?,
        accesses: trust::accesses(&args.cluster),
        lookup: trust::lookup(&args.cluster),
        overlay: trust::overlay(&args.trust),
        security: trust::security(args)?,
        shutdown_delay: listening.shutdown_delay_duration,
        // The name of the host is that of the pod.
        pod: std::env::var("HOSTNAME").unwrap_or_default(),
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

fn rule_times(rules: &RuleFlags) -> RuleTimes {
    RuleTimes {
        relist: rules.metrics_relist_interval,
        // prometheus-adapter's default of zero means unset.
        max_age: match rules.metrics_max_age {
            None | Some(Duration::ZERO) => rules.metrics_relist_interval,
            Some(age) => age,
        },
        answer: rules.rule_max_age,
    }
}

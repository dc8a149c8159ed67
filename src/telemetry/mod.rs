//! What the program says of itself: the log, its health, its metrics.
//!
//! Other modules are handed [`health::Check`]s and counters. None of them knows the
//! readers.

pub mod endpoints;
pub mod health;
mod line;
pub mod metrics;

use std::io::IsTerminal;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tracing_subscriber::EnvFilter;

/// Health and metrics together, as they are passed around. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Telemetry {
    /// The named checks.
    pub health: health::Health,
    /// The counters.
    pub metrics: metrics::Metrics,
    /// Keys and values of the configuration in force, without secrets.
    pub configuration: Arc<ArcSwap<Vec<(String, String)>>>,
}

impl Telemetry {
    /// With no check but `ping`, and every counter at zero.
    #[must_use]
    pub fn new() -> Self {
        let health = health::Health::new();
        let metrics = metrics::Metrics::new(&health);
        Self {
            health,
            metrics,
            configuration: Arc::default(),
        }
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Self::new()
    }
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Of libraries no more than information below the finest level: what their
/// connections do is not what this server does.
fn directives(level: tracing::Level) -> String {
    match level {
        tracing::Level::DEBUG => "info,gpu_metrics_apiserver=debug".to_owned(),
        level => level.as_str().to_ascii_lowercase(),
    }
}

/// Starts logging to standard error: `level` and above, or what `RUST_LOG`
/// says. Called once; a second call changes nothing.
pub fn init(level: tracing::Level, lines: Lines) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(directives(level)));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| line::Escaped(std::io::stderr()))
        .with_target(false);
    let _ = match lines {
        // Colours are for people: in a file they are noise.
        Lines::Text => log.with_ansi(std::io::stderr().is_terminal()).try_init(),
        Lines::Json => log.json().flatten_event(true).try_init(),
    };
}

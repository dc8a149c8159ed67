//! The server's telemetry: log, health, metrics.
//!
//! Other modules receive [`health::Check`]s and families of metrics, and set them.

pub mod endpoints;
pub mod health;
mod line;
pub mod metrics;

use std::sync::Arc;

use tracing_subscriber::EnvFilter;

/// Health and metrics together, as modules receive them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Telemetry {
    pub health: health::Health,
    pub metrics: Arc<metrics::Metrics>,
    /// Keys and values of the configuration in force, without secrets.
    pub configuration: Arc<Vec<(String, String)>>,
}

impl Telemetry {
    /// Telemetry with `ping` as the only check, and nothing counted.
    ///
    /// # Errors
    /// When a family of metrics is declared wrongly.
    pub fn new() -> prometheus::Result<Self> {
        let health = health::Health::new();
        let metrics = metrics::Metrics::new()?;
        let checks = health.clone();
        metrics.before_scrape(move |families| {
            for check in checks.examine(health::Probe::Ready) {
                let passes = f64::from(u8::from(check.passes));
                families.health_check.set([check.name], passes);
            }
        });
        Ok(Self {
            health,
            metrics: Arc::new(metrics),
            configuration: Arc::default(),
        })
    }
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LineFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Filter directives for a level. Libraries log at most `info`, unless the level is
/// `trace`, because details of their connections concern other programs. The client of
/// kube-apiserver logs every failed attempt; the server logs a failure once.
fn directives(level: tracing::Level) -> String {
    match level {
        tracing::Level::TRACE => "trace".to_owned(),
        level => format!("{level},h2=info,hyper=info,hyper_util=info,rustls=info,kube_client=off"),
    }
}

/// Starts logging to standard error, at `level` or as in `RUST_LOG`. A second call has no effect.
pub fn init(level: tracing::Level, lines: LineFormat) {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(directives(level)));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| line::Escaped(std::io::stderr()))
        .with_target(false);
    let _ = match lines {
        LineFormat::Text => log.with_ansi(false).try_init(),
        LineFormat::Json => log.json().flatten_event(true).try_init(),
    };
}

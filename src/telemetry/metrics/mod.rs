//! The server's own metrics (docs/metrics.md), in the text format of Prometheus.
//!
//! `catalog` declares them all. Numbers that other parts of the server keep are copied
//! before each scrape (`before_scrape`).

mod catalog;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry, Result, TextEncoder,
    register_gauge_vec_with_registry, register_histogram_vec_with_registry,
    register_int_counter_vec_with_registry,
};

pub use catalog::Metrics;

/// What all names of the catalog begin with.
const PREFIX: &str = "gpu_metrics_apiserver";

/// In seconds. Answers from memory take 0.1 ms; queries may take longer than 10 s.
const BUCKETS: [f64; 16] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    10.0, 30.0,
];

/// Counters with `N` labels. The values of labels come from closed sets, never from a client
/// or a backend.
#[derive(Debug)]
pub struct Counters<const N: usize>(IntCounterVec);

impl<const N: usize> Counters<N> {
    fn new(registry: &Registry, opts: Opts, labels: [&str; N]) -> Result<Self> {
        register_int_counter_vec_with_registry!(opts, &labels, registry).map(Self)
    }

    pub(crate) fn add(&self, values: [&str; N], count: u64) {
        self.0.with_label_values(&values).inc_by(count);
    }

    /// Copies a number that another part counts.
    pub(crate) fn set(&self, values: [&str; N], count: u64) {
        let counter = self.0.with_label_values(&values);
        counter.inc_by(count.saturating_sub(counter.get()));
    }
}

/// Gauges with `N` labels.
#[derive(Debug)]
pub struct Gauges<const N: usize>(GaugeVec);

impl<const N: usize> Gauges<N> {
    fn new(registry: &Registry, opts: Opts, labels: [&str; N]) -> Result<Self> {
        register_gauge_vec_with_registry!(opts, &labels, registry).map(Self)
    }

    /// Sets a number; `None`: it is unknown, and the sample is left out.
    pub(crate) fn set(&self, values: [&str; N], number: impl Into<Option<f64>>) {
        match number.into() {
            Some(number) => self.0.with_label_values(&values).set(number),
            // There may be none.
            None => drop(self.0.remove_label_values(&values)),
        }
    }
}

/// Histograms of seconds with `N` labels.
#[derive(Debug)]
pub struct Histograms<const N: usize>(HistogramVec);

impl<const N: usize> Histograms<N> {
    fn new(registry: &Registry, opts: Opts, labels: [&str; N]) -> Result<Self> {
        let opts = HistogramOpts::from(opts).buckets(BUCKETS.to_vec());
        register_histogram_vec_with_registry!(opts, &labels, registry).map(Self)
    }

    pub(crate) fn observe(&self, values: [&str; N], took: Duration) {
        let histogram = self.0.with_label_values(&values);
        histogram.observe(took.as_secs_f64());
    }
}

fn opts(name: &str, help: &str) -> Opts {
    Opts::new(name, format!("{help}.")).namespace(PREFIX)
}

type Copier = Box<dyn Fn(&Metrics) + Send + Sync>;

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Only `build_info` has a sample yet.
    ///
    /// # Errors
    /// When a name of the catalog is invalid or not unique.
    pub(crate) fn new() -> Result<Self> {
        let metrics = Self::declared()?;
        let revision = option_env!("GIT_COMMIT").unwrap_or("unknown");
        let build = [env!("CARGO_PKG_VERSION"), revision];
        metrics.build_info.set(build, 1.0);
        Ok(metrics)
    }

    /// Registers a function that copies numbers of another part of the server. It must be
    /// quick and must not block.
    pub(crate) fn before_scrape(&self, copy: impl Fn(&Self) + Send + Sync + 'static) {
        self.copiers.lock().push(Box::new(copy));
    }

    /// All metrics as text.
    ///
    /// # Errors
    /// When a family cannot be written.
    pub(crate) fn render(&self) -> Result<String> {
        for copy in &*self.copiers.lock() {
            copy(self);
        }
        TextEncoder::new().encode_to_string(&self.registry.gather())
    }
}

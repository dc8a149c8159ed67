//! The server's own metrics (docs/metrics.md, "Metrics of the server itself").
//!
//! [`catalog`] lists them all. The poll loop and the request layer have handles
//! ([`Polls`], [`Requests`]); numbers that other modules keep in atomics are read at a
//! scrape through [`Metrics::read`], so those modules do not depend on metrics.

pub mod catalog;
mod exposition;
mod polls;
mod process;
mod readings;
mod requests;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry};

pub use catalog::Spec;
pub use exposition::Exposition;
pub use polls::{Figure, IntakeCounts, Polls};
pub use requests::{Class, Requests, UnderWay};

use super::health::{Health, Probe};
use readings::Readings;

/// The registry and its handles. Cheap to clone; clones share the metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    inner: Arc<MetricFamilies>,
}

#[derive(Debug)]
struct MetricFamilies {
    registry: Registry,
    polls: Polls,
    requests: Requests,
    readings: Readings,
}

/// A registry that takes families by their catalog entries.
struct Book(Registry);

impl Book {
    fn add(&mut self, spec: &Spec, metric: impl Metric) {
        // The library adds the full stop.
        self.0.register(spec.name, spec.help, metric);
    }
}

fn histogram(buckets: &[f64]) -> Histogram {
    Histogram::new(buckets.iter().copied())
}

/// The checks of a registry as metrics.
#[derive(Debug)]
struct HealthCollector(Health);

impl Collector for HealthCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let findings = self.0.examine(Probe::Ready);
        let rows = findings.iter().map(|finding| {
            let well = finding.trouble.is_none();
            ([finding.name], f64::from(u8::from(well)))
        });
        readings::write(&mut encoder, &catalog::CHECK, rows)
    }
}

impl Metrics {
    /// Every counter at zero; includes the checks of `health`.
    #[must_use]
    pub(crate) fn new(health: &Health) -> Self {
        let mut book = Book(Registry::default());
        let build = Info::new(vec![
            ("version", env!("CARGO_PKG_VERSION")),
            ("revision", option_env!("GIT_COMMIT").unwrap_or("unknown")),
        ]);
        book.add(&catalog::BUILD, build);
        let readings = Readings::default();
        let polls = Polls::register(&mut book, readings.clone());
        let requests = Requests::register(&mut book);
        process::show(&readings);
        book.0.register_collector(Box::new(readings.clone()));
        book.0
            .register_collector(Box::new(HealthCollector(health.clone())));
        Self {
            inner: Arc::new(MetricFamilies {
                registry: book.0,
                polls,
                requests,
                readings,
            }),
        }
    }

    /// The counters of the poll loop.
    #[must_use]
    pub(crate) fn polls(&self) -> &Polls {
        &self.inner.polls
    }

    /// The counters of requests.
    #[must_use]
    pub(crate) fn requests(&self) -> &Requests {
        &self.inner.requests
    }

    /// Exports a number that another module keeps: each scrape calls `read`, which
    /// returns `None` while the number is unknown. `spec` is a counter or a gauge of the
    /// [`catalog`] without a handle here; `values` are its label values, in order. The
    /// same values again replace the former reader. `read` must be quick and must not
    /// block.
    pub fn read(
        &self,
        spec: &Spec,
        values: &[&str],
        read: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) {
        self.inner.readings.insert(spec, values, Box::new(read));
    }

    /// Exports a number until the next call; unknown is `None`, not zero. `spec` and
    /// `values` are as in [`Metrics::read`].
    pub(crate) fn show(&self, spec: &Spec, values: &[&str], number: Option<f64>) {
        self.inner.readings.show(spec, values, number);
    }

    /// Writes all metrics.
    ///
    /// # Errors
    /// When a collector fails; none of this server's does.
    pub(crate) fn render(&self, format: Exposition) -> Result<String, fmt::Error> {
        let mut out = String::new();
        text::encode(&mut out, &self.inner.registry)?;
        Ok(match format {
            Exposition::OpenMetrics => out,
            Exposition::Prometheus => exposition::to_prometheus(&out),
        })
    }
}

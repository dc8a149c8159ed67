//! The server's own metrics (docs/metrics.md, "Metrics of the server itself").
//!
//! [`catalog`] lists them all. The poll loop and the request layer count ([`Polls`],
//! [`UnderWay`]); numbers that other modules keep in atomics are read at a scrape through
//! [`Metrics::read`], so those modules do not depend on metrics.

pub mod catalog;
mod exposition;
mod families;
mod polls;
mod process;
mod requests;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use prometheus_client::encoding::text;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub use catalog::Spec;
pub use exposition::Exposition;
pub use polls::{Figure, IntakeCounts, Polls};
pub use requests::{Class, UnderWay};

use super::health::Health;
use families::Families;

/// The registry and its numbers. Cheap to clone; clones share the metrics.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Registry>,
    families: Families,
    in_flight: Arc<AtomicUsize>,
}

impl Metrics {
    /// Every counter at zero; includes the checks of `health`.
    pub(crate) fn new(health: &Health) -> Self {
        let mut registry = Registry::default();
        let build = Info::new(vec![
            ("version", env!("CARGO_PKG_VERSION")),
            ("revision", option_env!("GIT_COMMIT").unwrap_or("unknown")),
        ]);
        // The library adds the full stop.
        registry.register(catalog::BUILD.name, catalog::BUILD.help, build);
        let families = Families::new(health.clone());
        process::show(&families);
        families.count(&catalog::ABORTED, &[], 0);
        families.histogram(&catalog::SNAPSHOT_SECONDS, &[], &polls::SNAPSHOT_BUCKETS);
        let in_flight = Arc::new(AtomicUsize::new(0));
        let under_way = Arc::clone(&in_flight);
        families.read(&catalog::IN_FLIGHT, &[], move || {
            Some(under_way.load(Ordering::Relaxed) as f64)
        });
        registry.register_collector(Box::new(families.clone()));
        Self {
            registry: Arc::new(registry),
            families,
            in_flight,
        }
    }

    /// The counters of the poll loop.
    pub(crate) fn polls(&self) -> Polls {
        Polls(self.clone())
    }

    /// Records the start of a request.
    pub(crate) fn begin_request(&self) -> UnderWay {
        UnderWay::new(self.clone())
    }

    /// Exports a number that another module keeps: each scrape calls `read`, which
    /// returns `None` while the number is unknown. `spec` is a counter or a gauge of the
    /// [`catalog`] that is not counted here; `values` are its label values, in order. The
    /// same values again replace the former reader. `read` must be quick and must not
    /// block.
    pub fn read(
        &self,
        spec: &Spec,
        values: &[&str],
        read: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) {
        self.families.read(spec, values, read);
    }

    /// Exports a number until the next call; unknown is `None`, not zero. `spec` and
    /// `values` are as in [`Metrics::read`].
    pub(crate) fn show(&self, spec: &Spec, values: &[&str], number: Option<f64>) {
        self.read(spec, values, move || number);
    }

    /// Writes all metrics.
    ///
    /// # Errors
    /// When a collector fails; none of this server's does.
    pub(crate) fn render(&self, format: Exposition) -> Result<String, fmt::Error> {
        let mut out = String::new();
        text::encode(&mut out, &self.registry)?;
        Ok(match format {
            Exposition::OpenMetrics => out,
            Exposition::Prometheus => exposition::to_prometheus(&out),
        })
    }
}

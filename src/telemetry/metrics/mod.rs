//! The server's own metrics (docs/metrics.md, "Metrics of the server itself").
//!
//! [`catalog`] lists them all. Other modules count (`Metrics::count`,
//! `Metrics::observe`, `UnderWay`); numbers that they keep in atomics are read at a
//! scrape ([`Metrics::read`]).

pub mod catalog;
mod exposition;
mod numbers;
mod process;
mod requests;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub use catalog::Spec;
pub use exposition::Exposition;
pub use requests::{Class, UnderWay};

use super::health::{Health, Probe};
use numbers::{Number, Numbers};

/// Families by name.
type Families = BTreeMap<&'static str, (Spec, Numbers)>;

/// All families, and the checks of `/readyz`. Cheap to clone; clones share the metrics.
///
/// `spec` is a family of the [`catalog`], and `values` are its label values, in order.
/// They come from closed sets, never from a client or a backend.
#[derive(Clone)]
pub struct Metrics {
    families: Arc<Mutex<Families>>,
    health: Health,
    in_flight: Arc<AtomicUsize>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Every counter at zero; includes the checks of `health`.
    pub(crate) fn new(health: &Health) -> Self {
        let metrics = Self {
            families: Arc::default(),
            health: health.clone(),
            in_flight: Arc::default(),
        };
        process::show(&metrics);
        metrics.count(&catalog::ABORTED, &[], 0);
        metrics.histogram(&catalog::SNAPSHOT_SECONDS, &[]);
        let under_way = Arc::clone(&metrics.in_flight);
        metrics.read(&catalog::IN_FLIGHT, &[], move || {
            Some(under_way.load(Ordering::Relaxed) as f64)
        });
        metrics
    }

    fn lock(&self) -> MutexGuard<'_, Families> {
        self.families.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, spec: &Spec, change: impl FnOnce(&mut Numbers) -> T) -> T {
        let mut families = self.lock();
        let family = families.entry(spec.name);
        change(&mut family.or_insert_with(|| (*spec, Numbers::new())).1)
    }

    /// Adds to a counter.
    pub(crate) fn count(&self, spec: &Spec, values: &[&str], count: u64) {
        self.with(spec, |numbers| {
            let first = || Number::Counted(Counter::default());
            if let Number::Counted(counter) = numbers.entry(owned(values)).or_insert_with(first) {
                counter.inc_by(count);
            }
        });
    }

    /// Adds to a histogram of seconds.
    pub(crate) fn observe(&self, spec: &Spec, values: &[&str], took: Duration) {
        self.histogram(spec, values).observe(took.as_secs_f64());
    }

    fn histogram(&self, spec: &Spec, values: &[&str]) -> Histogram {
        let new = Histogram::new(spec.buckets().iter().copied());
        self.with(spec, |numbers| {
            let number = numbers.entry(owned(values));
            match number.or_insert_with(|| Number::Timed(new.clone())) {
                Number::Timed(known) => known.clone(),
                Number::Counted(_) | Number::Read(_) => new,
            }
        })
    }

    /// Exports a number that another module keeps: each scrape calls `read`, which
    /// returns `None` while the number is unknown. The same values again replace the
    /// former reader. `read` must be quick and must not block.
    pub fn read(
        &self,
        spec: &Spec,
        values: &[&str],
        read: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) {
        self.with(spec, |numbers| {
            numbers.insert(owned(values), Number::Read(Arc::new(read)));
        });
    }

    /// Exports a number until the next call; unknown is `None`, not zero.
    pub(crate) fn show(&self, spec: &Spec, values: &[&str], number: Option<f64>) {
        self.read(spec, values, move || number);
    }

    /// Removes all numbers of a family.
    pub(crate) fn clear(&self, spec: &Spec) {
        self.lock().remove(spec.name);
    }

    /// Records the start of a request.
    pub(crate) fn begin_request(&self) -> UnderWay {
        UnderWay::new(self.clone())
    }

    /// Writes all metrics.
    ///
    /// # Errors
    /// When a collector fails; none of this server's does.
    pub(crate) fn render(&self, format: Exposition) -> Result<String, fmt::Error> {
        let mut registry = Registry::default();
        let build = Info::new(vec![
            ("version", env!("CARGO_PKG_VERSION")),
            ("revision", option_env!("GIT_COMMIT").unwrap_or("unknown")),
        ]);
        // The library adds the full stop.
        registry.register(catalog::BUILD.name, catalog::BUILD.help, build);
        registry.register_collector(Box::new(self.clone()));
        let mut out = String::new();
        text::encode(&mut out, &registry)?;
        Ok(match format {
            Exposition::OpenMetrics => out,
            Exposition::Prometheus => exposition::to_prometheus(&out),
        })
    }
}

fn owned(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // Requests that are counted do not wait for a scrape.
        let families = self.lock().clone();
        for (spec, numbers) in families.values() {
            numbers::write(&mut encoder, spec, numbers)?;
        }
        let checks = self.health.examine(Probe::Ready).into_iter().map(|check| {
            let well = f64::from(u8::from(check.trouble.is_none()));
            let read = Number::Read(Arc::new(move || Some(well)));
            (vec![check.name.to_owned()], read)
        });
        numbers::write(&mut encoder, &catalog::CHECK, &checks.collect())
    }
}

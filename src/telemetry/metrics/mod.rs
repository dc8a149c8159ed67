//! The server's own metrics (docs/metrics.md, "Metrics of the server itself").
//!
//! `catalog` lists them all. Other modules count with `Metrics::count`,
//! `Metrics::observe` and `RequestInFlight`. Numbers that they keep themselves are read at
//! each scrape ([`Metrics::read`]).

pub(crate) mod catalog;
mod exposition;
mod process;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub use catalog::Spec;
pub use exposition::Exposition;

use super::health::{Health, Probe};

#[derive(Clone)]
enum Number {
    Counted(Counter),
    Timed(Histogram),
    Read(Arc<dyn Fn() -> Option<f64> + Send + Sync>),
}

/// The numbers of a family by label values, in the order of the family's labels.
type Numbers = BTreeMap<Vec<String>, Number>;

/// Families by name.
type Families = BTreeMap<&'static str, (Spec, Numbers)>;

/// All families, and the checks of `/readyz`. Cheap to clone; clones share the metrics.
///
/// In all methods, `spec` is a family of the `catalog`, and `values` are its label values,
/// in order. They come from closed sets, never from a client or a backend.
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
    /// Begins with the metrics of the process, the checks of `health`, and 0 aborted
    /// requests. Other counters appear with their first count.
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

    /// Changes the number with these label values; if there is none, creates it with `new`.
    fn with<T>(
        &self,
        spec: &Spec,
        values: &[&str],
        new: impl FnOnce() -> Number,
        change: impl FnOnce(&mut Number) -> T,
    ) -> T {
        let mut families = self.families.lock();
        let (_, numbers) = families
            .entry(spec.name)
            .or_insert_with(|| (*spec, Numbers::new()));
        let values = values.iter().map(|value| (*value).to_owned());
        change(numbers.entry(values.collect()).or_insert_with(new))
    }

    /// Adds to a counter.
    pub(crate) fn count(&self, spec: &Spec, values: &[&str], count: u64) {
        let new = || Number::Counted(Counter::default());
        self.with(spec, values, new, |number| {
            if let Number::Counted(counter) = number {
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
        let timed = || Number::Timed(new.clone());
        self.with(spec, values, timed, |number| match number {
            Number::Timed(known) => known.clone(),
            Number::Counted(_) | Number::Read(_) => new.clone(),
        })
    }

    /// Exports a number that another module keeps: each scrape calls `read`, which
    /// returns `None` while the number is unknown. A later call with the same label values
    /// replaces `read`. It must be quick and must not block.
    pub fn read(
        &self,
        spec: &Spec,
        values: &[&str],
        read: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) {
        let read = Number::Read(Arc::new(read));
        self.with(
            spec,
            values,
            || read.clone(),
            |number| *number = read.clone(),
        );
    }

    /// Exports a number until the next call; `None`: unknown, so that it is omitted.
    pub(crate) fn show(&self, spec: &Spec, values: &[&str], number: Option<f64>) {
        self.read(spec, values, move || number);
    }

    /// Records the start of a request.
    pub(crate) fn begin_request(&self) -> RequestInFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        RequestInFlight {
            metrics: self.clone(),
            answered: false,
        }
    }

    /// Writes all metrics.
    pub(crate) fn render(&self, format: Exposition) -> String {
        let mut registry = Registry::default();
        let build = Info::new(vec![
            ("version", env!("CARGO_PKG_VERSION")),
            ("revision", option_env!("GIT_COMMIT").unwrap_or("unknown")),
        ]);
        // The library adds the full stop.
        registry.register(catalog::BUILD.name, catalog::BUILD.help, build);
        registry.register_collector(Box::new(self.clone()));
        let mut out = String::new();
        // Writing to a text does not fail.
        let _ = text::encode(&mut out, &registry);
        match format {
            Exposition::OpenMetrics => out,
            Exposition::Prometheus => exposition::to_prometheus(&out),
        }
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // The copy releases the lock: counting a request does not wait for a scrape.
        let families = self.families.lock().clone();
        for (spec, numbers) in families.values() {
            write(&mut encoder, spec, numbers)?;
        }
        let checks = self.health.examine(Probe::Ready).into_iter().map(|check| {
            let well = f64::from(u8::from(check.trouble.is_none()));
            let read = Number::Read(Arc::new(move || Some(well)));
            (vec![check.name.to_owned()], read)
        });
        write(&mut encoder, &catalog::CHECK, &checks.collect())
    }
}

impl Number {
    fn now(&self, kind: MetricType) -> Option<Box<dyn EncodeMetric>> {
        Some(match (self, kind) {
            (Self::Counted(counter), _) => Box::new(counter.clone()),
            (Self::Timed(histogram), _) => Box::new(histogram.clone()),
            (Self::Read(read), MetricType::Counter) => Box::new(ConstCounter::new(read()?)),
            (Self::Read(read), _) => Box::new(ConstGauge::new(read()?)),
        })
    }
}

/// Writes a family, unless it is empty.
fn write(encoder: &mut DescriptorEncoder<'_>, spec: &Spec, numbers: &Numbers) -> fmt::Result {
    let rows = numbers.iter();
    let rows = rows.filter_map(|(values, number)| Some((values, number.now(spec.kind)?)));
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return Ok(());
    }
    let help = format!("{}.", spec.help);
    let mut metric = encoder.encode_descriptor(spec.name, &help, None, spec.kind)?;
    for (values, number) in rows {
        if spec.labels.is_empty() {
            return number.encode(metric);
        }
        let values = values.iter().map(String::as_str);
        let labels: Vec<(&str, &str)> = spec.labels.iter().copied().zip(values).collect();
        number.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

/// The class of a request. Its labels come from closed sets (docs/metrics.md, "Metrics of
/// the server itself"), so that invented paths create no series: the caller passes no text
/// that came with the request.
#[derive(Clone, Copy, Debug)]
pub struct Class<'c> {
    /// `get`, `list`, `watch`; another method in lower case.
    pub verb: &'static str,
    /// The API group; empty for other paths.
    pub group: &'static str,
    /// A resource that is served, or the purpose of the path: `discovery`, `openapi`,
    /// `health`, `metrics`, `version`, `other`.
    pub resource: &'c str,
}

/// A request in flight. Dropped without an answer, it counts as aborted.
#[derive(Debug)]
pub struct RequestInFlight {
    metrics: Metrics,
    answered: bool,
}

impl RequestInFlight {
    /// Records the answer with `code` after `took`.
    pub(crate) fn answered(mut self, class: Class<'_>, code: u16, took: Duration) {
        self.answered = true;
        let Class {
            verb,
            group,
            resource,
        } = class;
        let values = [verb, group, resource, &code.to_string()];
        self.metrics.count(&catalog::REQUESTS, &values, 1);
        let values = [group, resource];
        self.metrics
            .observe(&catalog::REQUEST_SECONDS, &values, took);
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        self.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !self.answered {
            self.metrics.count(&catalog::ABORTED, &[], 1);
        }
    }
}

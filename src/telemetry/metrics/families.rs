//! The numbers of the families: counted here, or read from other modules at a scrape.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;

use super::catalog::{self, FamilyKind, Spec};
use crate::telemetry::health::{Health, Probe};

#[derive(Clone)]
enum Number {
    Counted(Counter),
    Timed(Histogram),
    Read(Arc<dyn Fn() -> Option<f64> + Send + Sync>),
}

/// By label values, in the order of the family's labels.
type Numbers = BTreeMap<Vec<String>, Number>;

/// All families by name, and the checks of `/readyz`. Cheap to clone.
#[derive(Clone)]
pub(super) struct Families {
    families: Arc<Mutex<BTreeMap<&'static str, (Spec, Numbers)>>>,
    health: Health,
}

impl fmt::Debug for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Families").finish_non_exhaustive()
    }
}

impl Families {
    pub(super) fn new(health: Health) -> Self {
        let families = Arc::default();
        Self { families, health }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, (Spec, Numbers)>> {
        self.families.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn read(
        &self,
        spec: &Spec,
        values: &[&str],
        read: impl Fn() -> Option<f64> + Send + Sync + 'static,
    ) {
        self.with(spec, |numbers| {
            numbers.insert(owned(values), Number::Read(Arc::new(read)));
        });
    }

    /// Adds to a counter.
    pub(super) fn count(&self, spec: &Spec, values: &[&str], count: u64) {
        self.with(spec, |numbers| {
            let first = || Number::Counted(Counter::default());
            if let Number::Counted(counter) = numbers.entry(owned(values)).or_insert_with(first) {
                counter.inc_by(count);
            }
        });
    }

    /// Adds to a histogram of seconds.
    pub(super) fn observe(&self, spec: &Spec, values: &[&str], buckets: &[f64], took: Duration) {
        self.histogram(spec, values, buckets)
            .observe(took.as_secs_f64());
    }

    pub(super) fn histogram(&self, spec: &Spec, values: &[&str], buckets: &[f64]) -> Histogram {
        let new = Histogram::new(buckets.iter().copied());
        self.with(spec, |numbers| {
            let number = numbers.entry(owned(values));
            match number.or_insert_with(|| Number::Timed(new.clone())) {
                Number::Timed(known) => known.clone(),
                Number::Counted(_) | Number::Read(_) => new,
            }
        })
    }

    fn with<T>(&self, spec: &Spec, change: impl FnOnce(&mut Numbers) -> T) -> T {
        let mut families = self.lock();
        let family = families.entry(spec.name);
        change(&mut family.or_insert_with(|| (*spec, Numbers::new())).1)
    }

    /// Removes all numbers of a family.
    pub(super) fn clear(&self, spec: &Spec) {
        self.lock().remove(spec.name);
    }
}

fn owned(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        // Requests that are counted do not wait for a scrape.
        let families = self.lock().clone();
        for (spec, numbers) in families.values() {
            let rows = numbers.iter().filter_map(|(values, number)| {
                let values = values.iter().map(String::as_str).collect();
                Some((values, number.now(spec.kind)?))
            });
            write(&mut encoder, spec, rows.collect())?;
        }
        let checks = self.health.examine(Probe::Ready);
        let checks = checks.iter().map(|check| {
            let well = f64::from(u8::from(check.trouble.is_none()));
            let well: Box<dyn EncodeMetric> = Box::new(ConstGauge::new(well));
            (vec![check.name], well)
        });
        write(&mut encoder, &catalog::CHECK, checks.collect())
    }
}

impl Number {
    fn now(&self, kind: FamilyKind) -> Option<Box<dyn EncodeMetric>> {
        Some(match self {
            Self::Counted(counter) => Box::new(counter.clone()),
            Self::Timed(histogram) => Box::new(histogram.clone()),
            Self::Read(read) if kind == FamilyKind::Counter => Box::new(ConstCounter::new(read()?)),
            Self::Read(read) => Box::new(ConstGauge::new(read()?)),
        })
    }
}

/// Writes a family, unless it is empty.
fn write(
    encoder: &mut DescriptorEncoder<'_>,
    spec: &Spec,
    rows: Vec<(Vec<&str>, Box<dyn EncodeMetric>)>,
) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let kind = match spec.kind {
        FamilyKind::Counter => MetricType::Counter,
        FamilyKind::Histogram => MetricType::Histogram,
        FamilyKind::Gauge | FamilyKind::Info => MetricType::Gauge,
    };
    let help = format!("{}.", spec.help);
    let mut metric = encoder.encode_descriptor(spec.name, &help, None, kind)?;
    for (values, number) in rows {
        if spec.labels.is_empty() {
            return number.encode(metric);
        }
        let labels: Vec<(&str, &str)> = spec.labels.iter().copied().zip(values).collect();
        number.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

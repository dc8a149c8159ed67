//! Numbers that other modules keep and that each scrape reads.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::catalog::{ALL, FamilyKind, Spec};

/// Label values, in the order of the family's labels.
type LabelValues = Vec<String>;

type ReadNumber = Box<dyn Fn() -> Option<f64> + Send + Sync>;

/// Families of numbers that each scrape reads. Cheap to clone.
#[derive(Clone, Default)]
pub(super) struct Readings {
    families: Arc<RwLock<BTreeMap<usize, BTreeMap<LabelValues, ReadNumber>>>>,
}

impl fmt::Debug for Readings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readings").finish_non_exhaustive()
    }
}

impl Readings {
    pub(super) fn insert(&self, spec: &Spec, values: &[&str], read: ReadNumber) {
        let Some(place) = ALL.iter().position(|known| known.name == spec.name) else {
            return;
        };
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let mut families = self
            .families
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        families.entry(place).or_default().insert(values, read);
    }

    /// Removes all numbers of a family.
    pub(super) fn clear(&self, spec: &Spec) {
        let mut families = self
            .families
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        families.retain(|place, _| ALL.get(*place).is_none_or(|known| known.name != spec.name));
    }

    /// Sets a number until the next call; unknown is `None`, not zero.
    pub(super) fn show(&self, spec: &Spec, values: &[&str], number: Option<f64>) {
        self.insert(spec, values, Box::new(move || number));
    }
}

impl Collector for Readings {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let families = self.families.read().unwrap_or_else(PoisonError::into_inner);
        for (place, family) in families.iter() {
            let rows = family
                .iter()
                .filter_map(|(values, read)| Some((values.as_slice(), read()?)));
            write(&mut encoder, ALL[*place], rows)?;
        }
        Ok(())
    }
}

/// Writes a family of numbers, unless it is empty.
pub(super) fn write<V: AsRef<str>>(
    encoder: &mut DescriptorEncoder<'_>,
    spec: &Spec,
    rows: impl Iterator<Item = (impl AsRef<[V]>, f64)>,
) -> fmt::Result {
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    let kind = match spec.kind {
        FamilyKind::Counter => MetricType::Counter,
        FamilyKind::Gauge | FamilyKind::Histogram | FamilyKind::Info => MetricType::Gauge,
    };
    let help = format!("{}.", spec.help);
    let number_of = |metric: MetricEncoder<'_>, number| match kind {
        MetricType::Counter => ConstCounter::new(number).encode(metric),
        _ => ConstGauge::new(number).encode(metric),
    };
    let mut metric = encoder.encode_descriptor(spec.name, &help, None, kind)?;
    for (values, number) in rows {
        if spec.labels.is_empty() {
            return number_of(metric, number);
        }
        let labels: Vec<(&str, &str)> = spec
            .labels
            .iter()
            .zip(values.as_ref())
            .map(|(name, value)| (*name, value.as_ref()))
            .collect();
        number_of(metric.encode_family(&labels)?, number)?;
    }
    Ok(())
}

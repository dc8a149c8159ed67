//! The numbers of a family, and how they are written.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;

use super::catalog::{FamilyKind, Spec};

#[derive(Clone)]
pub(super) enum Number {
    Counted(Counter),
    Timed(Histogram),
    Read(Arc<dyn Fn() -> Option<f64> + Send + Sync>),
}

/// By label values, in the order of the family's labels.
pub(super) type Numbers = BTreeMap<Vec<String>, Number>;

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
pub(super) fn write(
    encoder: &mut DescriptorEncoder<'_>,
    spec: &Spec,
    numbers: &Numbers,
) -> fmt::Result {
    let rows = numbers.iter();
    let rows = rows.filter_map(|(values, number)| Some((values, number.now(spec.kind)?)));
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
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
        let values = values.iter().map(String::as_str);
        let labels: Vec<(&str, &str)> = spec.labels.iter().copied().zip(values).collect();
        number.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

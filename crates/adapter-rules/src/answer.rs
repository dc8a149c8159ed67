//! Prometheus' answers to the queries of rules.

use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;

/// The purpose of a query. Each purpose has its own permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A custom or an external metric.
    Metric,
    /// The usage of pods or nodes (`resourceRules`).
    Resource,
}

/// A sample of an instant vector.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorSample {
    /// Its labels, `__name__` among them.
    pub labels: Labels,
    /// The value; not always finite.
    pub value: f64,
    /// When it was taken, or when the query was evaluated.
    pub at: Timestamp,
}

/// The result of a query at one time.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Samples in Prometheus' order.
    Vector(Vec<VectorSample>),
    /// A number without labels.
    Scalar(f64, Timestamp),
    /// A type that cannot become a metric: `matrix`, `string`.
    Other(String),
}

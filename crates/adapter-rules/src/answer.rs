//! What Prometheus answers to a rule's query.

use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;

/// What a query is for. The queries of each purpose have permits of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A custom or an external metric.
    Metric,
    /// What pods or nodes use (`resourceRules`).
    Resource,
}

/// A sample of an instant vector.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Its labels, `__name__` among them.
    pub labels: Labels,
    /// The value; not always finite.
    pub value: f64,
    /// When it was taken, or the query evaluated.
    pub at: Timestamp,
}

/// The result of a query at one time.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// Samples in the order of Prometheus.
    Vector(Vec<Sample>),
    /// A number without labels.
    Scalar(f64, Timestamp),
    /// What no metric can be made of: `matrix`, `string`.
    Other(String),
}

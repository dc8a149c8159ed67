//! The rows of answers to rules: samples, and the shapes of series. Pure.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::value::RawValue;

use adapter_rules::answer::VectorSample;
use adapter_rules::registry::Shape;
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;

/// The label with the metric's name.
const NAME: &str = "__name__";

/// A row of an instant vector.
#[derive(Deserialize)]
pub(super) struct Row {
    metric: BTreeMap<String, String>,
    /// Absent if the sample is a histogram.
    value: Option<(f64, String)>,
}

impl Row {
    /// `None`: it is a histogram, or its value is no number.
    pub(super) fn sample(self) -> Option<VectorSample> {
        let (at, value) = self.value?;
        Some(VectorSample {
            labels: Labels::from_pairs(self.metric),
            value: number(&value)?,
            at: seconds(at),
        })
    }
}

/// Prometheus writes `NaN`, `+Inf` and `-Inf`.
pub(super) fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

pub(super) fn seconds(seconds: f64) -> Timestamp {
    Timestamp::from_millis((seconds * 1000.0).round() as i64)
}

/// The shapes of series, in the order of the last series of each. They are read one by
/// one, because there are many series of a shape.
#[derive(Debug)]
pub(super) struct Shapes(pub(super) Arc<[Shape]>);

impl<'de> Deserialize<'de> for Shapes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ShapesVisitor).map(Shapes)
    }
}

struct ShapesVisitor;

impl<'de> Visitor<'de> for ShapesVisitor {
    type Value = Arc<[Shape]>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of series")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut series: A) -> Result<Self::Value, A::Error> {
        let mut shapes: HashMap<Shape, usize> = HashMap::new();
        let mut place = 0;
        while let Some(labels) = series.next_element::<BTreeMap<String, &RawValue>>()? {
            let name = labels
                .get(NAME)
                .and_then(|name| serde_json::from_str(name.get()).ok());
            let name: String = name.unwrap_or_default();
            let labels = labels.into_keys().filter(|label| label != NAME);
            let shape = Shape {
                name: name.into(),
                labels: labels.map(Into::into).collect(),
            };
            shapes.insert(shape, place);
            place += 1;
        }
        let mut shapes: Vec<(Shape, usize)> = shapes.into_iter().collect();
        shapes.sort_by_key(|(_, place)| *place);
        Ok(shapes.into_iter().map(|(shape, _)| shape).collect())
    }
}

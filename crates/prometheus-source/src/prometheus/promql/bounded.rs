//! Reads samples and series one by one, so that the kept part is bounded, whatever is
//! sent. Pure.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

use adapter_rules::answer::VectorSample;
use adapter_rules::registry::Shape;
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;

/// The most samples of one answer, some 150 MiB: one for each container of the
/// largest cluster that Kubernetes is tested with.
pub(super) const MOST_SAMPLES: usize = 300_000;

/// The most combinations of a name and label names that one selector may match. A
/// selector with more matches everything.
pub(super) const MOST_SHAPES: usize = 50_000;

/// The label with the metric's name.
const NAME: &str = "__name__";

/// The samples of an instant vector. `None`: there are more than
/// [`MOST_SAMPLES`].
#[derive(Debug)]
pub(super) struct Samples(pub(super) Option<Vec<VectorSample>>);

#[derive(Deserialize)]
struct Row {
    metric: BTreeMap<String, String>,
    /// Absent if the sample is a histogram.
    value: Option<(f64, String)>,
}

impl Row {
    fn sample(self) -> Option<VectorSample> {
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

impl<'de> Deserialize<'de> for Samples {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(SamplesVisitor).map(Samples)
    }
}

struct SamplesVisitor;

impl<'de> Visitor<'de> for SamplesVisitor {
    type Value = Option<Vec<VectorSample>>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of samples")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<Self::Value, A::Error> {
        let mut samples = Vec::new();
        while let Some(row) = rows.next_element::<Row>()? {
            if samples.len() == MOST_SAMPLES {
                drop(samples);
                return pass_over(rows);
            }
            samples.extend(row.sample());
        }
        Ok(Some(samples))
    }
}

/// The shapes of series, in the order of the last series of each. `None`: there are
/// more than [`MOST_SHAPES`].
#[derive(Debug)]
pub(super) struct Shapes(pub(super) Option<Arc<[Shape]>>);

impl<'de> Deserialize<'de> for Shapes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ShapesVisitor).map(Shapes)
    }
}

struct ShapesVisitor;

impl<'de> Visitor<'de> for ShapesVisitor {
    type Value = Option<Arc<[Shape]>>;

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
            if shapes.len() > MOST_SHAPES {
                drop(shapes);
                return pass_over(series);
            }
            place += 1;
        }
        let mut shapes: Vec<(Shape, usize)> = shapes.into_iter().collect();
        shapes.sort_by_key(|(_, place)| *place);
        Ok(Some(shapes.into_iter().map(|(shape, _)| shape).collect()))
    }
}

/// Skips the rest of an answer that is too large.
fn pass_over<'de, A: SeqAccess<'de>, T>(mut rest: A) -> Result<Option<T>, A::Error> {
    while rest.next_element::<IgnoredAny>()?.is_some() {}
    Ok(None)
}

//! Reads samples and series one by one, so that the decoded part of any answer is
//! bounded. Pure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::decode::{self, DecodeError};
use adapter_rules::answer::{Answer, VectorSample};
use adapter_rules::registry::Shape;
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;

/// The most samples of one answer, some 150 MiB: one for each container of the
/// largest cluster that Kubernetes is tested with.
const MOST_SAMPLES: usize = 300_000;

/// The most combinations of a name and label names that one selector may match. Only a
/// selector that matches all series of a store should exceed it.
const MOST_SHAPES: usize = 50_000;

/// The label with the metric's name.
const NAME: &str = "__name__";

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
fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

fn seconds(seconds: f64) -> Timestamp {
    Timestamp::from_millis((seconds * 1000.0).round() as i64)
}

pub(super) fn scalar(sample: &RawValue) -> Result<Answer, DecodeError> {
    let (at, text): (f64, String) = decode::part(sample)?;
    let value = number(&text);
    let value = value.ok_or_else(|| DecodeError::NotAnAnswer(format!("{text:?} is no number")))?;
    Ok(Answer::Scalar(value, seconds(at)))
}

/// The samples of an instant vector.
///
/// # Errors
/// When `rows` is no instant vector, or has more than [`MOST_SAMPLES`].
pub(super) fn samples(rows: &RawValue) -> Result<Vec<VectorSample>, DecodeError> {
    let mut samples = Vec::new();
    decode::each(rows, |row: Row| {
        if samples.len() == MOST_SAMPLES {
            return Err(DecodeError::TooMany {
                limit: MOST_SAMPLES,
                parts: "samples",
                remedy: "aggregate in the query, or select less",
            });
        }
        samples.extend(row.sample());
        Ok(())
    })?;
    Ok(samples)
}

/// The shapes of series, in the order of the last series of each.
///
/// # Errors
/// When `series` is no list of series, or has more than [`MOST_SHAPES`].
pub(super) fn shapes(series: &RawValue) -> Result<Arc<[Shape]>, DecodeError> {
    let mut shapes: HashMap<Shape, usize> = HashMap::new();
    let mut place = 0;
    decode::each(series, |labels: BTreeMap<String, &RawValue>| {
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
        if shapes.len() > MOST_SHAPES {
            return Err(DecodeError::TooMany {
                limit: MOST_SHAPES,
                parts: "names and sets of labels",
                remedy: "narrow the seriesQuery",
            });
        }
        Ok(())
    })?;
    let mut shapes: Vec<(Shape, usize)> = shapes.into_iter().collect();
    shapes.sort_by_key(|(_, place)| *place);
    Ok(shapes.into_iter().map(|(shape, _)| shape).collect())
}

//! The elements of answers to rules' queries and to searches for series, in bounded
//! numbers. Pure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::super::endpoint::Received;
use crate::decode::{self, DecodeError, Elements, Stop};
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

/// A sample of a vector.
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

/// The result of a query at one time: the samples of a vector, or the time and the value of
/// a scalar.
#[derive(Debug, Default)]
pub(super) struct Rows {
    samples: Vec<VectorSample>,
    /// The first elements that are no objects, as text.
    scalar: Vec<String>,
}

impl Elements for Rows {
    fn read<'t>(&mut self, text: &'t str) -> Result<&'t str, Stop> {
        let (element, rest) = decode::value(text)?;
        if !element.starts_with('{') {
            if self.scalar.len() < 2 {
                self.scalar.push(element.to_owned());
            }
            return Ok(rest);
        }
        let row: Row = decode::parsed(element)?;
        if self.samples.len() == MOST_SAMPLES {
            return Err(Stop::Refused(DecodeError::TooMany {
                limit: MOST_SAMPLES,
                parts: "samples",
            }));
        }
        self.samples.extend(row.sample());
        Ok(rest)
    }
}

impl Rows {
    /// The result, of the type that the answer states.
    ///
    /// # Errors
    /// When the elements are of another type.
    pub(super) fn result(self, answer: &Received) -> Result<Answer, DecodeError> {
        let wrong = |text: String| Err(DecodeError::NotAnAnswer(text));
        match answer.envelope.result_type.as_deref() {
            Some("vector") if self.scalar.is_empty() => Ok(Answer::Vector(self.samples)),
            Some("vector") => wrong("an element of the vector is no object".to_owned()),
            Some("scalar") => {
                let [at, value] = &self.scalar[..] else {
                    return wrong("the scalar has no time and value".to_owned());
                };
                let (at, text): (f64, String) = (decode::parsed(at)?, decode::parsed(value)?);
                match number(&text) {
                    Some(value) => Ok(Answer::Scalar(value, seconds(at))),
                    None => wrong(format!("{text:?} is no number")),
                }
            }
            Some(other) => Ok(Answer::Other(answer.secrets.excerpt(other))),
            None => wrong("its resultType is null or missing".to_owned()),
        }
    }
}

/// The shapes of series, each with the place of its last series.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    shapes: HashMap<Shape, usize>,
    series: usize,
}

impl Elements for Shapes {
    fn read<'t>(&mut self, text: &'t str) -> Result<&'t str, Stop> {
        let (element, rest) = decode::value(text)?;
        let labels: BTreeMap<String, &RawValue> = decode::parsed(element)?;
        let name = labels
            .get(NAME)
            .and_then(|name| serde_json::from_str(name.get()).ok());
        let name: String = name.unwrap_or_default();
        let labels = labels.into_keys().filter(|label| label != NAME);
        let shape = Shape {
            name: name.into(),
            labels: labels.map(Into::into).collect(),
        };
        self.shapes.insert(shape, self.series);
        self.series += 1;
        if self.shapes.len() > MOST_SHAPES {
            return Err(Stop::Refused(DecodeError::TooMany {
                limit: MOST_SHAPES,
                parts: "names and sets of labels",
            }));
        }
        Ok(rest)
    }
}

impl Shapes {
    /// The shapes in the order of the last series of each.
    pub(super) fn in_order(self) -> Arc<[Shape]> {
        let mut shapes: Vec<(Shape, usize)> = self.shapes.into_iter().collect();
        shapes.sort_by_key(|(_, place)| *place);
        shapes.into_iter().map(|(shape, _)| shape).collect()
    }
}

//! The elements of answers to rules' queries and to searches for series. Pure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::decode::{Cursor, DecodeError, Elements, Envelope, malformed};
use adapter_rules::registry::Shape;
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;

/// The most samples of an answer to a query of a rule: each takes many times its text.
const MOST_SAMPLES: usize = 300_000;

/// The most bytes of the shapes that one selector may match: their names, each with its place
/// in memory. Only a selector that matches all series of a store should exceed it.
const MOST_SHAPE_BYTES: usize = 16 << 20;

/// The bytes of a label beside its texts.
const LABEL_BYTES: usize = 64;

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

impl VectorSample {
    /// `None`: the value is no number, of which Prometheus writes some as `NaN`, `+Inf` and
    /// `-Inf`.
    fn new(labels: BTreeMap<String, String>, seconds: f64, value: &str) -> Option<Self> {
        Some(Self {
            labels: Labels::from_pairs(labels),
            value: value.parse().ok()?,
            at: Timestamp::from_millis((seconds * 1000.0).round() as i64),
        })
    }

    /// Its memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let labels = self.labels.iter();
        let texts = labels.map(|(name, value)| LABEL_BYTES + name.len() + value.len());
        size_of::<Self>() + texts.sum::<usize>()
    }
}

/// An element of a vector.
#[derive(Deserialize)]
struct Element {
    metric: BTreeMap<String, String>,
    /// Absent if the sample is a histogram.
    value: Option<(f64, String)>,
}

/// The result of a query at one time.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    pub(crate) samples: Vec<VectorSample>,
    /// The elements that are no objects: the time and the value of a scalar.
    of_scalar: Vec<Value>,
}

impl Elements for Samples {
    fn read(&mut self, text: &mut Cursor<'_>) -> Result<(), DecodeError> {
        if text.peek()? == b'{' {
            let Element { metric, value } = text.value()?;
            let sample = value.and_then(|(at, value)| VectorSample::new(metric, at, &value));
            self.samples.extend(sample);
            if self.samples.len() > MOST_SAMPLES {
                let (limit, parts) = (MOST_SAMPLES, "samples");
                return Err(DecodeError::TooMany { limit, parts });
            }
        } else {
            self.of_scalar.push(text.value()?);
            if self.of_scalar.len() > 2 {
                return Err(malformed("a sample"));
            }
        }
        Ok(())
    }

    fn end(&mut self, envelope: Envelope) -> Result<(), DecodeError> {
        match (envelope.result_type(), &self.of_scalar[..]) {
            ("vector", []) => Ok(()),
            ("scalar", [at, value]) => {
                let pair = at.as_f64().zip(value.as_str());
                let sample =
                    pair.and_then(|(at, value)| VectorSample::new(BTreeMap::new(), at, value));
                self.samples = vec![sample.ok_or_else(|| malformed("a number"))?];
                Ok(())
            }
            ("vector" | "scalar", _) => Err(malformed("a sample")),
            (other, _) => Err(DecodeError::ResultType(other.to_owned())),
        }
    }
}

/// The shapes of series, each with the place of its last series.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    shapes: HashMap<Shape, usize>,
    series: usize,
    bytes: usize,
}

impl Elements for Shapes {
    fn read(&mut self, text: &mut Cursor<'_>) -> Result<(), DecodeError> {
        let mut labels: BTreeMap<String, Value> = text.value()?;
        let name = labels.remove("__name__").unwrap_or_default();
        let shape = Shape {
            name: name.as_str().unwrap_or_default().into(),
            labels: labels.into_keys().map(Into::into).collect(),
        };
        let names = shape.labels.iter();
        let names = names.map(|name| name.len() + size_of_val(name));
        let bytes = shape.name.len() + size_of_val(&shape) + names.sum::<usize>();
        if self.shapes.insert(shape, self.series).is_none() {
            self.bytes += bytes;
        }
        self.series += 1;
        match self.bytes <= MOST_SHAPE_BYTES {
            true => Ok(()),
            false => Err(DecodeError::TooMany {
                limit: MOST_SHAPE_BYTES,
                parts: "bytes of names",
            }),
        }
    }
}

impl Shapes {
    /// The shapes in the order of the last series of each.
    pub(crate) fn in_order(self) -> Arc<[Shape]> {
        let mut shapes: Vec<(Shape, usize)> = self.shapes.into_iter().collect();
        shapes.sort_by_key(|(_, place)| *place);
        shapes.into_iter().map(|(shape, _)| shape).collect()
    }
}

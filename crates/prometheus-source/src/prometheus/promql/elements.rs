//! The elements of answers to rules' queries and to searches for series. Pure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;

use crate::decode::{Cursor, DecodeError, Elements, Envelope, malformed, parsed};
use adapter_rules::registry::Shape;
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;

/// The most samples of one answer, some 150 MiB: one for each container of the
/// largest cluster that Kubernetes is tested with.
const MOST_SAMPLES: usize = 300_000;

/// The most combinations of a name and label names that one selector may match. Only a
/// selector that matches all series of a store should exceed it.
const MOST_SHAPES: usize = 50_000;

/// The most bytes of their names, each with its place in memory.
const MOST_SHAPE_BYTES: usize = 32 << 20;

/// The last second that RFC 3339 can write: the end of the year 9999.
const LAST_SECOND: f64 = 253_402_207_200.0;

/// The label with the metric's name.
const NAME: &str = "__name__";

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
    /// `-Inf`, or the time is no date.
    fn new(labels: BTreeMap<String, String>, seconds: f64, value: &str) -> Option<Self> {
        let is_date = (0.0..=LAST_SECOND).contains(&seconds);
        is_date.then_some(())?;
        Some(Self {
            labels: Labels::from_pairs(labels),
            value: value.parse().ok()?,
            at: Timestamp::from_millis((seconds * 1000.0).round() as i64),
        })
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
pub(super) struct Samples {
    pub(super) samples: Vec<VectorSample>,
    /// The text of the first elements that are no objects: the time and the value of a scalar.
    of_scalar: Vec<String>,
}

impl Elements for Samples {
    fn read(&mut self, text: &mut Cursor<'_>) -> Result<(), DecodeError> {
        let element = text.value()?;
        if !element.starts_with('{') {
            if self.of_scalar.len() < 2 {
                self.of_scalar.push(element.to_owned());
            }
            return Ok(());
        }
        let Element { metric, value } = parsed(element)?;
        check_count(self.samples.len() + 1, MOST_SAMPLES, "samples")?;
        let sample = value.and_then(|(at, value)| VectorSample::new(metric, at, &value));
        self.samples.extend(sample);
        Ok(())
    }

    fn end(&mut self, envelope: Envelope) -> Result<(), DecodeError> {
        match (envelope.result_type(), &self.of_scalar[..]) {
            ("vector", []) => Ok(()),
            ("scalar", [at, value]) => {
                let value: String = parsed(value)?;
                let sample = VectorSample::new(BTreeMap::new(), parsed(at)?, &value);
                self.samples = vec![sample.ok_or_else(|| malformed("a number"))?];
                Ok(())
            }
            ("vector" | "scalar", _) => Err(malformed("a sample")),
            (other, _) => Err(DecodeError::ResultType(other.to_owned())),
        }
    }
}

fn check_count(count: usize, limit: usize, parts: &'static str) -> Result<(), DecodeError> {
    match count <= limit {
        true => Ok(()),
        false => Err(DecodeError::TooMany { limit, parts }),
    }
}

/// The shapes of series, each with the place of its last series.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    shapes: HashMap<Shape, usize>,
    series: usize,
    bytes: usize,
}

impl Elements for Shapes {
    fn read(&mut self, text: &mut Cursor<'_>) -> Result<(), DecodeError> {
        let mut labels: BTreeMap<String, Value> = parsed(text.value()?)?;
        let name = labels.remove(NAME).unwrap_or_default();
        let shape = Shape {
            name: name.as_str().unwrap_or_default().into(),
            labels: labels.into_keys().map(Into::into).collect(),
        };
        let names = shape
            .labels
            .iter()
            .map(|name| name.len() + size_of_val(name));
        let bytes = shape.name.len() + names.sum::<usize>();
        if self.shapes.insert(shape, self.series).is_none() {
            self.bytes += bytes;
        }
        self.series += 1;
        check_count(self.bytes, MOST_SHAPE_BYTES, "bytes of names")?;
        check_count(self.shapes.len(), MOST_SHAPES, "names and sets of labels")
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

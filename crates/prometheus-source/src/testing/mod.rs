//! A fake Prometheus for tests, with faults that a test sets, and a decoder of whole answers.
#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::expect_used,
    clippy::new_without_default,
    clippy::panic,
    clippy::unwrap_used,
    reason = "only tests use it"
)]

pub mod fake_prometheus;

use std::collections::HashMap;
use std::sync::Arc;

use adapter_rules::registry::Shape;

use crate::decode::{AnswerDecoder, DecodeError, Elements, KeyHasher, SeriesReader};
use crate::prometheus::promql::VectorSample;
use crate::prometheus::promql::elements::{Samples, Shapes};
use gpu_metrics::batch::Batch;

/// Decodes a whole answer to a range query into `batch`, which is emptied first. After an
/// error the batch holds no series.
pub fn decode(body: &[u8], hasher: &KeyHasher, batch: &mut Batch) -> Result<(), DecodeError> {
    batch.clear();
    let parts = vec![Batch::new(batch.signal)];
    let mut keep = |part: &Batch| batch.append(part);
    let mut series = SeriesReader::new(hasher, parts, HashMap::new(), &mut keep);
    read(body, &mut series)?;
    series.finish();
    Ok(())
}

/// The samples of a whole answer to a query at one time.
pub fn vector(body: &[u8]) -> Result<Vec<VectorSample>, DecodeError> {
    let mut samples = Samples::default();
    read(body, &mut samples)?;
    Ok(samples.samples)
}

/// The shapes of a whole answer to a search for series.
pub fn shapes(body: &[u8]) -> Result<Arc<[Shape]>, DecodeError> {
    let mut shapes = Shapes::default();
    read(body, &mut shapes)?;
    Ok(shapes.in_order())
}

fn read(body: &[u8], elements: &mut impl Elements) -> Result<(), DecodeError> {
    let mut decoder = AnswerDecoder::default();
    decoder.feed(body, elements)?;
    decoder.finish(elements)
}

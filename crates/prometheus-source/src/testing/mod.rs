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

use crate::decode::{AnswerDecoder, DecodeError, KeyHasher, SeriesReader};
use gpu_metrics::batch::Batch;

/// Decodes a whole answer to a range query into `batch`, which is emptied first. After an
/// error the batch holds no series.
pub fn decode(body: &[u8], hasher: &KeyHasher, batch: &mut Batch) -> Result<(), DecodeError> {
    batch.clear();
    let parts = vec![Batch::new(batch.signal)];
    let mut keep = |part: &Batch| batch.append(part);
    let mut series = SeriesReader::new(hasher, parts, HashMap::new(), &mut keep);
    let mut decoder = AnswerDecoder::default();
    decoder.feed(body, &mut series)?;
    decoder.finish(&mut series)?;
    series.finish();
    Ok(())
}

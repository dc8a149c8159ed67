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

use crate::decode::{AnswerDecoder, DecodeError, KeyHasher, SeriesReader};
use gpu_metrics::batch::Batch;

/// Decodes a whole answer to a range query into `batch`, which is emptied first. Returns
/// the engine's warnings; an answer with warnings may be partial. After an error the batch
/// holds no series.
pub fn decode(
    body: &[u8],
    hasher: &KeyHasher,
    batch: &mut Batch,
) -> Result<Vec<String>, DecodeError> {
    batch.clear();
    let mut parts = [Batch::new(batch.signal)];
    let mut keep = |part: &Batch| batch.append(part);
    let mut series = SeriesReader::new(hasher, None, &mut parts, &mut keep);
    let mut decoder = AnswerDecoder::new();
    decoder.feed(body, &mut series)?;
    let envelope = decoder.finish(&mut series)?;
    envelope.check_type("matrix")?;
    series.finish();
    Ok(envelope.warnings())
}

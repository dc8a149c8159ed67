//! Prometheus' query answers, from bytes straight into a [`Batch`]. Pure.
//!
//! A range selector (`X[1m]`) is answered with `resultType` "matrix". Labels
//! are the bytes (docs/stores.md, "Answers"): a label set is therefore never
//! parsed here, only delimited and hashed, and parsed elsewhere when its series
//! is new. Once the batch's buffers have grown, nothing is allocated per series
//! or per sample.

mod envelope;
mod sample;
#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use bytes::Bytes;
use siphasher::sip128::SipHasher13;

use gpu_metrics::batch::{Batch, SeriesKey};
use gpu_metrics::signal::SignalId;

use envelope::{Envelope, Presence, ResultType, Sink};

/// Makes [`SeriesKey`]s. Create one per process and share it: keys of two
/// hashers never agree, so a series would look new at every poll.
///
/// SipHash-1-3 with 128 bits of output under a random key. Keyed, because pod
/// names and labels are chosen by tenants, which could otherwise make two series
/// collide and have their load booked as another's; one pass of 128 bits rather
/// than two of 64, because even one is about a fifth of the decoder's time.
#[derive(Clone)]
pub struct KeyHasher(SipHasher13);

impl KeyHasher {
    /// A hasher under a key of its own, from the operating system's randomness
    /// by way of the standard library's hash map.
    #[must_use]
    pub fn new() -> Self {
        let random = || RandomState::new().hash_one(0_u8);
        Self(SipHasher13::new_with_keys(random(), random()))
    }

    /// The key of a label set, by its text.
    #[must_use]
    pub fn key(&self, labels: &str) -> SeriesKey {
        SeriesKey(self.0.hash(labels.as_bytes()).as_u128())
    }
}

impl Default for KeyHasher {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for KeyHasher {
    /// Without the key: with it, series can be made to collide.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHasher(..)")
    }
}

/// Why bytes are no usable answer. The batch is empty in each case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The JSON text ends too early.
    #[error("the answer ends in the middle of its JSON text")]
    Truncated,
    /// Not JSON, or not UTF-8.
    #[error("the answer is no JSON: {0}")]
    NotJson(String),
    /// JSON of another shape.
    #[error("the answer is JSON but no answer of the Prometheus query API: {0}")]
    Shape(String),
    /// `data` or `data.result` is null or absent: some proxies do that
    /// (docs/stores.md, "Answers"). Unknown is not empty.
    #[error("the answer says success but its {0} is null or missing")]
    Null(&'static str),
    /// A result that no range selector gives.
    #[error("resultType is {0:?} where a range selector is answered with \"matrix\"")]
    ResultType(String),
    /// Its samples take more memory than there is.
    #[error("the samples of the answer take too much memory")]
    TooLarge,
    /// `status: error`.
    #[error("{error_type}: {error}")]
    Status {
        /// Prometheus' class: `bad_data`, `execution`, `timeout`, …
        error_type: String,
        /// Its sentence.
        error: String,
    },
}

/// What a value that is no number stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nan {
    /// A sample whose value is NaN, as Prometheus has it.
    Value,
    /// The end of a series. VictoriaMetrics, which stores no NaN, hands out its
    /// marks of staleness that way: they are no samples.
    StaleMarker,
}

/// Decodes one answer into `batch`, which is emptied first and keeps `body` as
/// its text; the engine's warnings. Any one of them may mean that series are missing
/// (Thanos' partial responses, `results truncated due to limit`), so an answer with
/// warnings must not be used. Prometheus' `infos` are not among them.
///
/// # Errors
/// See [`DecodeError`]; the batch then holds no series.
pub fn decode(
    signal: SignalId,
    body: &Bytes,
    hasher: &KeyHasher,
    batch: &mut Batch,
) -> Result<Vec<String>, DecodeError> {
    batch.reset(signal, body.clone());
    let all = 0..body.len();
    let decoded = append((body, all), Nan::Value, hasher, batch, usize::MAX);
    if decoded.is_err() {
        batch.reset(signal, body.clone());
    }
    decoded
}

/// Adds the answer that stands at `body` in `text`, which must be the batch's; the
/// engine's warnings. `room` is the most bytes that the batch may take beside its
/// text.
///
/// # Errors
/// See [`DecodeError`]; the batch may hold a part of the answer then.
pub fn append(
    (text, body): (&Bytes, Range<usize>),
    nan: Nan,
    hasher: &KeyHasher,
    batch: &mut Batch,
    room: usize,
) -> Result<Vec<String>, DecodeError> {
    // One pass over the whole body is cheaper than the parser's check of each
    // string, and also covers what the parser skips.
    let answer = std::str::from_utf8(text.get(body).unwrap_or_default()).map_err(|error| {
        match error.error_len() {
            None => DecodeError::Truncated,
            Some(_) => {
                DecodeError::NotJson(format!("invalid UTF-8 after byte {}", error.valid_up_to()))
            }
        }
    })?;
    let mut sink = Sink::new(text, nan, hasher, batch);
    sink.room = room;
    let parsed = envelope::parse(answer, &mut sink);
    if sink.is_full {
        return Err(DecodeError::TooLarge);
    }
    let envelope = parsed.map_err(|error| match error.classify() {
        serde_json::error::Category::Eof => DecodeError::Truncated,
        serde_json::error::Category::Data => DecodeError::Shape(error.to_string()),
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => {
            DecodeError::NotJson(error.to_string())
        }
    })?;
    let without_values = sink.without_values;
    check(&envelope)?;
    if without_values {
        return Err(DecodeError::Shape("a series without values".to_owned()));
    }
    Ok(envelope.all_warnings())
}

/// The `errorType` and `error` of a body that came with an HTTP error status,
/// when it has the API's form.
#[must_use]
pub fn api_error(body: &[u8]) -> Option<(String, String)> {
    let text = std::str::from_utf8(body).ok()?;
    let mut batch = Batch::new(SignalId(0), Bytes::new());
    let hasher = KeyHasher::new();
    let mut sink = Sink::new(body, Nan::Value, &hasher, &mut batch);
    let envelope = envelope::parse(text, &mut sink).ok()?;
    (envelope.status == "error").then_some((envelope.error_type, envelope.error))
}

/// Whether the envelope is that of a usable matrix.
fn check(envelope: &Envelope) -> Result<(), DecodeError> {
    match envelope.status.as_str() {
        "success" => {}
        "error" => {
            return Err(DecodeError::Status {
                error_type: envelope.error_type.clone(),
                error: envelope.error.clone(),
            });
        }
        "" => return Err(DecodeError::Shape("it has no status".to_owned())),
        other => {
            return Err(DecodeError::Shape(format!("its status is {other:?}")));
        }
    }
    if envelope.data.presence != Presence::Value {
        return Err(DecodeError::Null("data"));
    }
    match &envelope.data.result_type {
        ResultType::Matrix => {}
        ResultType::Absent => {
            return Err(DecodeError::Shape("it has no resultType".to_owned()));
        }
        ResultType::Other(found) => return Err(DecodeError::ResultType(found.clone())),
    }
    if envelope.data.result != Presence::Value {
        return Err(DecodeError::Null("data.result"));
    }
    Ok(())
}

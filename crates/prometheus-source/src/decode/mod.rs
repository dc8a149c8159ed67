//! Decodes Prometheus' query answers from bytes into a [`Batch`]. Pure.
//!
//! A range selector (`X[1m]`) is answered with `resultType` "matrix". Equal labels
//! have equal bytes (docs/stores.md, "Answers"). A label set is therefore only
//! delimited and hashed here, and parsed elsewhere when its series is new. Once the
//! batch's buffers have grown, nothing is allocated per series or per sample.

mod compact;
mod envelope;
mod sample;
mod sink;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::error::Category;
use serde_json::value::RawValue;
use siphasher::sip128::SipHasher13;

use gpu_metrics::batch::{Batch, SeriesKey};
use gpu_metrics::signal::SignalId;

use envelope::Envelope;
pub(crate) use envelope::{QueryResult, each};
use sink::Sink;

/// Makes [`SeriesKey`]s. Create one per process and share it: keys of different
/// hashers differ, so a series would look new at every poll.
///
/// SipHash-1-3 with a random key and 128 bits of output. The key is needed because
/// tenants choose pod names and labels: without it they could make two series
/// collide, and their load would count for another tenant. One pass of 128 bits
/// replaces two of 64, because one already takes about a fifth of the decoder's time.
#[derive(Clone)]
pub struct KeyHasher(SipHasher13);

impl KeyHasher {
    /// A hasher with a new random key, from the standard library's `RandomState`.
    #[must_use]
    pub fn new() -> Self {
        let random = || RandomState::new().hash_one(0_u8);
        Self(SipHasher13::new_with_keys(random(), random()))
    }

    /// The key of a label set, from its text.
    pub(crate) fn key(&self, labels: &str) -> SeriesKey {
        SeriesKey(self.0.hash(labels.as_bytes()).as_u128())
    }
}

impl Default for KeyHasher {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for KeyHasher {
    /// Omits the key, with which colliding label sets could be computed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHasher(..)")
    }
}

/// Why an answer cannot be used. The batch is empty in each case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The JSON text ends too early.
    #[error("the answer ends in the middle of its JSON text")]
    Truncated,
    /// Not JSON, or JSON of another form. Its data may be null, as in answers of some
    /// proxies (docs/stores.md, "Answers"): whether there are series is then unknown.
    #[error("this is no answer of the Prometheus query API: {0}")]
    NotAnAnswer(String),
    /// The samples take more than the available memory.
    #[error("the samples of the answer take too much memory")]
    TooLarge,
    /// The answer has more parts than allowed.
    #[error("the answer has more than {limit} {parts}")]
    TooMany {
        limit: usize,
        /// Name of the parts.
        parts: &'static str,
        remedy: &'static str,
    },
    #[error("{error_type}: {error}")]
    Status {
        /// `errorType`: `bad_data`, `execution`, `timeout`, …
        error_type: String,
        /// `error`: the message.
        error: String,
    },
}

/// The meaning of the value NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nan {
    /// A sample with the value NaN, as in Prometheus.
    Value,
    /// A staleness marker, which is no sample: VictoriaMetrics stores no other NaN.
    StaleMarker,
}

/// Decodes one answer into `batch`, which is emptied first and keeps `body` as
/// its text. Returns the engine's warnings. Any of them may mean that series are
/// missing (Thanos' partial responses, `results truncated due to limit`), so an
/// answer with warnings must not be used. Prometheus' `infos` are no warnings.
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

/// Adds the answer at `body` in `text`, which must be the batch's. Returns the
/// engine's warnings. `room` is the most bytes that the batch may take in addition to
/// its text.
///
/// # Errors
/// See [`DecodeError`]; the batch may then hold a part of the answer.
pub(crate) fn append(
    (text, body): (&Bytes, Range<usize>),
    nan: Nan,
    hasher: &KeyHasher,
    batch: &mut Batch,
    room: usize,
) -> Result<Vec<String>, DecodeError> {
    let body = text.get(body).unwrap_or_default();
    let mut sink = Sink::new(text, nan, hasher, (batch, room));
    if let Ok(text) = std::str::from_utf8(body)
        && compact::answer(text, &mut sink)?
    {
        return Ok(Vec::new());
    }
    let (data, warnings) = read::<QueryResult<'_>>(body)?;
    match data.parts()? {
        ("matrix", series) if compact::result(series.get(), &mut sink)? => {}
        ("matrix", series) => envelope::matrix(series, &mut sink)?,
        (other, _) => {
            let text = format!("resultType is {other:?} and not \"matrix\"");
            return Err(DecodeError::NotAnAnswer(text));
        }
    }
    Ok(warnings)
}

/// The `data` of an answer of any kind, without the engine's warnings.
pub(super) fn data<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, DecodeError> {
    read(body).map(|(data, _)| data)
}

/// Decodes a part of an answer whose shape depends on `resultType`.
///
/// # Errors
/// When it has another shape.
pub(super) fn part<'a, T: Deserialize<'a>>(part: &'a RawValue) -> Result<T, DecodeError> {
    serde_json::from_str(part.get()).map_err(|error| fault(&error))
}

/// The name of a series, from the text of its label set.
pub(crate) fn name(labels: &str) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Named<'a> {
        #[serde(rename = "__name__", borrow)]
        name: Cow<'a, str>,
    }
    let named: Option<Named<'_>> = serde_json::from_str(labels).ok();
    named.map(|named| named.name)
}

/// The `errorType` and `error` in the body of an HTTP error, if it has the API's
/// form.
pub(crate) fn api_error(body: &[u8]) -> Option<(String, String)> {
    match data::<IgnoredAny>(body) {
        Err(DecodeError::Status { error_type, error }) => Some((error_type, error)),
        _ => None,
    }
}

/// Reads the `data` of a successful answer. Returns the engine's warnings too.
fn read<'a, D: Deserialize<'a>>(body: &'a [u8]) -> Result<(D, Vec<String>), DecodeError> {
    // One check of the whole body is cheaper than the parser's check of each string,
    // and includes what the parser skips.
    let text = std::str::from_utf8(body).map_err(|error| match error.error_len() {
        None => DecodeError::Truncated,
        Some(_) => DecodeError::NotAnAnswer(error.to_string()),
    })?;
    let mut envelope: Envelope<D> = serde_json::from_str(text).map_err(|error| fault(&error))?;
    match envelope.status.as_deref() {
        Some("success") => {
            let data = envelope.data.take().ok_or_else(|| missing("data"))?;
            Ok((data, envelope.all_warnings()))
        }
        Some("error") => Err(DecodeError::Status {
            error_type: envelope.error_type.unwrap_or_default(),
            error: envelope.error.unwrap_or_default(),
        }),
        status => Err(DecodeError::NotAnAnswer(format!(
            "its status is {status:?}"
        ))),
    }
}

/// The error of a part that is null or absent.
fn missing(part: &str) -> DecodeError {
    DecodeError::NotAnAnswer(format!("its {part} is null or missing"))
}

/// The kind of a parser's error.
fn fault(error: &serde_json::Error) -> DecodeError {
    match error.classify() {
        Category::Eof => DecodeError::Truncated,
        Category::Data | Category::Syntax | Category::Io => {
            DecodeError::NotAnAnswer(error.to_string())
        }
    }
}

//! Decodes Prometheus' answers as they arrive. Pure.

mod series;
mod stream;
#[cfg(test)]
mod tests;
mod text;

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use siphasher::sip128::SipHasher13;

use gpu_metrics::batch::SeriesKey;

pub(crate) use series::SeriesReader;
pub(crate) use stream::{AnswerDecoder, Elements, Envelope};
pub(crate) use text::{Cursor, malformed};

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

/// Why an answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The JSON text ends too early.
    #[error("the answer ends in the middle of its JSON text")]
    Truncated,
    /// Not JSON, or JSON of another form. Its data may be null, as in answers of some
    /// proxies (docs/stores.md, "Answers"): whether there are series is then unknown.
    #[error("this is no answer of the Prometheus query API: {0}")]
    NotAnAnswer(String),
    /// The engine warns that series may be missing.
    #[error("refused an answer that may be partial: {0}")]
    Partial(String),
    /// The query selected several metrics, and a series has none of their names.
    #[error("the series of several fields cannot be told apart by name")]
    NoName,
    #[error("the answer has more than {limit} {parts}")]
    TooMany { limit: usize, parts: &'static str },
    /// The result has another type than the query needs.
    #[error(
        "the result is of the type {0:?}: write a query that gives an instant vector or a scalar"
    )]
    ResultType(String),
}

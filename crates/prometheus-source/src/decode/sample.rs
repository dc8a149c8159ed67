//! One sample as the API writes it: `[1700000000.123,"46"]`.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, SeqAccess, Unexpected, Visitor};

use apimachinery::time::Timestamp;
use gpu_metrics::batch::Sample;

/// A sample on the wire.
pub(super) struct Pair(pub(super) Sample);

impl<'de> Deserialize<'de> for Pair {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(PairVisitor)
    }
}

struct PairVisitor;

impl<'de> Visitor<'de> for PairVisitor {
    type Value = Pair;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a pair of time and value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Pair, A::Error> {
        let time: Option<Time> = seq.next_element()?;
        let value: Option<Value> = seq.next_element()?;
        let (Some(Time(at)), Some(Value(value))) = (time, value) else {
            return Err(A::Error::invalid_length(1, &self));
        };
        if seq.next_element::<IgnoredAny>()?.is_some() {
            return Err(A::Error::invalid_length(3, &self));
        }
        Ok(Pair(Sample { at, value }))
    }
}

/// Seconds with a fraction, stored as whole milliseconds. A double has today's
/// seconds to a quarter of a microsecond, so rounding gives the exact millisecond.
struct Time(Timestamp);

/// Times beyond this many seconds from the epoch (the year 200,000) are invalid, and
/// arithmetic on them could overflow.
const MAX_SECONDS: f64 = 6.3e12;

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_f64(TimeVisitor)
    }
}

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = Time;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a time in seconds since 1970")
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<Time, E> {
        if seconds.abs() > MAX_SECONDS {
            return Err(E::invalid_value(Unexpected::Float(seconds), &self));
        }
        #[allow(clippy::cast_possible_truncation)] // bounded above
        let millis = (seconds * 1000.0).round() as i64;
        Ok(Time(Timestamp::from_millis(millis)))
    }

    fn visit_u64<E: Error>(self, seconds: u64) -> Result<Time, E> {
        self.visit_f64(seconds as f64)
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<Time, E> {
        self.visit_f64(seconds as f64)
    }
}

/// A value: a string in the API, but a bare number is accepted too. Text that is no
/// number becomes NaN, and is treated like any NaN.
struct Value(f64);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl Visitor<'_> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value as text")
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value(number(text)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value(value as f64))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value(value as f64))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value(f64::NAN))
    }
}

/// Integers of up to this many digits are exact in a double, so summing digits gives
/// the same result as the full conversion.
const EXACT_DIGITS: usize = 15;

/// Parses a number. Percentages and mebibytes are short integers and parsed here; all
/// else ("NaN", "+Inf", "1e+06", "0.25") is left to the standard library.
pub(super) fn number(text: &str) -> f64 {
    let bytes = text.as_bytes();
    if !bytes.is_empty() && bytes.len() <= EXACT_DIGITS && bytes.iter().all(u8::is_ascii_digit) {
        let integer = bytes
            .iter()
            .fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        return integer as f64;
    }
    text.parse().unwrap_or(f64::NAN)
}

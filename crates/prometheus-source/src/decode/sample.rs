//! One sample as the API writes it: `[1700000000.123,"46"]`.

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected};

use apimachinery::time::Timestamp;

/// A sample on the wire.
#[derive(Deserialize)]
pub(super) struct Pair(
    #[serde(deserialize_with = "time")] pub(super) Timestamp,
    #[serde(deserialize_with = "value")] pub(super) f64,
);

/// Times beyond this many seconds from the epoch (the year 200,000) are invalid, and
/// arithmetic on them could overflow.
const MAX_SECONDS: f64 = 6.3e12;

/// Converts seconds with a fraction to milliseconds. A double holds current times to a
/// quarter of a microsecond, so that rounding gives the exact millisecond.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    if seconds.abs() > MAX_SECONDS {
        let found = Unexpected::Float(seconds);
        return Err(D::Error::invalid_value(found, &"a time in seconds"));
    }
    Ok(Timestamp::from_millis((seconds * 1000.0).round() as i64))
}

/// A value; text that is no number becomes NaN.
fn value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let text = <&str>::deserialize(deserializer)?;
    Ok(text.parse().unwrap_or(f64::NAN))
}

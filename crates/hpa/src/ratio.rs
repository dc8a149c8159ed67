//! The controller's arithmetic: integers where it has integers, floats where it has
//! floats, with the same conversions at their limits.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use apimachinery::quantity::{milli_text, parse_milli};

/// A number in whole thousandths, the controller's unit of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Milli(pub i64);

impl Milli {
    /// The number in whole units.
    #[must_use]
    pub const fn number(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

impl fmt::Display for Milli {
    /// With a decimal point: `66.666`, where kubectl has `66666m`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

impl Serialize for Milli {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&milli_text(self.0))
    }
}

impl<'de> Deserialize<'de> for Milli {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let milli = parse_milli(&text).map(Self);
        milli.ok_or_else(|| D::Error::custom(format_args!("{text:?} is no quantity")))
    }
}

/// A ratio or a product as text: at most four decimals.
pub(crate) fn four_decimals(number: f64) -> String {
    format!("{}", (number * 10_000.0).round() / 10_000.0)
}

/// The largest distances of a ratio from 1 that change nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerances {
    /// Below 1.
    pub down: f64,
    /// Above 1.
    pub up: f64,
}

impl Tolerances {
    /// Whether a ratio is within the range, both ends included.
    pub(crate) fn hold(self, ratio: f64) -> bool {
        (1.0 - self.down) <= ratio && ratio <= (1.0 + self.up)
    }
}

impl fmt::Display for Tolerances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [least, most] = [1.0 - self.down, 1.0 + self.up].map(four_decimals);
        write!(f, "{least}–{most}")
    }
}

/// Go's `int32(float64)` on amd64: a number that does not fit becomes the smallest one, so
/// an absurdly high ratio reads as below zero.
pub(crate) fn to_i32(value: f64) -> i32 {
    let fits = value > f64::from(i32::MIN) - 1.0 && value < f64::from(i32::MAX) + 1.0;
    if fits { value as i32 } else { i32::MIN }
}

/// [`to_i32`] for `int64(float64)`.
pub(crate) fn to_i64(value: f64) -> i64 {
    // 2^63 is the first that does not fit.
    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value);
    if fits { value as i64 } else { i64::MIN }
}

/// A ratio rounded up to whole replicas. The controller guards some of its conversions:
/// then a number that does not fit becomes the largest one.
pub(crate) fn rounded_up(exact: f64, is_guarded: bool) -> i32 {
    match exact.ceil() {
        large if is_guarded && large > f64::from(i32::MAX) => i32::MAX,
        other => to_i32(other),
    }
}

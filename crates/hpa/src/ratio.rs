//! The controller's arithmetic: integers where it has integers, floats where it has floats.

use std::fmt;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use apimachinery::quantity::parse_milli;

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

/// Rounded up to whole replicas, at most those that 32 bits hold.
pub(crate) fn rounded_up(exact: f64) -> i32 {
    exact.ceil() as i32
}

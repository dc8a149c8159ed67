//! Points in time, in Prometheus' unit.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time: milliseconds since the Unix epoch, the resolution of a
/// Prometheus sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest representable time: older than any sample.
    pub const MIN: Self = Self(i64::MIN / 4);

    /// Later than any sample.
    pub const MAX: Self = Self(i64::MAX / 4);

    /// From milliseconds since the epoch.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// From whole seconds since the epoch.
    #[must_use]
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// Seconds since the epoch, as Prometheus writes times.
    #[must_use]
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// Whole seconds since the epoch, the fraction cut off (towards the past).
    #[must_use]
    pub const fn secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// In RFC 3339, with a fraction if it is not zero, as in events and the API.
    #[must_use]
    pub fn date(self) -> String {
        jiff::Timestamp::from_millisecond(self.0)
            .map_or_else(|_| "long ago".to_owned(), |at| at.to_string())
    }

    /// Parses [`date`](Self::date), cut to milliseconds.
    #[must_use]
    pub fn from_date(text: &str) -> Option<Self> {
        let at: jiff::Timestamp = text.parse().ok()?;
        Some(Self(at.as_millisecond()))
    }

    /// The same without the fraction.
    #[must_use]
    pub const fn whole_second(self) -> Self {
        Self::from_secs(self.secs())
    }

    /// The time from `earlier` to `self`; zero if `self` is not later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(millis(rhs)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(millis(rhs)))
    }
}

impl fmt::Display for Timestamp {
    /// Seconds with a millisecond fraction, the form of Prometheus' `time=`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secs, frac) = (self.0.div_euclid(1000), self.0.rem_euclid(1000));
        write!(f, "{secs}.{frac:03}")
    }
}

/// Whole milliseconds of a duration, saturating: the unit of all window
/// arithmetic.
#[must_use]
pub fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

//! Instants of the past.

use std::ops::Range;
use std::time::Duration;

use clap::Args;

use apimachinery::duration::parse_duration;
use apimachinery::time::{Timestamp, millis};
use cluster_state::clock;

use crate::Failure;

/// The period that a command reads.
#[derive(Debug, Args)]
pub(crate) struct PeriodArgs {
    /// Start: a duration before now (7d) or a time (2026-01-02T03:04:05Z)
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = time)]
    since: Timestamp,
    /// End, in the same form [default: now]
    #[arg(long, value_name = "TIME", value_parser = time)]
    until: Option<Timestamp>,
}

impl PeriodArgs {
    pub(crate) fn ends(&self) -> [Timestamp; 2] {
        [self.since, self.until.unwrap_or_else(clock::now)]
    }
}

/// Instants at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Period {
    pub(crate) start: Timestamp,
    pub(crate) step: Duration,
    pub(crate) count: usize,
}

impl Period {
    /// The multiples of the step after `from` and up to `to`.
    pub(crate) fn of([from, to]: [Timestamp; 2], step: Duration) -> Result<Self, Failure> {
        let step_ms = millis(step).max(1);
        let count = (to.millis() - from.millis()) / step_ms;
        let instants = usize::try_from(count).ok().filter(|count| *count > 1);
        let instants = instants.ok_or_else(|| {
            let (from, to) = (from.date(), to.date());
            Failure::Usage(format!(
                "the period from {from} to {to} is empty: give --since before --until"
            ))
        })?;
        let start = to.millis().div_euclid(step_ms) - count + 1;
        Ok(Self {
            start: Timestamp::from_millis(start * step_ms),
            step,
            count: instants,
        })
    }

    /// The time of an instant.
    pub(crate) fn time(&self, place: usize) -> Timestamp {
        let place = i64::try_from(place).unwrap_or(i64::MAX);
        let offset = millis(self.step).saturating_mul(place);
        Timestamp::from_millis(self.start.millis().saturating_add(offset))
    }

    /// A step after the last instant.
    pub(crate) fn end(&self) -> Timestamp {
        self.time(self.count)
    }

    /// The instant next to a time.
    pub(crate) fn place(&self, at: Timestamp) -> Option<usize> {
        let step_ms = millis(self.step).max(1);
        usize::try_from((at.millis() - self.start.millis() + step_ms / 2) / step_ms).ok()
    }

    /// The instants in runs of at most this length.
    pub(super) fn slices(&self, length: usize) -> Vec<Range<usize>> {
        let starts = (0..self.count).step_by(length.max(1));
        let slices = starts.map(|start| start..self.count.min(start + length));
        slices.collect()
    }
}

/// Parses a time (`2026-01-02T03:04:05Z`) or a duration before now (`5m`).
pub(crate) fn time(text: &str) -> Result<Timestamp, String> {
    if let Some(at) = Timestamp::from_date(text) {
        return Ok(at);
    }
    let ago = parse_duration(text);
    let ago =
        ago.map_err(|_| "write a time such as 2026-01-02T03:04:05Z, or a duration before now: 5m")?;
    Ok(clock::now() - ago)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_or_a_duration_ago() {
        assert_eq!(
            time("1970-01-01T00:00:07.5Z"),
            Ok(Timestamp::from_millis(7_500))
        );
        assert_eq!(
            time("1970-01-01T01:00:07+01:00"),
            Ok(Timestamp::from_secs(7))
        );
        let ago = clock::now().since(time("5m").unwrap());
        assert!((299..=301).contains(&ago.as_secs()), "{ago:?}");
        for text in ["", "noon", "-5m", "12:00"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn instants_are_multiples_of_the_step_in_short_runs() {
        let ends = [7, 67].map(Timestamp::from_secs);
        let period = Period::of(ends, Duration::from_secs(15)).unwrap();
        let times: Vec<i64> = (0..period.count).map(|it| period.time(it).secs()).collect();
        assert_eq!(times, [15, 30, 45, 60]);
        assert_eq!(period.slices(3), [0..3, 3..4]);
        assert_eq!(period.place(Timestamp::from_secs(31)), Some(1));
        assert!(Period::of([ends[1], ends[0]], Duration::from_secs(15)).is_err());
    }
}

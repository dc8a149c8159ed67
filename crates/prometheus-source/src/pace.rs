//! When to poll. Pure: the time and the random numbers are arguments.
//!
//! Times here are monotonic: durations since a fixed moment, such as the program's
//! start. A wall clock that is set back must not delay a poll.

use std::time::Duration;

/// The longest random delay of the first poll, which keeps replicas that start together
/// from polling at the same moments.
const MAX_START_JITTER: Duration = Duration::from_secs(1);

/// The first wait after a failure. Most failures are short, and values expire within
/// the freshness bound.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// The longest wait after failures: twice the HPA's sync period, so that a recovered
/// Prometheus is found before an autoscaler's third sync.
const MAX_RETRY: Duration = Duration::from_secs(30);

/// Schedule of polls: evenly spaced while they succeed, exponential backoff with
/// jitter while they fail.
#[derive(Clone, Debug)]
pub struct Pace {
    interval: Duration,
    failures: u32,
    due: Duration,
}

impl Pace {
    /// A schedule whose first poll is due shortly after `now`. `random` is in 0..1.
    #[must_use]
    pub fn new(interval: Duration, now: Duration, random: f64) -> Self {
        Self {
            interval,
            failures: 0,
            due: now + interval.min(MAX_START_JITTER).mul_f64(random),
        }
    }

    /// Time of the next poll.
    #[must_use]
    pub const fn due(&self) -> Duration {
        self.due
    }

    /// Changes the interval, for polls after the next.
    pub const fn set_interval(&mut self, interval: Duration) {
        self.interval = interval;
    }

    /// A poll succeeded. The next is due one interval after this one was due, so that
    /// its duration does not shift the schedule; missed polls are skipped.
    pub fn succeeded(&mut self, now: Duration) {
        self.failures = 0;
        let interval = self.interval.max(Duration::from_millis(1));
        let late = now.saturating_sub(self.due).as_nanos();
        let beats = u32::try_from(late / interval.as_nanos()).unwrap_or(u32::MAX);
        self.due = self
            .due
            .saturating_add(interval.saturating_mul(beats.saturating_add(1)));
    }

    /// A poll failed. The wait doubles with each failure, and half of it is random, so
    /// that replicas do not retry at the same moments.
    pub fn failed(&mut self, now: Duration, random: f64) {
        let doubled = 1_u32 << self.failures.min(16);
        self.failures = self.failures.saturating_add(1);
        let wait = FIRST_RETRY
            .min(self.interval)
            .saturating_mul(doubled)
            .min(MAX_RETRY.max(self.interval));
        self.due = now + wait.mul_f64(0.5 + 0.5 * random);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(5);

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_first_poll_comes_within_a_second() {
        assert_eq!(Pace::new(INTERVAL, at(1000), 0.0).due(), at(1000));
        assert_eq!(Pace::new(INTERVAL, at(1000), 0.5).due(), at(1500));
        assert_eq!(Pace::new(at(100), at(0), 1.0).due(), at(100));
    }

    #[test]
    fn a_success_keeps_the_schedule_and_skips_missed_polls() {
        let mut pace = Pace::new(INTERVAL, at(0), 0.0);
        pace.succeeded(at(300));
        assert_eq!(pace.due(), at(5000));
        pace.succeeded(at(17_000));
        assert_eq!(pace.due(), at(20_000));
        pace.succeeded(at(20_000));
        assert_eq!(pace.due(), at(25_000));
    }

    #[test]
    fn failures_double_the_wait_up_to_half_a_minute_and_success_resets_it() {
        let mut pace = Pace::new(INTERVAL, at(0), 0.0);
        let mut wait = || {
            pace.failed(at(0), 1.0);
            pace.due().as_millis()
        };
        let waits: Vec<u128> = (0..40).map(|_| wait()).collect();
        assert_eq!(waits[..6], [1000, 2000, 4000, 8000, 16_000, 30_000]);
        assert!(waits[6..].iter().all(|wait| *wait == 30_000));
        pace.succeeded(at(30_000));
        assert_eq!((pace.failures, pace.due()), (0, at(35_000)));
        pace.failed(at(40_000), 0.0);
        assert_eq!(pace.due(), at(40_500), "half of the wait is random");
    }
}

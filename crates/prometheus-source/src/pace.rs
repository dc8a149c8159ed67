//! When to poll. Pure: the time is an argument.
//!
//! Times here are monotonic: durations since a fixed moment, such as the program's
//! start. A wall clock that is set back must not delay a poll.

use std::time::Duration;

/// The longest wait after a failure. Most failures are short, and values expire within
/// the freshness bound.
const RETRY: Duration = Duration::from_secs(5);

/// Schedule of evenly spaced polls. The first is due at once.
#[derive(Clone, Debug)]
pub struct Pace {
    interval: Duration,
    due: Duration,
}

impl Pace {
    #[must_use]
    pub const fn new(interval: Duration) -> Self {
        Self {
            interval,
            due: Duration::ZERO,
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
        while self.due <= now {
            self.due += self.interval.max(Duration::from_millis(1));
        }
    }

    /// A poll failed. The next one is due after the interval, or sooner.
    pub fn failed(&mut self, now: Duration) {
        self.due = now + self.interval.min(RETRY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_success_keeps_the_schedule_and_skips_missed_polls() {
        let mut pace = Pace::new(at(5000));
        pace.succeeded(at(300));
        assert_eq!(pace.due(), at(5000));
        pace.succeeded(at(17_000));
        assert_eq!(pace.due(), at(20_000));
        pace.succeeded(at(20_000));
        assert_eq!(pace.due(), at(25_000));
    }

    #[test]
    fn a_failed_poll_is_repeated_after_five_seconds_at_most() {
        let mut pace = Pace::new(at(60_000));
        pace.failed(at(300));
        assert_eq!(pace.due(), at(5300));
        pace.succeeded(at(6000));
        assert_eq!(pace.due(), at(65_300));
        pace.set_interval(at(1000));
        pace.failed(at(66_000));
        assert_eq!(pace.due(), at(67_000));
    }
}

//! When to poll. Pure: the time is an argument.
//!
//! Times here are monotonic: durations since a fixed moment, such as the program's
//! start. A wall clock that is set back must not delay a poll.

use std::time::Duration;

/// The longest wait after a failure. Most failures are short, and values expire within
/// the freshness bound.
const RETRY: Duration = Duration::from_secs(5);

/// Schedule of evenly spaced polls. The first is due at once.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    /// Time of the next poll.
    pub due: Duration,
}

impl Pace {
    /// A poll succeeded. The next is due one interval after this one was due, so that
    /// its duration does not shift the schedule; missed polls are skipped.
    pub fn succeeded(&mut self, now: Duration, interval: Duration) {
        while self.due <= now {
            self.due += interval.max(Duration::from_millis(1));
        }
    }

    /// A poll failed. The next one is due after the interval, or sooner.
    pub fn failed(&mut self, now: Duration, interval: Duration) {
        self.due = now + interval.min(RETRY);
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
        let mut pace = Pace::default();
        for (now, due) in [(300, 5000), (17_000, 20_000), (20_000, 25_000)] {
            pace.succeeded(at(now), at(5000));
            assert_eq!(pace.due, at(due));
        }
    }

    #[test]
    fn a_failed_poll_is_repeated_after_five_seconds_at_most() {
        let mut pace = Pace::default();
        pace.failed(at(300), at(60_000));
        assert_eq!(pace.due, at(5300));
        pace.succeeded(at(6000), at(60_000));
        assert_eq!(pace.due, at(65_300));
        pace.failed(at(66_000), at(1000));
        assert_eq!(pace.due, at(67_000));
    }
}

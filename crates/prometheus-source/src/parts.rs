//! Splits a requested time into parts, oldest first, when its samples are too many
//! for one answer. Pure, as `pace.rs`.

use std::time::Duration;

use apimachinery::time::{Timestamp, millis};

/// The most parts. More parts are hardly smaller, because the labels of the series
/// are in each answer.
const MOST: u32 = 16;

/// The rest of a requested time.
#[derive(Clone, Debug)]
pub struct Parts {
    /// The end of the answered part.
    from: Timestamp,
    until: Timestamp,
    /// The length of the next part.
    length: Duration,
    /// The number of parts of this length in the whole.
    count: u32,
}

impl Parts {
    /// The time of this length that ends at `until`, in one part.
    #[must_use]
    pub fn whole(until: Timestamp, length: Duration) -> Self {
        Self {
            from: until - length,
            until,
            length,
            count: 1,
        }
    }

    /// The end of the next part, and its length.
    #[must_use]
    pub fn next(&self) -> (Timestamp, Duration) {
        (self.until.min(self.from + self.length), self.length)
    }

    /// Whether the next part is the last.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.next().0 == self.until
    }

    /// The next part was answered.
    pub fn answered(&mut self) {
        self.from = self.next().0;
    }

    /// The next part is too large: halves the length of parts. `false` if they are
    /// short already, so that the length is not the cause.
    pub fn halve(&mut self) -> bool {
        let is_long = self.count < MOST;
        if is_long {
            // Times are in milliseconds; rounding up leaves none out.
            let half = millis(self.length).unsigned_abs().div_ceil(2);
            self.length = Duration::from_millis(half);
            self.count *= 2;
        }
        is_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    #[test]
    fn what_fits_is_asked_for_at_once() {
        let parts = Parts::whole(at(100), 60 * SECOND);
        assert_eq!(parts.next(), (at(100), 60 * SECOND));
        assert!(parts.is_last());
    }

    #[test]
    fn halves_come_one_after_the_other_and_leave_no_gap() {
        let mut parts = Parts::whole(at(100), 60 * SECOND);
        assert!(parts.halve());
        assert_eq!(parts.next(), (at(70), 30 * SECOND));
        assert!(!parts.is_last());
        parts.answered();
        assert!(parts.halve());
        assert_eq!(parts.next(), (at(85), 15 * SECOND));
        parts.answered();
        assert_eq!(parts.next(), (at(100), 15 * SECOND));
        assert!(parts.is_last());
    }

    #[test]
    fn an_odd_time_has_no_third_part() {
        let mut parts = Parts::whole(at(100), Duration::from_millis(45_001));
        assert!(parts.halve());
        parts.answered();
        assert!(parts.is_last());
    }

    #[test]
    fn a_part_that_stays_too_large_is_given_up() {
        let mut parts = Parts::whole(at(100), 64 * SECOND);
        let halved = std::iter::from_fn(|| parts.halve().then_some(()));
        assert_eq!(halved.count(), 4);
        assert_eq!(parts.next(), (at(40), 4 * SECOND));
    }
}

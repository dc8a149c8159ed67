//! Splits a query into parts when its samples are too many for one answer: first by
//! device, then by time, oldest first. Pure, as `pace.rs`.

use std::time::Duration;

use super::shard::Shard;
use apimachinery::time::{Timestamp, millis};

/// The most parts of a time range. Answers to shorter parts are hardly smaller, because
/// each contains the labels of all series.
const MOST: u32 = 16;

/// The parts of a query that are not answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The end of the time range that is answered for all devices.
    from: Timestamp,
    until: Timestamp,
    /// The length of the next part.
    length: Duration,
    /// The number of parts of this length in the whole time range.
    count: u32,
    /// The devices of the next part.
    shard: Shard,
}

impl Parts {
    /// The time range of this length that ends at `until`, with one part for each shard.
    #[must_use]
    pub fn whole(until: Timestamp, length: Duration, shards: usize) -> Self {
        Self {
            from: until - length,
            until,
            length,
            count: 1,
            shard: Shard::first_of(shards),
        }
    }

    /// The end of the next part, and its length.
    #[must_use]
    pub fn next(&self) -> (Timestamp, Duration) {
        (self.until.min(self.from + self.length), self.length)
    }

    /// The devices of the next part.
    #[must_use]
    pub const fn shard(&self) -> Shard {
        self.shard
    }

    /// Whether the next part is the last.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.next().0 == self.until && self.shard.next().is_none()
    }

    /// The next part was answered.
    pub fn answered(&mut self) {
        if let Some(next) = self.shard.next() {
            self.shard = next;
        } else {
            self.from = self.next().0;
            self.shard = Shard::first_of(self.shard.count());
        }
    }

    /// The answer to the next part is too large: halves its devices or, if they cannot be
    /// halved, the length of parts. Returns false if neither can be halved.
    pub fn halve(&mut self) -> bool {
        if let Some(half) = self.shard.halved() {
            self.shard = half;
            return true;
        }
        let is_long = self.count < MOST;
        if is_long {
            // Times are whole milliseconds; rounding up leaves no gap.
            let half = millis(self.length).unsigned_abs().div_ceil(2);
            self.length = Duration::from_millis(half);
            self.count *= 2;
            self.shard = Shard::first_of(self.shard.count());
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
    fn a_query_begins_as_one_part() {
        let parts = Parts::whole(at(100), 60 * SECOND, 1);
        assert_eq!(parts.next(), (at(100), 60 * SECOND));
        assert!(parts.is_last());
    }

    /// The last part of a query that is divided by device as far as possible.
    fn undivided(length: Duration) -> Parts {
        let mut parts = Parts::whole(at(100), length, Shard::MOST);
        last_shard(&mut parts);
        parts
    }

    fn last_shard(parts: &mut Parts) {
        while parts.shard().next().is_some() {
            parts.answered();
        }
    }

    #[test]
    fn devices_are_divided_before_the_time() {
        let mut parts = Parts::whole(at(100), 60 * SECOND, 1);
        for count in [2, 4, 8, 16] {
            assert!(parts.halve());
            assert_eq!(parts.shard(), Shard::first_of(count));
            assert_eq!(parts.next(), (at(100), 60 * SECOND));
        }
        parts.answered();
        assert!(parts.halve());
        assert_eq!(
            (parts.shard(), parts.next().0),
            (Shard::first_of(16), at(70))
        );
    }

    #[test]
    fn halves_come_one_after_the_other_and_leave_no_gap() {
        let mut parts = undivided(60 * SECOND);
        assert!(parts.halve());
        assert_eq!(parts.next(), (at(70), 30 * SECOND));
        last_shard(&mut parts);
        assert!(!parts.is_last());
        parts.answered();
        assert!(parts.halve());
        assert_eq!(parts.next(), (at(85), 15 * SECOND));
        last_shard(&mut parts);
        parts.answered();
        assert_eq!(parts.next(), (at(100), 15 * SECOND));
        last_shard(&mut parts);
        assert!(parts.is_last());
    }

    #[test]
    fn an_odd_time_has_no_third_part() {
        let mut parts = undivided(Duration::from_millis(45_001));
        assert!(parts.halve());
        last_shard(&mut parts);
        parts.answered();
        last_shard(&mut parts);
        assert!(parts.is_last());
    }

    #[test]
    fn a_part_is_halved_at_most_four_times_in_time() {
        let mut parts = undivided(64 * SECOND);
        let halved = std::iter::from_fn(|| parts.halve().then_some(()));
        assert_eq!(halved.count(), 4);
        assert_eq!(parts.next(), (at(40), 4 * SECOND));
    }
}

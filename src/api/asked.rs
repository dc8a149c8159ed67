//! Records when each question was answered, and from which snapshot, for requests about
//! the past. Values are computed again instead.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use apimachinery::time::{Timestamp, millis};

/// Questions kept: those of five hundred autoscalers for eight minutes, in 256 KiB.
const MOST: usize = 16 * 1024;

/// Bits for the snapshot's age at the answer, in milliseconds: an hour.
const AGE_BITS: u32 = 22;

/// The newest questions, lock-free.
#[derive(Debug)]
pub(super) struct Asked {
    keys: RandomState,
    next: AtomicUsize,
    slots: Box<[Slot]>,
}

/// The time, and the question's key mixed with it. If two answers are recorded in one
/// slot at the same time, neither is found, and no wrong one.
#[derive(Debug, Default)]
struct Slot {
    when: AtomicU64,
    mixed: AtomicU64,
}

/// The record of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answered {
    pub(super) at: Timestamp,
    pub(super) snapshot: Timestamp,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            keys: RandomState::new(),
            next: AtomicUsize::new(0),
            slots: (0..MOST).map(|_| Slot::default()).collect(),
        }
    }
}

impl Asked {
    /// The key of a question.
    pub(super) fn key(&self, question: &impl Hash) -> u64 {
        self.keys.hash_one(question)
    }

    pub(super) fn note(&self, key: u64, answered: Answered) {
        let age_ms = millis(answered.at.since(answered.snapshot));
        let age = u64::try_from(age_ms).unwrap_or(0).min((1 << AGE_BITS) - 1);
        let at = u64::try_from(answered.at.millis()).unwrap_or(0);
        let when = at << AGE_BITS | age;
        let slot = &self.slots[self.next.fetch_add(1, Ordering::Relaxed) % MOST];
        slot.when.store(when, Ordering::Relaxed);
        slot.mixed.store(key ^ when, Ordering::Relaxed);
    }

    /// The last answer to a question up to `at`.
    pub(super) fn last(&self, key: u64, at: Timestamp) -> Option<Answered> {
        let ours = self.slots.iter().filter_map(|slot| {
            let when = slot.when.load(Ordering::Relaxed);
            let mixed = slot.mixed.load(Ordering::Relaxed);
            let found = Answered::read(when);
            (when != 0 && mixed ^ when == key && found.at <= at).then_some(found)
        });
        ours.max_by_key(|found| found.at)
    }

    /// The time since which all questions are recorded; `None`: since the start.
    pub(super) fn since(&self) -> Option<Timestamp> {
        if self.next.load(Ordering::Relaxed) <= MOST {
            return None;
        }
        let all = self.slots.iter();
        all.map(|slot| Answered::read(slot.when.load(Ordering::Relaxed)).at)
            .min()
    }
}

impl Answered {
    fn read(when: u64) -> Self {
        let at = i64::try_from(when >> AGE_BITS).unwrap_or(0);
        let age = i64::try_from(when & ((1 << AGE_BITS) - 1)).unwrap_or(0);
        Self {
            at: Timestamp::from_millis(at),
            snapshot: Timestamp::from_millis(at - age),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(secs: i64) -> Answered {
        Answered {
            at: Timestamp::from_secs(secs),
            snapshot: Timestamp::from_millis(secs * 1000 - 1_234),
        }
    }

    #[test]
    fn the_last_answer_before_a_time_is_found_until_others_take_its_place() {
        let asked = Asked::default();
        let (mine, other) = (asked.key(&("ml", "a")), asked.key(&("ml", "b")));
        let begin = 1_700_000_000;
        for secs in [0, 15, 30] {
            asked.note(mine, answered(begin + secs));
            asked.note(other, answered(begin + secs + 1));
        }
        let last = |secs| asked.last(mine, Timestamp::from_secs(begin + secs));
        assert_eq!(last(-1), None);
        assert_eq!(last(29), Some(answered(begin + 15)));
        assert_eq!(last(99), Some(answered(begin + 30)));
        assert_eq!(asked.since(), None);
        for secs in 0..i64::try_from(MOST).unwrap() {
            asked.note(other, answered(begin + 100 + secs));
        }
        assert_eq!(asked.last(mine, Timestamp::MAX), None);
        assert_eq!(asked.since(), Some(Timestamp::from_secs(begin + 100)));
    }

    #[test]
    fn nothing_is_found_where_nothing_was_asked() {
        let asked = Asked::default();
        assert_eq!(asked.last(asked.key(&"m"), Timestamp::MAX), None);
        assert_eq!(asked.last(0, Timestamp::MAX), None);
    }
}

//! The series keys that were seen.

use indexmap::IndexMap;

use crate::batch::SeriesKey;
use crate::store::SeriesId;

/// The state of a series key.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// Its samples go to the store.
    Stored(SeriesId),
    /// It is not needed, or nothing identifies its device. The key is kept so that its
    /// labels are not read at every poll.
    Ignored {
        /// The poll that saw it last.
        seen: u32,
    },
    /// There were too many series. It is read again after the next sweep.
    Refused,
}

/// The keys in the order in which they were first seen. Most answers have that order, so
/// a key mostly follows the key of the previous lookup, in memory too.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The keys are stored as two halves, because a `u128` is aligned to 16 bytes.
    states: IndexMap<[u64; 2], State>,
    /// The index after the entry found last.
    next: usize,
}

impl Known {
    /// The state of a key that was seen.
    pub(super) fn get_mut(&mut self, key: SeriesKey) -> Option<&mut State> {
        let key = halves(key);
        let next = self.states.get_index(self.next);
        let place = match next.is_some_and(|(next, _)| *next == key) {
            true => self.next,
            false => self.states.get_index_of(&key)?,
        };
        self.next = place + 1;
        self.states.get_index_mut(place).map(|(_, state)| state)
    }

    /// Adds a key that was not seen before.
    pub(super) fn add(&mut self, key: SeriesKey, state: State) {
        self.states.insert(halves(key), state);
        self.next = self.states.len();
    }

    /// Keeps the keys whose state is wanted.
    pub(super) fn retain(&mut self, is_wanted: impl Fn(&State) -> bool) {
        self.states.retain(|_, state| is_wanted(state));
    }
}

fn halves(key: SeriesKey) -> [u64; 2] {
    [(key.0 >> 64) as u64, key.0 as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(known: &mut Known, key: u128) -> Option<u32> {
        match known.get_mut(SeriesKey(key)) {
            Some(State::Ignored { seen }) => Some(*seen),
            _ => None,
        }
    }

    #[test]
    fn keys_are_found_in_any_order_and_after_others_were_removed() {
        let mut known = Known::default();
        let key = |number: u32| u128::from(number) * 0x1_0000_0001_0000_0001;
        for number in 0..100 {
            assert_eq!(seen(&mut known, key(number)), None);
            known.add(SeriesKey(key(number)), State::Ignored { seen: number });
        }
        known.retain(|state| matches!(state, State::Ignored { seen } if seen % 3 > 0));
        let (forth, back) = (0..100, (0..100).rev());
        for number in forth.chain(back).chain([7, 7, 8, 5]) {
            let expected = (number % 3 > 0).then_some(number);
            assert_eq!(seen(&mut known, key(number)), expected, "{number}");
        }
    }
}

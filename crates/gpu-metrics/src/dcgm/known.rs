//! The series keys that were seen.

use hashbrown::HashTable;

use crate::batch::SeriesKey;
use crate::store::SeriesId;

/// The state of a series key.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// Its samples go to the store.
    Stored(SeriesId),
    /// It is not needed, or nothing identifies its device. Remembered, so that
    /// its labels are not read at every poll.
    Ignored {
        /// The poll that saw it last.
        seen: u32,
    },
    /// There were too many series. It is read again after the next sweep.
    Refused,
}

/// A key and its state. The key is in two halves because numbers of 16 bytes would be
/// aligned to 16.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: [u64; 2],
    state: State,
}

/// The keys in the order in which they were first seen. Most answers have that order, so
/// a key is mostly the one after the key asked for before, in memory too.
#[derive(Debug, Default)]
pub(super) struct Known {
    entries: Vec<Entry>,
    /// The places of the entries, by their keys.
    places: HashTable<u32>,
    /// The place after the one found last.
    next: usize,
}

impl Known {
    /// The state of a key that was seen.
    pub(super) fn get_mut(&mut self, key: SeriesKey) -> Option<&mut State> {
        let key = halves(key);
        let is_next = self.entries.get(self.next).is_some_and(|it| it.key == key);
        let place = match is_next {
            true => self.next,
            false => self.find(key)?,
        };
        self.next = place + 1;
        self.entries.get_mut(place).map(|entry| &mut entry.state)
    }

    fn find(&self, key: [u64; 2]) -> Option<usize> {
        let entries = &self.entries;
        let is_it = |place: &u32| entries[*place as usize].key == key;
        self.places.find(hash(key), is_it).map(|it| *it as usize)
    }

    /// Adds a key that was not seen before.
    pub(super) fn add(&mut self, key: SeriesKey, state: State) {
        let key = halves(key);
        self.entries.push(Entry { key, state });
        self.next = self.entries.len();
        self.index(self.entries.len() - 1);
    }

    /// Makes an entry known by its key.
    fn index(&mut self, place: usize) {
        let entries = &self.entries;
        let hash_of = |place: &u32| hash(entries[*place as usize].key);
        if let Ok(place) = u32::try_from(place) {
            self.places.insert_unique(hash_of(&place), place, hash_of);
        }
    }

    /// Keeps the keys whose state is wanted.
    pub(super) fn retain(&mut self, mut is_wanted: impl FnMut(&State) -> bool) {
        let before = self.entries.len();
        self.entries.retain(|entry| is_wanted(&entry.state));
        if self.entries.len() < before {
            self.places.clear();
            (0..self.entries.len()).for_each(|place| self.index(place));
        }
    }
}

fn halves(key: SeriesKey) -> [u64; 2] {
    [(key.0 >> 64) as u64, key.0 as u64]
}

/// A series key is a keyed hash already, so it is not hashed again.
fn hash([high, low]: [u64; 2]) -> u64 {
    high ^ low
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

//! At which instants the reading of a device may differ from that at the previous instant.
//!
//! At S = 15 s and a step of 5 s, two of three instants repeat the previous one, so rows
//! and groups of one exporter are read at every third instant only.

use super::super::frame::Frame;
use super::super::grid::{RowId, WORD};
use super::super::layout::{Layout, RowFacts};
use super::super::policy::Policy;
use super::RowTarget;

/// A bit for each row and instant: whether the row's reading may have changed. At an
/// instant without a bit, each reading may have changed.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    first: i64,
    instants: usize,
    /// Row by row, a whole number of words for each.
    bits: Vec<u64>,
}

impl Changes {
    /// The changes from instant `first` to `last`.
    pub(crate) fn of(
        frame: &Frame,
        layout: &Layout,
        (policy, targets): (&Policy, &[RowTarget]),
        (first, last): (i64, i64),
    ) -> Self {
        let Ok(instants) = usize::try_from(last - first + 1) else {
            return Self::default();
        };
        // A device stays active for a time after its last active reading: no bits are kept.
        if !policy.hold.is_zero() {
            return Self::default();
        }
        let step_ms = frame.step_ms();
        let longest = targets.iter().map(|target| target.fresh_ms).max();
        let oldest = first - longest.unwrap_or(0) / step_ms - 1;
        let sampled: Vec<Vec<u64>> = (oldest..=last).map(|at| frame.sampled(at)).collect();
        let is_sampled = |instant: i64, row: usize| {
            let place = usize::try_from(instant - oldest).ok();
            let rows = place.and_then(|place| sampled.get(place));
            rows.is_none_or(|rows| has(rows, row))
        };
        let words = instants.div_ceil(WORD);
        let mut own = Self {
            first,
            instants,
            bits: vec![0; targets.len() * words],
        };
        for (row, target) in targets.iter().enumerate() {
            let bits = &mut own.bits[row * words..][..words];
            for (place, instant) in (first..=last).enumerate() {
                // The samples that become too old lie in one cell, or in two.
                let ended = instant - target.fresh_ms / step_ms;
                let ended_too = instant - (target.fresh_ms + step_ms - 1) / step_ms;
                let mut cells = [instant, ended, ended_too].into_iter();
                if cells.any(|cell| is_sampled(cell, row)) {
                    bits[place / WORD] |= 1 << (place % WORD);
                }
            }
        }
        own.of_devices(layout)
    }

    /// How many words a row has.
    fn words(&self) -> usize {
        self.instants.div_ceil(WORD)
    }

    fn of_row(&self, row: RowId) -> &[u64] {
        let start = row.0 as usize * self.words();
        self.bits.get(start..start + self.words()).unwrap_or(&[])
    }

    /// Writes the instants from `first` to `last` at which the reading of one of the rows
    /// may differ from the one before, the first included.
    pub(super) fn instants(&self, rows: &[RowId], (first, last): (i64, i64), to: &mut Vec<i64>) {
        let of_word = |word: usize| {
            let left = self.instants - word * WORD;
            let all = u64::MAX >> (WORD - left.min(WORD));
            let mut bits = 0;
            for row in rows {
                bits |= self.of_row(*row).get(word).copied().unwrap_or(all);
                // The rows of many exporters soon set every bit.
                if bits == all {
                    break;
                }
            }
            bits
        };
        let mut known: Option<(usize, u64)> = None;
        let mut may_change = |instant: i64| {
            let place = usize::try_from(instant - self.first).ok();
            let Some(place) = place.filter(|place| *place < self.instants) else {
                return true;
            };
            let (_, bits) = match known {
                Some((word, bits)) if word == place / WORD => (word, bits),
                _ => *known.insert((place / WORD, of_word(place / WORD))),
            };
            bits & (1 << (place % WORD)) != 0
        };
        to.clear();
        to.extend((first..=last).filter(|instant| *instant == first || may_change(*instant)));
    }

    /// Adds the changes of other rows of the device, because they decide which row counts.
    fn of_devices(mut self, layout: &Layout) -> Self {
        let (own, words) = (self.clone(), self.words());
        for facts in layout.facts().flatten() {
            let start = facts.id.0 as usize * words;
            let Some(bits) = self.bits.get_mut(start..start + words) else {
                continue;
            };
            // Which device has the place depends on the time.
            if facts.shares_slot {
                bits.fill(u64::MAX);
            }
            for other in related(layout, facts).filter(|other| *other != facts.id) {
                let both = bits.iter_mut().zip(own.of_row(other));
                both.for_each(|(bits, more)| *bits |= more);
            }
        }
        self
    }
}

/// The rows that a row's reading depends on: those of its device and of its instances.
fn related<'l>(layout: &'l Layout, facts: &'l RowFacts) -> impl Iterator<Item = RowId> + 'l {
    let instances = layout.instances_of(facts).flatten();
    let own = layout.device_rows(facts.device).iter();
    own.chain(instances).copied()
}

fn has(bits: &[u64], place: usize) -> bool {
    let word = bits.get(place / WORD);
    word.is_none_or(|word| word & (1 << (place % WORD)) != 0)
}

//! At which instants the reading of a device may differ from the one an instant before.
//!
//! At S = 15 and a step of 5 two of three instants repeat the one before, so rows and
//! groups of one exporter are read at every third instant only.

use super::super::frame::Frame;
use super::super::grid::{RowId, WORD};
use super::super::layout::{Layout, RowFacts};
use super::super::policy::Policy;
use super::RowTarget;

/// A bit for each row and instant: whether its reading may have changed. A reading may
/// change at each instant that it does not cover.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    first: i64,
    instants: Vec<Vec<u64>>,
}

impl Changes {
    /// The changes from instant `first` to `last`.
    pub(crate) fn of(
        frame: &Frame,
        layout: &Layout,
        (policy, targets): (&Policy, &[RowTarget]),
        (first, last): (i64, i64),
    ) -> Self {
        // A device stays active for a time after its readings say so: nothing is covered.
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
        let mut own = Self {
            first,
            instants: (first..=last).map(|_| Vec::new()).collect(),
        };
        for (instant, rows) in (first..).zip(&mut own.instants) {
            rows.resize(targets.len().div_ceil(WORD), 0);
            for (row, target) in targets.iter().enumerate() {
                // The samples that become too old lie in one cell, or in two.
                let ended = instant - target.fresh_ms / step_ms;
                let ended_too = instant - (target.fresh_ms + step_ms - 1) / step_ms;
                let mut cells = [instant, ended, ended_too].into_iter();
                if cells.any(|cell| is_sampled(cell, row)) {
                    rows[row / WORD] |= 1 << (row % WORD);
                }
            }
        }
        own.of_devices(layout)
    }

    /// Whether a row's reading may have changed since the instant before.
    pub(super) fn has(&self, row: RowId, instant: i64) -> bool {
        self.any(&[row], instant)
    }

    /// Whether the reading of one of the rows may have changed since the instant before.
    #[inline]
    pub(super) fn any(&self, rows: &[RowId], instant: i64) -> bool {
        let place = usize::try_from(instant - self.first).ok();
        let of_all = place.and_then(|place| self.instants.get(place));
        of_all.is_none_or(|of_all| rows.iter().any(|row| has(of_all, row.0 as usize)))
    }

    /// Adds what changes for other rows of the device: which row counts is
    /// decided between them.
    fn of_devices(mut self, layout: &Layout) -> Self {
        let own = self.clone();
        for facts in layout.facts().flatten() {
            let others = || related(layout, facts);
            if !facts.shares_place && others().all(|other| other == facts.id) {
                continue;
            }
            let row = facts.id.0 as usize;
            for (instant, rows) in (self.first..).zip(&mut self.instants) {
                // Which device has the place is decided by time.
                if facts.shares_place || others().any(|other| own.has(other, instant)) {
                    rows[row / WORD] |= 1 << (row % WORD);
                }
            }
        }
        self
    }
}

/// The rows that a row's reading depends on: those of its device and of its instances.
fn related<'l>(layout: &'l Layout, facts: &RowFacts) -> impl Iterator<Item = RowId> + 'l {
    let instances = layout.instances_of(facts.device).iter();
    let rows = instances.flat_map(|device| layout.device_rows(*device));
    layout.device_rows(facts.device).iter().chain(rows).copied()
}

fn has(rows: &[u64], row: usize) -> bool {
    let word = rows.get(row / WORD);
    word.is_none_or(|word| word & (1 << (row % WORD)) != 0)
}

//! What is measured and forgotten between rounds.

use std::collections::HashSet;
use std::sync::Arc;

use apimachinery::time::{Timestamp, millis};

use super::{Slot, Store};
use crate::grid::RowId;
use crate::policy::Policy;
use crate::source::{LATENESS_MAX_MS, Sources};

/// A line that is later than its source by more has a wrong clock or a slow agent.
const OWN_LATENESS_MS: i64 = 10_000;

impl Store {
    /// Measures the sources after a round of queries at `now`.
    pub(crate) fn end_round(&mut self, now: Timestamp) {
        self.sources.judge_units(now);
        for slot in self.lines.iter_mut().flatten() {
            slot.gaps.measure(now, LATENESS_MAX_MS);
        }
        let lines = self.lines.iter().flatten();
        let lines = lines.map(|slot| (slot.times.source, &slot.gaps));
        self.sources.measure(&self.policy, now, lines);
        let (policy, sources) = (&self.policy, &self.sources);
        let slots = self.lines.iter_mut().flatten();
        let fresh_ms = slots.map(|slot| {
            slot.measure(policy, sources);
            slot.times.fresh_ms
        });
        self.longest_fresh_ms = fresh_ms.max().unwrap_or(self.longest_fresh_ms);
    }

    /// The shortest S, milliseconds; `None` without lines.
    #[must_use]
    pub fn shortest_scrape_ms(&self) -> Option<i64> {
        let slots = self.lines.iter().flatten();
        slots.map(|slot| slot.times.scrape_ms).min()
    }

    /// The earliest time of samples that may not have been read yet: the newest sample of the
    /// line furthest behind, of those that may still send samples. If none may, it is the
    /// newest sample of all.
    pub(crate) fn unread_since(&self, now: Timestamp) -> Option<Timestamp> {
        let slots = self.lines.iter().flatten();
        let heard = slots.filter(|slot| slot.gaps.newest > Timestamp::MIN);
        let awaited = heard.clone().filter(|slot| {
            let since_ms = now.millis() - slot.gaps.newest.millis();
            since_ms <= slot.times.fresh_ms + LATENESS_MAX_MS
        });
        let newest = |slot: &Slot| slot.gaps.newest;
        let last = || heard.clone().map(newest).max();
        awaited.map(newest).min().or_else(last)
    }

    /// Removes samples that no window can use any more. Call before a batch is applied.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        let (step_ms, fresh_ms) = (self.step_ms(), self.longest_fresh_ms);
        let lag_ms = self.sources.longest_lag_ms();
        let window_ms = millis(self.policy.max_window);
        self.oldest =
            Timestamp::from_millis(now.millis() - window_ms - fresh_ms - step_ms - lag_ms);
        let index = self.oldest.millis().div_euclid(step_ms);
        for columns in &mut self.signals {
            columns.retain_from(index, step_ms);
        }
    }

    /// Forgets lines without a sample for as long as a start reads back and in all columns, and
    /// series that are not needed.
    pub(crate) fn sweep(&mut self, now: Timestamp) {
        let of_columns = self.oldest.millis() - 2 * self.step_ms();
        let limit = of_columns.min(now.millis() - self.back_ms);
        let mut gone = HashSet::new();
        for (place, slot) in (0..).zip(&mut self.lines) {
            let ended = slot.take_if(|slot| slot.times.newest.millis() < limit);
            if let Some(ended) = ended {
                self.ids.remove(&ended.line);
                self.free.push(RowId(place));
                gone.insert(RowId(place));
                self.generation += 1;
            }
        }
        let is_kept = |row: &RowId| !gone.contains(row);
        self.known
            .retain(|_, row| row.as_ref().is_some_and(is_kept));
        self.texts.retain(|text| Arc::strong_count(text) > 1);
    }
}

impl Slot {
    /// Measures S and F. A line that is later than its source is valid for as much longer.
    pub(super) fn measure(&mut self, policy: &Policy, sources: &Sources) {
        let times = &mut self.times;
        times.scrape_ms = sources.scrape_ms(policy, times.source, &self.gaps);
        let late_ms = self.gaps.late_ms().unwrap_or(0);
        let own_ms = late_ms - sources.lag_ms(times.source);
        let longer_ms = if own_ms > OWN_LATENESS_MS { own_ms } else { 0 };
        times.fresh_ms = policy.fresh_ms(times.scrape_ms) + longer_ms;
    }
}

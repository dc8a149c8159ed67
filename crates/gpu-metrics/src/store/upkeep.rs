//! What is measured and forgotten between rounds.

use std::collections::HashSet;
use std::hash::BuildHasher;
use std::sync::Arc;

use apimachinery::time::{Timestamp, millis};

use super::{Known, Slot, Store};
use crate::frozen::Movement;
use crate::gaps::Gaps;
use crate::grid::{Columns, RowId};
use crate::policy::Policy;
use crate::source::{Heard, LATENESS_MAX_MS, Sources};

/// A line that is later than its source by more has a wrong clock or a slow agent.
const OWN_LATENESS_MS: i64 = 10_000;

/// How many scrape intervals a sample is valid for.
const INTERVALS: i64 = 3;

/// After a longer time without answers, and than twice the time between polls, samples are read
/// that arrived at an unknown time.
const OUTAGE_MS: i64 = 30_000;

impl Store {
    /// Measures the sources after a round of queries at `now`.
    pub(crate) fn end_round(&mut self, now: Timestamp) {
        let since_ms = now.millis().saturating_sub(self.round.millis());
        let arrived_unseen = since_ms > OUTAGE_MS.max(2 * self.pace_ms);
        if since_ms > 0 {
            (self.round, self.pace_ms) = (now, since_ms.min(2 * OUTAGE_MS));
        }
        self.sources.judge_units();
        for slot in self.lines.iter_mut().flatten() {
            slot.gaps.measure(now, LATENESS_MAX_MS, arrived_unseen);
            let scrape_ms = scrape_ms(&self.policy, &self.sources, slot);
            slot.movement.judge(slot.newest, scrape_ms);
        }
        let slots = self.lines.iter().flatten();
        let slots = slots.filter(|slot| slot.gaps.measured > Timestamp::MIN);
        let (policy, sources) = (&self.policy, &self.sources.clone());
        let heard = slots.map(|slot| {
            let read_ms = now.millis() - slot.gaps.read.millis();
            let fresh_ms = fresh_ms(policy, scrape_ms(policy, sources, slot));
            Heard {
                source: slot.source,
                scrape_ms: slot.gaps.scrape_ms(),
                late_ms: slot.gaps.late_ms().filter(|_| read_ms <= fresh_ms),
                age_ms: i64::from(slot.gaps.age_ms),
                fresh_ms,
            }
        });
        self.sources.measure(heard);
        let longest = self
            .lines
            .iter()
            .flatten()
            .map(|slot| self.fresh_ms(slot))
            .max();
        self.longest_fresh_ms = longest.unwrap_or(self.longest_fresh_ms);
    }

    pub(super) fn scrape_ms(&self, slot: &Slot) -> i64 {
        scrape_ms(&self.policy, &self.sources, slot)
    }

    /// F of a line, milliseconds. A line that is later than its source is valid for as much
    /// longer.
    pub(super) fn fresh_ms(&self, slot: &Slot) -> i64 {
        fresh_ms(&self.policy, self.scrape_ms(slot)) + self.own_ms(slot)
    }

    /// How much later than its source a line is, milliseconds; 0: not notably.
    pub(super) fn own_ms(&self, slot: &Slot) -> i64 {
        let late_ms = slot.gaps.late_ms().unwrap_or(0);
        let own_ms = late_ms - self.sources.lag_ms(slot.source);
        if own_ms > OWN_LATENESS_MS { own_ms } else { 0 }
    }

    /// The largest F, milliseconds.
    pub(crate) fn longest_fresh_ms(&self) -> i64 {
        self.longest_fresh_ms
    }

    /// The shortest S, milliseconds; `None` without lines.
    #[must_use]
    pub fn shortest_scrape_ms(&self) -> Option<i64> {
        let slots = self.lines.iter().flatten();
        slots.map(|slot| self.scrape_ms(slot)).min()
    }

    /// The earliest time of samples that may not have been read yet: the newest sample of the
    /// line furthest behind, of those that may still send samples. If none may, it is the
    /// newest sample of all.
    pub(crate) fn unread_since(&self, now: Timestamp) -> Option<Timestamp> {
        let slots = self.lines.iter().flatten();
        let heard = slots.map(|slot| (slot.gaps.newest, self.fresh_ms(slot)));
        let heard = heard.filter(|(newest, _)| *newest > Timestamp::MIN);
        let awaited = heard.clone().filter(|(newest, fresh_ms)| {
            now.millis() - newest.millis() <= fresh_ms + LATENESS_MAX_MS
        });
        let times = |(newest, _)| newest;
        awaited.map(times).min().or_else(|| heard.map(times).max())
    }

    /// Removes samples that no window can use any more. Call before a batch is applied.
    pub(crate) fn advance(&mut self, now: Timestamp) {
        let (step_ms, fresh_ms) = (self.step_ms(), self.longest_fresh_ms());
        let lag_ms = self.sources.longest_lag_ms();
        let window_ms = millis(self.policy.max_window) + millis(self.policy.hold);
        self.oldest =
            Timestamp::from_millis(now.millis() - window_ms - fresh_ms - step_ms - lag_ms);
        self.recent = Timestamp::from_millis(now.millis() - fresh_ms - lag_ms);
        let index = self.oldest.millis().div_euclid(step_ms);
        for columns in &mut self.signals {
            columns.retain_from(index, step_ms);
        }
    }

    /// Forgets lines without a sample for as long as a start reads back, and series that are
    /// not needed. All replicas forget at the same times.
    pub(crate) fn sweep(&mut self, now: Timestamp) {
        let limit = now.millis() - self.back_ms();
        let mut gone = HashSet::new();
        for (place, slot) in (0..).zip(&mut self.lines) {
            let ended = slot.take_if(|slot| slot.newest.millis() < limit);
            if let Some(ended) = ended {
                let hash = self.hasher.hash_one((&ended.line.labels, ended.line.rank));
                if let Ok(known) = self.ids.find_entry(hash, |id| id.0 == place) {
                    known.remove();
                }
                self.free.push(RowId(place));
                gone.insert(RowId(place));
                self.generation += 1;
            }
        }
        let used = self.lines.iter().flatten().map(|slot| slot.source);
        self.sources.retain(&used.collect());
        self.known.retain(|_, known| match known {
            Known::Stored(row) => !gone.contains(row),
            // Devices that no longer report percents need what was superfluous before.
            Known::Ignored | Known::Refused => false,
        });
        self.texts.retain(|text| Arc::strong_count(text) > 1);
    }

    /// Removes all samples, because the clock went back.
    pub(crate) fn clear(&mut self) {
        self.signals.fill(Columns::default());
        for slot in self.lines.iter_mut().flatten() {
            (slot.gaps, slot.movement) = (Gaps::NONE, Movement::NONE);
            (slot.first, slot.newest) = (Timestamp::MAX, Timestamp::MIN);
        }
        self.sources.clear();
        self.round = Timestamp::MIN;
        self.generation += 1;
    }
}

fn scrape_ms(policy: &Policy, sources: &Sources, slot: &Slot) -> i64 {
    let set = policy.scrape_interval.map(millis);
    let of_source_ms = sources.scrape_ms(slot.source);
    // A few gaps may be outages, or those between two scrapers.
    let own_ms = slot.gaps.scrape_ms();
    let own_ms = own_ms.map(|own_ms| match slot.gaps.are_few() {
        true if own_ms > 4 * of_source_ms => of_source_ms,
        true => own_ms.max(of_source_ms),
        false => own_ms,
    });
    set.or(own_ms).unwrap_or(of_source_ms)
}

/// F by S.
pub(super) fn fresh_ms(policy: &Policy, scrape_ms: i64) -> i64 {
    (INTERVALS * scrape_ms).max(millis(policy.freshness))
}

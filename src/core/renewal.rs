//! How often exporters renew their readings, as the values show it.
//!
//! A reading repeats until the exporter makes a new one, so no two changes of a
//! series' value lie closer together than the exporter's interval; chance
//! repeats only make distances longer. The interval is what nine in ten reach.

use super::cadence::GAP_MAX_MS;

/// A thousand distances tell as much as a million.
const MOST: usize = 1024;

/// Of them from one signal: another may move where this one stands still.
const MOST_OF_SIGNAL: usize = MOST / 8;

/// Fewer distances between changes are no evidence.
const NEEDED: usize = 8;

/// The exporter interval of targets with one scrape interval, and the evidence
/// for it; at most 4 KiB.
#[derive(Clone, Debug)]
pub struct Renewals {
    scrape_ms: i64,
    exporter_ms: Option<i64>,
    /// Distances between two changes of a value, milliseconds.
    distances: Vec<u32>,
    /// How many distances there may be until the next signal's turn.
    room: usize,
}

impl Renewals {
    /// Nothing seen yet of targets that are scraped this often.
    #[must_use]
    pub const fn new(scrape_ms: i64) -> Self {
        Self {
            scrape_ms,
            exporter_ms: None,
            distances: Vec::new(),
            room: MOST_OF_SIGNAL,
        }
    }

    /// The scrape interval S of these targets, milliseconds.
    #[must_use]
    pub const fn scrape_ms(&self) -> i64 {
        self.scrape_ms
    }

    /// The exporter interval I; the scrape interval until more is known, since a
    /// scraper sees none below that.
    #[must_use]
    pub fn exporter_ms(&self) -> i64 {
        self.exporter_ms.unwrap_or(self.scrape_ms)
    }

    /// Whether the exporter interval was seen.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.exporter_ms.is_some()
    }

    /// The series that follow are of another signal.
    pub fn turn(&mut self) {
        self.room = (self.distances.len() + MOST_OF_SIGNAL).min(MOST);
    }

    /// Notes how long after the change before it a value changed.
    #[inline]
    pub fn observe(&mut self, distance_ms: i64) {
        if self.distances.len() < self.room && (1..=GAP_MAX_MS).contains(&distance_ms) {
            self.distances
                .push(u32::try_from(distance_ms).unwrap_or(u32::MAX));
        }
    }

    /// Weighs the evidence, if it is enough, and forgets it.
    pub fn judge(&mut self) {
        if self.distances.len() < NEEDED {
            return;
        }
        let rank = self.distances.len() / 10;
        let distance = i64::from(*self.distances.select_nth_unstable(rank).1);
        let scrapes = ((distance + self.scrape_ms / 2) / self.scrape_ms).max(1);
        self.exporter_ms = Some(scrapes * self.scrape_ms);
        self.distances.clear();
        self.room = MOST_OF_SIGNAL;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(distances_secs: impl IntoIterator<Item = i64>) -> i64 {
        let mut renewals = Renewals::new(15_000);
        for secs in distances_secs {
            renewals.observe(secs * 1000);
        }
        renewals.judge();
        renewals.exporter_ms() / 1000
    }

    #[test]
    fn chance_repeats_make_no_long_interval_and_few_changes_are_no_evidence() {
        assert_eq!(judged([15, 15, 30, 45, 15, 30, 60, 15]), 15);
        assert_eq!(judged([30, 30, 60, 30, 31, 29, 30, 90]), 30);
        assert_eq!(judged([60; 7]), 15);
        assert_eq!(judged([60; 8]), 60);
    }

    #[test]
    fn absurd_distances_are_no_evidence_and_what_is_kept_is_bounded() {
        assert_eq!(judged([700, 900, -5, 0, 700, 700, 700, 700, 700]), 15);
        let mut renewals = Renewals::new(1000);
        for _ in 0..20 {
            renewals.turn();
            (0..10_000).for_each(|_| renewals.observe(5_000));
        }
        assert_eq!(renewals.distances.len(), MOST);
    }
}

//! How often the exporter of one target renews its readings, as the values show
//! it.
//!
//! A reading repeats until the exporter makes a new one, and it makes those of
//! all its GPUs at once. So the scrapes at which something changed lie as far
//! apart as its readings: their median is the interval. Chance repeats and lost
//! scrapes make distances longer, scrapes that are now early, now late make some
//! longer and as many shorter.

use std::cmp::Ordering;

use super::batch::Sample;
use super::gaps::{Gaps, UNIT_MS};
use super::time::Timestamp;

/// How many distances are remembered.
const MOST: usize = 16;

/// Fewer are no evidence.
const NEEDED: usize = 8;

/// When the readings of a target last changed; 48 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Renewals(Gaps<MOST>);

impl Renewals {
    /// A reading of the target changed with a scrape.
    #[inline]
    pub fn observe(&mut self, at: Timestamp) {
        self.0.push(at);
    }

    /// Takes the past of one series of the target, oldest first, instead of what
    /// is known, where it shows more: another may have stood still.
    pub fn take(&mut self, samples: &[Sample]) {
        let mut shown = Self::default();
        for pair in samples.windows(2) {
            if is_change(pair[0].value, pair[1].value) {
                shown.observe(pair[1].at);
            }
        }
        let shows_more = match (shown.distance_ms(), self.distance_ms()) {
            (Some(shown), Some(known)) => shown < known,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (None, None) => shown.0.as_slice().len() > self.0.as_slice().len(),
        };
        if shows_more {
            shown.0.forward_to(self.0.newest());
            *self = shown;
        }
    }

    /// The lower median of the distances; `None` while there are too few.
    fn distance_ms(&self) -> Option<i64> {
        let mut known = [0; MOST];
        let gaps = self.0.as_slice();
        let known = &mut known[..gaps.len()];
        known.copy_from_slice(gaps);
        if known.len() < NEEDED {
            return None;
        }
        let rank = (known.len() - 1) / 2;
        Some(i64::from(*known.select_nth_unstable(rank).1) * UNIT_MS)
    }

    /// The exporter interval I of a target that is scraped this often: so many
    /// scrapes, since a scraper sees none in between. `None` until it is known.
    #[must_use]
    pub fn exporter_ms(&self, scrape_ms: i64) -> Option<i64> {
        let distance_ms = self.distance_ms()?;
        Some(((distance_ms + scrape_ms / 2) / scrape_ms).max(1) * scrape_ms)
    }
}

/// Whether a series shows another reading than before; one that follows none
/// may be the one before it.
#[must_use]
pub fn is_change(before: f64, after: f64) -> bool {
    before.partial_cmp(&after).is_some_and(Ordering::is_ne)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(distances_secs: impl IntoIterator<Item = i64>) -> Option<i64> {
        let mut renewals = Renewals::default();
        let mut at = 1_000_000;
        renewals.observe(Timestamp::from_secs(at));
        for secs in distances_secs {
            at += secs;
            renewals.observe(Timestamp::from_secs(at));
        }
        Some(renewals.exporter_ms(15_000)? / 1000)
    }

    #[test]
    fn chance_repeats_make_no_long_interval_and_few_changes_are_no_evidence() {
        assert_eq!(judged([15, 15, 30, 45, 15, 30, 60, 15]), Some(15));
        assert_eq!(
            judged([30, 30, 60, 30, 31, 29, 30, 90, 30, 30, 30, 15]),
            Some(30)
        );
        assert_eq!(judged([30, 15, 45, 30, 15, 45, 30, 30]), Some(30));
        assert_eq!(judged([60; 7]), None);
        assert_eq!(judged([60; 8]), Some(60));
    }

    #[test]
    fn absurd_distances_are_no_evidence_and_what_is_kept_is_bounded() {
        assert_eq!(judged([700, 900, -5, 0, 700, 700, 700, 700, 700]), None);
        assert_eq!(judged([5; 1000]), Some(15));
    }

    #[test]
    fn the_past_of_a_series_tells_as_much_as_having_seen_it() {
        let sample = |scrape: i64| Sample {
            at: Timestamp::from_secs(1_000_000 + 15 * scrape),
            value: if scrape == 7 {
                f64::NAN
            } else {
                (scrape / 2) as f64
            },
        };
        let samples: Vec<Sample> = (0..30).map(sample).collect();
        let mut renewals = Renewals::default();
        renewals.take(&samples);
        assert_eq!(renewals.exporter_ms(15_000), Some(30_000));
        renewals.observe(Timestamp::from_secs(1_000_000));
        assert_eq!(renewals.0.as_slice().len(), 12);
    }
}

//! The scrape interval of one target, from the gaps between its newest samples.

use super::super::batch::Sample;
use apimachinery::time::Timestamp;

/// How many gaps are kept.
const GAPS: usize = 20;

/// The unit of a gap, milliseconds.
const UNIT_MS: i64 = 10;

/// A longer gap is an outage, not an interval. In units of [`UNIT_MS`] it fits 16 bits.
const GAP_MAX_MS: i64 = 655_000;

/// The newest sample of a target and up to twenty gaps before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gaps {
    newest: Timestamp,
    /// In units of [`UNIT_MS`], the latest first.
    gaps: [u16; GAPS],
    len: u8,
}

impl Default for Gaps {
    fn default() -> Self {
        Self {
            newest: Timestamp::MIN,
            gaps: [0; GAPS],
            len: 0,
        }
    }
}

impl Gaps {
    /// The time of the newest sample; [`Timestamp::MIN`] before the first.
    pub(super) const fn newest(&self) -> Timestamp {
        self.newest
    }

    /// Takes the samples of one series of the target, oldest first. All series of a
    /// target have its scrape times, so one is enough; a series with more samples, as
    /// after a start, replaces it. A sample that is no number shows no scrape: some
    /// stores write one for a failed scrape.
    #[inline]
    pub(super) fn take(&mut self, samples: &[Sample]) {
        let Some(last) = samples.last() else { return };
        let shows_more = samples.len() > usize::from(self.len) + 1 && usize::from(self.len) < GAPS;
        if last.at <= self.newest && !shows_more {
            return;
        }
        let newest = self.newest;
        if shows_more {
            *self = Self::default();
        }
        let scrapes = samples.iter().filter(|sample| !sample.value.is_nan());
        scrapes.for_each(|sample| self.push(sample.at));
        self.push(newest);
    }

    /// Adds a sample, if it is newer than the known ones.
    pub(super) fn push(&mut self, at: Timestamp) {
        if at <= self.newest {
            return;
        }
        let gap_ms = at.millis() - self.newest.millis();
        self.newest = at;
        if gap_ms > GAP_MAX_MS {
            return;
        }
        let gap = (gap_ms + UNIT_MS / 2) / UNIT_MS;
        self.gaps.copy_within(..GAPS - 1, 1);
        self.gaps[0] = u16::try_from(gap).unwrap_or(u16::MAX);
        self.len = (self.len + 1).min(GAPS as u8);
    }

    /// S: the upper quartile of the gaps, whole seconds in milliseconds; `None` before
    /// the first. Lost scrapes make some gaps too long; two scrapers of one series make
    /// some too short.
    pub(super) fn interval_ms(&self) -> Option<i64> {
        let mut gaps = self.gaps;
        let gaps = &mut gaps[..usize::from(self.len)];
        let rank = gaps.len().checked_sub(1)? * 3 / 4;
        let gap_ms = i64::from(*gaps.select_nth_unstable(rank).1) * UNIT_MS;
        Some(((gap_ms + 500) / 1000).max(1) * 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(secs: f64) -> Sample {
        Sample {
            at: Timestamp::from_millis(1_000_000 + (secs * 1000.0) as i64),
            value: 1.0,
        }
    }

    fn interval(secs: impl IntoIterator<Item = f64>) -> Option<i64> {
        let mut gaps = Gaps::default();
        secs.into_iter().for_each(|at| gaps.take(&[sample(at)]));
        gaps.interval_ms().map(|ms| ms / 1000)
    }

    fn every(interval: f64, count: u32) -> impl Iterator<Item = f64> {
        (0..count).map(move |place| f64::from(place) * interval)
    }

    #[test]
    fn even_gaps_are_the_interval_in_whole_seconds() {
        for secs in [1.0, 2.0, 15.0, 60.0, 600.0] {
            assert_eq!(interval(every(secs, 30)), Some(secs as i64));
        }
        assert_eq!(interval(every(0.2, 30)), Some(1));
        assert_eq!(interval([0.0, 15.04]), Some(15));
        assert_eq!(interval([0.0]), None);
    }

    #[test]
    fn lost_scrapes_and_an_outage_change_nothing() {
        let lost = every(15.0, 40).filter(|at| ![300.0, 375.0, 450.0].contains(at));
        assert_eq!(interval(lost), Some(15));
        assert_eq!(interval([0.0, 15.0, 435.0]), Some(15));
        assert_eq!(interval([0.0, 9e9, 9e9 + 15.0]), Some(15));
    }

    #[test]
    fn two_scrapers_of_one_series_have_the_longer_gap() {
        let both = every(15.0, 15).flat_map(|at| [at, at + 3.0]);
        assert_eq!(interval(both), Some(12));
    }

    #[test]
    fn the_series_with_the_most_samples_determines_the_interval() {
        let samples: Vec<Sample> = every(60.0, 15).map(sample).collect();
        let mut gaps = Gaps::default();
        gaps.take(&samples[14..]);
        assert_eq!(gaps.interval_ms(), None);
        gaps.take(&samples[..14]);
        assert_eq!(gaps.interval_ms(), Some(60_000));
        assert_eq!(gaps.newest(), samples[14].at);
    }
}

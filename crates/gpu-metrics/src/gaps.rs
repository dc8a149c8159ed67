//! How often a line is scraped, and how late it is read.

use apimachinery::time::Timestamp;

use crate::batch::Sample;

/// How many gaps are kept.
const GAPS: usize = 20;

/// With fewer gaps, S is compared with that of the source.
const FEW: u8 = 4;

/// The unit of a gap, milliseconds.
const UNIT_MS: i64 = 10;

/// A longer gap is an outage, not an interval. In units of [`UNIT_MS`] it fits 16 bits.
const GAP_MAX_MS: i64 = 655_000;

/// The newest sample of a line, the gaps before it, and how late its last samples were.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gaps {
    pub(crate) newest: Timestamp,
    /// In units of [`UNIT_MS`], the latest first.
    gaps: [u16; GAPS],
    len: u8,
    /// S by the gaps, seconds; 0 before the first.
    scrape_secs: u16,
    /// The lateness of the last three samples, milliseconds, the latest first.
    late: [i32; 3],
    late_len: u8,
    /// The newest sample with a measured lateness.
    pub(crate) measured: Timestamp,
    /// When that sample was read.
    pub(crate) read: Timestamp,
}

impl Gaps {
    pub(crate) const NONE: Self = Self {
        newest: Timestamp::MIN,
        gaps: [0; GAPS],
        len: 0,
        scrape_secs: 0,
        late: [0; 3],
        late_len: 0,
        measured: Timestamp::MIN,
        read: Timestamp::MIN,
    };

    /// Takes the samples of one field, the oldest first. All fields of a line are scraped
    /// together, so one is enough. A sample that is no number shows no scrape: some stores
    /// write one for a failed scrape.
    #[inline]
    pub(crate) fn take(&mut self, samples: &[Sample]) {
        let Some(last) = samples.last() else { return };
        if last.at <= self.newest {
            return;
        }
        let scrapes = samples.iter().filter(|sample| !sample.value.is_nan());
        scrapes.for_each(|sample| self.push(sample.at));
        self.scrape_secs = self.upper_quartile();
    }

    fn push(&mut self, at: Timestamp) {
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

    /// The upper quartile of the gaps, whole seconds. Lost scrapes make some gaps too long; two
    /// scrapers of one series make some too short. Two long ones in a row show a longer
    /// interval.
    fn upper_quartile(&self) -> u16 {
        let mut gaps = self.gaps;
        let lately = gaps[0].min(gaps[1]);
        let gap = at_share(&mut gaps[..usize::from(self.len)], 3, 4);
        gap.map_or(0, |gap| {
            let gap_ms = i64::from(gap.max(lately)) * UNIT_MS;
            u16::try_from((gap_ms + 500) / 1000)
                .unwrap_or(u16::MAX)
                .max(1)
        })
    }

    /// S by the gaps alone, milliseconds; `None` before the first gap.
    pub(crate) fn own_scrape_ms(&self) -> Option<i64> {
        (self.scrape_secs > 0).then_some(i64::from(self.scrape_secs) * 1000)
    }

    /// S of a line whose source has this S, milliseconds. A few gaps may be outages, or those
    /// between two scrapers.
    pub(crate) fn scrape_ms(&self, of_source_ms: i64) -> i64 {
        match self.own_scrape_ms() {
            None => of_source_ms,
            Some(own_ms) if self.len >= FEW => own_ms,
            Some(own_ms) if own_ms > 4 * of_source_ms => of_source_ms,
            Some(own_ms) => own_ms.max(of_source_ms),
        }
    }

    /// The median of the last three, the lower of two, milliseconds; `None` before the first.
    pub(crate) fn late_ms(&self) -> Option<i64> {
        let mut late = self.late;
        at_share(&mut late[..usize::from(self.late_len)], 1, 2).map(i64::from)
    }

    /// Measures how late the newest sample is when it is first read, in a round at `now`. The
    /// first one arrived at an unknown time.
    pub(crate) fn measure(&mut self, now: Timestamp, most_ms: i64) {
        if self.newest <= self.measured {
            return;
        }
        let late_ms = (now.millis() - self.newest.millis()).clamp(0, most_ms);
        if self.measured > Timestamp::MIN {
            self.late.rotate_right(1);
            self.late[0] = i32::try_from(late_ms).unwrap_or(i32::MAX);
            self.late_len = (self.late_len + 1).min(3);
        }
        (self.measured, self.read) = (self.newest, now);
    }
}

/// The value at this share of the sorted ones, the lower of two; `None` without values.
pub(crate) fn at_share<T: Ord + Copy>(values: &mut [T], share: usize, of: usize) -> Option<T> {
    let rank = values.len().checked_sub(1)? * share / of;
    Some(*values.select_nth_unstable(rank).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: f64) -> Timestamp {
        Timestamp::from_millis((secs * 1000.0) as i64)
    }

    /// A line that was scraped after each of these gaps, seconds.
    fn scraped(gaps: &[f64]) -> Gaps {
        let mut line = Gaps::NONE;
        let mut secs = 1e6;
        for gap in [0.0].iter().chain(gaps) {
            secs += gap;
            let (at, value) = (at(secs), 1.0);
            line.take(&[Sample { at, value }]);
        }
        line
    }

    #[test]
    fn the_interval_is_the_upper_quartile_of_twenty_gaps() {
        let twenty_more = [[60.0; 20], [15.0; 20]].concat();
        for (gaps, of_source, interval) in [
            (&[][..], 30, 30),
            (&[10.0], 30, 30),
            (&[60.0], 30, 60),
            (&[120.0], 30, 120),
            (&[121.0], 30, 30),
            (&[10.0, 10.0, 10.0], 30, 30),
            (&[10.0, 10.0, 10.0, 10.0], 30, 10),
            (&[15.0, 15.0, 15.0, 30.0], 1, 15),
            (&[30.0, 15.0, 30.0, 15.0], 1, 30),
            (&[15.0, 15.0, 15.0, 15.0, 15.0, 15.0, 60.0, 50.0], 1, 50),
            (&twenty_more, 1, 15),
            (&[655.0], 200, 655),
            (&[655.01], 200, 200),
            (&[14.494; 4], 1, 14),
            (&[14.496; 4], 1, 15),
            (&[0.3; 4], 2, 1),
        ] {
            let found = scraped(gaps).scrape_ms(of_source * 1000);
            assert_eq!(found, interval * 1000, "{gaps:?}");
        }
        assert_eq!(scraped(&[]).own_scrape_ms(), None);
    }

    #[test]
    fn a_sample_that_is_no_number_or_not_newer_is_no_scrape() {
        let mut line = scraped(&[15.0; 4]);
        let newest = line.newest;
        for (secs, value) in [(7.0, f64::NAN), (0.0, 1.0), (-7.0, 1.0)] {
            let at = Timestamp::from_millis(newest.millis() + (secs * 1000.0) as i64);
            line.take(&[Sample { at, value }]);
        }
        assert_eq!((line.newest, line.scrape_ms(0)), (newest, 15_000));
    }

    #[test]
    fn lateness_is_the_median_of_the_last_three_samples_but_the_first() {
        let mut line = Gaps::NONE;
        for (secs, read, late) in [
            (100.0, 190.0, None),
            (200.0, 207.0, Some(7)),
            (200.0, 209.0, Some(7)),
            (300.0, 303.0, Some(3)),
            (400.0, 405.0, Some(5)),
            (500.0, 900.0, Some(5)),
            (600.0, 590.0, Some(5)),
            (700.0, 690.0, Some(0)),
        ] {
            let (sampled, value) = (at(secs), 1.0);
            line.take(&[Sample { at: sampled, value }]);
            line.measure(at(read), 120_000);
            assert_eq!(line.late_ms(), late.map(|late| late * 1000), "{secs}");
        }
    }
}

//! How often things happen: scrape interval, exporter interval, and what
//! follows from them. Detected from the data, per scrape job.

use std::time::Duration;

use super::batch::Sample;
use super::time::millis;

/// The intervals of one scrape job, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// S: time between two scrapes.
    pub scrape_ms: i64,
    /// I: time between two readings of the exporter; at least S as far as a
    /// scraper can see.
    pub exporter_ms: i64,
}

impl Timing {
    /// The freshness bound F = max(2.5 × S, I + 2 × S): a reading this old or
    /// older counts no more (`dcgm.md` §3.4).
    #[must_use]
    pub fn fresh_ms(self) -> i64 {
        (self.scrape_ms * 5 / 2).max(self.exporter_ms + 2 * self.scrape_ms)
    }

    /// The step of the grid of instants: max(S, I).
    #[must_use]
    pub fn step_ms(self) -> i64 {
        self.scrape_ms.max(self.exporter_ms)
    }

    /// The shortest sensible window: 4 × max(S, I) (`dcgm.md` §3.2).
    #[must_use]
    pub fn window_floor_ms(self) -> i64 {
        4 * self.step_ms()
    }
}

/// Assumed of a job until its samples say more: the interval of NVIDIA's
/// chart and operator (`dcgm.md` §2.2).
pub const ASSUMED: Timing = Timing {
    scrape_ms: 15_000,
    exporter_ms: 15_000,
};

/// Gaps between scrapes seen in one poll of one job. Bounded: a thousand gaps
/// give the median as well as a million.
#[derive(Clone, Debug, Default)]
pub struct ScrapeGaps {
    gaps_ms: Vec<i64>,
}

impl ScrapeGaps {
    const MOST: usize = 1024;

    /// Takes the gaps between the samples of one series, oldest first.
    pub fn observe(&mut self, samples: &[Sample]) {
        for pair in samples.windows(2) {
            let gap = pair[1].at.millis() - pair[0].at.millis();
            if gap > 0 && self.gaps_ms.len() < Self::MOST {
                self.gaps_ms.push(gap);
            }
        }
    }

    /// Whether enough was seen.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.gaps_ms.len() >= Self::MOST
    }

    /// The scrape interval: the median gap, rounded to what people configure
    /// (whole seconds; tenths below one second).
    #[must_use]
    pub fn scrape_ms(&mut self) -> Option<i64> {
        if self.gaps_ms.is_empty() {
            return None;
        }
        let middle = self.gaps_ms.len() / 2;
        let (_, median, _) = self.gaps_ms.select_nth_unstable(middle);
        let unit = if *median < 950 { 100 } else { 1000 };
        Some(((*median + unit / 2) / unit * unit).max(100))
    }
}

/// The exporter interval from the readings of many series on a grid whose
/// step is the scrape interval.
///
/// A reading repeats until the exporter makes a new one, so no two changes of
/// a series lie closer together than I. Chance repeats only make distances
/// longer; a jittering scrape makes a few shorter. The distance that nine in
/// ten reach is therefore I.
#[derive(Clone, Debug, Default)]
pub struct ExporterRhythm {
    /// How many consecutive changes lay so many steps apart.
    distances: [u32; MOST_STEPS + 1],
}

/// Longer distances say nothing more.
const MOST_STEPS: usize = 20;

/// Fewer distances are no evidence.
const DISTANCES_NEEDED: u32 = 8;

impl ExporterRhythm {
    /// Takes the readings of one series, oldest first, one an instant.
    pub fn observe(&mut self, readings: impl Iterator<Item = f64>) {
        let mut last_value: Option<f64> = None;
        let mut since_change: Option<usize> = None;
        for value in readings {
            since_change = since_change.map(|steps| steps + 1);
            if last_value.is_some_and(|last| last != value) {
                if let Some(steps) = since_change {
                    self.distances[steps.min(MOST_STEPS)] += 1;
                }
                since_change = Some(0);
            }
            last_value = Some(value);
        }
    }

    /// The exporter interval, a whole multiple of the step; `None` while too
    /// little changes.
    #[must_use]
    pub fn exporter_ms(&self, step_ms: i64) -> Option<i64> {
        let total: u32 = self.distances.iter().sum();
        if total < DISTANCES_NEEDED {
            return None;
        }
        let mut seen = 0;
        (1_i64..)
            .zip(&self.distances[1..])
            .find_map(|(steps, count)| {
                seen += count;
                (seen * 10 >= total).then_some(steps * step_ms)
            })
    }
}

/// Settings that overrule what is detected.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overrides {
    /// S, if set.
    pub scrape_interval: Option<Duration>,
    /// I, if set.
    pub exporter_interval: Option<Duration>,
}

impl Overrides {
    /// `detected` with the settings put over it.
    #[must_use]
    pub fn apply(&self, detected: Timing) -> Timing {
        let scrape_ms = self
            .scrape_interval
            .map_or(detected.scrape_ms, millis)
            .max(1);
        let exporter_ms = self.exporter_interval.map_or(detected.exporter_ms, millis);
        Timing {
            scrape_ms,
            exporter_ms: exporter_ms.max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::time::Timestamp;

    fn samples(times: &[i64]) -> Vec<Sample> {
        let sample = |&at| Sample {
            at: Timestamp::from_millis(at),
            value: 1.0,
        };
        times.iter().map(sample).collect()
    }

    #[test]
    fn the_freshness_bound_is_that_of_the_reference() {
        let bound = |scrape_ms, exporter_ms| {
            Timing {
                scrape_ms,
                exporter_ms,
            }
            .fresh_ms()
        };
        assert_eq!(bound(15_000, 15_000), 45_000);
        assert_eq!(bound(15_000, 30_000), 60_000);
        assert_eq!(bound(60_000, 30_000), 150_000);
        assert_eq!(bound(5_000, 2_000), 12_500);
    }

    #[test]
    fn the_scrape_interval_is_the_median_gap() {
        let mut gaps = ScrapeGaps::default();
        gaps.observe(&samples(&[0, 15_002, 30_001, 45_000, 75_003, 90_000]));
        assert_eq!(gaps.scrape_ms(), Some(15_000));
        assert_eq!(ScrapeGaps::default().scrape_ms(), None);
        let mut fast = ScrapeGaps::default();
        fast.observe(&samples(&[0, 201, 400, 602]));
        assert_eq!(fast.scrape_ms(), Some(200));
    }

    #[test]
    fn readings_that_change_at_every_other_scrape_show_a_double_interval() {
        let mut rhythm = ExporterRhythm::default();
        rhythm.observe((0..20).map(|i| f64::from(i / 2)));
        rhythm.observe((0..20).map(|_| 0.0));
        assert_eq!(rhythm.exporter_ms(15_000), Some(30_000));
        assert_eq!(ExporterRhythm::default().exporter_ms(15_000), None);
    }

    #[test]
    fn chance_repeats_are_not_taken_for_a_long_interval() {
        let mut rhythm = ExporterRhythm::default();
        let values = [4, 4, 5, 5, 6, 4, 4, 4, 5, 6, 6, 5, 4, 4, 5, 6];
        rhythm.observe(values.into_iter().map(f64::from));
        assert_eq!(rhythm.exporter_ms(15_000), Some(15_000));
    }
}

//! How often things happen: scrape interval, exporter interval, and what
//! follows from them. Detected from the data, per scrape target.

use std::time::Duration;

use super::time::millis;

/// The intervals of one scrape target, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// S: time between two scrapes.
    pub scrape_ms: i64,
    /// I: time between two readings of the exporter; at least S as far as a
    /// scraper can see.
    pub exporter_ms: i64,
    /// The largest gap between two samples that was seen more than once lately;
    /// S where none was larger.
    pub recurring_ms: i64,
}

impl Timing {
    /// Intervals without larger gaps.
    #[must_use]
    pub const fn even(scrape_ms: i64, exporter_ms: i64) -> Self {
        Self {
            scrape_ms,
            exporter_ms,
            recurring_ms: scrape_ms,
        }
    }

    /// The freshness bound F = max(2.5 × S, I + 2 × S, the largest recurring
    /// gap): a reading this old or older counts no more.
    #[must_use]
    pub fn fresh_ms(self) -> i64 {
        (self.scrape_ms * 5 / 2)
            .max(self.exporter_ms + 2 * self.scrape_ms)
            .max(self.recurring_ms)
    }

    /// How long after its newest sample a value on a grid of this step is served:
    /// F, and not less than it takes until the next instant can be there, its
    /// sample a scrape old and a scrape late.
    #[must_use]
    pub fn lasting_ms(self, fresh_ms: i64, step_ms: i64) -> i64 {
        fresh_ms.max(step_ms + 2 * self.scrape_ms)
    }

    /// The cadence of new readings, max(S, I): the step of a grid of instants
    /// that holds each once.
    #[must_use]
    pub fn cadence_ms(self) -> i64 {
        self.scrape_ms.max(self.exporter_ms)
    }
}

/// Assumed of a target until its samples say more: the interval of NVIDIA's
/// chart and operator (NVIDIA/dcgm-exporter, `deployment/values.yaml`).
pub const ASSUMED: Timing = Timing::even(15_000, 15_000);

/// Settings that overrule what is detected.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overrides {
    /// S, if set.
    pub scrape_interval: Option<Duration>,
    /// I, if set.
    pub exporter_interval: Option<Duration>,
    /// F, if set.
    pub freshness: Option<Duration>,
}

impl Overrides {
    /// `detected` with the settings put over it.
    #[must_use]
    pub fn apply(&self, detected: Timing) -> Timing {
        let scrape = self.scrape_interval.map(|set| millis(set).max(1));
        let exporter_ms = self.exporter_interval.map_or(detected.exporter_ms, millis);
        Timing {
            scrape_ms: scrape.unwrap_or(detected.scrape_ms),
            exporter_ms: exporter_ms.max(1),
            recurring_ms: scrape.unwrap_or(detected.recurring_ms),
        }
    }

    /// F of a target with these intervals: as set, but not below a scrape, so that a
    /// reading lasts until the next one.
    #[must_use]
    pub fn fresh_ms(&self, timing: Timing) -> i64 {
        let set = self.freshness.map(millis);
        set.map_or_else(|| timing.fresh_ms(), |set| set.max(timing.scrape_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_freshness_bound_is_that_of_the_documentation() {
        let bound = |scrape_ms, exporter_ms| Timing::even(scrape_ms, exporter_ms).fresh_ms();
        assert_eq!(bound(15_000, 15_000), 45_000);
        assert_eq!(bound(15_000, 30_000), 60_000);
        assert_eq!(bound(60_000, 30_000), 150_000);
        assert_eq!(bound(5_000, 2_000), 12_500);
    }

    #[test]
    fn a_gap_that_recurs_is_not_taken_for_silence() {
        let timing = Timing {
            recurring_ms: 50_000,
            ..Timing::even(15_000, 15_000)
        };
        assert_eq!(timing.fresh_ms(), 50_000);
    }

    #[test]
    fn what_is_set_overrules_what_is_seen() {
        let overrides = Overrides {
            scrape_interval: Some(Duration::from_secs(10)),
            ..Overrides::default()
        };
        let timing = overrides.apply(Timing::even(60_000, 30_000));
        assert_eq!(timing, Timing::even(10_000, 30_000));
        assert_eq!(overrides.fresh_ms(timing), 50_000);
        let short = Overrides {
            freshness: Some(Duration::from_secs(20)),
            ..Overrides::default()
        };
        assert_eq!(short.fresh_ms(Timing::even(10_000, 10_000)), 20_000);
        assert_eq!(short.fresh_ms(Timing::even(60_000, 60_000)), 60_000);
    }
}

//! How often things happen: scrape interval, exporter interval, and what
//! follows from them. Detected from the data, per scrape job.

use std::time::Duration;

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

    /// How long after its newest sample a value on a grid of this step is served:
    /// F, and not less than it takes until the next instant can be there, its
    /// sample a scrape old and a scrape late. On a job's own grid that is F.
    #[must_use]
    pub fn lasting_ms(self, fresh_ms: i64, step_ms: i64) -> i64 {
        fresh_ms.max(step_ms + 2 * self.scrape_ms)
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
}

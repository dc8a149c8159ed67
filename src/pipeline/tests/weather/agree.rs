//! When two replicas must say the same, one of which started later.

use std::collections::BTreeSet;

use super::build::Target;
use super::content::{Point, ms};
use super::oracle::{Group, Oracle};
use super::world::Weather;

/// For so long after its start a replica learns, seconds.
const LEARNING: f64 = 75.0;

/// Whether clocks or intervals of a target take more than one look at the past to
/// be known: two scrapers in one series, and exporters slower than scrapes.
fn is_odd(target: &Target) -> bool {
    !target.clocks.is_empty() || target.second.is_some() || target.renew > target.scrape
}

impl Oracle<'_> {
    /// Whether two replicas must have the same value of a group: from the start
    /// on where scrapes and samples come steadily. Where habits decide the later
    /// one must have learned them first: the largest of four lags of its sources
    /// and of four distances of their targets, and whom it need not wait for.
    pub(super) fn must_agree(&self, group: Group, now: f64, read: f64) -> bool {
        let unsteady = self.latest_clock() > 0.0
            || self.world.has_outages()
            || self.built.targets.iter().any(is_odd);
        let begin = self.learning_since();
        if unsteady && now <= begin + LEARNING + self.world.lag_jitter() {
            return false;
        }
        let reads = if unsteady { 5 } else { 1 };
        self.sources_of(group)
            .all(|target| self.has_learned(target, (now, read), reads))
    }

    /// Whether presence must be the same too.
    pub(super) fn knows_habits(&self, group: Group, now: f64, read: f64) -> bool {
        self.sources_of(group)
            .all(|target| self.has_learned(target, (now, read), 5))
    }

    /// From when on the later replica can learn: its start, or where the store
    /// was away then, when it is back.
    fn learning_since(&self) -> f64 {
        let restart = self.world.restart;
        let back = self
            .world
            .weather
            .iter()
            .filter_map(|weather| match weather {
                Weather::Down { during }
                | Weather::Stall { during, .. }
                | Weather::Refused { during, .. } => {
                    let away = during.start < restart + LEARNING && during.end > restart;
                    away.then_some(during.end)
                }
                _ => None,
            });
        back.fold(restart, f64::max)
    }

    /// The targets of all sources of which a group has a target.
    fn sources_of(&self, group: Group) -> impl Iterator<Item = usize> {
        let source = |target: usize| {
            let target = &self.built.targets[target];
            (target.source, target.job)
        };
        let of_group = self.store.series.iter();
        let of_group = of_group.filter(move |series| self.has(group, series.pod));
        let sources: BTreeSet<_> = of_group.map(|series| source(series.target)).collect();
        (0..self.built.targets.len()).filter(move |target| sources.contains(&source(*target)))
    }

    /// Whether a target was read so often since the later replica can learn, or
    /// has been silent until no window shows it any more.
    fn has_learned(&self, target: usize, (now, read): (f64, f64), reads: usize) -> bool {
        let begin = ms(self.learning_since());
        let of_target = self.store.series.iter();
        let of_target = of_target.filter(|series| series.target == target);
        let (mut newest, mut most) = (i64::MIN / 4, 0);
        for series in of_target {
            let points = series.arrived(ms(read));
            newest = newest.max(points.last().map_or(i64::MIN / 4, |point| point.at));
            let since = |point: &&Point| point.arrived > begin;
            most = most.max(points.iter().rev().take(reads).filter(since).count());
        }
        let waited = self.longest_hold() + self.longest_window() + self.longest_lag();
        most >= reads || ms(now) - newest > ms(waited)
    }
}

//! When two replicas must say the same, one of which started later.

use std::collections::BTreeSet;
use std::ops::Range;

use super::build::Target;
use super::content::{Point, ms};
use super::oracle::{Group, Oracle};
use super::world::Weather;

/// For so long after its start a replica learns, seconds.
const LEARNING: f64 = 75.0;

/// How often the grid is decided, seconds: the longest window.
const DECIDED_EVERY: f64 = 300.0;

/// Whether clocks or intervals of a target take more than one look at the past to
/// be known: two scrapers in one series, exporters slower than scrapes or silent.
fn is_odd(target: &Target) -> bool {
    !target.clocks.is_empty()
        || !target.silent.is_empty()
        || target.second.is_some()
        || target.renew > target.scrape
}

impl Oracle<'_> {
    /// Whether two replicas must have the same value of a group: from the start
    /// on where scrapes and samples come steadily. Where habits decide the later
    /// one must have learned them first: the largest of four lags of its sources
    /// and of four distances of their targets, and whom it need not wait for.
    pub(super) fn must_agree(&self, group: Group, now: f64, read: f64) -> bool {
        // Up to F and the usual distance the last reading of who is silent counts.
        let lost = self
            .built
            .devices
            .iter()
            .any(|device| !device.lost.is_empty());
        let unsteady = self.latest_clock() > 0.0
            || self.world.has_outages()
            || lost
            || self.built.targets.iter().any(is_odd);
        if unsteady && now <= self.learning_since(now) + LEARNING {
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
    /// was away then, when it shows something again, or what the other one learned
    /// before is wrong too: a clock was set, or the store became later or less so.
    /// Where it first hears those whose clocks are right, its horizon stands until
    /// the others have passed it.
    fn learning_since(&self, now: f64) -> f64 {
        let lags = self.lags().map(|(_, secs)| secs);
        let lag = lags.fold(0.0, f64::max);
        let mut begin = self.world.restart;
        // One outage after another may leave no time to learn.
        let next = |begin: f64| {
            let away = self.outages();
            let away = away.filter(|during| {
                during.end > self.world.restart && during.start < begin + LEARNING + lag
            });
            away.map(|during| during.end + lag).fold(begin, f64::max)
        };
        while next(begin) > begin {
            begin = next(begin);
        }
        // Of an outage in which the grid was decided, or shortly before, samples
        // that came after it decide otherwise for who starts then, until it is
        // decided again.
        let late = self.longest_fresh + lag;
        let decided = |during: &Range<f64>| {
            let last = ((during.end + late) / DECIDED_EVERY).floor() * DECIDED_EVERY;
            (last >= during.start).then_some(last + DECIDED_EVERY)
        };
        if self
            .world
            .cadences()
            .map(ms)
            .collect::<BTreeSet<i64>>()
            .len()
            > 1
        {
            begin = self.outages().filter_map(decided).fold(begin, f64::max);
        }
        let clocks = self.built.targets.iter().flat_map(|target| &target.clocks);
        let set = clocks.flat_map(|(during, _)| [during.start, during.end]);
        let later = self.lags();
        let later = later.flat_map(|(during, secs)| [during.start + secs, during.end + secs]);
        let changes = set.chain(later).filter(|at| *at <= now);
        changes.fold(begin, f64::max) + self.latest_clock()
    }

    fn outages(&self) -> impl Iterator<Item = &Range<f64>> {
        let weather = self.world.weather.iter();
        weather.filter_map(|weather| match weather {
            Weather::Down { during }
            | Weather::Stall { during, .. }
            | Weather::Refused { during, .. } => Some(during),
            _ => None,
        })
    }

    fn lags(&self) -> impl Iterator<Item = (&Range<f64>, f64)> {
        let weather = self.world.weather.iter();
        weather.filter_map(|weather| match weather {
            Weather::Lag { during, secs, .. } => Some((during, *secs)),
            _ => None,
        })
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
        let begin = ms(self.learning_since(now));
        // Two scrapers are mostly read in one poll.
        let scrapers = if self.built.targets[target].second.is_some() {
            2
        } else {
            1
        };
        let reads = reads * scrapers;
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

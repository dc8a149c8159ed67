//! How late samples are when they are first read, and how long a reading is valid: F and
//! L of docs/numbers.md.

use std::collections::HashMap;

use super::{Job, PrometheusId, Target, TargetId, Targets};
use apimachinery::time::Timestamp;

/// The scrape interval of NVIDIA's chart and operator (NVIDIA/dcgm-exporter,
/// `deployment/values.yaml`), assumed while no interval of a job is known.
pub(super) const ASSUMED_MS: i64 = 15_000;

/// How many scrape intervals a sample is valid for.
const INTERVALS: i64 = 3;

/// A target that is later than its source by more has a wrong clock or a slow agent.
const OWN_LATENESS_MS: i64 = 10_000;

/// The most lateness that is waited for.
pub(crate) const LATENESS_MAX_MS: i64 = 120_000;

/// How late the last three samples of a target were when they were first read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lateness {
    /// Milliseconds, the latest first.
    last: [i32; 3],
    len: u8,
}

impl Lateness {
    fn note(&mut self, ms: i64) {
        self.last.rotate_right(1);
        self.last[0] = i32::try_from(ms).unwrap_or_default();
        self.len = (self.len + 1).min(3);
    }

    /// The median, milliseconds; `None` before the first.
    pub(super) fn ms(self) -> Option<i64> {
        let mut last = self.last;
        at_share(&mut last[..usize::from(self.len)], 1, 2).map(i64::from)
    }
}

impl Target {
    /// Measures how late the newest sample is when it is first read.
    fn measure(&mut self, now: Timestamp) {
        let newest = self.gaps.newest();
        if newest <= self.measured {
            return;
        }
        let late_ms = now.millis() - newest.millis();
        let late_ms = late_ms.clamp(0, LATENESS_MAX_MS);
        // Samples found at a start arrived at an unknown time.
        match self.measured > Timestamp::MIN {
            true => self.lateness.note(late_ms),
            false => self.first_age_ms = late_ms,
        }
        (self.measured, self.read) = (newest, now);
    }
}

impl Targets {
    /// Measures intervals and lateness from the round of a Prometheus that ended at `now`.
    pub(crate) fn advance(&mut self, of: PrometheusId, now: Timestamp) {
        for target in self.targets.iter_mut().flatten() {
            if self.sources[usize::from(target.name.source)].key.prometheus == of {
                target.measure(now);
            }
        }
        self.set_intervals();
        self.set_lags(now);
    }

    /// Sets S of every target: its own, or the median of its job's.
    fn set_intervals(&mut self) {
        let mut known: HashMap<Job, Vec<i64>> = HashMap::new();
        for target in self.targets.iter_mut().flatten() {
            target.scrape_ms = target.gaps.interval_ms();
            let job = self.sources[usize::from(target.name.source)].job();
            known.entry(job).or_default().extend(target.scrape_ms);
        }
        let of_jobs = known.into_iter();
        let of_jobs = of_jobs.map(|(job, mut known)| (job, at_share(&mut known, 1, 2)));
        let of_jobs: HashMap<Job, Option<i64>> = of_jobs.collect();
        for target in self.targets.iter_mut().flatten() {
            let job = self.sources[usize::from(target.name.source)].job();
            let of_job = || of_jobs.get(&job).copied().flatten();
            target.scrape_ms = target.scrape_ms.or_else(of_job);
        }
    }

    /// Sets L of every source: the median lateness of the targets that were read within
    /// F. Without any, L stays. Before any lateness is measured, L is the lower quartile of
    /// the ages of the newest samples.
    fn set_lags(&mut self, now: Timestamp) {
        let mut of_sources = vec![(Vec::new(), Vec::new()); self.sources.len()];
        for target in self.targets.iter().flatten() {
            if target.measured == Timestamp::MIN {
                continue;
            }
            let (late, ages) = &mut of_sources[usize::from(target.name.source)];
            if now.millis() - target.read.millis() <= self.believed_ms(target) {
                late.extend(target.lateness.ms());
            }
            ages.push(target.first_age_ms);
        }
        for (source, (late, ages)) in self.sources.iter_mut().zip(&mut of_sources) {
            let late_ms = at_share(late, 1, 2);
            source.is_measured |= late_ms.is_some();
            let is_measured = source.is_measured;
            let age_ms = || at_share(ages, 1, 4).filter(|_| !is_measured);
            source.lag_ms = late_ms.or_else(age_ms).unwrap_or(source.lag_ms);
        }
    }

    /// S of a target: configured, or measured, or [`ASSUMED_MS`].
    pub(super) fn scrape_ms(&self, target: &Target) -> i64 {
        let known = self.settings.scrape_ms.or(target.scrape_ms);
        known.unwrap_or(ASSUMED_MS)
    }

    /// F without the target's own lateness, milliseconds.
    fn believed_ms(&self, target: &Target) -> i64 {
        let intervals_ms = INTERVALS * self.scrape_ms(target);
        intervals_ms.max(self.settings.fresh_ms)
    }

    /// How much later a target is than its source; 0 up to [`OWN_LATENESS_MS`].
    pub(super) fn own_lateness_ms(&self, target: &Target) -> i64 {
        let lag_ms = self.source_of(target).lag_ms;
        let own_ms = target.lateness.ms().map_or(0, |late_ms| late_ms - lag_ms);
        match own_ms > OWN_LATENESS_MS {
            true => own_ms,
            false => 0,
        }
    }

    /// F of a target.
    pub(super) fn fresh_of(&self, target: &Target) -> i64 {
        self.believed_ms(target) + self.own_lateness_ms(target)
    }

    /// F of a target, milliseconds.
    pub(crate) fn fresh_ms(&self, id: TargetId) -> i64 {
        self.target(id).map_or(0, |target| self.fresh_of(target))
    }

    /// The largest F of the targets, milliseconds.
    pub(crate) fn longest_fresh_ms(&self) -> i64 {
        let targets = self.targets.iter().flatten();
        let fresh = targets.map(|target| self.fresh_of(target)).max();
        fresh.unwrap_or_else(|| (INTERVALS * ASSUMED_MS).max(self.settings.fresh_ms))
    }

    /// The largest L of the sources that have targets, milliseconds.
    pub(crate) fn longest_lag_ms(&self) -> i64 {
        let sources = self.sources.iter().filter(|source| source.targets > 0);
        sources.map(|source| source.lag_ms).max().unwrap_or(0)
    }

    /// The earliest time of samples of a Prometheus that may not have been read yet: the
    /// newest sample of the target furthest behind, of those that may still send samples.
    /// If none may, it is the newest sample of all.
    pub(crate) fn unread_since(&self, of: PrometheusId, now: Timestamp) -> Option<Timestamp> {
        let targets = self.targets.iter().flatten();
        let targets = targets.filter(|target| self.source_of(target).key.prometheus == of);
        let heard = targets.map(|target| (target.gaps.newest(), self.fresh_of(target)));
        let heard = heard.filter(|(newest, _)| *newest > Timestamp::MIN);
        let awaited = heard.clone().filter(|(newest, fresh_ms)| {
            now.millis() - newest.millis() <= fresh_ms + LATENESS_MAX_MS
        });
        let times = |(newest, _)| newest;
        awaited.map(times).min().or_else(|| heard.map(times).max())
    }
}

/// The value at this share of the sorted ones, the lower of two; `None` without values.
fn at_share<T: Ord + Copy>(values: &mut [T], share: usize, of: usize) -> Option<T> {
    let rank = values.len().checked_sub(1)? * share / of;
    Some(*values.select_nth_unstable(rank).1)
}

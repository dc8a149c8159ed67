//! Times that samples show: S, F and L of docs/numbers.md, each with two bounds, in
//! milliseconds.

use std::collections::BTreeMap;

use super::build::{Built, Target};
use super::content::{Store, ms};

/// The least time for which a reading is valid.
const LEAST_FRESH: i64 = 30_000;

/// S before any gap is known.
const ASSUMED: i64 = 15_000;

/// Number of gaps between scrapes that count.
const GAPS: usize = 20;

/// A target that is later than its source by more than the first value is allowed the
/// difference, up to the second value.
pub(super) const OWN_LATE: (i64, i64) = (10_000, 120_000);

/// The lower and upper bound of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Between<T> {
    pub(super) low: T,
    pub(super) high: T,
}

pub(super) const fn between<T>(low: T, high: T) -> Between<T> {
    Between { low, high }
}

/// The known times of a target.
#[derive(Clone, Debug)]
pub(super) struct SampleTimes {
    /// Every sample: its time and its arrival.
    samples: Vec<(i64, i64)>,
    /// How many series have them.
    series: usize,
    newest: i64,
    /// The times of reads with new samples, and their lateness.
    late: Vec<(i64, i64)>,
    pub(super) scrape: Between<i64>,
    /// F, including its own lateness.
    pub(super) fresh: Between<i64>,
    /// L of its source.
    pub(super) lag: Between<i64>,
}

impl SampleTimes {
    /// Whether it was ever read.
    pub(super) fn is_known(&self) -> bool {
        !self.late.is_empty()
    }

    /// Its least lateness since a time.
    pub(super) fn least_late(&self, since: i64) -> i64 {
        let late = self.late.iter().rev();
        let late = late.take_while(|(read, _)| *read > since);
        let least = late.map(|(_, late)| *late).min();
        least.unwrap_or(0)
    }

    /// F without its own lateness.
    pub(super) fn least_fresh(&self) -> i64 {
        LEAST_FRESH.max(3 * self.scrape.low)
    }

    /// The median of the last three.
    fn late(&self) -> Between<i64> {
        let late = self.late.iter().rev().take(3);
        middle(late.map(|(_, late)| *late).collect())
    }

    /// Records the arrived samples. `others` are the bounds of S elsewhere in its
    /// job.
    fn read(&mut self, now: i64, others: Between<i64>) {
        let by_time = self.samples.partition_point(|(at, _)| *at <= now);
        let by_arrival = self.samples.partition_point(|(_, arrived)| *arrived <= now);
        let end = by_time.min(by_arrival);
        let samples = &self.samples[end.saturating_sub(GAPS + 1)..end];
        let Some((newest, _)) = samples.last().filter(|(at, _)| *at > self.newest) else {
            return;
        };
        self.newest = *newest;
        self.late.push((now, (now - newest).min(OWN_LATE.1)));
        let gaps = samples.windows(2).map(|pair| pair[1].0 - pair[0].0);
        let mut gaps: Vec<i64> = gaps.collect();
        let lately = match gaps[..] {
            [.., one, other] => one.min(other),
            _ => 0,
        };
        gaps.sort_unstable();
        self.scrape = others;
        if let Some(last) = gaps.len().checked_sub(1) {
            // Whole seconds, up or down.
            let low = gaps[last * 3 / 4].max(lately) / 1000 * 1000;
            let high = gaps[(gaps.len() * 3 / 4).min(last)].max(lately);
            let high = (high + 999) / 1000 * 1000;
            self.scrape = match gaps.len() {
                GAPS => between(low, high),
                _ => between(others.low.min(low), others.high.max(high)),
            };
        }
    }
}

/// The known times of all targets.
#[derive(Debug)]
pub(super) struct Times(Vec<SampleTimes>);

impl Times {
    pub(super) fn new(built: &Built, store: &Store) -> Self {
        let mut samples = vec![BTreeMap::new(); built.targets.len()];
        for series in &store.series {
            let readings = series.points.iter().filter(|point| !point.value.is_nan());
            samples[series.target].extend(readings.map(|point| (point.at, point.arrived)));
        }
        let devices = |target| {
            let devices = built.devices.iter();
            devices.filter(|it| it.targets.contains(&target)).count()
        };
        let heard = samples.into_iter().enumerate();
        let heard = heard.map(|(target, samples)| SampleTimes {
            samples: samples.into_iter().collect(),
            series: devices(target),
            newest: i64::MIN,
            late: Vec::new(),
            scrape: between(ASSUMED, ASSUMED),
            fresh: between(LEAST_FRESH, LEAST_FRESH),
            lag: between(0, 0),
        });
        Self(heard.collect())
    }

    pub(super) fn of(&self, target: usize) -> &SampleTimes {
        &self.0[target]
    }

    /// Records a read of everything that had arrived (rules 2 to 4).
    pub(super) fn read(&mut self, built: &Built, now: f64) {
        let now = ms(now);
        for (heard, target) in self.0.iter_mut().zip(&built.targets) {
            let of_job = built.targets.iter().filter(|other| other.job == target.job);
            let scrapes = || {
                of_job
                    .clone()
                    .map(|other| ms(other.scrape))
                    .chain([ASSUMED])
            };
            let others = between(scrapes().min(), scrapes().max());
            let others = between(others.low.unwrap_or(0), others.high.unwrap_or(0));
            heard.read(now, others);
        }
        let lags = self.0.iter().zip(&built.targets);
        let lags: Vec<Between<i64>> = lags.map(|of| self.lag(built, of, now)).collect();
        for (heard, lag) in self.0.iter_mut().zip(lags) {
            let late = heard.late();
            let own = |secs: i64| match secs > OWN_LATE.0 {
                true => secs.min(OWN_LATE.1),
                false => 0,
            };
            heard.lag = lag;
            heard.fresh = between(
                heard.least_fresh() + own(late.low - lag.high),
                LEAST_FRESH.max(3 * heard.scrape.high) + own(late.high - lag.low),
            );
        }
    }

    /// L: the median over the targets of a source that were read recently; without any
    /// it stays.
    fn lag(&self, built: &Built, (heard, of): (&SampleTimes, &Target), now: i64) -> Between<i64> {
        let all = self.0.iter().zip(&built.targets);
        let all = all.filter(|(heard, target)| {
            heard.is_known() && (target.source, target.job) == (of.source, of.job)
        });
        let all = all.map(|(heard, _)| heard);
        let is_live = |heard: &&SampleTimes| {
            let fresh = LEAST_FRESH.max(3 * heard.scrape.high);
            heard
                .late
                .last()
                .is_some_and(|(read, _)| now - read <= fresh)
        };
        let live: Vec<&SampleTimes> = all.filter(is_live).collect();
        if live.is_empty() {
            return heard.lag;
        }
        let series = |heard: &&SampleTimes| vec![heard.late(); heard.series];
        let late = || live.iter().flat_map(series);
        between(
            middle(late().map(|late| late.low).collect()).low,
            middle(late().map(|late| late.high).collect()).high,
        )
    }
}

/// The median; an even number of values has two.
fn middle(mut of: Vec<i64>) -> Between<i64> {
    of.sort_unstable();
    match of.len() {
        0 => between(0, 0),
        len => between(of[(len - 1) / 2], of[len / 2]),
    }
}

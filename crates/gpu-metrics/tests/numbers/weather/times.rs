//! S, F and L of docs/numbers.md (rules 1 to 3), of every series of a store, in milliseconds.

use std::collections::BTreeMap;

use super::store::{Point, Series, Store, ms};
use super::world::World;

/// The least time for which a reading is valid.
const LEAST_FRESH: i64 = 30_000;

/// S before any gap is known.
const ASSUMED: i64 = 15_000;

/// Number of gaps between scrapes that count, and the longest of them.
const GAPS: (usize, i64) = (20, 655_000);

/// With fewer gaps, S is compared with that of the source.
const FEW: usize = 4;

/// A series that is later than its source by more is allowed the difference.
const OWN_LATE: i64 = 10_000;

/// The most lateness that is measured.
const LATEST: i64 = 120_000;

/// After a longer time without an answer, lateness is unknown.
const OUTAGE: i64 = 30_000;

/// A series is forgotten this long after its last sample.
pub(super) const FORGOTTEN: i64 = 1_200_000;

/// What reads have shown of a series.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    /// The newest sample and when it was read; `None`: none was.
    pub(super) newest: Option<(i64, i64)>,
    /// How many samples had arrived when it was forgotten.
    forgotten: usize,
    /// The lateness of the last three, the age of those of which it is unknown.
    late: Vec<i64>,
    age: i64,
    /// S by its own gaps, and how many there are.
    own: Option<(i64, usize)>,
    pub(super) scrape: i64,
    /// F, with its own lateness.
    pub(super) fresh: i64,
    /// L of its source.
    pub(super) lag: i64,
}

impl Heard {
    /// Takes the arrived samples.
    fn read(&mut self, points: &[Point], now: i64, is_outage: bool) {
        if self
            .newest
            .is_some_and(|(newest, _)| newest < now - FORGOTTEN)
        {
            *self = Self {
                forgotten: points.len(),
                ..Self::default()
            };
        }
        let points = points[self.forgotten..].iter().rev();
        let mut times = points
            .filter(|point| !point.value.is_nan())
            .map(|point| point.at);
        let Some(newest) = times.next() else { return };
        if self.newest.is_some_and(|(known, _)| known >= newest) {
            return;
        }
        self.newest = Some((newest, now));
        let late = (now - newest).min(LATEST);
        if is_outage {
            self.age = late;
        } else {
            self.late.insert(0, late);
            self.late.truncate(3);
        }
        let mut after = newest;
        let gaps = times.map(|at| std::mem::replace(&mut after, at) - at);
        let mut gaps: Vec<i64> = gaps.filter(|gap| *gap <= GAPS.1).take(GAPS.0).collect();
        let lately = if let [one, other, ..] = gaps[..] {
            one.min(other)
        } else {
            0
        };
        let gap = ranked(&mut gaps, 3, 4).map(|gap| gap.max(lately));
        self.own = gap.map(|gap| (((gap + 500) / 1000 * 1000).max(1000), gaps.len()));
    }

    /// The usual lateness; `None`: it is unknown.
    fn late(&self) -> Option<i64> {
        ranked(&mut self.late.clone(), 1, 2)
    }

    /// S, of a source with this S.
    fn scrape(&self, of_source: i64) -> i64 {
        match self.own {
            None => of_source,
            Some((own, gaps)) if gaps < FEW && own > 4 * of_source => of_source,
            Some((own, gaps)) if gaps < FEW => own.max(of_source),
            Some((own, _)) => own,
        }
    }
}

/// The value at this share of the sorted ones, the lower of two.
fn ranked(values: &mut [i64], share: usize, of: usize) -> Option<i64> {
    values.sort_unstable();
    let rank = values.len().checked_sub(1)? * share / of;
    Some(values[rank])
}

fn fresh(scrape: i64) -> i64 {
    LEAST_FRESH.max(3 * scrape)
}

/// S and L of a source; L is `None` before any lateness is measured.
#[derive(Clone, Copy, Debug, Default)]
struct Source {
    scrape: Option<i64>,
    lag: Option<i64>,
}

/// The times of all series.
#[derive(Debug)]
pub(super) struct Times<'a> {
    world: &'a World,
    store: &'a Store,
    /// By series.
    pub(super) heard: Vec<Heard>,
    sources: BTreeMap<(&'static str, &'static str), Source>,
    /// The last read, and the time since the one before.
    round: Option<(i64, i64)>,
}

impl<'a> Times<'a> {
    pub(super) fn new(world: &'a World, store: &'a Store) -> Self {
        Self {
            world,
            store,
            heard: vec![Heard::default(); store.series.len()],
            sources: BTreeMap::new(),
            round: None,
        }
    }

    /// Measures everything that had arrived by a read.
    pub(super) fn hear(&mut self, now: f64) {
        let now = ms(now);
        let since = self.round.map_or(i64::MAX, |(round, _)| now - round);
        let pace = self.round.map_or(0, |(_, pace)| pace);
        self.round = Some((now, since.min(2 * OUTAGE)));
        let mut of_sources: BTreeMap<_, [Vec<i64>; 3]> = BTreeMap::new();
        for (heard, series) in self.heard.iter_mut().zip(&self.store.series) {
            heard.read(series.arrived(now), now, since > OUTAGE.max(2 * pace));
            let Some((_, read)) = heard.newest else {
                continue;
            };
            let source = source_of(self.world, series);
            let known = self.sources.get(&source).and_then(|it| it.scrape);
            let fresh = fresh(heard.scrape(known.unwrap_or(ASSUMED)));
            let [scrapes, late, ages] = of_sources.entry(source).or_default();
            scrapes.extend(heard.own.map(|(scrape, _)| scrape));
            late.extend(heard.late().filter(|_| now - read <= fresh));
            ages.push(heard.age.min(fresh));
        }
        for (source, [mut scrapes, mut late, mut ages]) in of_sources {
            let of = self.sources.entry(source).or_default();
            of.scrape = ranked(&mut scrapes, 1, 2).or(of.scrape);
            of.lag = ranked(&mut late, 1, 2).or(of.lag);
            let guess = ranked(&mut ages, 1, 4).unwrap_or(0);
            for (heard, series) in self.heard.iter_mut().zip(&self.store.series) {
                if source_of(self.world, series) == source {
                    heard.lag = of.lag.unwrap_or(guess);
                    heard.scrape = heard.scrape(of.scrape.unwrap_or(ASSUMED));
                    let own = heard.late().unwrap_or(0) - heard.lag;
                    heard.fresh = fresh(heard.scrape) + if own > OWN_LATE { own } else { 0 };
                }
            }
        }
    }
}

fn source_of(world: &World, series: &Series) -> (&'static str, &'static str) {
    let target = &world.targets[series.target];
    (target.source, target.job)
}

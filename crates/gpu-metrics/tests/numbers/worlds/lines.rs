//! S, F and L of docs/numbers.md (rules 1 to 3), of every series that a store has shown. Times are
//! in milliseconds from time zero.

use std::collections::BTreeMap;

use super::ms;
use crate::notation::Case;
use crate::series::Series;

/// S before any gap is known, the most lateness, and how far back a start reads.
const ASSUMED: i64 = 15_000;
const LATEST: i64 = 120_000;
const BACK: i64 = 1_200_000;

/// A series, with what reads have shown of it.
#[derive(Default)]
pub(super) struct Line<'a> {
    pub(super) uuid: &'a str,
    pub(super) pod: Option<&'a str>,
    pub(super) node: &'a str,
    /// Its job and Prometheus.
    source: [&'a str; 2],
    /// When samples arrive that were not read, their times and values.
    unread: Vec<(i64, (i64, f64))>,
    /// The samples that were read, and when the newest one was.
    pub(super) samples: Vec<(i64, f64)>,
    read: i64,
    /// The lateness of the last three.
    late: Vec<i64>,
    /// S by its own gaps, and how many there are.
    own: Option<(i64, usize)>,
    /// S, F, and L of its source.
    pub(super) scrape: i64,
    pub(super) fresh: i64,
    pub(super) lag: i64,
}

impl<'a> Line<'a> {
    /// Of a replica that starts at a time.
    fn of(series: &'a Series, start: i64) -> Self {
        let label = |name: &str| {
            let mut pairs = series.labels.split(' ').filter_map(|it| it.split_once('='));
            pairs.find(|it| it.0 == name).map(|it| it.1)
        };
        let all = series.samples.iter();
        let samples = all.map(|it| (ms(it.arrives), (ms(it.sample.at), it.sample.value)));
        let is_known = |sample: &(_, (i64, _))| sample.1.0 > start - BACK;
        Self {
            uuid: label("UUID").unwrap(),
            pod: label("pod"),
            node: label("Hostname").unwrap(),
            source: ["job", "prometheus"].map(|name| label(name).unwrap_or_default()),
            unread: samples.filter(is_known).collect(),
            ..Self::default()
        }
    }

    /// Takes the samples after a time that have arrived.
    fn hear(&mut self, now: i64, from: i64) {
        let newest = self.samples.last().map(|it| it.0);
        let count = self.samples.len();
        let is_read = |it: &mut (i64, (i64, f64))| it.0 <= now && it.1.0 > from;
        let read = self.unread.extract_if(.., is_read).map(|it| it.1);
        self.samples.extend(read);
        if self.samples.len() == count {
            return;
        }
        self.samples.sort_by_key(|it| it.0);
        if newest != Some(self.newest()) {
            self.read = now;
            let late = (now - self.newest()).clamp(0, LATEST);
            if newest.is_some() {
                self.late.insert(0, late);
                self.late.truncate(3);
            }
        }
        let gaps = self.samples.windows(2).rev();
        let gaps = gaps.map(|two| two[1].0 - two[0].0);
        let mut gaps: Vec<i64> = gaps.filter(|gap| *gap <= 655_000).take(20).collect();
        let lately = gaps.get(1).map_or(0, |one| gaps[0].min(*one));
        let gap = ranked(&mut gaps, 3, 4).map(|gap| gap.max(lately));
        self.own = gap.map(|gap| (((gap + 500) / 1000 * 1000).max(1000), gaps.len()));
    }

    pub(super) fn first(&self) -> i64 {
        self.samples[0].0
    }

    pub(super) fn newest(&self) -> i64 {
        self.samples[self.samples.len() - 1].0
    }

    /// The newest sample that is not after a time.
    pub(super) fn newest_before(&self, time: i64) -> Option<(i64, f64)> {
        let end = self.samples.partition_point(|it| it.0 <= time);
        self.samples[..end].last().copied()
    }

    fn late(&self) -> Option<i64> {
        ranked(&mut self.late.clone(), 1, 2)
    }

    /// S, in a source with this one.
    fn scrape(&self, of_source: i64) -> i64 {
        match self.own {
            Some((own, 4..)) => own,
            Some((own, _)) if own <= 4 * of_source => own.max(of_source),
            _ => of_source,
        }
    }
}

fn fresh(scrape: i64) -> i64 {
    (3 * scrape).max(30_000)
}

/// The value at this share of the sorted ones, the lower of two.
fn ranked<T: Ord + Copy>(values: &mut [T], share: usize, of: usize) -> Option<T> {
    values.sort_unstable();
    let rank = values.len().checked_sub(1)? * share / of;
    Some(values[rank])
}

/// S and L of a source.
type Source = (Option<i64>, i64);

/// All series.
pub(super) struct Lines<'a> {
    pub(super) all: Vec<Line<'a>>,
    sources: BTreeMap<[&'a str; 2], Source>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(case: &'a Case<'_>, start: i64) -> Self {
        Self {
            all: case.series.iter().map(|it| Line::of(it, start)).collect(),
            sources: BTreeMap::new(),
        }
    }

    /// Reads and measures all samples after a time that have arrived.
    pub(super) fn hear(&mut self, now: i64, from: i64) {
        let mut shown: BTreeMap<_, [Vec<i64>; 2]> = BTreeMap::new();
        for line in &mut self.all {
            let known = self.sources.get(&line.source).and_then(|it| it.0);
            let known = known.unwrap_or(ASSUMED);
            line.hear(now, from);
            if !line.samples.is_empty() {
                let [scrapes, late] = shown.entry(line.source).or_default();
                scrapes.extend(line.own.map(|(scrape, _)| scrape));
                let is_recent = now - line.read <= fresh(line.scrape(known));
                late.extend(line.late().filter(|_| is_recent));
            }
        }
        for (source, [mut scrapes, mut late]) in shown {
            let (scrape, lag) = self.sources.entry(source).or_default();
            *scrape = ranked(&mut scrapes, 1, 2).or(*scrape);
            *lag = ranked(&mut late, 1, 2).unwrap_or(*lag);
            for line in self.all.iter_mut().filter(|line| line.source == source) {
                line.lag = *lag;
                line.scrape = line.scrape(scrape.unwrap_or(ASSUMED));
                let own = line.late().unwrap_or(0) - *lag;
                line.fresh = fresh(line.scrape) + if own > 10_000 { own } else { 0 };
            }
        }
    }
}

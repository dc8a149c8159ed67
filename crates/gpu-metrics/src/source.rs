//! Sources: scrape jobs with their external labels. How often they are scraped (S), how
//! late their samples are (L), and whether their percents are percents.

use std::collections::HashMap;
use std::sync::Arc;

use apimachinery::time::{Timestamp, millis};

use crate::gaps::{Gaps, at_share};
use crate::policy::Policy;
use crate::signal::SignalId;
use crate::validity::UnitEvidence;

/// The scrape interval of NVIDIA's chart and operator (NVIDIA/dcgm-exporter,
/// `deployment/values.yaml`), assumed while no interval of a source is known.
pub(crate) const ASSUMED_MS: i64 = 15_000;

/// The most lateness that is waited for.
pub(crate) const LATENESS_MAX_MS: i64 = 120_000;

/// Index of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u16);

/// A scrape job of a Prometheus with its external labels.
#[derive(Clone, Debug)]
pub struct Source {
    pub job: Arc<str>,
    /// S of its series, the median, milliseconds; `None` before any gap is known.
    pub scrape_ms: Option<i64>,
    /// L, milliseconds.
    pub lag_ms: i64,
    /// How late its samples may be: longer than L before a lateness is measured; `None`
    /// before a sample is read.
    latest_ms: Option<i64>,
}

/// A field of a source, by the place of its name.
type Unit = (SourceId, SignalId, u8);

/// All sources.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    all: Vec<Source>,
    ids: HashMap<Arc<str>, SourceId>,
    /// The fields whose unit this round shows.
    round: HashMap<Unit, UnitEvidence>,
    /// The last rounds that contradicted percents, by field.
    fractions: HashMap<Unit, Timestamp>,
}

impl Sources {
    /// The source of a new line. Beyond the limit, all further ones share one source.
    pub(crate) fn register(&mut self, name: &Arc<str>, job: &Arc<str>) -> SourceId {
        if let Some(id) = self.ids.get(name) {
            return *id;
        }
        let Ok(id) = u16::try_from(self.all.len()).map(SourceId) else {
            return SourceId(u16::MAX);
        };
        self.all.push(Source {
            job: Arc::clone(job),
            scrape_ms: None,
            lag_ms: 0,
            latest_ms: None,
        });
        self.ids.insert(Arc::clone(name), id);
        id
    }

    /// All sources, by id.
    #[must_use]
    pub fn all(&self) -> &[Source] {
        &self.all
    }

    pub(crate) fn lag_ms(&self, id: SourceId) -> i64 {
        self.all.get(usize::from(id.0)).map_or(0, |it| it.lag_ms)
    }

    /// S of a line, milliseconds.
    pub(crate) fn scrape_ms(&self, policy: &Policy, id: SourceId, gaps: &Gaps) -> i64 {
        let of_source = self.all.get(usize::from(id.0)).and_then(|it| it.scrape_ms);
        let detected = || gaps.scrape_ms(of_source.unwrap_or(ASSUMED_MS));
        policy.scrape_interval.map_or_else(detected, millis)
    }

    /// How late samples may be.
    pub(crate) fn longest_lag_ms(&self) -> i64 {
        let all = self.all.iter().filter_map(|source| source.latest_ms);
        all.max().unwrap_or(0)
    }

    /// Measures S and L from the lines after a round at `now`. Without a line that was read
    /// less than F ago, L stays.
    pub(crate) fn measure<'a>(
        &mut self,
        policy: &Policy,
        now: Timestamp,
        lines: impl Iterator<Item = (SourceId, &'a Gaps)>,
    ) {
        let mut of_sources = vec![(Vec::new(), Vec::new(), None); self.all.len()];
        for (id, gaps) in lines.filter(|(_, gaps)| gaps.measured > Timestamp::MIN) {
            let Some((scrapes, late, latest)) = of_sources.get_mut(usize::from(id.0)) else {
                continue;
            };
            let fresh_ms = policy.fresh_ms(self.scrape_ms(policy, id, gaps));
            let read_ms = now.millis() - gaps.read.millis();
            scrapes.extend(gaps.own_scrape_ms());
            *latest = Some(LATENESS_MAX_MS);
            late.extend(gaps.late_ms().filter(|_| read_ms <= fresh_ms));
        }
        for (source, (scrapes, late, latest)) in self.all.iter_mut().zip(&mut of_sources) {
            source.scrape_ms = at_share(scrapes, 1, 2).or(source.scrape_ms);
            let late_ms = at_share(late, 1, 2);
            source.latest_ms = latest.and(late_ms.or(source.latest_ms).or(*latest));
            source.lag_ms = late_ms.unwrap_or(source.lag_ms);
        }
    }

    /// Takes a new sample of a field in percent.
    #[inline]
    pub(crate) fn show_unit(&mut self, of: Unit, value: f64) {
        if value > 0.0 {
            self.round.entry(of).or_default().add(value);
        }
    }

    /// Ends a round: decides which fields of which sources it contradicts.
    pub(crate) fn judge_units(&mut self, now: Timestamp) {
        let contradicted = self.round.drain();
        let contradicted = contradicted.filter(|(_, values)| values.contradicts_percents());
        self.fractions.extend(contradicted.map(|(of, _)| (of, now)));
    }

    /// The fields whose values between 0 and 1 contradict percents since a time: their unit
    /// is unknown.
    pub(crate) fn of_unknown_unit(&self, since: Timestamp) -> Vec<Unit> {
        let recent = self
            .fractions
            .iter()
            .filter(|(_, newest)| **newest >= since);
        let mut all: Vec<Unit> = recent.map(|(of, _)| *of).collect();
        all.sort_unstable();
        all
    }
}

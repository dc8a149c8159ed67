//! All targets and sources at one time, for a snapshot.

use std::sync::Arc;

use super::{PrometheusId, Target, Targets};
use apimachinery::time::Timestamp;

/// A target in a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct TargetView {
    /// Its source, an index into [`View::sources`].
    pub source: u16,
    /// S, milliseconds.
    pub scrape_ms: i64,
    /// F, milliseconds, including its own lateness.
    pub fresh_ms: i64,
    /// How much later it is than its source, milliseconds; 0 for a small difference.
    pub own_lateness_ms: i64,
    /// Its newest sample.
    pub newest: Timestamp,
    /// Whether it is silent: no sample for F, or frozen readings.
    pub silent: bool,
    /// Since when no reading has changed though some should have: the readings are
    /// unknown from then on.
    pub frozen_since: Option<Timestamp>,
}

/// A source in a snapshot.
#[derive(Clone, Debug)]
pub struct SourceView {
    pub prometheus: PrometheusId,
    /// Its scrape job.
    pub job: Arc<str>,
    /// L: how late its samples are, milliseconds.
    pub lag_ms: i64,
}

/// All targets and sources at one time.
#[derive(Clone, Debug)]
pub struct View {
    /// By index; removed ones are silent.
    pub targets: Vec<TargetView>,
    /// By index.
    pub sources: Vec<SourceView>,
}

impl Targets {
    /// The state of all targets and sources at `now`.
    pub(crate) fn view(&self, now: Timestamp) -> View {
        let sources = self.sources.iter().map(|source| SourceView {
            prometheus: source.key.prometheus,
            job: Arc::clone(&source.job),
            lag_ms: source.lag_ms,
        });
        let view = |target: &Option<Target>| match target {
            Some(target) => self.view_of(target, now),
            None => TargetView::FORGOTTEN,
        };
        View {
            targets: self.targets.iter().map(view).collect(),
            sources: sources.collect(),
        }
    }

    fn view_of(&self, target: &Target, now: Timestamp) -> TargetView {
        let newest = target.gaps.newest();
        let fresh_ms = self.fresh_of(target);
        let frozen_since = target.frozen_since(self.settings);
        let lag_ms = self.source_of(target).lag_ms;
        let unheard_ms = now.millis() - lag_ms - newest.millis();
        TargetView {
            source: target.name.source,
            scrape_ms: self.scrape_ms(target),
            fresh_ms,
            own_lateness_ms: self.own_lateness_ms(target),
            newest,
            silent: unheard_ms >= fresh_ms || frozen_since.is_some(),
            frozen_since,
        }
    }
}

impl View {
    /// L of the source of a target, milliseconds.
    #[must_use]
    pub fn lag_ms(&self, target: &TargetView) -> i64 {
        let source = self.sources.get(usize::from(target.source));
        source.map_or(0, |source| source.lag_ms)
    }
}

impl TargetView {
    const FORGOTTEN: Self = Self {
        source: 0,
        scrape_ms: 0,
        fresh_ms: 0,
        own_lateness_ms: 0,
        newest: Timestamp::MIN,
        silent: true,
        frozen_since: None,
    };
}

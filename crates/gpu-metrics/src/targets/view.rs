//! All targets and sources at one time, for a snapshot.

use super::{JobId, Target, Targets};
use apimachinery::time::Timestamp;

/// How long a silent target still determines the window, milliseconds, so that the
/// window's end does not jump when the latest source stops.
const LATELY_MS: i64 = 60_000;

/// A target in a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct TargetView {
    /// Its source, an index into [`View::sources`].
    pub source: u16,
    /// S, milliseconds.
    pub scrape_ms: i64,
    /// F, milliseconds, including its own lateness.
    pub fresh_ms: i64,
    /// How much later it is than its source, if that is more than chance, milliseconds.
    pub own_lateness_ms: i64,
    /// How late its samples are when they are first read, milliseconds.
    pub late_ms: i64,
    /// Its newest sample.
    pub newest: Timestamp,
    /// Whether it is silent: no sample for F, or frozen readings.
    pub silent: bool,
    /// Whether it was heard within F and a minute.
    pub heard_lately: bool,
    /// Since when no reading has changed though some should have: the readings are
    /// unknown from then on.
    pub frozen_since: Option<Timestamp>,
    /// Later samples have not been read yet, as far as known.
    pub read_until: Timestamp,
}

/// A source in a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct SourceView {
    /// Its scrape job.
    pub job: JobId,
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
    #[must_use]
    pub fn view(&self, now: Timestamp) -> View {
        let sources = self.sources.iter().map(|source| SourceView {
            job: source.job,
            lag_ms: source.lag_ms,
        });
        let sources: Vec<SourceView> = sources.collect();
        let view = |target: &Option<Target>| match target {
            Some(target) => self.view_of(target).judged(&sources, now),
            None => TargetView::FORGOTTEN,
        };
        View {
            targets: self.targets.iter().map(view).collect(),
            sources,
        }
    }

    fn view_of(&self, target: &Target) -> TargetView {
        let newest = target.gaps.newest();
        let scrape_ms = self.scrape_ms(target);
        let lag_ms = self.sources[usize::from(target.source)].lag_ms;
        TargetView {
            source: target.source,
            scrape_ms,
            fresh_ms: self.fresh_of(target),
            own_lateness_ms: self.own_lateness_ms(target),
            late_ms: target.lateness.ms().unwrap_or(lag_ms),
            newest,
            frozen_since: target.frozen_since(self.settings),
            read_until: Timestamp::MAX,
            ..TargetView::FORGOTTEN
        }
    }
}

impl View {
    /// The same at the past time `now`, with these delays of the sources. Intervals
    /// learned since then stay.
    #[must_use]
    pub fn as_of(&self, now: Timestamp, lags_ms: &[i64]) -> Self {
        let sources = self.sources.iter().zip(lags_ms);
        let sources = sources.map(|(source, lag_ms)| SourceView {
            lag_ms: *lag_ms,
            ..*source
        });
        let sources: Vec<SourceView> = sources.collect();
        let targets = self.targets.iter().map(|target| {
            let read_until = Timestamp::from_millis(now.millis() - target.late_ms);
            let view = TargetView {
                newest: target.newest.min(read_until),
                frozen_since: target.frozen_since.filter(|since| *since <= now),
                read_until,
                ..*target
            };
            view.judged(&sources, now)
        });
        Self {
            targets: targets.collect(),
            sources,
        }
    }

    /// L of the source of a target, milliseconds.
    #[must_use]
    pub fn lag_ms(&self, target: &TargetView) -> i64 {
        let source = self.sources.get(usize::from(target.source));
        source.map_or(0, |source| source.lag_ms)
    }
}

impl TargetView {
    /// The same, with its silence determined. A source newer than the view is unknown,
    /// and its targets are silent.
    fn judged(self, sources: &[SourceView], now: Timestamp) -> Self {
        let Some(source) = sources.get(usize::from(self.source)) else {
            return Self::FORGOTTEN;
        };
        let unheard_ms = now.millis() - source.lag_ms - self.newest.millis();
        Self {
            silent: unheard_ms >= self.fresh_ms || self.frozen_since.is_some(),
            heard_lately: unheard_ms < self.fresh_ms + LATELY_MS,
            ..self
        }
    }

    const FORGOTTEN: Self = Self {
        source: 0,
        scrape_ms: 0,
        fresh_ms: 0,
        own_lateness_ms: 0,
        late_ms: 0,
        newest: Timestamp::MIN,
        silent: true,
        heard_lately: false,
        frozen_since: None,
        read_until: Timestamp::MIN,
    };
}

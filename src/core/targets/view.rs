//! All targets and sources at one moment, for a snapshot.

use super::super::time::Timestamp;
use super::super::timing::{ASSUMED, Timing};
use super::{JobId, Target, Targets};

/// A target as a snapshot sees it.
#[derive(Clone, Copy, Debug)]
pub struct TargetView {
    /// Its source, an index into [`View::sources`].
    pub source: u16,
    /// Its place among targets, by what they are called: the same in every replica.
    pub rank: u64,
    /// Its intervals.
    pub timing: Timing,
    /// F, milliseconds.
    pub fresh_ms: i64,
    /// Its usual distance behind the horizon, milliseconds.
    pub distance_ms: i64,
    /// Its newest scrape.
    pub newest: Timestamp,
    /// Whether it has fallen silent.
    pub silent: bool,
    /// Since when all its readings stand still, where they should not: from then
    /// on they are unknown.
    pub frozen_since: Option<Timestamp>,
    /// Whether it lately reported the utilisation of memory and of GPUs, for
    /// whole GPUs, in percent.
    pub percents: [bool; 2],
}

impl TargetView {
    /// How long an instant holds a reading: F and the usual distance.
    #[must_use]
    pub const fn hold_ms(&self) -> i64 {
        self.fresh_ms + self.distance_ms
    }
}

/// A source as a snapshot sees it.
#[derive(Clone, Copy, Debug)]
pub struct SourceView {
    /// Its scrape job.
    pub job: JobId,
    /// Its horizon.
    pub horizon: Timestamp,
    /// How far its horizon usually is behind our clock when it advances,
    /// milliseconds.
    pub lag_ms: i64,
}

/// All targets and sources at one moment.
#[derive(Clone, Debug)]
pub struct View {
    /// By number; those of forgotten ones are silent.
    pub targets: Vec<TargetView>,
    /// By number.
    pub sources: Vec<SourceView>,
    /// The horizon furthest behind, of sources that are heard.
    pub earliest: Timestamp,
}

impl Targets {
    /// All of them as they stand at `now`, read every `poll_ms` at most; what was
    /// reported before `since` is long ago.
    #[must_use]
    pub fn view(&self, now: Timestamp, poll_ms: i64, since: Timestamp) -> View {
        let sources: Vec<SourceView> = self
            .sources
            .iter()
            .map(|source| SourceView {
                job: source.job,
                horizon: source.horizon,
                lag_ms: source.lag.ms(),
            })
            .collect();
        let view = |target: &Option<Target>| match target {
            Some(target) => self.view_of(target, &sources, (now, poll_ms, since)),
            None => TargetView::FORGOTTEN,
        };
        let targets = self.targets.iter().map(view).collect();
        View::new(targets, sources)
    }

    fn view_of(
        &self,
        target: &Target,
        sources: &[SourceView],
        (now, poll_ms, since): (Timestamp, i64, Timestamp),
    ) -> TargetView {
        let timing = self.timing(target);
        let fresh_ms = self.overrides.fresh_ms(timing);
        let distance_ms = target.distance.ms();
        let newest = target.times.newest();
        let view = TargetView {
            source: target.source,
            rank: target.rank,
            timing,
            fresh_ms,
            distance_ms,
            newest,
            silent: false,
            frozen_since: target.movement.frozen_since(newest, timing),
            percents: target.percents.map(|at| at >= since),
        };
        view.judged(sources, now, poll_ms)
    }
}

impl View {
    fn new(targets: Vec<TargetView>, sources: Vec<SourceView>) -> Self {
        let heard = targets.iter().filter(|target| !target.silent);
        let horizons = heard.map(|target| sources[usize::from(target.source)].horizon);
        Self {
            earliest: horizons.min().unwrap_or(Timestamp::MAX),
            targets,
            sources,
        }
    }

    /// The same at `now`, which is over, when the sources had come to `horizons`.
    /// What was learned since of intervals, lags and who is heard stands.
    #[must_use]
    pub fn as_of(&self, now: Timestamp, poll_ms: i64, horizons: &[Timestamp]) -> Self {
        let horizons = horizons
            .iter()
            .copied()
            .chain(std::iter::repeat(Timestamp::MIN));
        let sources = self.sources.iter().zip(horizons);
        let sources: Vec<SourceView> = sources
            .map(|(source, horizon)| SourceView { horizon, ..*source })
            .collect();
        let targets = self.targets.iter().map(|target| {
            let view = TargetView {
                newest: target.newest.min(now),
                frozen_since: target.frozen_since.filter(|since| *since <= now),
                ..*target
            };
            let view = view.judged(&sources, now, poll_ms);
            // Of sources that came later nothing was known.
            let source = sources.get(usize::from(view.source));
            let unknown = source.is_none_or(|source| source.horizon == Timestamp::MIN);
            TargetView {
                silent: view.silent || unknown,
                ..view
            }
        });
        Self::new(targets.collect(), sources)
    }
}

impl TargetView {
    /// The same, told whether it has fallen silent.
    fn judged(self, sources: &[SourceView], now: Timestamp, poll_ms: i64) -> Self {
        let Some(source) = sources.get(usize::from(self.source)) else {
            return Self::FORGOTTEN;
        };
        let (horizon, newest) = (source.horizon.millis(), self.newest.millis());
        // From when on no instant up to the horizon holds its readings.
        let behind = horizon - newest >= self.hold_ms();
        // One that comes as far behind the horizon as ever is its own evidence that
        // the source is heard, also where whoever led it has gone.
        let heard = horizon.max(newest.saturating_add(self.distance_ms));
        let unheard = now.millis() - heard > self.fresh_ms + source.lag_ms + poll_ms;
        Self {
            silent: behind || unheard || self.frozen_since.is_some(),
            ..self
        }
    }

    const FORGOTTEN: Self = Self {
        source: 0,
        rank: 0,
        timing: ASSUMED,
        fresh_ms: 0,
        distance_ms: 0,
        newest: Timestamp::MIN,
        silent: true,
        frozen_since: None,
        percents: [true; 2],
    };
}

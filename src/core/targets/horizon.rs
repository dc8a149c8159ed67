//! How far each source has come, and how late and how far apart its targets
//! usually are.

use super::super::time::Timestamp;
use super::{Source, Targets};

/// Lags and distances beyond two minutes are no habit to wait for.
pub const USUAL_MAX_MS: i64 = 120_000;

/// The largest of the last four values, zero before the first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usual {
    last: [i32; 4],
    pub(super) seen: u8,
}

impl Usual {
    pub(super) fn note(&mut self, ms: i64) {
        self.last.rotate_right(1);
        self.last[0] = i32::try_from(ms.clamp(0, USUAL_MAX_MS)).unwrap_or_default();
        self.seen = (self.seen + 1).min(4);
    }

    pub(super) fn ms(self) -> i64 {
        i64::from(self.last.into_iter().max().unwrap_or_default())
    }
}

impl Targets {
    /// Advances the horizons to what was read in the round that ended at `now`,
    /// and measures lags and distances. `poll_ms` is the time between polls.
    pub fn advance(&mut self, now: Timestamp, poll_ms: i64) {
        // After polls that nobody answered, what is read late says nothing of
        // the store's lag.
        let last = self.answered.replace(now);
        let usual = last.is_none_or(|last| now.millis() - last.millis() <= 2 * poll_ms);
        let heard = self.reached(now, poll_ms);
        let before: Vec<Timestamp> = self.sources.iter().map(|source| source.horizon).collect();
        for (source, heard) in self.sources.iter_mut().zip(&heard) {
            source.advance(heard, now, poll_ms, usual);
        }
        self.measure(&before, usual);
    }

    /// Where the targets of each source stand.
    fn reached(&mut self, now: Timestamp, poll_ms: i64) -> Vec<Vec<Reached>> {
        let mut heard: Vec<Vec<Reached>> = vec![Vec::new(); self.sources.len()];
        for target in self.targets.iter_mut().flatten() {
            let newest = target.times.newest();
            if newest == Timestamp::MIN {
                continue;
            }
            let timing = self.overrides.apply(target.detected);
            let fresh_ms = self.overrides.fresh_ms(timing);
            let since_ms = |read: Timestamp| now.millis() - read.millis() - poll_ms;
            let news = newest > target.measured;
            if news {
                target.moves = since_ms(target.read) <= fresh_ms;
                target.read = now;
            }
            let unread_ms = since_ms(target.read);
            heard[usize::from(target.source)].push(Reached {
                newest,
                distance_ms: target.distance.ms(),
                fresh_ms,
                scrape_ms: timing.scrape_ms,
                news,
                comes: target.moves && unread_ms <= fresh_ms - timing.scrape_ms,
                overdue: unread_ms > timing.scrape_ms,
            });
        }
        heard
    }

    /// Measures how far behind the horizons the targets are that were read, which
    /// stood at `before` until then.
    fn measure(&mut self, before: &[Timestamp], usual: bool) {
        for target in self.targets.iter_mut().flatten() {
            let at = target.times.newest();
            if at <= target.measured {
                continue;
            }
            let first = target.measured == Timestamp::MIN;
            target.measured = at;
            let place = usize::from(target.source);
            let horizon = self.sources[place].horizon;
            // One that stands still comes nearer with every scrape.
            let stands = std::mem::replace(&mut target.against, horizon) == horizon;
            // What a stall held back comes at once: who stopped meanwhile is not
            // told from who is usually behind.
            let fresh_ms = self.overrides.apply(target.detected).fresh_ms();
            let leapt = horizon.millis().saturating_sub(before[place].millis()) >= fresh_ms;
            if !first && usual && !leapt && !stands {
                target.distance.note(horizon.millis() - at.millis());
            }
        }
    }

    /// Whether every source has advanced at least so often.
    #[must_use]
    pub fn have_advanced(&self, times: u8) -> bool {
        let live = self.sources.iter().filter(|source| source.targets > 0);
        live.into_iter().all(|source| source.lag.seen >= times)
    }

    /// The horizon that is furthest behind, of sources that are heard.
    #[must_use]
    pub fn earliest_horizon(&self, now: Timestamp, within_ms: i64) -> Option<Timestamp> {
        let heard = |source: &&Source| {
            source.targets > 0 && source.horizon.millis() >= now.millis() - within_ms
        };
        let sources = self.sources.iter().filter(heard);
        sources.map(|source| source.horizon).min()
    }

    /// Where samples not read yet may begin: the newest sample of the target
    /// furthest behind, of those that may still come.
    #[must_use]
    pub fn read_until(&self, now: Timestamp, within_ms: i64) -> Option<Timestamp> {
        let since = now.millis() - within_ms;
        let mut earliest = None;
        for target in self.targets.iter().flatten() {
            let source = &self.sources[usize::from(target.source)];
            let newest = target.times.newest();
            let waited_ms = self.overrides.fresh_ms(self.timing(target)) + USUAL_MAX_MS;
            let behind_ms = source.horizon.millis() - newest.millis();
            if behind_ms <= waited_ms && newest.millis() >= since {
                earliest = Some(earliest.map_or(newest, |known: Timestamp| known.min(newest)));
            }
        }
        earliest
    }

    /// Where a tenth of the targets heard within `within_ms` stand at most.
    #[must_use]
    pub fn stragglers(&self, now: Timestamp, within_ms: i64) -> Option<Timestamp> {
        let since = now.millis() - within_ms;
        let newest = self.targets.iter().flatten().map(|t| t.times.newest());
        let mut heard: Vec<Timestamp> = newest.filter(|at| at.millis() >= since).collect();
        let rank = heard.len().div_ceil(10).checked_sub(1)?;
        Some(*heard.select_nth_unstable(rank).1)
    }
}

/// Where a target of a source stands.
#[derive(Clone, Copy, Debug)]
struct Reached {
    newest: Timestamp,
    /// How far it usually is behind the horizon.
    distance_ms: i64,
    /// F.
    fresh_ms: i64,
    /// S.
    scrape_ms: i64,
    /// Whether it was read in this round.
    news: bool,
    /// Whether it was read twice in a row, and lately.
    comes: bool,
    /// Whether its next scrape should have been read by now.
    overdue: bool,
}

impl Source {
    fn advance(&mut self, heard: &[Reached], now: Timestamp, poll_ms: i64, usual: bool) {
        if !heard.iter().any(|target| target.news) {
            return;
        }
        let late_ms = self.lag.ms() + poll_ms;
        // Who left must hold back nobody until values end: F less one scrape. One
        // that is always behind is heard all the same, or else replicas that have
        // measured other lags would not count the same targets, and a clock that
        // is ahead would be alone whenever the others come near to it.
        let is_heard = |target: &&Reached| {
            let within_ms = target.fresh_ms - target.scrape_ms + target.distance_ms + late_ms;
            target.comes || now.millis() - target.newest.millis() <= within_ms
        };
        let mut reached: Vec<&Reached> = heard.iter().filter(is_heard).collect();
        // When all come later than is usual, who stands where they stood before
        // an outage must not hold back who is there again.
        if reached.is_empty() {
            let newest = heard.iter().map(|target| target.newest).max();
            let newest_ms = newest.map_or(now.millis(), Timestamp::millis);
            let is_near = |target: &&Reached| {
                let within_ms = target.fresh_ms - target.scrape_ms + target.distance_ms;
                newest_ms - target.newest.millis() <= within_ms
            };
            reached.extend(heard.iter().filter(is_near));
        }
        let enough = reached.len().div_ceil(10);
        let two = reached.len().div_ceil(2).min(2);
        reached.sort_unstable_by_key(|target| std::cmp::Reverse(target.newest));
        let Some(target) = reached.get(enough.max(two) - 1) else {
            return;
        };
        let horizon = target.newest.min(now);
        if horizon > self.horizon {
            // Where it is first seen says nothing of how it moves, nor does a
            // target that has stopped.
            if usual && self.horizon > Timestamp::MIN && !target.overdue {
                self.lag.note(now.millis() - horizon.millis());
            }
            self.horizon = horizon;
        }
    }
}

//! Sources and targets: how often each is heard, how far each is behind, and
//! who has fallen silent.
//!
//! A *source* is a scrape job with its external labels; a *target* is one of its
//! instances. The *horizon* of a source is the newest time that a tenth of the
//! targets heard lately have reached (at least two of them where there are
//! three): one bad clock moves nothing, and nobody who left holds the others
//! back. It never goes back, and only newly read samples advance it. What
//! follows (lag, distance, silence) is measured against the horizon, not
//! against our clock alone: a store that is late delays values, an exporter
//! that stops ends them.

mod horizon;
mod learn;
mod movement;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use super::batch::Sample;
use super::cadence::ScrapeTimes;
use super::renewal::Renewals;
use super::signal::SignalId;
use super::time::Timestamp;
use super::timing::{ASSUMED, Overrides, Timing};

pub use horizon::USUAL_MAX_MS;
use horizon::Usual;
use learn::Common;
pub use movement::{FROZEN_MS, Movement};
pub use view::{SourceView, TargetView, View};

/// Of a job with more cadences the first are told of.
const MOST_CADENCES: usize = 8;

/// Index of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetId(pub u32);

/// Index of a scrape job.
pub type JobId = u16;

#[derive(Clone, Debug)]
struct Target {
    source: u16,
    instance: Arc<str>,
    rank: u64,
    times: ScrapeTimes,
    renewals: Renewals,
    /// What these show; before that what is common in its job.
    detected: Timing,
    distance: Usual,
    /// Its newest scrape when its distance was last measured.
    measured: Timestamp,
    /// The horizon it was measured against.
    against: Timestamp,
    /// When that scrape was read.
    read: Timestamp,
    /// Whether it had been read within F before that.
    moves: bool,
    /// Its newest utilisation of memory and of whole GPUs, in percent: devices
    /// without it are shown by their profiling fields.
    percents: [Timestamp; 2],
    movement: Movement,
    /// How many series it has; without any it is forgotten.
    series: u32,
}

#[derive(Clone, Debug)]
struct Source {
    job: JobId,
    external: Arc<str>,
    horizon: Timestamp,
    lag: Usual,
    targets: u32,
}

/// All sources and targets.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    overrides: Overrides,
    sources: Vec<Source>,
    source_ids: HashMap<(JobId, Arc<str>), u16>,
    /// Sources without targets.
    vacant: BTreeSet<u16>,
    targets: Vec<Option<Target>>,
    free: Vec<TargetId>,
    ids: HashMap<(u16, Arc<str>), TargetId>,
    /// What is common among each job's targets.
    common: Vec<Common>,
    /// Whether intervals have changed and nobody has asked yet.
    changed: bool,
    /// When the last round ended that was answered.
    answered: Option<Timestamp>,
    /// How many targets were ever made.
    registered: u64,
}

impl Targets {
    /// None yet.
    #[must_use]
    pub fn new(overrides: Overrides) -> Self {
        Self {
            overrides,
            ..Self::default()
        }
    }

    /// The target of a new series; made if need be.
    pub fn register(&mut self, job: JobId, external: &Arc<str>, instance: &Arc<str>) -> TargetId {
        let source = self.source(job, external);
        let key = (source, Arc::clone(instance));
        if let Some(id) = self.ids.get(&key) {
            let id = *id;
            if let Some(target) = self.target_mut(id) {
                target.series += 1;
            }
            return id;
        }
        let target = Target {
            source,
            instance: Arc::clone(instance),
            rank: rank(external, instance),
            times: ScrapeTimes::default(),
            renewals: Renewals::default(),
            detected: self.common[usize::from(job)].timing.unwrap_or(ASSUMED),
            distance: Usual::default(),
            measured: Timestamp::MIN,
            against: Timestamp::MIN,
            read: Timestamp::MIN,
            moves: false,
            percents: [Timestamp::MIN; 2],
            movement: Movement::default(),
            series: 1,
        };
        let id = if let Some(id) = self.free.pop() {
            self.targets[id.0 as usize] = Some(target);
            id
        } else {
            self.targets.push(Some(target));
            TargetId(u32::try_from(self.targets.len() - 1).unwrap_or(u32::MAX))
        };
        self.sources[usize::from(source)].targets += 1;
        self.registered += 1;
        self.ids.insert(key, id);
        id
    }

    /// How many targets were ever made: one that was forgotten counts again.
    #[must_use]
    pub const fn registered(&self) -> u64 {
        self.registered
    }

    /// A series of the target is gone.
    pub fn release(&mut self, id: TargetId) {
        let Some(target) = self.target_mut(id) else {
            return;
        };
        target.series -= 1;
        if target.series == 0 {
            let key = (target.source, Arc::clone(&target.instance));
            let source = &mut self.sources[usize::from(key.0)];
            source.targets -= 1;
            if source.targets == 0 {
                self.vacant.insert(key.0);
            }
            self.ids.remove(&key);
            self.targets[id.0 as usize] = None;
            self.free.push(id);
        }
    }

    /// The source of a job with these external labels; the place of one without
    /// targets is taken first.
    fn source(&mut self, job: JobId, external: &Arc<str>) -> u16 {
        let key = (job, Arc::clone(external));
        let known = self.source_ids.get(&key).copied();
        let index = known.unwrap_or_else(|| self.make_source(key));
        self.vacant.remove(&index);
        let wanted = usize::from(job) + 1;
        if self.common.len() < wanted {
            self.common.resize(wanted, Common::default());
        }
        index
    }

    fn make_source(&mut self, key: (JobId, Arc<str>)) -> u16 {
        let source = Source {
            job: key.0,
            external: Arc::clone(&key.1),
            horizon: Timestamp::MIN,
            lag: Usual::default(),
            targets: 0,
        };
        let index = if let Some(index) = self.vacant.pop_first() {
            let before = std::mem::replace(&mut self.sources[usize::from(index)], source);
            self.source_ids.remove(&(before.job, before.external));
            index
        } else if self.sources.len() < usize::from(u16::MAX) {
            self.sources.push(source);
            u16::try_from(self.sources.len() - 1).unwrap_or(u16::MAX)
        } else {
            // Too many: what is left shares one.
            return u16::MAX - 1;
        };
        self.source_ids.insert(key, index);
        index
    }

    /// The clock went back: times and habits are learned again.
    pub fn clear(&mut self) {
        for target in self.targets.iter_mut().flatten() {
            target.times = ScrapeTimes::default();
            target.renewals = Renewals::default();
            target.distance = Usual::default();
            target.measured = Timestamp::MIN;
            target.read = Timestamp::MIN;
            target.percents = [Timestamp::MIN; 2];
            target.movement = Movement::default();
        }
        for source in &mut self.sources {
            source.horizon = Timestamp::MIN;
            source.lag = Usual::default();
        }
    }

    /// A job's name was given to another: what was learned of it is forgotten.
    pub fn forget_job(&mut self, job: JobId) {
        if let Some(common) = self.common.get_mut(usize::from(job)) {
            *common = Common::default();
        }
    }

    fn target(&self, id: TargetId) -> Option<&Target> {
        self.targets.get(id.0 as usize)?.as_ref()
    }

    fn target_mut(&mut self, id: TargetId) -> Option<&mut Target> {
        self.targets.get_mut(id.0 as usize)?.as_mut()
    }

    /// Takes the samples of one series of a target, oldest first. One that is no
    /// number shows no scrape: some stores keep it where a scrape has failed.
    #[inline]
    pub fn take(&mut self, id: TargetId, samples: &[Sample]) {
        if let Some(target) = self.target_mut(id) {
            let newest = samples.iter().rfind(|sample| !sample.value.is_nan());
            let news = newest.is_some_and(|sample| sample.at > target.times.newest());
            let further = samples.len() > 2 && target.times.knows_little();
            if further || news {
                target.times.take(samples);
            }
        }
    }

    /// A target reported a utilisation of whole GPUs.
    #[inline]
    pub fn report(&mut self, id: TargetId, signal: SignalId, at: Timestamp) {
        if let Some(place) = place_of(signal)
            && let Some(target) = self.target_mut(id)
        {
            target.percents[place] = target.percents[place].max(at);
        }
    }

    /// A GPU of a target was busy.
    #[inline]
    pub fn busy(&mut self, id: TargetId, at: Timestamp) {
        if let Some(target) = self.target_mut(id) {
            target.movement.busy = target.movement.busy.max(at);
        }
    }

    /// A target that is known.
    #[must_use]
    pub fn find(&self, job: JobId, external: &Arc<str>, instance: &Arc<str>) -> Option<TargetId> {
        let source = self.source_ids.get(&(job, Arc::clone(external)))?;
        self.ids.get(&(*source, Arc::clone(instance))).copied()
    }

    /// Whether a target has reported a utilisation of whole GPUs since then.
    #[must_use]
    pub fn reports(&self, id: TargetId, signal: SignalId, since: Timestamp) -> bool {
        let target = self.target(id).zip(place_of(signal));
        target.is_some_and(|(target, place)| target.percents[place] >= since)
    }

    /// Where the movements of a target's readings are noted.
    #[inline]
    pub fn movement(&mut self, id: TargetId) -> Option<&mut Movement> {
        self.target_mut(id).map(|target| &mut target.movement)
    }

    /// Targets that are heard and do not report a utilisation of whole GPUs, and
    /// which of the two.
    #[must_use]
    pub fn without_percents(&self, since: Timestamp) -> BTreeSet<(TargetId, usize)> {
        let heard = (0..).map(TargetId).zip(&self.targets);
        let heard = heard.filter_map(|(id, target)| Some((id, target.as_ref()?)));
        let heard = heard.filter(|(_, target)| target.times.newest() >= since);
        let lacking = heard.flat_map(|(id, target)| {
            let places = target.percents.iter().enumerate();
            places.filter_map(move |(place, at)| (*at < since).then_some((id, place)))
        });
        lacking.collect()
    }

    /// Where the times go at which a target's readings changed.
    #[inline]
    pub fn renewals(&mut self, id: TargetId) -> Option<&mut Renewals> {
        self.target_mut(id).map(|target| &mut target.renewals)
    }

    fn timing(&self, target: &Target) -> Timing {
        self.overrides.apply(target.detected)
    }

    /// The intervals of a target.
    #[must_use]
    pub fn timing_of(&self, id: TargetId) -> Timing {
        self.target(id)
            .map_or(self.overrides.apply(ASSUMED), |target| self.timing(target))
    }

    /// F of a target, milliseconds.
    #[must_use]
    pub fn fresh_ms(&self, id: TargetId) -> i64 {
        self.overrides.fresh_ms(self.timing_of(id))
    }

    /// Whether the scrape interval of a target was seen.
    #[must_use]
    pub fn is_known(&self, id: TargetId) -> bool {
        let known = |target: &Target| target.times.cadence().is_some();
        self.target(id).is_some_and(known)
    }

    /// The largest F of targets that are there, milliseconds.
    #[must_use]
    pub fn longest_fresh_ms(&self) -> i64 {
        let targets = self.targets.iter().flatten();
        let fresh = targets.map(|target| self.overrides.fresh_ms(self.timing(target)));
        fresh
            .max()
            .unwrap_or_else(|| self.overrides.fresh_ms(self.overrides.apply(ASSUMED)))
    }

    /// The instance of a target.
    #[must_use]
    pub fn instance(&self, id: TargetId) -> Option<&str> {
        self.target(id).map(|target| &*target.instance)
    }

    /// The targets in use, with their intervals.
    pub fn iter(&self) -> impl Iterator<Item = (TargetId, JobId, Timing)> {
        (0..)
            .map(TargetId)
            .zip(&self.targets)
            .filter_map(|(id, target)| {
                let target = target.as_ref()?;
                let job = self.sources[usize::from(target.source)].job;
                Some((id, job, self.timing(target)))
            })
    }

    /// How often targets of a job are scraped and renewed, each once.
    #[must_use]
    pub fn cadences(&self, job: JobId) -> Vec<Timing> {
        let of_job = self.iter().filter(|(_, of, _)| *of == job);
        let mut timings: Vec<Timing> = of_job.map(|(_, _, timing)| timing).collect();
        timings.sort_by_key(|timing| (timing.scrape_ms, timing.exporter_ms, -timing.recurring_ms));
        timings.dedup_by_key(|timing| (timing.scrape_ms, timing.exporter_ms));
        timings.truncate(MOST_CADENCES);
        timings
    }
}

/// A number of a target that is the same in every replica.
fn rank(external: &str, instance: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (external, instance).hash(&mut hasher);
    hasher.finish()
}

/// The place of a utilisation of whole GPUs among [`Target::percents`].
const fn place_of(signal: SignalId) -> Option<usize> {
    match signal {
        SignalId::MEM_COPY_UTIL => Some(0),
        SignalId::GPU_UTIL => Some(1),
        _ => None,
    }
}

//! Sources and targets: how often and how late each is scraped, and which are silent.
//!
//! A *source* is a scrape job of a Prometheus, with its external labels. A *target* is one
//! exporter of a source, identified by `instance` and the node that its series report. In
//! many stores one of the two is the same for all exporters, or both are. If the samples of
//! devices under one such name have different times, each device is a target of its own
//! ([`Targets::divide`]).
//!
//! Each target has a scrape interval (S), a lateness, and a validity of its readings (F);
//! each source has a usual lateness (L). See docs/numbers.md.

mod gaps;
mod lateness;
mod movement;
mod scales;
#[cfg(test)]
pub(crate) mod tests;
mod view;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::batch::{PrometheusId, Sample};
use super::series::{Device, SeriesInfo};
use super::signal::SignalId;
use super::unit::{Scale, Scales};
use apimachinery::time::Timestamp;

use gaps::Gaps;
pub(crate) use lateness::LATENESS_MAX_MS;
use lateness::Lateness;
pub use movement::Movement;
pub use view::{SourceView, TargetView, View};

/// After this many rounds in a row in which the series of one name have different sample
/// times, each device under the name becomes a target of its own.
const DIFFERENT_SCRAPES: u8 = 3;

/// Index of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TargetId(pub u32);

/// Configured intervals, milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Intervals {
    /// S, if configured.
    pub scrape_ms: Option<i64>,
    /// The least F.
    pub fresh_ms: i64,
}

/// The identity of a target within its source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Name {
    source: u16,
    instance: Arc<str>,
    node: Option<Arc<str>>,
    /// The device, if the name without it stands for several exporters.
    device: Option<Device>,
}

#[derive(Clone, Debug)]
struct Target {
    name: Name,
    gaps: Gaps,
    /// S from its own samples or its job's, milliseconds.
    scrape_ms: Option<i64>,
    lateness: Lateness,
    /// The age of its newest sample when that was first seen, milliseconds.
    first_age_ms: i64,
    /// The newest sample with a measured lateness.
    measured: Timestamp,
    /// When that sample was read.
    read: Timestamp,
    movement: Movement,
    /// Whether its readings were found frozen.
    is_frozen: bool,
    /// The unit of each of its signals in percent.
    scales: Vec<(SignalId, Scales)>,
    /// The number of rounds with samples of it.
    rounds: u32,
    /// Rounds in a row in which its devices were sampled at different times.
    different: u8,
    /// The number of its series; without any it is removed.
    series: u32,
}

/// The identity of a source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SourceKey {
    prometheus: PrometheusId,
    /// The job and the external labels.
    name: Arc<str>,
}

#[derive(Clone, Debug)]
struct Source {
    key: SourceKey,
    /// Its scrape job.
    job: Arc<str>,
    /// L, milliseconds.
    lag_ms: i64,
    /// Whether a lateness of its targets was ever measured.
    is_measured: bool,
    targets: u32,
}

/// A scrape job of a Prometheus.
type Job = (PrometheusId, Arc<str>);

impl Source {
    fn job(&self) -> Job {
        (self.key.prometheus, Arc::clone(&self.job))
    }
}

/// All sources and targets.
#[derive(Clone, Debug, Default)]
pub struct Targets {
    settings: Intervals,
    sources: Vec<Source>,
    source_ids: HashMap<SourceKey, u16>,
    /// Sources without targets.
    vacant: BTreeSet<u16>,
    targets: Vec<Option<Target>>,
    free: Vec<TargetId>,
    ids: HashMap<Name, TargetId>,
    /// The unit of a signal in most targets of a source.
    scales_of_sources: HashMap<(u16, SignalId), Scale>,
    /// The same for a job.
    scales_of_jobs: HashMap<(Job, SignalId), Scale>,
    /// Names that stand for several exporters, and their number of targets.
    divided: HashMap<Name, u32>,
}

impl Targets {
    /// No targets yet.
    pub(crate) fn new(settings: Intervals) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    /// The target of a new series; created if it is new.
    pub(crate) fn register(&mut self, info: &SeriesInfo) -> TargetId {
        let source = self.source(info);
        let mut name = Name {
            source,
            instance: Arc::clone(&info.instance),
            node: info
                .label_facts
                .nodes
                .first()
                .map(|node| Arc::clone(&node.name)),
            device: None,
        };
        if self.divided.contains_key(&name) {
            name.device = Some(info.device.clone());
        }
        self.named(name)
    }

    /// The target of a name, with one more series; created if it is new.
    fn named(&mut self, name: Name) -> TargetId {
        if let Some(id) = self.ids.get(&name).copied() {
            if let Some(target) = self.target_mut(id) {
                target.series += 1;
            }
            return id;
        }
        if let Some(count) = self.divided.get_mut(&name.whole()) {
            *count += 1;
        }
        let target = Target {
            name: name.clone(),
            gaps: Gaps::default(),
            scrape_ms: None,
            lateness: Lateness::default(),
            first_age_ms: 0,
            measured: Timestamp::MIN,
            read: Timestamp::MIN,
            movement: Movement::default(),
            is_frozen: false,
            scales: Vec::new(),
            rounds: 0,
            different: 0,
            series: 1,
        };
        let id = if let Some(id) = self.free.pop() {
            self.targets[id.0 as usize] = Some(target);
            id
        } else {
            self.targets.push(Some(target));
            TargetId(u32::try_from(self.targets.len() - 1).unwrap_or(u32::MAX))
        };
        self.sources[usize::from(name.source)].targets += 1;
        self.ids.insert(name, id);
        id
    }

    /// Removes a series of the target.
    pub(crate) fn release(&mut self, id: TargetId) {
        let Some(target) = self.target_mut(id) else {
            return;
        };
        target.series -= 1;
        if target.series > 0 {
            return;
        }
        let name = target.name.clone();
        let source = &mut self.sources[usize::from(name.source)];
        source.targets -= 1;
        if source.targets == 0 {
            self.vacant.insert(name.source);
        }
        self.ids.remove(&name);
        if name.device.is_some()
            && let Some(count) = self.divided.get_mut(&name.whole())
        {
            *count -= 1;
            if *count == 0 {
                self.divided.remove(&name.whole());
            }
        }
        self.targets[id.0 as usize] = None;
        self.free.push(id);
    }

    /// The number of rounds with samples of a target.
    pub(crate) fn round(&self, id: TargetId) -> u32 {
        self.target(id).map_or(0, |target| target.rounds)
    }

    /// Ends a round with samples of a target; returns the newest sample of the rounds
    /// before.
    pub(crate) fn end_scrape(&mut self, id: TargetId) -> Option<Timestamp> {
        let target = self.target_mut(id)?;
        target.rounds = target.rounds.saturating_add(1);
        Some(target.measured)
    }

    /// Whether a sample is newer than those of the rounds before, and of a target of a
    /// Prometheus.
    pub(crate) fn is_new_sample(&self, of: PrometheusId, id: TargetId, at: Timestamp) -> bool {
        let target = self.target(id);
        target.is_some_and(|it| at > it.measured && self.source_of(it).key.prometheus == of)
    }

    fn source_of(&self, target: &Target) -> &Source {
        &self.sources[usize::from(target.name.source)]
    }

    /// Records whether a round had series of a target with different sample times.
    /// Returns whether that has happened often enough to make each of its devices a
    /// target of its own.
    pub(crate) fn differ(&mut self, id: TargetId, differ: bool) -> bool {
        let Some(target) = self.target_mut(id) else {
            return false;
        };
        target.different = if differ {
            target.different.saturating_add(1)
        } else {
            0
        };
        target.different >= DIFFERENT_SCRAPES && target.name.device.is_none()
    }

    /// Moves a series of a device from a divided target to the device's own target, and
    /// returns this target.
    ///
    /// `newest` is the newest sample of the device, which was read at `now`.
    pub fn divide(
        &mut self,
        id: TargetId,
        (device, newest): (&Device, Timestamp),
        now: Timestamp,
    ) -> TargetId {
        let Some(target) = self.target(id) else {
            return id;
        };
        let name = Name {
            device: Some(device.clone()),
            ..target.name.clone()
        };
        self.divided.entry(name.whole()).or_default();
        let own = self.named(name);
        if let Some(target) = self.target_mut(own) {
            target.gaps.push(newest);
            (target.measured, target.read) = (target.gaps.newest(), now);
        }
        self.release(id);
        own
    }

    /// The source of a series; a new source reuses the index of one without targets first.
    fn source(&mut self, info: &SeriesInfo) -> u16 {
        let key = SourceKey {
            prometheus: info.prometheus,
            name: Arc::clone(&info.source),
        };
        let known = self.source_ids.get(&key).copied();
        let index = known.unwrap_or_else(|| self.make_source(key, &info.job));
        self.vacant.remove(&index);
        index
    }

    fn make_source(&mut self, key: SourceKey, job: &Arc<str>) -> u16 {
        let source = Source {
            key: key.clone(),
            job: Arc::clone(job),
            lag_ms: 0,
            is_measured: false,
            targets: 0,
        };
        let index = if let Some(index) = self.vacant.pop_first() {
            let before = std::mem::replace(&mut self.sources[usize::from(index)], source);
            self.source_ids.remove(&before.key);
            self.scales_of_sources.retain(|(of, _), _| *of != index);
            index
        } else if self.sources.len() < usize::from(u16::MAX) {
            self.sources.push(source);
            u16::try_from(self.sources.len() - 1).unwrap_or(u16::MAX)
        } else {
            // Beyond the limit, all further ones share one source.
            return u16::MAX - 1;
        };
        self.source_ids.insert(key, index);
        index
    }

    /// Resets times and movements, because the clock went back.
    pub(crate) fn clear(&mut self) {
        for target in self.targets.iter_mut().flatten() {
            target.gaps = Gaps::default();
            target.lateness = Lateness::default();
            target.measured = Timestamp::MIN;
            target.read = Timestamp::MIN;
            target.movement = Movement::default();
        }
    }

    fn target(&self, id: TargetId) -> Option<&Target> {
        self.targets.get(id.0 as usize)?.as_ref()
    }

    fn target_mut(&mut self, id: TargetId) -> Option<&mut Target> {
        self.targets.get_mut(id.0 as usize)?.as_mut()
    }

    /// Takes the samples of one series of a target, oldest first.
    #[inline]
    pub(crate) fn take(&mut self, id: TargetId, samples: &[Sample]) {
        if let Some(target) = self.target_mut(id) {
            target.gaps.take(samples);
        }
    }

    /// The record of a target's changing readings.
    #[inline]
    pub(crate) fn movement(&mut self, id: TargetId) -> Option<&mut Movement> {
        self.target_mut(id).map(|target| &mut target.movement)
    }

    /// Since when no reading of a target has changed, if one should have.
    pub(crate) fn frozen_since(&self, id: TargetId) -> Option<Timestamp> {
        self.target(id)?.frozen_since(self.settings)
    }

    /// Samples of a target after the first of these times and before the second are no
    /// readings, also when they are read again: it is or was frozen.
    pub(crate) fn frozen_range(&self, id: TargetId) -> (Timestamp, Timestamp) {
        let frozen_period = self.target(id).map(|target| target.movement.frozen_period);
        match self.frozen_since(id) {
            Some(since) => (since, Timestamp::MAX),
            None => frozen_period.unwrap_or((Timestamp::MIN, Timestamp::MIN)),
        }
    }

    /// Newly frozen targets, and since when; each once.
    pub(crate) fn newly_frozen(&mut self) -> impl Iterator<Item = (TargetId, Timestamp)> {
        let settings = self.settings;
        let targets = (0..).map(TargetId).zip(&mut self.targets);
        targets.filter_map(move |(id, target)| {
            let target = target.as_mut()?;
            let since = target.frozen_since(settings);
            let was_frozen = std::mem::replace(&mut target.is_frozen, since.is_some());
            since.filter(|_| !was_frozen).map(|since| (id, since))
        })
    }

    /// The exporter's displayed name: its `instance`, or its node, or its device.
    #[must_use]
    pub fn instance(&self, id: TargetId) -> Option<&str> {
        let name = &self.target(id)?.name;
        let named = Some(&*name.instance).filter(|instance| !instance.is_empty());
        let of_device = || name.device.as_ref().map(|device| &*device.uuid);
        named.or(name.node.as_deref()).or_else(of_device)
    }

    /// The targets in use, each with its Prometheus and S, milliseconds.
    pub fn iter(&self) -> impl Iterator<Item = (TargetId, PrometheusId, i64)> {
        let all = (0..).map(TargetId).zip(&self.targets);
        all.filter_map(|(id, target)| {
            let target = target.as_ref()?;
            let prometheus = self.source_of(target).key.prometheus;
            Some((id, prometheus, self.scrape_ms(target)))
        })
    }
}

impl Target {
    fn frozen_since(&self, settings: Intervals) -> Option<Timestamp> {
        let scrape_ms = settings.scrape_ms.or(self.scrape_ms);
        let scrape_ms = scrape_ms.unwrap_or(lateness::ASSUMED_MS);
        self.movement.frozen_since(self.gaps.newest(), scrape_ms)
    }
}

impl Name {
    /// The name without the device.
    fn whole(&self) -> Self {
        Self {
            device: None,
            ..self.clone()
        }
    }
}

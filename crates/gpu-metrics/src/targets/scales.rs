//! The unit of utilisation, by target and signal.

use std::collections::HashMap;

use super::super::signal::SignalId;
use super::super::unit::{Scale, Scales};
use super::{Job, Target, TargetId, Targets};
use apimachinery::time::Timestamp;

impl Target {
    fn scales(&self, signal: SignalId) -> Option<&Scales> {
        let mut known = self.scales.iter();
        known
            .find(|(of, _)| *of == signal)
            .map(|(_, scales)| scales)
    }
}

impl Targets {
    /// The unit of a target's signal, if one is known: its own verdict, or that of most
    /// targets of its source or, if that has none, of its job.
    pub(crate) fn scale(&self, id: TargetId, signal: SignalId) -> Option<Scale> {
        let target = self.target(id)?;
        let own = target.scales(signal).and_then(Scales::verdict);
        own.or_else(|| self.common_scale(target, signal))
    }

    fn common_scale(&self, target: &Target, signal: SignalId) -> Option<Scale> {
        let of_source = self.scales_of_sources.get(&(target.name.source, signal));
        let job = || (self.source_of(target).job(), signal);
        let of_job = || self.scales_of_jobs.get(&job());
        of_source.or_else(of_job).copied()
    }

    /// Whether scrapes of a target contradict the unit in force.
    pub(crate) fn is_doubted(&self, id: TargetId, signal: SignalId) -> bool {
        let scales = self.target(id).and_then(|target| target.scales(signal));
        scales.is_some_and(Scales::is_doubted)
    }

    /// Takes the unit that the scrape of a target at `at` shows for a signal; returns
    /// whether the target's own verdict changed.
    pub(crate) fn take_scale(
        &mut self,
        id: TargetId,
        signal: SignalId,
        (shown, at): (Scale, Timestamp),
        throughout_ms: i64,
    ) -> bool {
        let target = self.target(id);
        let common = target.and_then(|target| self.common_scale(target, signal));
        let Some(target) = self.target_mut(id) else {
            return false;
        };
        let place = target.scales.iter().position(|(of, _)| *of == signal);
        let place = place.unwrap_or_else(|| {
            target.scales.push((signal, Scales::default()));
            target.scales.len() - 1
        });
        let scales = &mut target.scales[place].1;
        let before = scales.verdict();
        scales.take(shown, at, common, throughout_ms);
        scales.verdict() != before
    }

    /// Determines the unit of a signal in most targets of each source and job again.
    pub(crate) fn count_scales(&mut self, signal: SignalId) {
        // The number of targets in percent minus those in ratios.
        let mut of_sources: HashMap<u16, i64> = HashMap::new();
        let mut of_jobs: HashMap<Job, i64> = HashMap::new();
        for target in self.targets.iter().flatten() {
            let more = match target.scales(signal).and_then(Scales::verdict) {
                Some(Scale::Percent) => 1,
                Some(Scale::Ratio) => -1,
                None => continue,
            };
            *of_sources.entry(target.name.source).or_default() += more;
            *of_jobs.entry(self.source_of(target).job()).or_default() += more;
        }
        self.scales_of_sources.retain(|(_, of), _| *of != signal);
        self.scales_of_jobs.retain(|(_, of), _| *of != signal);
        for (source, more) in of_sources {
            let scale = Scale::set(more < 0);
            self.scales_of_sources.insert((source, signal), scale);
        }
        for (job, more) in of_jobs {
            let scale = Scale::set(more < 0);
            self.scales_of_jobs.insert((job, signal), scale);
        }
    }

    /// The targets whose unit of a signal changed, and when.
    pub fn scale_changes(&self) -> impl Iterator<Item = (TargetId, SignalId, Scale, Timestamp)> {
        let all = (0..).map(TargetId).zip(&self.targets);
        let all = all.filter_map(|(id, target)| Some((id, target.as_ref()?)));
        all.flat_map(|(id, target)| {
            let scales = target.scales.iter();
            scales.filter_map(move |(signal, scales)| {
                Some((id, *signal, scales.verdict()?, scales.changed()?))
            })
        })
    }
}

//! The unit of utilisation, by target and signal.

use std::collections::HashMap;

use super::super::signal::SignalId;
use super::super::unit::{Scale, Scales};
use super::{Target, TargetId, Targets};
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
    /// targets of its source.
    pub(crate) fn scale(&self, id: TargetId, signal: SignalId) -> Option<Scale> {
        let target = self.target(id)?;
        let own = target.scales(signal).and_then(Scales::verdict);
        own.or_else(|| self.scale_of_source(target.name.source, signal))
    }

    fn scale_of_source(&self, source: u16, signal: SignalId) -> Option<Scale> {
        self.scales_of_sources.get(&(source, signal)).copied()
    }

    /// The sources whose unit of a signal is detected: the index, the job and the unit.
    pub fn scales_of(&self, signal: SignalId) -> impl Iterator<Item = (u16, &str, Scale)> {
        (0..).zip(&self.sources).filter_map(move |(index, source)| {
            let scale = self.scale_of_source(index, signal)?;
            Some((index, &*source.job, scale))
        })
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
        let source = self.target(id).map(|target| target.name.source);
        let of_source = source.and_then(|source| self.scale_of_source(source, signal));
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
        scales.take(shown, at, of_source, throughout_ms);
        scales.verdict() != before
    }

    /// Determines the unit of a signal in most targets of each source again.
    pub(crate) fn count_scales(&mut self, signal: SignalId) {
        // The number of targets in percent minus those in ratios.
        let mut counts: HashMap<u16, i64> = HashMap::new();
        for target in self.targets.iter().flatten() {
            match target.scales(signal).and_then(Scales::verdict) {
                Some(Scale::Percent) => *counts.entry(target.name.source).or_default() += 1,
                Some(Scale::Ratio) => *counts.entry(target.name.source).or_default() -= 1,
                None => {}
            }
        }
        self.scales_of_sources.retain(|(_, of), _| *of != signal);
        for (source, more) in counts {
            let scale = Scale::set(more < 0);
            self.scales_of_sources.insert((source, signal), scale);
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

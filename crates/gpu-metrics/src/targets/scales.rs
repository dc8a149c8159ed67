//! The unit of utilisation, by target and signal.

use std::collections::HashMap;

use super::super::signal::SignalId;
use super::super::unit::{Scale, Scales};
use super::{JobId, Target, TargetId, Targets};
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
    /// targets of its job.
    pub(crate) fn scale(&self, id: TargetId, signal: SignalId) -> Option<Scale> {
        let target = self.target(id)?;
        let own = target.scales(signal).and_then(Scales::verdict);
        own.or_else(|| self.scale_of_job(self.job_of(id)?, signal))
    }

    /// The unit of a signal in most targets of a job, if it is detected.
    #[must_use]
    pub fn scale_of_job(&self, job: JobId, signal: SignalId) -> Option<Scale> {
        self.scales_of_jobs.get(&(job, signal)).copied()
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
        let job = self.job_of(id);
        let of_job = job.and_then(|job| self.scale_of_job(job, signal));
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
        scales.take(shown, at, of_job, throughout_ms);
        scales.verdict() != before
    }

    /// Determines the unit of a signal in most targets of each job again.
    pub(crate) fn count_scales(&mut self, signal: SignalId) {
        // The number of targets in percent minus those in ratios.
        let mut counts: HashMap<JobId, i64> = HashMap::new();
        for target in self.targets.iter().flatten() {
            let job = self.sources[usize::from(target.source)].key.job;
            match target.scales(signal).and_then(Scales::verdict) {
                Some(Scale::Percent) => *counts.entry(job).or_default() += 1,
                Some(Scale::Ratio) => *counts.entry(job).or_default() -= 1,
                None => {}
            }
        }
        self.scales_of_jobs.retain(|(_, of), _| *of != signal);
        for (job, more) in counts {
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

//! Why a group has no value: the first reason that applies.

use std::collections::BTreeSet;

use super::super::grid::RowId;
use super::super::layout::{Object, RowFacts};
use super::{Evaluator, Span};
use apimachinery::time::Timestamp;

/// The reason for a missing value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// No GPU belongs to the group.
    NoDevice,
    /// No exporter of the group's sources has sent a sample within F.
    StoreBehind {
        /// The newest sample of the group's exporters.
        newest: Timestamp,
    },
    /// GPUs of the group do not answer.
    Missing {
        /// Why they do not.
        why: Missing,
        /// How many.
        devices: usize,
        /// GPUs of the group, including those that were never seen.
        of: usize,
    },
    /// Its devices are reported for another holder, or for none.
    HandedOver {
        /// Its newest sample.
        since: Timestamp,
    },
    /// The window holds too few readings of the metric.
    TooFewReadings,
}

/// Why GPUs of a group do not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Their exporters are silent since this newest sample.
    Silent(Timestamp),
    /// Their exporters' readings have not changed since.
    Frozen(Timestamp),
    /// The group's pods request them, and they were never seen.
    Unseen,
    /// Exporters report other devices, but not these since this newest sample.
    Lost(Timestamp),
}

impl Evaluator<'_> {
    /// Why a group has no value.
    pub(crate) fn absence(&self, group: &Object, span: Option<&Span>) -> Absence {
        let unseen = group.unseen.iter().map(|unseen| unseen.count as usize);
        let unseen: usize = unseen.sum();
        let seen = self.devices(&group.members);
        let missing = |why, devices| Absence::Missing {
            why,
            devices,
            of: seen + unseen,
        };
        if seen + unseen == 0 {
            return Absence::NoDevice;
        }
        if let Some(newest) = self.whole_source_behind(group) {
            return Absence::StoreBehind { newest };
        }
        let is_silent = |facts: &&RowFacts| self.is_silent(facts);
        let silent: Vec<&RowFacts> = self
            .layout
            .facts_of(&group.members)
            .filter(is_silent)
            .collect();
        let since = silent.iter().filter_map(|facts| self.last_alive(facts));
        if let Some(since) = since.max() {
            let rows: Vec<RowId> = silent.iter().map(|facts| facts.id).collect();
            let why = match silent.iter().all(|facts| self.is_frozen(facts)) {
                true => Missing::Frozen(since),
                false => Missing::Silent(since),
            };
            return missing(why, self.devices(&rows));
        }
        if unseen > 0 {
            return missing(Missing::Unseen, unseen);
        }
        let Some(span) = span else {
            return Absence::TooFewReadings;
        };
        let is_lost = |row: &RowId| self.is_lost(*row, span.window_ms);
        let lost: Vec<RowId> = group.members.iter().copied().filter(is_lost).collect();
        if let Some(heard) = self.frame.heard(&lost) {
            return missing(Missing::Lost(heard.newest), self.devices(&lost));
        }
        let since = self.frame.heard(&group.members).map(|heard| heard.newest);
        match since.filter(|since| self.is_left_behind(group, *since, span)) {
            Some(since) => Absence::HandedOver { since },
            None => Absence::TooFewReadings,
        }
    }

    /// Whether the exporter of a row's device is silent.
    pub(crate) fn is_silent(&self, facts: &RowFacts) -> bool {
        self.target(facts).is_some_and(|target| target.silent)
    }

    /// Whether the exporter of a row's device sends readings that no longer change.
    pub(crate) fn is_frozen(&self, facts: &RowFacts) -> bool {
        let target = self.target(facts);
        target.is_some_and(|target| target.frozen_since.is_some())
    }

    /// Whether the targets of a group have had samples for longer than a window since the
    /// group's own newest sample.
    fn is_left_behind(&self, group: &Object, since: Timestamp, span: &Span) -> bool {
        let targets = self.layout.facts_of(&group.members);
        let targets = targets.filter_map(|facts| self.target(facts));
        let newest = targets.map(|target| target.newest).max();
        newest.is_some_and(|newest| newest.millis() - since.millis() > span.window_ms)
    }

    /// Whether the target of a row's device reports other devices, but has not reported
    /// this one for longer than a window, whichever pod holds it.
    pub(crate) fn is_lost(&self, row: RowId, window_ms: i64) -> bool {
        let facts = self.layout.fact(row);
        let Some((facts, target)) = facts.and_then(|it| Some((it, self.target(it)?))) else {
            return false;
        };
        let newest_of = |row| Some(self.frame.sample_times(row)?.newest);
        let heard = self.frame.heard(self.layout.device_rows(facts.device));
        let replaced = facts.shares_slot && self.is_replaced(facts, target.newest);
        !replaced
            && heard.is_some_and(|heard| {
                self.is_left_out(facts, target, (heard.newest, window_ms), newest_of)
            })
    }

    /// Since when a row's target is frozen; otherwise the time of the row's newest sample.
    fn last_alive(&self, facts: &RowFacts) -> Option<Timestamp> {
        let frozen = self.target(facts).and_then(|target| target.frozen_since);
        frozen.or_else(|| self.frame.sample_times(facts.id).map(|heard| heard.newest))
    }

    /// The number of devices of these rows, which are in the order of their devices.
    fn devices(&self, rows: &[RowId]) -> usize {
        rows.chunk_by(|a, b| self.layout.is_one_device(*a, *b))
            .count()
    }

    /// The newest sample of the group's exporters, if no target of their sources is
    /// heard: then the store or all exporters have failed, not only the group's.
    fn whole_source_behind(&self, group: &Object) -> Option<Timestamp> {
        let of_row = |row: &RowId| self.target(self.layout.fact(*row)?);
        let of_group = || group.members.iter().filter_map(of_row);
        let sources: BTreeSet<u16> = of_group().map(|target| target.source).collect();
        let targets = || self.frame.view().targets.iter();
        let is_heard = targets().any(|target| !target.silent && sources.contains(&target.source));
        let known = targets().filter(|target| target.newest > Timestamp::MIN);
        let newest = of_group().map(|target| target.newest).max();
        newest.filter(|_| known.count() > 1 && !is_heard)
    }
}

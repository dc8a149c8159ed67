//! Why a group has no value: the first reason that applies.

use std::collections::BTreeSet;

use super::super::grid::RowId;
use super::super::layout::RowFacts;
use super::{Evaluator, Group, Span};
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
    /// Exporters are silent.
    Silent {
        /// Devices that are silent.
        devices: usize,
        /// Devices of the group.
        of: usize,
        /// The newest sample of the silent ones.
        since: Timestamp,
    },
    /// Exporters send readings that no longer change.
    Frozen {
        /// Devices that are frozen.
        devices: usize,
        /// Devices of the group.
        of: usize,
        /// When a reading of one of them last changed.
        since: Timestamp,
    },
    /// GPUs that the group's pods request were never seen.
    Unseen {
        /// How many.
        devices: usize,
        /// GPUs of the group, including the unseen ones.
        of: usize,
    },
    /// Exporters report other devices, but not these.
    Lost {
        /// Devices that are lost.
        devices: usize,
        /// Devices of the group.
        of: usize,
        /// The newest sample of the lost ones.
        since: Timestamp,
    },
    /// Its devices are reported for another holder, or for none.
    HandedOver {
        /// Its newest sample.
        since: Timestamp,
    },
    /// The window holds too few readings of the metric.
    TooFewReadings,
}

impl Evaluator<'_> {
    /// Why a group has no value.
    pub(crate) fn absence(&self, group: &Group<'_>, span: Option<&Span>) -> Absence {
        let unseen: usize = group
            .unseen
            .iter()
            .map(|unseen| unseen.count as usize)
            .sum();
        let devices = self.devices(group.rows);
        if devices == 0 {
            return match unseen {
                0 => Absence::NoDevice,
                devices => Absence::Unseen {
                    devices,
                    of: devices,
                },
            };
        }
        if let Some(newest) = self.whole_source_behind(group) {
            return Absence::StoreBehind { newest };
        }
        let is_silent = |facts: &&RowFacts| self.is_silent(facts);
        let silent: Vec<&RowFacts> = self.layout.facts_of(group.rows).filter(is_silent).collect();
        if !silent.is_empty() {
            let since = silent
                .iter()
                .filter_map(|facts| self.last_alive(facts))
                .max();
            let since = since.unwrap_or(Timestamp::MIN);
            let is_frozen = silent.iter().all(|facts| self.is_frozen(facts));
            let rows: Vec<RowId> = silent.iter().map(|facts| facts.id).collect();
            let (devices, of) = (self.devices(&rows), devices + unseen);
            return match is_frozen {
                true => Absence::Frozen { devices, of, since },
                false => Absence::Silent { devices, of, since },
            };
        }
        if unseen > 0 {
            return Absence::Unseen {
                devices: unseen,
                of: devices + unseen,
            };
        }
        span.and_then(|span| self.left_behind(group, span))
            .unwrap_or(Absence::TooFewReadings)
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

    /// Why the group's devices have no recent samples while their targets do.
    fn left_behind(&self, group: &Group<'_>, span: &Span) -> Option<Absence> {
        let is_lost = |row: &RowId| self.is_lost(*row, span.window_ms);
        let lost: Vec<RowId> = group.rows.iter().copied().filter(is_lost).collect();
        let heard = |row: &RowId| self.frame.sample_times(*row).map(|heard| heard.newest);
        if !lost.is_empty() {
            return Some(Absence::Lost {
                devices: self.devices(&lost),
                of: self.devices(group.rows),
                since: lost
                    .iter()
                    .filter_map(heard)
                    .max()
                    .unwrap_or(Timestamp::MIN),
            });
        }
        let since = group.rows.iter().filter_map(heard).max()?;
        let newest = |row: &RowId| Some(self.target(self.layout.fact(*row)?)?.newest);
        let newest = group.rows.iter().filter_map(newest).max()?;
        let left = newest.millis() - since.millis() > span.window_ms;
        left.then_some(Absence::HandedOver { since })
    }

    /// Whether the target of a row's device reports other devices, but has not reported
    /// this one for longer than a window, whichever pod holds it.
    pub(crate) fn is_lost(&self, row: RowId, window_ms: i64) -> bool {
        let Some((facts, target)) = self
            .layout
            .fact(row)
            .and_then(|facts| Some((facts, self.target(facts)?)))
        else {
            return false;
        };
        let newest_of = |row| Some(self.frame.sample_times(row)?.newest);
        let of_device = self.layout.device_rows(facts.device).iter();
        let newest = of_device.filter_map(|row| newest_of(*row)).max();
        let replaced = facts.shares_slot && self.is_replaced(facts, target.newest);
        let left_out = |newest| self.is_left_out(facts, target, (newest, window_ms), newest_of);
        !replaced && newest.is_some_and(left_out)
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
    fn whole_source_behind(&self, group: &Group<'_>) -> Option<Timestamp> {
        let of_row = |row: &RowId| self.target(self.layout.fact(*row)?);
        let of_group = || group.rows.iter().filter_map(of_row);
        let sources: BTreeSet<u16> = of_group().map(|target| target.source).collect();
        let targets = || self.frame.view().targets.iter();
        let is_heard = targets().any(|target| !target.silent && sources.contains(&target.source));
        let known = targets().filter(|target| target.newest > Timestamp::MIN);
        let newest = of_group().map(|target| target.newest).max();
        newest.filter(|_| known.count() > 1 && !is_heard)
    }
}

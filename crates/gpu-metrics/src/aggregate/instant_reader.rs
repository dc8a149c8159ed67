//! The devices at one instant: which reading counts, and which device is active.

use super::super::grid::{Reading, RowId, instant_time};
use super::super::inventory::InventoryOrigin;
use super::super::layout::{Attribution, RowFacts};
use super::super::policy::{DeviceValue, Measure, Shared};
use super::super::signal::SignalId;
use super::{DeviceReading, Evaluator, MeasureInputs};
use apimachinery::time::Timestamp;

/// A device's reading at an instant.
#[derive(Clone, Copy, Debug)]
struct ShownReading<'a> {
    reading: Reading,
    /// Its weight in a mean; for memory in percent, the whole memory in MiB.
    weight: f64,
    facts: &'a RowFacts,
}

/// One instant of the grid.
#[derive(Debug)]
pub(super) struct InstantReader<'a> {
    pub(super) of: Evaluator<'a>,
    /// Its index on the grid.
    pub(super) instant: i64,
    pub(super) time: Timestamp,
}

impl<'a> InstantReader<'a> {
    pub(super) fn new(of: Evaluator<'a>, instant: i64) -> Self {
        Self {
            of,
            instant,
            time: instant_time(instant, of.frame.step_ms()),
        }
    }

    /// All rows of a row's device.
    pub(super) fn lines(&self, facts: &RowFacts) -> impl Iterator<Item = &'a RowFacts> {
        let layout = self.of.layout;
        layout.facts_of(layout.device_rows(facts.device))
    }

    /// A device's reading for a group: among the rows' readings from before their pod ended,
    /// or else all, the newest, and the larger of equally new ones. Shares of processes are
    /// added.
    fn best(&self, rows: &[RowId], value: DeviceValue, one_pod: bool) -> Option<ShownReading<'a>> {
        let mut best: Option<ShownReading<'_>> = None;
        let may_be_part = matches!(
            value,
            DeviceValue::GpuUtilization | DeviceValue::MemoryUsed | DeviceValue::MemoryUsedPercent
        );
        let is_part = |shown: &ShownReading<'_>| {
            may_be_part && self.is_share(shown.facts, value, shown.reading)
        };
        for row in rows {
            let facts = self.of.layout.fact(*row);
            let Some(mut shown) = facts.and_then(|facts| self.shown(facts, value)) else {
                continue;
            };
            if one_pod && self.of.policy.shared == Shared::Split && !is_part(&shown) {
                let holders = self.holders(shown.facts, value).max(1);
                shown.reading.value /= f64::from(holders);
            }
            let rank = |it: &ShownReading<'_>| {
                (
                    it.reading.at < it.facts.ended,
                    it.reading.at,
                    it.reading.value,
                )
            };
            if best.as_ref().is_none_or(|best| rank(&shown) > rank(best)) {
                best = Some(shown);
            }
        }
        let mut best = best?;
        if rows.len() > 1 && is_part(&best) {
            best.reading.value = self.sum_of_processes(rows, value, best.reading);
        }
        (!self.is_shadowed(best.facts, value)).then_some(best)
    }

    /// Whether a reading is one process' share: the exporter also writes a line of the
    /// device itself. Older exporters repeat the device's value under the same labels,
    /// without that line.
    fn is_share(&self, facts: &RowFacts, value: DeviceValue, reading: Reading) -> bool {
        let mut lines = self.lines(facts);
        facts.row.label_facts.per_process
            && lines.any(|line| {
                let is_whole = line.attribution == Attribution::Unheld;
                let own = is_whole.then(|| self.reading(line, value)).flatten();
                own.is_some_and(|own| own.at == reading.at)
            })
    }

    /// The sum of the processes' shares among the rows that are as new as `reading`. If the
    /// rows include the device's own line, its value is used instead.
    fn sum_of_processes(&self, rows: &[RowId], value: DeviceValue, reading: Reading) -> f64 {
        let as_new = self.of.layout.facts_of(rows).filter_map(|facts| {
            let own = self.reading(facts, value)?;
            (own.at == reading.at).then_some((facts, own.value))
        });
        let (mut sum, mut whole) = (0.0, None);
        for (facts, value) in as_new {
            match facts.attribution {
                Attribution::Unheld => whole = Some(value),
                _ => sum += value,
            }
        }
        whole.unwrap_or(sum)
    }

    /// A GPU's own reading is ignored while one of its MIG instances has a reading.
    fn is_shadowed(&self, facts: &RowFacts, value: DeviceValue) -> bool {
        if !facts.has_instances || value == DeviceValue::PowerUsage {
            return false;
        }
        let mut instances = self.of.layout.instances_of(facts);
        instances.any(|rows| self.reading_among(rows, value).is_some())
    }

    /// The reading of a row's device, whichever pod holds it or held it.
    pub(super) fn device_reading(&self, facts: &RowFacts, value: DeviceValue) -> Option<Reading> {
        let rows = self.of.layout.device_rows(facts.device);
        if rows.len() == 1 {
            return self.row_reading(facts, value);
        }
        self.reading_among(rows, value)
    }

    fn reading_among(&self, rows: &[RowId], value: DeviceValue) -> Option<Reading> {
        let rows = self.of.layout.facts_of(rows);
        rows.filter_map(|facts| self.row_reading(facts, value))
            .reduce(Reading::better)
    }

    /// Whether a pod holds the device: one of its lines of that time names a pod.
    /// Exporters in sharing mode write a line without a pod beside those of the
    /// processes, which does not mean a free device.
    fn is_held(&self, rows: &[RowId], value: DeviceValue, at: Timestamp) -> bool {
        // The caller has checked a single row.
        if rows.len() == 1 {
            return false;
        }
        let rows = self.of.layout.facts_of(rows);
        rows.filter(|facts| facts.was_held_at(at)).any(|facts| {
            self.reading(facts, value)
                .is_some_and(|reading| reading.at == at)
        })
    }

    /// Whether a live pod held the device at a time, though it was reported without one
    /// then.
    fn has_lost_labels(&self, rows: &[RowId], at: Timestamp) -> bool {
        if rows.len() == 1 || self.of.layout.inventory().authority == InventoryOrigin::Series {
            return false;
        }
        let facts = self.of.layout.facts_of(rows);
        let mut held = facts.filter(|facts| facts.attribution == Attribution::Held);
        held.any(|facts| {
            let heard = self.of.frame.sample_times(facts.id);
            let since = heard.map(|heard| heard.first.max(facts.started));
            !facts.row.label_facts.per_process
                && !self.of.is_of_predecessor(facts)
                && since.is_some_and(|since| since <= at && at < facts.ended)
                && !self.of.is_released(facts)
        })
    }

    /// The number of different pods that a device's readings name.
    fn holders(&self, facts: &RowFacts, value: DeviceValue) -> u32 {
        let lines = self.lines(facts);
        let mut holders: Vec<_> = lines
            .filter(|facts| self.reading(facts, value).is_some())
            .filter_map(|facts| facts.row.owner.as_ref())
            .map(|owner| (&owner.namespace, &owner.pod))
            .collect();
        holders.sort_unstable();
        holders.dedup();
        u32::try_from(holders.len()).unwrap_or(u32::MAX)
    }

    /// A row's reading of one signal: the newest, younger than F.
    fn signal(&self, signal: SignalId, facts: &RowFacts) -> Option<Reading> {
        let target = self.of.targets.get(facts.id.0 as usize)?;
        let frame = self.of.frame;
        frame.reading(signal, facts.id, self.instant, target.fresh_ms)
    }

    /// Whether a row had a reading of a signal up to now, however old.
    fn had(&self, signal: SignalId, facts: &RowFacts) -> bool {
        let frame = self.of.frame;
        frame.last_reading(signal, facts.id, self.instant).is_some()
    }

    /// A row's reading of a device value, if it counts for its group.
    pub(super) fn reading(&self, facts: &'a RowFacts, value: DeviceValue) -> Option<Reading> {
        self.shown(facts, value).map(|shown| shown.reading)
    }

    /// A row's reading of a device value for its group. Once the pod is gone, a newer
    /// sample of the same target with another holder, or none, ends the reading at once.
    /// While the pod is live, such a sample means that the labels were lost.
    fn shown(&self, facts: &'a RowFacts, value: DeviceValue) -> Option<ShownReading<'a>> {
        let (reading, weight) = self.weighed(facts, value)?;
        if facts.shares_slot && self.of.is_replaced(facts, self.time) {
            return None;
        }
        let gone = facts.attribution == Attribution::Gone || reading.at < facts.started;
        let handed_over = gone && self.is_handed_over(facts, value, reading.at);
        (!handed_over).then_some(ShownReading {
            reading,
            weight,
            facts,
        })
    }

    fn is_handed_over(&self, facts: &RowFacts, value: DeviceValue, at: Timestamp) -> bool {
        let mut others = self.lines(facts);
        others.any(|other| {
            let mut targets = other.row.targets.iter();
            other.id != facts.id
                && targets.any(|id| facts.row.targets.contains(id))
                && self
                    .row_reading(other, value)
                    .is_some_and(|reading| reading.at > at)
        })
    }

    /// A row's newest reading up to the instant `until`, however old, and its
    /// weight.
    pub(super) fn last(
        &self,
        facts: &RowFacts,
        value: DeviceValue,
        until: i64,
    ) -> Option<(Reading, f64)> {
        let last = |signal| self.of.frame.last_reading(signal, facts.id, until);
        if value != DeviceValue::MemoryUsedPercent {
            let signals = signals_of(facts, value).into_iter().flatten();
            let newest = signals.filter_map(last).reduce(Reading::better);
            return newest.map(|reading| (reading, facts.weight));
        }
        let (used, free) = (last(SignalId::FB_USED)?, last(SignalId::FB_FREE)?);
        let reserved = last(SignalId::FB_RESERVED).map_or(0.0, |known| known.value);
        let whole = used.value + free.value + reserved;
        let percent = Reading {
            value: 100.0 * used.value / whole,
            at: used.at,
        };
        (whole > 0.0).then_some((percent, whole))
    }

    /// A row's reading of a device value, whichever pod holds the device now.
    pub(super) fn row_reading(&self, facts: &RowFacts, value: DeviceValue) -> Option<Reading> {
        self.weighed(facts, value).map(|(reading, _)| reading)
    }

    /// A row's reading of a device value, and its weight in a mean.
    fn weighed(&self, facts: &RowFacts, value: DeviceValue) -> Option<(Reading, f64)> {
        if value == DeviceValue::MemoryUsedPercent {
            let (used, whole) = self.framebuffer(facts)?;
            let percent = Reading {
                value: 100.0 * used.value / whole,
                at: used.at,
            };
            return Some((percent, whole));
        }
        let mut signals = signals_of(facts, value).into_iter().flatten();
        let reading = signals.find_map(|signal| self.signal(signal, facts))?;
        Some((reading, facts.weight))
    }

    /// The signal that a row's device value is read from at the instant; the first
    /// candidate if none has a reading.
    pub(super) fn signal_of(&self, facts: &RowFacts, value: DeviceValue) -> Option<SignalId> {
        let signals = signals_of(facts, value);
        let mut shown = signals.into_iter().flatten();
        let shown = shown.find(|signal| self.signal(*signal, facts).is_some());
        shown.or(signals[0])
    }

    /// The MiB in use, and the whole: used + free + reserved. The reserved part is 0 if the
    /// device never reported it. The whole is the device's, even if the part in use is one
    /// process' share.
    fn framebuffer(&self, facts: &RowFacts) -> Option<(Reading, f64)> {
        let used = self.signal(SignalId::FB_USED, facts)?;
        let lines = || self.lines(facts);
        let of_device = |signal| {
            let readings = lines().filter_map(|line| self.signal(signal, line));
            readings.reduce(Reading::better)
        };
        let own = |signal| match facts.row.label_facts.per_process {
            true => of_device(signal),
            false => self.signal(signal, facts),
        };
        let free = own(SignalId::FB_FREE)?;
        let in_use = own(SignalId::FB_USED)?.value.max(used.value);
        let reserved = match own(SignalId::FB_RESERVED).or_else(|| of_device(SignalId::FB_RESERVED))
        {
            Some(reserved) => reserved.value,
            None if lines().any(|line| self.had(SignalId::FB_RESERVED, line)) => return None,
            None => 0.0,
        };
        let whole = in_use + free.value + reserved;
        (whole > 0.0).then_some((used, whole))
    }
}

/// The signals that a row's device value is read from, the best first: profiling fields
/// on MIG instances, and for a device without percents. Empty for a value computed from
/// several signals.
pub(super) fn signals_of(facts: &RowFacts, value: DeviceValue) -> [Option<SignalId>; 2] {
    let (percent, profiled) = match value {
        DeviceValue::MemoryUtilization => (SignalId::MEM_COPY_UTIL, SignalId::DRAM_ACTIVE),
        DeviceValue::GpuUtilization => (SignalId::GPU_UTIL, SignalId::GR_ENGINE_ACTIVE),
        DeviceValue::MemoryUsed => return [Some(SignalId::FB_USED), None],
        DeviceValue::PowerUsage => return [Some(SignalId::POWER_USAGE), None],
        DeviceValue::Signal(id) => return [Some(id), None],
        DeviceValue::MemoryUsedPercent => return [None, None],
    };
    match facts.is_mig {
        true => [Some(profiled), None],
        false => [Some(percent), Some(profiled)],
    }
}

impl InstantReader<'_> {
    pub(super) fn read(&self, rows: &[RowId], measure: &Measure, one_pod: bool) -> DeviceReading {
        let inputs = MeasureInputs::of(measure);
        let mut found = inputs
            .shown_by()
            .filter_map(|value| Some((value, self.best(rows, value, one_pod)?)));
        let Some((value, shown)) = found.next() else {
            return DeviceReading::NOTHING;
        };
        let ShownReading {
            reading,
            weight,
            facts,
        } = shown;
        DeviceReading {
            value: reading.value,
            at: reading.at,
            weight,
            active: match inputs.of_active {
                true => self.is_active_or_was(rows, value, reading, facts),
                false => Some(false),
            },
            held: facts.was_held_at(reading.at)
                || self.is_held(rows, value, reading.at)
                || self.has_lost_labels(rows, reading.at),
            of_predecessor: reading.at < facts.started,
            after_end: reading.at >= facts.ended,
        }
    }
}

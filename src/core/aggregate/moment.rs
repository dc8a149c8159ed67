//! The devices at one instant: which reading counts, and who is active.

use std::cell::OnceCell;

use super::super::grid::{Reading, RowId, instant_time};
use super::super::layout::{RowFacts, Standing};
use super::super::policy::{DeviceValue, Shared};
use super::super::signal::SignalId;
use super::super::targets::TargetView;
use super::super::time::Timestamp;
use super::active::is_active;
use super::{Ask, Evaluator, Lens, Seen};

/// What shows a device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown<'a> {
    pub(super) reading: Reading,
    /// Its weight in a mean; of a share in percent what it is a share of.
    weight: f64,
    /// The row that gave it.
    pub(super) facts: &'a RowFacts,
}

/// One instant of the grid.
#[derive(Debug)]
pub(super) struct Moment<'a> {
    pub(super) of: Evaluator<'a>,
    instant: i64,
    time: Timestamp,
    /// Whether it lies ahead of the horizon of any source that is heard.
    is_ahead: bool,
    /// The fleet's largest reading, found when it is first asked for.
    largest: OnceCell<f64>,
}

impl<'a> Moment<'a> {
    pub(super) fn new(of: Evaluator<'a>, instant: i64) -> Self {
        let time = instant_time(instant, of.frame.step_ms());
        Self {
            of,
            instant,
            time,
            is_ahead: time > of.frame.view().earliest,
            largest: OnceCell::new(),
        }
    }

    /// The fleet's largest reading of the device value that is asked for: a
    /// moment serves questions of one value.
    pub(super) fn largest(&self, value: DeviceValue) -> f64 {
        *self.largest.get_or_init(|| {
            let rows = self.of.layout.facts().flatten();
            let readings = rows.filter_map(|facts| self.row_reading(facts, value));
            readings.map(|reading| reading.value).fold(0.0, f64::max)
        })
    }

    /// Its number on the grid.
    pub(super) fn instant(&self) -> i64 {
        self.instant
    }

    /// Its time.
    pub(super) fn time(&self) -> Timestamp {
        self.time
    }

    /// What counts for one device of a group: of its rows the newest reading, of
    /// equally new ones the larger. Shares of processes are added up.
    pub(super) fn best(&self, rows: &[RowId], value: DeviceValue, ask: &Ask) -> Option<Shown<'a>> {
        let mut best: Option<Shown<'_>> = None;
        for row in rows {
            let facts = self.of.layout.fact(*row);
            let Some(mut shown) = facts.and_then(|facts| self.shown(facts, value)) else {
                continue;
            };
            if ask.one_pod && self.of.policy.shared == Shared::Split {
                let holders = self.holders(shown.facts.device, value).max(1);
                shown.reading.value /= f64::from(holders);
            }
            best = Some(match best {
                Some(held) if held.reading.better(shown.reading) == held.reading => held,
                _ => shown,
            });
        }
        let mut best = best?;
        let is_split = matches!(
            value,
            DeviceValue::GpuUtilization | DeviceValue::MemoryUsed | DeviceValue::MemoryUsedPercent
        );
        if is_split && rows.len() > 1 && self.is_share(best.facts, value, best.reading) {
            best.reading.value = self.sum_of_processes(rows, value, best.reading);
        }
        (!self.is_shadowed(best.facts, value)).then_some(best)
    }

    /// Whether a reading is one process' share: the exporter says the device's own
    /// beside it, where older ones repeat it under the same labels.
    fn is_share(&self, facts: &RowFacts, value: DeviceValue, reading: Reading) -> bool {
        let lines = self.of.layout.device_rows(facts.device).iter();
        let mut lines = lines.filter_map(|row| self.of.layout.fact(*row));
        facts.row.per_process
            && lines.any(|line| {
                let is_whole = line.standing == Standing::Nobody;
                let own = is_whole.then(|| self.reading(line, value)).flatten();
                own.is_some_and(|own| own.at == reading.at)
            })
    }

    /// The shares of all processes among the rows, as new as `reading`; the
    /// device's own line, where it is among them, says it itself.
    fn sum_of_processes(&self, rows: &[RowId], value: DeviceValue, reading: Reading) -> f64 {
        let facts = rows.iter().filter_map(|row| self.of.layout.fact(*row));
        let as_new = facts.filter_map(|facts| {
            let own = self.reading(facts, value)?;
            (own.at == reading.at).then_some((facts, own.value))
        });
        let (mut sum, mut whole) = (0.0, None);
        for (facts, value) in as_new {
            match facts.standing {
                Standing::Nobody => whole = Some(value),
                _ => sum += value,
            }
        }
        whole.unwrap_or(sum)
    }

    /// A GPU's own reading counts for nothing while one of its MIG instances
    /// has one.
    fn is_shadowed(&self, facts: &RowFacts, value: DeviceValue) -> bool {
        if !facts.has_instances || value == DeviceValue::PowerUsage {
            return false;
        }
        self.of
            .layout
            .instances_of(facts.device)
            .iter()
            .any(|device| {
                let rows = self.of.layout.device_rows(*device);
                self.reading_among(rows, value).is_some()
            })
    }

    /// The reading of a row's device, whoever holds it or held it.
    pub(super) fn device_reading(&self, facts: &RowFacts, value: DeviceValue) -> Option<Reading> {
        let rows = self.of.layout.device_rows(facts.device);
        if rows.len() == 1 {
            return self.row_reading(facts, value);
        }
        self.reading_among(rows, value)
    }

    fn reading_among(&self, rows: &[RowId], value: DeviceValue) -> Option<Reading> {
        let rows = rows.iter().filter_map(|row| self.of.layout.fact(*row));
        rows.filter_map(|facts| self.row_reading(facts, value))
            .reduce(Reading::better)
    }

    /// Whether a pod holds the device: one of its lines of that time names it.
    /// Exporters in sharing mode print a line without a pod beside those of the
    /// processes, which must not pass for a free device.
    fn is_held(&self, rows: &[RowId], value: DeviceValue, at: Timestamp) -> bool {
        // A single row has spoken for itself.
        if rows.len() == 1 {
            return false;
        }
        let rows = rows.iter().filter_map(|row| self.of.layout.fact(*row));
        rows.filter(|facts| facts.standing.was_held()).any(|facts| {
            self.reading(facts, value)
                .is_some_and(|reading| reading.at == at)
        })
    }

    /// How many different pods a device's readings name.
    fn holders(&self, device: u32, value: DeviceValue) -> u32 {
        let rows = self.of.layout.device_rows(device).iter();
        let mut holders: Vec<_> = rows
            .filter_map(|row| self.of.layout.fact(*row))
            .filter(|facts| self.reading(facts, value).is_some())
            .filter_map(|facts| facts.row.owner.as_ref())
            .map(|owner| (&owner.namespace, &owner.pod))
            .collect();
        holders.sort_unstable();
        holders.dedup();
        u32::try_from(holders.len()).unwrap_or(u32::MAX)
    }

    /// By how much the instant lies ahead of what a target can have reached: the
    /// last one of a window may lie up to a step ahead, and there the age of a
    /// reading is that at the horizon. Or else a target that answers would be
    /// neither there nor missed wherever the step is longer than its F.
    fn ahead_ms(&self, target: &TargetView) -> i64 {
        if target.silent || !self.is_ahead {
            return 0;
        }
        let frame = self.of.frame;
        let source = frame.view().sources.get(usize::from(target.source));
        let ahead_ms = source.map_or(0, |source| self.time.millis() - source.horizon.millis());
        ahead_ms.clamp(0, frame.step_ms())
    }

    /// A row's reading of one signal: the newest, no older than its target's F
    /// and usual distance.
    fn signal(&self, signal: SignalId, facts: &RowFacts) -> Option<Reading> {
        let target = self.of.target(facts)?;
        let frame = self.of.frame;
        let hold_ms = target.hold_ms() + self.ahead_ms(target);
        let reading = frame.reading(signal, facts.id, self.instant, hold_ms)?;
        let frozen = target.frozen_since.is_some_and(|since| reading.at > since);
        (!frozen).then_some(reading)
    }

    /// Whether a row had a reading of a signal up to now, however old.
    fn had(&self, signal: SignalId, facts: &RowFacts) -> bool {
        let frame = self.of.frame;
        frame.last_reading(signal, facts.id, self.instant).is_some()
    }

    /// A row's reading of a device value that counts for its group.
    pub(super) fn reading(&self, facts: &'a RowFacts, value: DeviceValue) -> Option<Reading> {
        self.shown(facts, value).map(|shown| shown.reading)
    }

    /// What a row shows of a device value for its group. Once the pod has gone, a
    /// newer sample of the same target that names another holder, or none, ends
    /// it at once; while the pod lives that is a label that was lost.
    fn shown(&self, facts: &'a RowFacts, value: DeviceValue) -> Option<Shown<'a>> {
        let (reading, weight) = self.weighed(facts, value)?;
        if facts.shares_place && self.of.is_replaced(facts, self.time) {
            return None;
        }
        let gone = facts.standing == Standing::Gone || reading.at < facts.started;
        let handed_over = gone && self.is_handed_over(facts, value, reading.at);
        (!handed_over).then_some(Shown {
            reading,
            weight,
            facts,
        })
    }

    fn is_handed_over(&self, facts: &RowFacts, value: DeviceValue, at: Timestamp) -> bool {
        let others = self.of.layout.device_rows(facts.device).iter();
        let mut others = others.filter_map(|row| self.of.layout.fact(*row));
        others.any(|other| {
            let mut targets = other.row.targets.iter();
            other.id != facts.id
                && targets.any(|id| facts.row.targets.contains(id))
                && self
                    .row_reading(other, value)
                    .is_some_and(|reading| reading.at > at)
        })
    }

    /// A row's newest reading up to the instant `until`, however old.
    pub(super) fn last(&self, facts: &RowFacts, value: DeviceValue, until: i64) -> Option<Reading> {
        let frame = self.of.frame;
        let Some(signal) = self.signal_of(facts, value) else {
            let used = frame.last_reading(SignalId::FB_USED, facts.id, until)?;
            let free = frame.last_reading(SignalId::FB_FREE, facts.id, until)?;
            let reserved = frame.last_reading(SignalId::FB_RESERVED, facts.id, until);
            let whole = used.value + free.value + reserved.map_or(0.0, |known| known.value);
            return (whole > 0.0).then(|| Reading {
                value: 100.0 * used.value / whole,
                at: used.at,
            });
        };
        frame.last_reading(signal, facts.id, until)
    }

    /// The signal that shows a device value of a row: profiling fields on MIG
    /// instances, and where the target reports no percents of whole GPUs. It is
    /// not switched for a gap.
    pub(super) fn signal_of(&self, facts: &RowFacts, value: DeviceValue) -> Option<SignalId> {
        let profiled = |place: usize| {
            let target = self.of.target(facts);
            facts.is_mig || target.is_some_and(|target| !target.percents[place])
        };
        Some(match value {
            DeviceValue::MemoryUtilization if profiled(0) => SignalId::DRAM_ACTIVE,
            DeviceValue::MemoryUtilization => SignalId::MEM_COPY_UTIL,
            DeviceValue::GpuUtilization if profiled(1) => SignalId::GR_ENGINE_ACTIVE,
            DeviceValue::GpuUtilization => SignalId::GPU_UTIL,
            DeviceValue::MemoryUsed => SignalId::FB_USED,
            DeviceValue::PowerUsage => SignalId::POWER_USAGE,
            DeviceValue::Signal(id) => id,
            DeviceValue::MemoryUsedPercent => return None,
        })
    }

    /// A row's reading of a device value, whoever holds the device now.
    pub(super) fn row_reading(&self, facts: &RowFacts, value: DeviceValue) -> Option<Reading> {
        self.weighed(facts, value).map(|(reading, _)| reading)
    }

    /// That reading and its weight in a mean: equal, by slices, or the whole that
    /// it is a share of.
    fn weighed(&self, facts: &RowFacts, value: DeviceValue) -> Option<(Reading, f64)> {
        let Some(signal) = self.signal_of(facts, value) else {
            let (used, whole) = self.framebuffer(facts)?;
            let percent = Reading {
                value: 100.0 * used.value / whole,
                at: used.at,
            };
            return Some((percent, whole));
        };
        Some((self.signal(signal, facts)?, facts.weight))
    }

    /// MiB in use and in all: used + free + reserved, where an exporter that
    /// never reported the reserved part is taken to have none. The whole is the
    /// device's, also where what is used is one process' share.
    fn framebuffer(&self, facts: &RowFacts) -> Option<(Reading, f64)> {
        let used = self.signal(SignalId::FB_USED, facts)?;
        let lines = || {
            let rows = self.of.layout.device_rows(facts.device).iter();
            rows.filter_map(|row| self.of.layout.fact(*row))
        };
        let of_device = |signal| {
            let readings = lines().filter_map(|line| self.signal(signal, line));
            readings.reduce(Reading::better)
        };
        let own = |signal| match facts.row.per_process {
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

/// What one row shows for a measure at the first of the moments.
pub(super) fn see(moments: &[Moment<'_>], facts: &RowFacts, ask: &Ask) -> Seen {
    see_device(moments, &[facts.id], ask)
}

/// What the rows of one device show for a measure at the first of the moments.
pub(super) fn see_device(moments: &[Moment<'_>], rows: &[RowId], ask: &Ask) -> Seen {
    let Some(now) = moments.first() else {
        return Seen::NOTHING;
    };
    let lens = Lens::of(&ask.measure);
    let mut found = lens
        .shown_by()
        .filter_map(|value| Some((value, now.best(rows, value, ask)?)));
    let Some((value, shown)) = found.next() else {
        return Seen::NOTHING;
    };
    let Shown {
        reading,
        weight,
        facts,
    } = shown;
    Seen {
        value: reading.value,
        at: reading.at,
        weight,
        lasting_ms: now
            .of
            .targets
            .get(facts.id.0 as usize)
            .map_or(0, |target| target.lasting_ms),
        active: match lens.of_active {
            true => is_active(moments, rows, value, reading, facts),
            false => Some(false),
        },
        held: facts.standing.was_held() || now.is_held(rows, value, reading.at),
        of_predecessor: reading.at < facts.started,
    }
}

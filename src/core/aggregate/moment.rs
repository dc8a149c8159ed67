//! The devices at one instant: which reading counts, and who is active.

use super::super::grid::{Column, Reading, RowId};
use super::super::layout::{RowFacts, Standing};
use super::super::policy::{Activity, Condition, DeviceValue, Shared};
use super::super::signal::SignalId;
use super::super::time::Timestamp;
use super::{Ask, Evaluator, Lens, Seen};

/// One instant of the grid.
#[derive(Debug)]
pub(super) struct Moment<'a> {
    of: Evaluator<'a>,
    instant: i64,
    time: Timestamp,
    /// The column of each signal.
    columns: Vec<Option<&'a Column>>,
}

impl<'a> Moment<'a> {
    pub(super) fn new(of: Evaluator<'a>, instant: i64) -> Self {
        Self {
            of,
            instant,
            time: Timestamp::from_millis(instant * of.frame.step_ms()),
            columns: of.frame.columns(instant),
        }
    }

    /// Its number on the grid.
    pub(super) fn instant(&self) -> i64 {
        self.instant
    }

    /// The reading that counts for one device of a group: of its rows the
    /// newest, of equally new ones the larger.
    pub(super) fn best(
        &self,
        rows: &[RowId],
        value: DeviceValue,
        ask: &Ask,
    ) -> Option<(Reading, &'a RowFacts)> {
        let mut best: Option<(Reading, &RowFacts)> = None;
        for row in rows {
            let Some(facts) = self.of.layout.fact(*row) else {
                continue;
            };
            let Some(mut reading) = self.reading(facts, value) else {
                continue;
            };
            if ask.one_pod && self.of.policy.shared == Shared::Split {
                reading.value /= f64::from(self.holders(facts.device, value).max(1));
            }
            best = Some(match best {
                Some((held, holder)) if held.better(reading) == held => (held, holder),
                _ => (reading, facts),
            });
        }
        let (reading, facts) = best?;
        (!self.is_shadowed(facts, value)).then_some((reading, facts))
    }

    /// A GPU's own reading counts for nothing while one of its MIG instances
    /// has one (`dcgm.md` §0 rule 6).
    fn is_shadowed(&self, facts: &RowFacts, value: DeviceValue) -> bool {
        if facts.is_mig || value == DeviceValue::PowerUsage {
            return false;
        }
        self.of
            .layout
            .instances_of(facts.device)
            .iter()
            .any(|device| self.device_reading(*device, value).is_some())
    }

    /// The device's reading, whoever holds it or held it: a predecessor of the
    /// same name too.
    fn device_reading(&self, device: u32, value: DeviceValue) -> Option<Reading> {
        let rows = self.of.layout.device_rows(device).iter();
        rows.filter_map(|row| self.reading_since(Timestamp::MIN, self.of.layout.fact(*row)?, value))
            .reduce(Reading::better)
    }

    /// Whether a live pod holds the device: one of its lines of that time
    /// names it. Exporters in sharing mode print a line without a pod beside
    /// those of the processes, which must not pass for a free device.
    fn is_held(&self, rows: &[RowId], value: DeviceValue, at: Timestamp) -> bool {
        // A single row has spoken for itself.
        if rows.len() == 1 {
            return false;
        }
        let rows = rows.iter().filter_map(|row| self.of.layout.fact(*row));
        rows.filter(|facts| facts.standing == Standing::Held)
            .any(|facts| {
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

    /// A row's reading of one signal, if it is no older than `since`.
    fn signal(&self, since: Timestamp, signal: SignalId, facts: &RowFacts) -> Option<Reading> {
        let column = self.columns.get(signal.index()).copied().flatten()?;
        let reading = column.get(facts.id, self.time)?;
        (reading.at >= since).then_some(reading)
    }

    /// A row's reading of a device value, as its pod's: none before the pod's
    /// start.
    fn reading(&self, facts: &RowFacts, value: DeviceValue) -> Option<Reading> {
        self.reading_since(facts.started, facts, value)
    }

    fn reading_since(
        &self,
        since: Timestamp,
        facts: &RowFacts,
        value: DeviceValue,
    ) -> Option<Reading> {
        let signal = match value {
            DeviceValue::MemoryUtilization if facts.is_mig => SignalId::DRAM_ACTIVE,
            DeviceValue::MemoryUtilization => SignalId::MEM_COPY_UTIL,
            DeviceValue::GpuUtilization if facts.is_mig => SignalId::GR_ENGINE_ACTIVE,
            DeviceValue::GpuUtilization => SignalId::GPU_UTIL,
            DeviceValue::MemoryUsed => SignalId::FB_USED,
            DeviceValue::PowerUsage => SignalId::POWER_USAGE,
            DeviceValue::Signal(id) => id,
            DeviceValue::MemoryUsedPercent => {
                let (used, whole) = self.framebuffer(since, facts)?;
                return Some(Reading {
                    value: 100.0 * used.value / whole,
                    at: used.at,
                });
            }
        };
        self.signal(since, signal, facts)
    }

    /// MiB in use and in all: used + free + reserved, where an exporter that
    /// does not report the reserved part is taken to have none.
    pub(super) fn framebuffer(&self, since: Timestamp, facts: &RowFacts) -> Option<(Reading, f64)> {
        let used = self.signal(since, SignalId::FB_USED, facts)?;
        let free = self.signal(since, SignalId::FB_FREE, facts)?;
        let reserved = self.signal(since, SignalId::FB_RESERVED, facts);
        let whole = used.value + free.value + reserved.map_or(0.0, |reading| reading.value);
        (whole > 0.0).then_some((used, whole))
    }

    fn is_active(&self, value: DeviceValue, reading: Option<Reading>, facts: &RowFacts) -> bool {
        let holds = |condition: &Condition| match condition {
            Condition::Allocated => facts.standing == Standing::Held,
            Condition::Above(value, threshold) => self
                .device_reading(facts.device, *value)
                .is_some_and(|reading| reading.value > threshold * ratio_scale(*value)),
        };
        match &self.of.policy.activity {
            Activity::OwnValueAboveZero => match value {
                DeviceValue::MemoryUtilization
                | DeviceValue::GpuUtilization
                | DeviceValue::Signal(_) => reading.is_some_and(|reading| reading.value > 0.0),
                // Bytes and watts say nothing about use.
                DeviceValue::MemoryUsed
                | DeviceValue::MemoryUsedPercent
                | DeviceValue::PowerUsage => self
                    .device_reading(facts.device, DeviceValue::MemoryUtilization)
                    .is_some_and(|reading| reading.value > 0.0),
            },
            Activity::Any(conditions) => conditions.iter().any(holds),
            Activity::All(conditions) => conditions.iter().all(holds),
        }
    }
}

/// What one row shows for a measure at the first of the moments.
pub(super) fn see(moments: &[Moment<'_>], facts: &RowFacts, ask: &Ask) -> Seen {
    see_device(moments, &[facts.id], ask).unwrap_or(Seen::NOTHING)
}

/// What the rows of one device show for a measure at the first of the moments.
pub(super) fn see_device(moments: &[Moment<'_>], rows: &[RowId], ask: &Ask) -> Option<Seen> {
    let now = moments.first()?;
    let Lens(shown_by) = Lens::of(&ask.measure);
    let mut shown_by = shown_by.iter().flatten();
    let (value, (reading, facts)) =
        shown_by.find_map(|value| Some((*value, now.best(rows, *value, ask)?)))?;
    Some(Seen {
        value: reading.value,
        at: reading.at,
        lasting_ms: u32::try_from(facts.lasting_ms).unwrap_or(u32::MAX),
        row: facts.id,
        active: is_active(moments, rows, value, reading, facts),
        held: facts.standing == Standing::Held || now.is_held(rows, value, reading.at),
    })
}

/// Whether a device counts as in use at the first of the moments, or did at
/// one of those before it that are held on to.
fn is_active(
    moments: &[Moment<'_>],
    rows: &[RowId],
    value: DeviceValue,
    reading: Reading,
    facts: &RowFacts,
) -> bool {
    let Some((now, earlier)) = moments.split_first() else {
        return false;
    };
    now.is_active(value, Some(reading), facts)
        || earlier.iter().any(|moment| {
            let rows = rows.iter().filter_map(|row| moment.of.layout.fact(*row));
            let reading = rows
                .filter_map(|facts| moment.reading(facts, value))
                .reduce(Reading::better);
            moment.is_active(value, reading, facts)
        })
}

/// Ratio signals are kept as percent; conditions state them as 0–1.
fn ratio_scale(value: DeviceValue) -> f64 {
    match value {
        DeviceValue::Signal(SignalId::DRAM_ACTIVE | SignalId::GR_ENGINE_ACTIVE) => 100.0,
        _ => 1.0,
    }
}

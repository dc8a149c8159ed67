//! The reading of a device at each instant of a window: its newest sample, if that is valid.

use apimachinery::time::Timestamp;

use crate::grid::{Reading, RowId};
use crate::policy::{DeviceValue, Measure};
use crate::signal::SignalId;
use crate::snapshot::Snapshot;

/// How far a window ends after the time that its sources have reached, so that a reading has
/// weight as soon as it is read, milliseconds.
pub(crate) const AHEAD_MS: i64 = 15_000;

/// Consecutive instants of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The first instant, an index on the grid.
    pub(crate) first: i64,
    /// The last instant.
    pub(crate) last: i64,
}

impl Span {
    pub(crate) fn len(self) -> usize {
        usize::try_from(self.last - self.first + 1).unwrap_or(0)
    }

    pub(crate) const fn at(instant: i64) -> Self {
        Self {
            first: instant,
            last: instant,
        }
    }

    pub(crate) fn instants(self) -> impl DoubleEndedIterator<Item = i64> {
        self.first..=self.last
    }
}

/// A device's reading at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DeviceReading {
    /// NaN without a reading.
    pub(crate) value: f64,
    /// The time of its sample.
    pub(crate) at: Timestamp,
    /// Its weight in a mean: 1; for memory in percent, the whole memory in MiB.
    pub(crate) weight: f64,
}

impl DeviceReading {
    pub(crate) const NOTHING: Self = Self {
        value: f64::NAN,
        at: Timestamp::MIN,
        weight: 0.0,
    };

    #[inline]
    pub(crate) fn is_missing(&self) -> bool {
        self.value.is_nan()
    }

    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.value > 0.0
    }
}

/// The device values that a measure reads, of which the first with a reading counts. Measures
/// with the same inputs have the same readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inputs([Option<DeviceValue>; 3]);

impl Inputs {
    pub(crate) fn of(measure: &Measure) -> Self {
        let memory = Some(DeviceValue::MemoryUtilization);
        let others = [DeviceValue::GpuUtilization, DeviceValue::MemoryUsed];
        let original = DeviceValue::Signal(SignalId::MEM_COPY_UTIL);
        Self(match measure {
            Measure::Devices { value, .. } => [Some(*value), None, None],
            Measure::HeldCount => [memory, Some(others[0]), Some(others[1])],
            Measure::ActiveCount | Measure::IdleCount => [memory, None, None],
            Measure::OriginalAverage => [Some(original), None, None],
        })
    }

    /// The device values read, the best first.
    pub(crate) fn shown_by(self) -> impl Iterator<Item = DeviceValue> {
        self.0.into_iter().flatten()
    }

    /// Whether every MIG instance repeats the reading of its board (NVIDIA/DCGM,
    /// `dcgmlib/src/dcgm_fields.cpp`).
    pub(crate) fn is_of_board(self) -> bool {
        self.0[0] == Some(DeviceValue::PowerUsage)
    }
}

impl Snapshot {
    /// The last instant of a window, by the time of a source without lateness. The window of
    /// a source ends at the time of the poll − L + 15 s, rounded down to an instant.
    pub(crate) fn end(&self) -> i64 {
        (self.frame.now.millis() + AHEAD_MS).div_euclid(self.frame.step_ms)
    }

    /// The reading of a line's field at an instant, by the line's own source.
    fn of_line(&self, row: RowId, signal: SignalId, run: &mut Span) -> Option<Reading> {
        let (frame, times) = (&self.frame, &self.frame.times[row.0 as usize]);
        let columns = frame.signals.get(signal.index())?;
        let behind = frame.behind(times.source);
        let (at, mut since) = (run.last - behind, run.first - behind);
        let own = columns.reading(row, (at, frame.step_ms), times.fresh_ms, &mut since);
        run.first = since + behind;
        own.filter(|own| frame.is_of_known_unit(row, signal, own.value))
    }

    /// The reading of a device's field: of the best name of the field, the newest, and the
    /// larger of equally new ones.
    fn field(&self, device: u32, signal: SignalId, run: &mut Span) -> Option<Reading> {
        let mut best: Option<(u8, Reading)> = None;
        for row in self.layout.lines_of(device) {
            let rank = self.frame.times[row.0 as usize].rank;
            if best.is_some_and(|(known, _)| known < rank) {
                break;
            }
            if let Some(own) = self.of_line(*row, signal, run) {
                best = Some((rank, best.map_or(own, |(_, known)| known.better(own))));
            }
        }
        best.map(|(_, reading)| reading)
    }

    /// The reading of a device value, with its weight in a mean.
    fn value_of(&self, device: u32, value: DeviceValue, run: &mut Span) -> Option<(Reading, f64)> {
        if value == DeviceValue::MemoryUsedPercent {
            return self.memory_percent(device, |signal| self.field(device, signal, run));
        }
        let signal = self.signal_of(device, value);
        Some((self.field(device, signal, run)?, 1.0))
    }

    /// The part of a device's memory that is used, percent, and the whole, by the readings of
    /// the fields. Not every device reports a reserved part.
    fn memory_percent(
        &self,
        device: u32,
        mut read: impl FnMut(SignalId) -> Option<Reading>,
    ) -> Option<(Reading, f64)> {
        let (used, free) = (read(SignalId::FB_USED)?, read(SignalId::FB_FREE)?);
        let reserved = match read(SignalId::FB_RESERVED) {
            Some(reserved) => reserved.value,
            None => {
                let last = self.last_of_field(device, SignalId::FB_RESERVED, self.end());
                last.is_none().then_some(0.0)?
            }
        };
        let whole = used.value + free.value + reserved;
        let percent = Reading {
            value: 100.0 * used.value / whole,
            at: used.at,
        };
        (whole > 0.0).then_some((percent, whole))
    }

    /// The signal that a device value is read from: on MIG instances a profiling field.
    pub(crate) fn signal_of(&self, device: u32, value: DeviceValue) -> SignalId {
        let (own, profiled) = value.signals();
        let is_mig = self.layout.devices[device as usize].device.is_mig();
        profiled.filter(|_| is_mig).unwrap_or(own)
    }

    fn last_of_field(&self, device: u32, signal: SignalId, instant: i64) -> Option<Reading> {
        let columns = self.frame.signals.get(signal.index())?;
        let rows = self.layout.lines_of(device).iter();
        let last = rows.filter_map(|row| {
            let last = columns.last_reading(*row, instant, self.frame.step_ms);
            last.filter(|last| self.frame.is_of_known_unit(*row, signal, last.value))
        });
        last.reduce(Reading::better)
    }

    /// A device's newest reading of a value up to an instant, however old, and its weight.
    pub(crate) fn last(&self, device: u32, value: DeviceValue, instant: i64) -> Option<(f64, f64)> {
        let last = |signal| self.last_of_field(device, signal, instant);
        if value == DeviceValue::MemoryUsedPercent {
            let (percent, whole) = self.memory_percent(device, last)?;
            return Some((percent.value, whole));
        }
        Some((last(self.signal_of(device, value))?.value, 1.0))
    }

    /// The reading of a device for measures with these inputs at the last instant of a run,
    /// whose first instant rises to the first one with the same reading.
    pub(crate) fn read(&self, device: u32, inputs: Inputs, run: &mut Span) -> DeviceReading {
        let mut shown_by = inputs.shown_by();
        let Some((reading, weight)) = shown_by.find_map(|it| self.own_value(device, it, run))
        else {
            return DeviceReading::NOTHING;
        };
        DeviceReading {
            value: reading.value,
            at: reading.at,
            weight,
        }
    }

    /// A device value. A GPU's own reading is ignored while one of its MIG instances has a
    /// reading.
    fn own_value(&self, device: u32, value: DeviceValue, run: &mut Span) -> Option<(Reading, f64)> {
        let own = self.value_of(device, value, run)?;
        let mut instances = self.layout.instances_of(device);
        let is_hidden = value != DeviceValue::PowerUsage
            && instances.any(|it| self.value_of(it, value, run).is_some());
        (!is_hidden).then_some(own)
    }
}

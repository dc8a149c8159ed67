//! The reading of a device at each instant of a window: its newest sample, if that is valid.

use apimachinery::time::{Timestamp, millis};

use crate::claim::Holdings;
use crate::grid::{Reading, RowId};
use crate::layout::{Layout, Member, Object, Scope};
use crate::policy::{Activity, ActivityCondition, DeviceValue, Measure, Over, Policy};
use crate::signal::{SignalId, Unit};
use crate::source::SourceId;
use crate::store::Frame;

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

    pub(crate) fn instants(self) -> impl Iterator<Item = i64> {
        self.first..=self.last
    }
}

/// A device's reading at an instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceReading {
    /// NaN without a reading.
    pub value: f64,
    /// The time of its sample.
    pub at: Timestamp,
    /// Its weight in a mean; for memory in percent, the whole memory in MiB.
    pub weight: f64,
    /// Whether the device is active; `None`: the reading that decides this is missing.
    pub active: Option<bool>,
}

impl DeviceReading {
    const NOTHING: Self = Self {
        value: f64::NAN,
        at: Timestamp::MIN,
        weight: 0.0,
        active: Some(false),
    };

    #[inline]
    pub(crate) fn is_missing(&self) -> bool {
        self.value.is_nan()
    }
}

/// The device values that a measure reads, of which the first with a reading counts, and
/// whether the measure depends on which devices are active. Measures with the same inputs
/// have the same readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inputs {
    shown_by: [Option<DeviceValue>; 3],
    pub(crate) of_active: bool,
}

impl Inputs {
    pub(crate) fn of(measure: &Measure) -> Self {
        let memory = Some(DeviceValue::MemoryUtilization);
        let (shown_by, of_active) = match measure {
            Measure::Devices { value, over, .. } => {
                ([Some(*value), None, None], *over == Over::Active)
            }
            Measure::HeldCount => {
                let others = [DeviceValue::GpuUtilization, DeviceValue::MemoryUsed];
                ([memory, Some(others[0]), Some(others[1])], false)
            }
            Measure::ActiveCount | Measure::IdleCount => ([memory, None, None], true),
            Measure::OriginalAverage => {
                let own = DeviceValue::Signal(SignalId::MEM_COPY_UTIL);
                ([Some(own), None, None], false)
            }
        };
        Self {
            shown_by,
            of_active,
        }
    }

    /// The device values read, the best first.
    pub(crate) fn shown_by(self) -> impl Iterator<Item = DeviceValue> {
        self.shown_by.into_iter().flatten()
    }

    /// Whether every MIG instance repeats the reading of its board (NVIDIA/DCGM,
    /// `dcgmlib/src/dcgm_fields.cpp`).
    pub(crate) fn is_of_board(self) -> bool {
        self.shown_by[0] == Some(DeviceValue::PowerUsage)
    }
}

/// Reads devices from a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) frame: &'a Frame,
    pub(crate) layout: &'a Layout,
    pub(crate) holdings: &'a Holdings,
    pub(crate) policy: &'a Policy,
}

impl Reader<'_> {
    /// How many instants a source is behind the end of a window. The window of a source ends
    /// at the time of the poll − L + 15 s, rounded down to an instant.
    pub(crate) fn behind(&self, source: SourceId) -> i64 {
        let (now_ms, step_ms) = (self.frame.now.millis(), self.frame.step_ms);
        let end = |lag_ms: i64| (now_ms - lag_ms + AHEAD_MS).div_euclid(step_ms);
        end(0) - end(self.frame.sources.lag_ms(source))
    }

    /// The readings of a line's field at the instants of a span, by the line's own source.
    fn line(&self, row: RowId, signal: SignalId, span: Span, to: &mut [Option<Reading>]) {
        let times = &self.frame.times[row.0 as usize];
        let Some(columns) = self.frame.signals.get(signal.index()) else {
            return to.fill(None);
        };
        let first = span.first - self.behind(times.source);
        columns.readings(row, first, self.frame.step_ms, times.fresh_ms, to);
        for reading in to {
            let moving = reading.filter(|it| !self.frame.is_frozen(row, it.at));
            *reading = moving.and_then(|it| self.frame.scaled(row, signal, it));
        }
    }

    /// The readings of a device's field: of the best name of the field, the newest, and the
    /// larger of equally new ones.
    fn field(&self, device: u32, signal: SignalId, span: Span) -> Vec<Option<Reading>> {
        let mut best: Vec<Option<Reading>> = vec![None; span.len()];
        let mut own = vec![None; span.len()];
        let lines = self.layout.lines_of(device);
        let rank = |row: &RowId| self.frame.times[row.0 as usize].rank;
        for lines in lines.chunk_by(|one, other| rank(one) == rank(other)) {
            let mut of_rank: Vec<Option<Reading>> = vec![None; span.len()];
            for row in lines {
                self.line(*row, signal, span, &mut own);
                for (best, own) in of_rank.iter_mut().zip(&own) {
                    *best = match (*best, *own) {
                        (Some(best), Some(own)) => Some(best.better(own)),
                        (best, own) => best.or(own),
                    };
                }
            }
            best.iter_mut()
                .zip(of_rank)
                .for_each(|(best, own)| *best = best.or(own));
        }
        best
    }

    /// The readings of a device value, with their weights in a mean.
    fn value(&self, device: u32, value: DeviceValue, span: Span) -> Vec<Option<(Reading, f64)>> {
        let weight = self.layout.devices[device as usize].weight;
        if value != DeviceValue::MemoryUsedPercent {
            let [first, second] = self.signals_of(device, value);
            let first = first.map(|signal| self.field(device, signal, span));
            let mut first = first.unwrap_or_else(|| vec![None; span.len()]);
            if let Some(second) = second
                && first.iter().any(Option::is_none)
            {
                let second = self.field(device, second, span);
                first
                    .iter_mut()
                    .zip(second)
                    .for_each(|(one, other)| *one = one.or(other));
            }
            return first.into_iter().map(|it| Some((it?, weight))).collect();
        }
        let field = |signal| self.field(device, signal, span);
        let (used, free) = (field(SignalId::FB_USED), field(SignalId::FB_FREE));
        let reserved = field(SignalId::FB_RESERVED);
        let had_reserved = || {
            self.last_of_field(device, SignalId::FB_RESERVED, span.last)
                .is_some()
        };
        let is_optional = reserved.iter().all(Option::is_some) || !had_reserved();
        let all = used.into_iter().zip(free).zip(reserved);
        all.map(|((used, free), reserved)| {
            let (used, free) = (used?, free?);
            let reserved = match reserved {
                Some(reserved) => reserved.value,
                None if is_optional => 0.0,
                None => return None,
            };
            percent_of(used, free.value + reserved)
        })
        .collect()
    }

    /// The signals that a device value is read from, the best first: profiling fields on MIG
    /// instances, and for a device without percents.
    fn signals_of(&self, device: u32, value: DeviceValue) -> [Option<SignalId>; 2] {
        let (percent, profiled) = match value {
            DeviceValue::MemoryUtilization => (SignalId::MEM_COPY_UTIL, SignalId::DRAM_ACTIVE),
            DeviceValue::GpuUtilization => (SignalId::GPU_UTIL, SignalId::GR_ENGINE_ACTIVE),
            DeviceValue::MemoryUsed => return [Some(SignalId::FB_USED), None],
            DeviceValue::PowerUsage => return [Some(SignalId::POWER_USAGE), None],
            DeviceValue::Signal(id) => return [Some(id), None],
            DeviceValue::MemoryUsedPercent => return [None, None],
        };
        match self.layout.devices[device as usize].device.is_mig() {
            true => [Some(profiled), None],
            false => [Some(percent), Some(profiled)],
        }
    }

    /// The signal that a device value is read from at the end of a span; the first candidate
    /// if none has a reading.
    pub(crate) fn signal_of(
        &self,
        device: u32,
        value: DeviceValue,
        span: Span,
    ) -> Option<SignalId> {
        let last = Span {
            first: span.last,
            ..span
        };
        let signals = self.signals_of(device, value);
        let mut shown = signals.into_iter().flatten();
        let shown = shown.find(|signal| self.field(device, *signal, last)[0].is_some());
        shown.or(signals[0])
    }

    fn last_of_field(&self, device: u32, signal: SignalId, instant: i64) -> Option<Reading> {
        let columns = self.frame.signals.get(signal.index())?;
        let rows = self.layout.lines_of(device).iter();
        let last = rows.filter_map(|row| {
            let last = columns.last_reading(*row, instant, self.frame.step_ms)?;
            self.frame.scaled(*row, signal, last)
        });
        last.reduce(Reading::better)
    }

    /// A device's newest reading of a value up to an instant, however old, and its weight.
    pub(crate) fn last(&self, device: u32, value: DeviceValue, instant: i64) -> Option<(f64, f64)> {
        let last = |signal| self.last_of_field(device, signal, instant);
        if value == DeviceValue::MemoryUsedPercent {
            let (used, free) = (last(SignalId::FB_USED)?, last(SignalId::FB_FREE)?);
            let reserved = last(SignalId::FB_RESERVED).map_or(0.0, |it| it.value);
            let (percent, whole) = percent_of(used, free.value + reserved)?;
            return Some((percent.value, whole));
        }
        let signals = self.signals_of(device, value).into_iter().flatten();
        let newest = signals.filter_map(last).reduce(Reading::better)?;
        Some((newest.value, self.layout.devices[device as usize].weight))
    }

    /// The readings of a device for measures with these inputs.
    pub(crate) fn read(
        &self,
        device: u32,
        inputs: Inputs,
        span: Span,
        to: &mut Vec<DeviceReading>,
    ) {
        let start = to.len();
        to.resize(start + span.len(), DeviceReading::NOTHING);
        let to = &mut to[start..];
        for value in inputs.shown_by() {
            if to.iter().all(|it| !it.is_missing()) {
                break;
            }
            let mut own = self.value(device, value, span);
            self.hide_board(device, value, span, &mut own);
            for (to, own) in to.iter_mut().zip(own) {
                if let Some((reading, weight)) = own.filter(|_| to.is_missing()) {
                    *to = DeviceReading {
                        value: reading.value,
                        at: reading.at,
                        weight,
                        active: Some(false),
                    };
                }
            }
        }
        if let Some(value) = inputs.shown_by().next().filter(|_| inputs.of_active) {
            self.activate(device, value, span, to);
        }
    }

    /// A GPU's own reading is ignored while one of its MIG instances has a reading.
    fn hide_board(
        &self,
        device: u32,
        value: DeviceValue,
        span: Span,
        own: &mut [Option<(Reading, f64)>],
    ) {
        if value == DeviceValue::PowerUsage {
            return;
        }
        for instance in self.layout.instances_of(device) {
            let of_instance = self.value(instance, value, span);
            let hidden = own
                .iter_mut()
                .zip(of_instance)
                .filter(|(_, it)| it.is_some());
            hidden.for_each(|(own, _)| *own = None);
        }
    }

    /// Decides at which instants a device is active. It stays active for a time after its
    /// last active reading.
    fn activate(&self, device: u32, value: DeviceValue, span: Span, to: &mut [DeviceReading]) {
        let held = millis(self.policy.hold) / self.frame.step_ms;
        if held > 0 {
            let earlier = Span {
                first: span.first - held,
                ..span
            };
            let readings = self.value(device, value, earlier);
            let active = self.active(device, value, earlier, &readings);
            let active = active.windows(usize::try_from(held).unwrap_or(0) + 1);
            for (to, within) in to.iter_mut().zip(active) {
                let now = within.last().copied().flatten();
                to.active = if within.contains(&Some(true)) {
                    Some(true)
                } else {
                    now
                };
            }
            return;
        }
        if self.policy.activity == Activity::OwnValueAboveZero && is_utilization(value) {
            to.iter_mut()
                .for_each(|it| it.active = Some(it.value > 0.0));
            return;
        }
        let readings = self.value(device, value, span);
        let active = self.active(device, value, span, &readings);
        to.iter_mut()
            .zip(active)
            .for_each(|(to, active)| to.active = active);
    }

    /// Whether a device is active at each instant, by its readings of the value; `None`:
    /// unknown.
    fn active(
        &self,
        device: u32,
        value: DeviceValue,
        span: Span,
        readings: &[Option<(Reading, f64)>],
    ) -> Vec<Option<bool>> {
        let conditions = match &self.policy.activity {
            Activity::OwnValueAboveZero if is_utilization(value) => {
                let own = readings
                    .iter()
                    .map(|it| it.is_some_and(|(own, _)| own.value > 0.0));
                return own.map(Some).collect();
            }
            // Bytes and watts do not show use.
            Activity::OwnValueAboveZero => {
                return self.above(device, DeviceValue::MemoryUtilization, 0.0, span);
            }
            Activity::Any(conditions) => conditions,
        };
        let holds = |condition: &ActivityCondition| match condition {
            ActivityCondition::Allocated => self.held(device, span).into_iter().map(Some).collect(),
            ActivityCondition::Above(value, threshold) => {
                self.above(device, *value, *threshold, span)
            }
        };
        let all: Vec<Vec<Option<bool>>> = conditions.iter().map(holds).collect();
        let at = |place| {
            let of = all.iter().map(|of: &Vec<Option<bool>>| of[place]);
            any(of)
        };
        (0..span.len()).map(at).collect()
    }

    /// Whether a device's value is above a threshold. `None`: the device had the value before
    /// and has none now. A device that never had it is not above.
    fn above(&self, device: u32, value: DeviceValue, most: f64, span: Span) -> Vec<Option<bool>> {
        let readings = self.value(device, value, span);
        let had = || self.last(device, value, span.last).is_some();
        let mut signals = self.signals_of(device, value).into_iter().flatten();
        let mut are_answered = || signals.all(|signal| self.frame.is_answered(signal));
        let has_gap = readings.iter().any(Option::is_none);
        let unknown = (has_gap && !had() && are_answered()).then_some(false);
        let most = most * ratio_scale(value);
        let is_above =
            |it: Option<(Reading, f64)>| it.map_or(unknown, |(own, _)| Some(own.value > most));
        readings.into_iter().map(is_above).collect()
    }

    /// Whether a pod holds a device at each instant.
    pub(crate) fn held(&self, device: u32, span: Span) -> Vec<bool> {
        let claims = self.layout.claims_of(device);
        let behind = self.behind_of(device);
        let is_held = |instant| {
            claims
                .iter()
                .any(|claim| self.holdings.holds(*claim, instant - behind))
        };
        span.instants().map(is_held).collect()
    }

    /// When a value of a device was last read, however long ago.
    pub(crate) fn read_at(&self, device: u32, value: DeviceValue) -> Option<Timestamp> {
        let (end, step_ms) = (
            self.frame.now.millis() / self.frame.step_ms + 1,
            self.frame.step_ms,
        );
        let signals = match value {
            DeviceValue::MemoryUsedPercent => [Some(SignalId::FB_USED), None],
            _ => self.signals_of(device, value),
        };
        let columns = signals.into_iter().flatten();
        let columns = columns.filter_map(|signal| self.frame.signals.get(signal.index()));
        let rows = self.layout.lines_of(device).iter();
        let last = columns.flat_map(|columns| {
            let rows = rows.clone();
            rows.filter_map(|row| columns.last_reading(*row, end, step_ms))
        });
        last.map(|reading| reading.at).max()
    }

    /// Whether a device has not been reported for longer than a window, while another device
    /// of its exporter was: in the fields of the inputs, because their queries may fail.
    pub(crate) fn is_lost(&self, device: u32, inputs: Inputs) -> bool {
        let newest = |device: u32| {
            let values = inputs.shown_by();
            values.filter_map(|value| self.read_at(device, value)).max()
        };
        let rows = |device: u32| self.layout.lines_of(device).iter();
        let times = |row: &RowId| self.frame.times[row.0 as usize];
        let first = || rows(device).map(|row| times(row).first).min();
        let Some(since) = newest(device).or_else(first) else {
            return false;
        };
        let window_ms = self.policy.window.map_or(crate::window::DEFAULT_MS, millis);
        let until = Timestamp::from_millis(since.millis().saturating_add(window_ms));
        let exporter = |row: &RowId| {
            let line = self.layout.lines[row.0 as usize].as_ref();
            (times(row).source, line.map(|line| &line.instance))
        };
        let exporters: Vec<_> = rows(device).map(exporter).collect();
        let neighbours = self.layout.neighbours(device);
        let mut neighbours = neighbours.filter(|other| {
            let mut rows = rows(*other);
            rows.any(|row| exporters.contains(&exporter(row)))
        });
        neighbours.any(|other| newest(other) > Some(until))
    }

    /// How many instants the quickest source of a device is behind.
    pub(crate) fn behind_of(&self, device: u32) -> i64 {
        let rows = self.layout.lines_of(device).iter();
        let sources = rows.map(|row| self.behind(self.frame.times[row.0 as usize].source));
        sources.min().unwrap_or(0)
    }

    /// The sum of the shares that processes of an object's pods have of a device, of the
    /// newest scrape that has any beside the device's own value; `None`: it has none.
    /// Exporters before sharing mode repeat the device's value under the same labels.
    pub(crate) fn share(
        &self,
        object: &Object,
        members: &[Member],
        signal: SignalId,
        reading: &DeviceReading,
    ) -> Option<f64> {
        let device = members.first()?.device;
        if object.scope == Scope::Devices || !self.layout.devices[device as usize].has_processes {
            return None;
        }
        let step_ms = self.frame.step_ms;
        let instant = crate::grid::instant_from(reading.at, step_ms);
        let columns = self.frame.signals.get(signal.index())?;
        let value = |row: RowId| {
            let own = columns.reading(row, (instant, step_ms), step_ms)?;
            (own.at == reading.at).then_some(own.value)
        };
        let line = |row: &RowId| self.layout.lines[row.0 as usize].as_ref();
        let rows = self.layout.lines_of(device);
        let is_whole = |row: &&RowId| line(row).is_some_and(|line| line.owner.is_none());
        rows.iter().filter(is_whole).find_map(|row| value(*row))?;
        let claims = members.iter().filter_map(|member| member.claim);
        let rows = claims.flat_map(|claim| &self.layout.claims[claim as usize].lines);
        let shares = rows.filter(|row| line(row).is_some_and(|line| line.is_process));
        let mut shares = shares.filter_map(|row| value(*row)).peekable();
        shares.peek()?;
        Some(shares.sum())
    }
}

fn percent_of(used: Reading, others: f64) -> Option<(Reading, f64)> {
    let whole = used.value + others;
    let percent = Reading {
        value: 100.0 * used.value / whole,
        at: used.at,
    };
    (whole > 0.0).then_some((percent, whole))
}

fn is_utilization(value: DeviceValue) -> bool {
    matches!(
        value,
        DeviceValue::MemoryUtilization | DeviceValue::GpuUtilization | DeviceValue::Signal(_)
    )
}

/// Whether a condition holds; `None`: none holds, and one is unknown.
fn any(conditions: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let all = conditions.reduce(|one, other| match (one, other) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    });
    all.unwrap_or(Some(false))
}

/// Ratio signals are stored as percent; conditions state them as 0–1.
fn ratio_scale(value: DeviceValue) -> f64 {
    match value {
        DeviceValue::Signal(signal) if signal.unit() == Unit::Ratio => 100.0,
        _ => 1.0,
    }
}

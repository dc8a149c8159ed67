//! Devices that do not answer, and why an object has no value.

use apimachinery::time::{Timestamp, millis};

use crate::grid::RowId;
use crate::layout::Object;
use crate::outcome::devices_of;
use crate::policy::{DeviceValue, Measure};
use crate::reading::Inputs;
use crate::snapshot::Snapshot;

/// The reason for a missing value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// No GPU belongs to the object.
    NoDevice,
    /// No source of the object's devices has sent a sample within F.
    StoreBehind {
        /// The newest sample of the object's devices.
        newest: Timestamp,
    },
    /// GPUs of the object do not answer.
    Missing {
        why: Missing,
        devices: usize,
        /// GPUs of the object, including those that no series names.
        of: usize,
    },
    /// The window holds too few readings of the metric.
    TooFewReadings,
}

/// Why GPUs of an object do not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Their series have ended with this newest sample.
    Silent(Timestamp),
    /// Their readings have not changed since.
    Frozen(Timestamp),
    /// The object's pods request them, and no series names these pods.
    Unseen,
    /// Exporters report other devices, but not these since this newest sample.
    Lost(Timestamp),
}

/// The times of a device: of its quickest line that is heard, otherwise of the newest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceTimes {
    /// Its first known sample.
    pub first: Timestamp,
    pub newest: Timestamp,
    /// S, milliseconds.
    pub scrape_ms: i64,
    /// F, milliseconds.
    pub fresh_ms: i64,
    /// L of the source, milliseconds.
    pub lag_ms: i64,
    /// Whether no line had a sample within F.
    pub is_silent: bool,
    /// Since when its readings have not moved.
    pub frozen_since: Option<Timestamp>,
}

impl Snapshot {
    /// The times of a device; `None`: it has no samples.
    #[must_use]
    pub fn times(&self, device: u32) -> Option<DeviceTimes> {
        let now_ms = self.frame.now.millis();
        let rows = self.layout.lines_of(device).iter();
        let lines = rows.map(|row| self.frame.times[row.0 as usize]);
        let lines = lines.filter(|line| line.newest > Timestamp::MIN);
        let of_line = lines.map(|line| {
            let lag_ms = self.frame.sources.lag_ms(line.source);
            DeviceTimes {
                first: line.first,
                newest: line.newest,
                scrape_ms: line.scrape_ms,
                fresh_ms: line.fresh_ms,
                lag_ms,
                is_silent: now_ms - lag_ms - line.newest.millis() >= line.fresh_ms,
                frozen_since: line.frozen_since(),
            }
        });
        of_line.reduce(|one, other| {
            let rank = |it: &DeviceTimes| match it.is_silent {
                false => (it.frozen_since.is_some(), false, it.scrape_ms),
                true => (it.frozen_since.is_some(), true, -it.newest.millis()),
            };
            let best = if rank(&other) < rank(&one) {
                other
            } else {
                one
            };
            DeviceTimes {
                first: one.first.min(other.first),
                newest: one.newest.max(other.newest),
                fresh_ms: one.fresh_ms.max(other.fresh_ms),
                ..best
            }
        })
    }

    /// When a value of a device was last read, however long ago.
    #[must_use]
    pub fn read_at(&self, device: u32, value: DeviceValue) -> Option<Timestamp> {
        let (end, step_ms) = (self.end(), self.frame.step_ms);
        let columns = self.signals_of(device, value).into_iter().flatten();
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
    pub(crate) fn is_lost_in(&self, device: u32, inputs: Inputs) -> bool {
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

    /// Whether a live pod holds a device at the end of the window.
    #[must_use]
    pub fn is_held(&self, device: u32) -> bool {
        let end = self.end() - self.holdings.behind(device);
        let mut claims = self.layout.claims_of(device);
        claims.any(|claim| self.holdings.get(claim).is_current && self.holdings.holds(claim, end))
    }

    /// Why an object has no value of a measure.
    #[must_use]
    pub fn absence(&self, object: &Object, measure: &Measure) -> Absence {
        let devices: Vec<u32> = devices_of(object)
            .map(|members| members[0].device)
            .collect();
        let unseen = self.unseen(object);
        let missing = |why, count| Absence::Missing {
            why,
            devices: count,
            of: devices.len() + unseen,
        };
        if devices.is_empty() && unseen == 0 {
            return Absence::NoDevice;
        }
        let times = devices
            .iter()
            .filter_map(|device| Some((*device, self.times(*device)?)));
        let times: Vec<(u32, DeviceTimes)> = times.collect();
        let newest = times.iter().map(|(_, it)| it.newest).max();
        let is_heard = || {
            let mut all = (0..)
                .take(self.layout.devices.len())
                .filter_map(|it| self.times(it));
            all.any(|it| !it.is_silent)
        };
        if let Some(newest) = newest.filter(|_| times.iter().all(|(_, it)| it.is_silent))
            && self.layout.devices.len() > 1
            && !is_heard()
        {
            return Absence::StoreBehind { newest };
        }
        let inputs = Inputs::of(measure);
        let frozen = times.iter().filter_map(|(_, it)| it.frozen_since);
        if let Some(since) = frozen.clone().max() {
            return missing(Missing::Frozen(since), frozen.count());
        }
        let silent = times.iter().filter(|(_, it)| it.is_silent);
        let silent = silent.map(|(device, it)| (it.newest, self.is_lost_in(*device, inputs)));
        let silent: Vec<(Timestamp, bool)> = silent.collect();
        let lost = silent.iter().filter(|(_, is_lost)| *is_lost).count();
        match silent.iter().map(|(newest, _)| *newest).max() {
            Some(since) if lost < silent.len() => missing(Missing::Silent(since), silent.len()),
            _ if unseen > 0 => missing(Missing::Unseen, unseen),
            Some(since) => missing(Missing::Lost(since), lost),
            None => Absence::TooFewReadings,
        }
    }
}

//! Devices that do not answer, and why an object has no value.

use apimachinery::time::Timestamp;

use crate::layout::Object;
use crate::outcome::devices_of;
use crate::policy::DeviceValue;
use crate::snapshot::Snapshot;
use crate::store::LineTimes;

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
}

/// The times of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceTimes {
    /// Its first known sample.
    pub first: Timestamp,
    pub newest: Timestamp,
    /// S of its newest line, milliseconds.
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
        let all = self.frame.times_of(self.layout.lines_of(device));
        let all = all.filter(|line| line.newest > Timestamp::MIN);
        let lag_ms = |line: &LineTimes| self.frame.sources.lag_ms(line.source);
        let heard_ms = |line: &LineTimes| self.frame.now.millis() - lag_ms(line);
        let is_silent = |line| heard_ms(line) - line.newest.millis() >= line.fresh_ms;
        let best = all.clone();
        let best = best.max_by_key(|line| (line.frozen_since().is_none(), line.newest))?;
        Some(DeviceTimes {
            first: all.clone().map(|line| line.first).min()?,
            newest: all.clone().map(|line| line.newest).max()?,
            scrape_ms: best.scrape_ms,
            fresh_ms: all.clone().map(|line| line.fresh_ms).max()?,
            lag_ms: lag_ms(best),
            is_silent: all.clone().all(is_silent),
            frozen_since: best.frozen_since(),
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

    /// Whether a live pod holds a device at the end of the window.
    #[must_use]
    pub fn is_held(&self, device: u32) -> bool {
        let mut claims = self.layout.claims_of(device);
        claims.any(|claim| self.is_current(claim, device))
    }

    /// Why an object has no value.
    #[must_use]
    pub fn absence(&self, object: &Object) -> Absence {
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
        let frozen = times.iter().filter_map(|(_, it)| it.frozen_since);
        if let Some(since) = frozen.clone().max() {
            return missing(Missing::Frozen(since), frozen.count());
        }
        let silent = times.iter().filter(|(_, it)| it.is_silent);
        match silent.clone().map(|(_, it)| it.newest).max() {
            Some(since) => missing(Missing::Silent(since), silent.count()),
            None if unseen > 0 => missing(Missing::Unseen, unseen),
            None => Absence::TooFewReadings,
        }
    }
}

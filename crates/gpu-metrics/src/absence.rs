//! Devices that do not answer, and why an object has no value.

use std::fmt;

use apimachinery::time::Timestamp;

use crate::layout::Object;
use crate::outcome::devices_of;
use crate::policy::DeviceValue;
use crate::snapshot::Snapshot;
use crate::store::LineTimes;

/// Why a GPU does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A pod requests it, and no series names the pod.
    Unseen,
    /// Its series have ended with this newest sample.
    Silent(Timestamp),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unseen => f.write_str("named by no series"),
            Self::Silent(since) => write!(f, "silent since {}", since.whole_second().date()),
        }
    }
}

/// Why an object has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// Why GPUs do not answer; `None`: they do, and the window holds too few readings.
    pub cause: Option<Cause>,
    /// GPUs with this cause.
    pub devices: usize,
    /// GPUs of the object, including those that no series names.
    pub of: usize,
}

/// The times of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceTimes {
    pub newest: Timestamp,
    /// S of its newest line, milliseconds.
    pub scrape_ms: i64,
    /// F, milliseconds.
    pub fresh_ms: i64,
    /// L of the source, milliseconds.
    pub lag_ms: i64,
    /// Whether no line had a sample within F.
    pub is_silent: bool,
}

impl DeviceTimes {
    /// Why it does not answer.
    pub(crate) fn cause(&self) -> Option<Cause> {
        self.is_silent.then_some(Cause::Silent(self.newest))
    }
}

impl Snapshot {
    /// The times of a device; `None`: it has no samples.
    #[must_use]
    pub fn times(&self, device: u32) -> Option<DeviceTimes> {
        let all = self.frame.times_of(self.layout.lines_of(device));
        let mut all = all.filter(|line| line.newest > Timestamp::MIN);
        let newest = all.clone().max_by_key(|line| line.newest)?;
        let lag_ms = |line: &LineTimes| self.frame.sources.lag_ms(line.source);
        let heard_ms = |line: &LineTimes| self.frame.now.millis() - lag_ms(line);
        Some(DeviceTimes {
            newest: newest.newest,
            scrape_ms: newest.scrape_ms,
            fresh_ms: all.clone().map(|line| line.fresh_ms).max()?,
            lag_ms: lag_ms(newest),
            is_silent: all.all(|line| heard_ms(line) - line.newest.millis() >= line.fresh_ms),
        })
    }

    /// When a value of a device was last read, however long ago.
    #[must_use]
    pub fn read_at(&self, device: u32, value: DeviceValue) -> Option<Timestamp> {
        let (end, step_ms) = (self.end(), self.frame.step_ms);
        let signal = self.signal_of(device, value);
        let columns = self.frame.signals.get(signal.index())?;
        let rows = self.layout.lines_of(device).iter();
        let last = rows.filter_map(|row| columns.last_reading(*row, end, step_ms));
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
        let devices = devices_of(object).map(|members| members[0].device);
        let times: Vec<Option<DeviceTimes>> = devices.map(|it| self.times(it)).collect();
        let silent = times.iter().flatten().filter(|times| times.is_silent);
        let since = silent.clone().map(|times| times.newest).max();
        let unseen = self.unseen(object);
        let (cause, devices) = match since {
            Some(since) => (Some(Cause::Silent(since)), silent.count()),
            None => ((unseen > 0).then_some(Cause::Unseen), unseen),
        };
        Absence {
            cause,
            devices,
            of: times.len() + unseen,
        }
    }
}

//! Devices that do not answer, and why an object has no value.

use std::fmt;
use std::mem::discriminant;

use apimachinery::time::Timestamp;

use crate::layout::Object;
use crate::outcome::devices_of;
use crate::policy::DeviceValue;
use crate::snapshot::Snapshot;
use crate::store::LineTimes;

/// Why a GPU does not answer. Of several causes the greatest is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A pod requests it, and no series names the pod.
    Unseen,
    /// Its series have ended with this newest sample.
    Silent(Timestamp),
    /// Its readings have not changed since.
    Frozen(Timestamp),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unseen => f.write_str("named by no series"),
            Self::Silent(since) => write!(f, "silent since {}", since.whole_second().date()),
            Self::Frozen(since) => write!(f, "unchanged since {}", since.whole_second().date()),
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
    /// Why it does not answer.
    pub cause: Option<Cause>,
}

impl DeviceTimes {
    /// Whether no line had a sample within F.
    #[must_use]
    pub const fn is_silent(&self) -> bool {
        matches!(self.cause, Some(Cause::Silent(_)))
    }
}

impl Snapshot {
    /// The times of a device; `None`: it has no samples.
    #[must_use]
    pub fn times(&self, device: u32) -> Option<DeviceTimes> {
        let all = self.frame.times_of(self.layout.lines_of(device));
        let mut all = all.filter(|line| line.newest > Timestamp::MIN);
        let lag_ms = |line: &LineTimes| self.frame.sources.lag_ms(line.source);
        let heard_ms = |line: &LineTimes| self.frame.now.millis() - lag_ms(line);
        let is_silent = |line| heard_ms(line) - line.newest.millis() >= line.fresh_ms;
        let best = all.clone();
        let best = best.max_by_key(|line| (line.frozen_since().is_none(), line.newest))?;
        let newest = all.clone().map(|line| line.newest).max()?;
        Some(DeviceTimes {
            newest,
            scrape_ms: best.scrape_ms,
            fresh_ms: all.clone().map(|line| line.fresh_ms).max()?,
            lag_ms: lag_ms(best),
            cause: match all.all(is_silent) {
                true => Some(Cause::Silent(newest)),
                false => best.frozen_since().map(Cause::Frozen),
            },
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
        let mut causes: Vec<Option<Cause>> = devices.map(|it| self.times(it)?.cause).collect();
        let known = causes.len() + self.unseen(object);
        causes.resize(known, Some(Cause::Unseen));
        let cause = causes.iter().flatten().max().copied();
        let is_it =
            |it: &&Cause| cause.is_some_and(|cause| discriminant(&cause) == discriminant(*it));
        Absence {
            cause,
            devices: causes.iter().flatten().filter(is_it).count(),
            of: known,
        }
    }
}

//! Devices whose readings have stopped moving.
//!
//! An exporter whose host engine has failed keeps sending its last readings
//! (NVIDIA/gpu-monitoring-tools, issue 188): then none changes, though the GPU is busy.

use apimachinery::time::Timestamp;

use crate::signal::{SignalId, Unit};

/// How long the readings of a busy GPU must stay unchanged, milliseconds.
const FROZEN_MS: i64 = 600_000;

/// When the readings of a line last changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Movement {
    /// When any reading last changed.
    any: Timestamp,
    /// Whether its power ever changed: normally it does with every reading.
    has_power: bool,
    /// The newest reading of a busy GPU.
    busy: Timestamp,
    /// The newest sample of power: without one it is unknown whether power changes.
    power_read: Timestamp,
    /// Readings after the first and before the second time do not count.
    pub(crate) frozen: (Timestamp, Timestamp),
}

impl Movement {
    pub(crate) const NONE: Self = Self {
        any: Timestamp::MIN,
        has_power: false,
        busy: Timestamp::MIN,
        power_read: Timestamp::MIN,
        frozen: (Timestamp::MIN, Timestamp::MIN),
    };

    /// Takes a new reading of a field, and the one before.
    #[inline]
    pub(crate) fn take(
        &mut self,
        (signal, unit): (SignalId, Unit),
        before: Option<f64>,
        value: f64,
        at: Timestamp,
    ) {
        let is_power = signal == SignalId::POWER_USAGE;
        if before.is_some_and(|before| before.to_bits() != value.to_bits()) {
            self.any = self.any.max(at);
            self.has_power |= is_power;
            let (since, until) = &mut self.frozen;
            if *until == Timestamp::MAX && at > *since {
                *until = at;
            }
        }
        let is_busy = match unit {
            Unit::Percent => value > 0.0,
            // At the resolution of a percent.
            Unit::Ratio => value >= 1.0,
            Unit::Mebibytes | Unit::Watts | Unit::Plain => false,
        };
        if is_busy {
            self.busy = self.busy.max(at);
        }
        if is_power {
            self.power_read = self.power_read.max(at);
        }
    }

    /// Decides after a round whether the line is frozen.
    pub(crate) fn judge(&mut self, newest: Timestamp, scrape_ms: i64) {
        let long_ms = FROZEN_MS.max(4 * scrape_ms);
        let still_ms = newest.millis() - self.any.millis();
        let is_read = newest.millis() - self.power_read.millis() < long_ms;
        let is_frozen = self.has_power && is_read && self.busy > self.any && still_ms >= long_ms;
        if is_frozen && self.frozen.1 != Timestamp::MAX {
            self.frozen = (self.any, Timestamp::MAX);
        }
    }
}

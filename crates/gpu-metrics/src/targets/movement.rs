//! Whether the readings of a target change.

use super::super::signal::SignalId;
use apimachinery::time::Timestamp;

/// How long the readings of a busy GPU must stay unchanged to show that the exporter's
/// host engine has failed.
pub(crate) const FROZEN_MS: i64 = 600_000;

/// When the readings of a target last changed. An exporter whose host engine has failed
/// keeps sending its last readings (NVIDIA/gpu-monitoring-tools, issue 188): then none
/// changes, though a GPU is busy.
#[derive(Clone, Copy, Debug)]
pub struct Movement {
    /// When any reading last changed.
    any: Timestamp,
    /// When the power of a GPU last changed. Power normally changes with every reading; if it
    /// has never changed, the target does not count as frozen.
    power: Timestamp,
    /// The newest sample of power: without one it is unknown whether power changes.
    power_read: Timestamp,
    /// The newest reading of a GPU that is busy.
    busy: Timestamp,
    /// The last frozen period: from the last changed reading before it to the first after.
    pub(crate) frozen_period: (Timestamp, Timestamp),
}

impl Default for Movement {
    fn default() -> Self {
        Self {
            any: Timestamp::MIN,
            power: Timestamp::MIN,
            power_read: Timestamp::MIN,
            busy: Timestamp::MIN,
            frozen_period: (Timestamp::MIN, Timestamp::MIN),
        }
    }
}

impl Movement {
    /// Takes the time of a new sample of a signal: whether its value differs from the one
    /// before, and whether it shows a busy GPU.
    pub(crate) fn take(&mut self, signal: SignalId, at: Timestamp, (moved, busy): (bool, bool)) {
        let is_power = signal == SignalId::POWER_USAGE;
        if moved {
            self.any = at.max(self.any);
        }
        if moved && is_power {
            self.power = at.max(self.power);
        }
        if is_power {
            self.power_read = at.max(self.power_read);
        }
        if busy {
            self.busy = at.max(self.busy);
        }
    }

    /// Since when no reading has changed, if that is too long for a working exporter.
    pub(super) fn frozen_since(&self, newest: Timestamp, scrape_ms: i64) -> Option<Timestamp> {
        let still_ms = newest.millis() - self.any.millis();
        let long_ms = FROZEN_MS.max(4 * scrape_ms);
        let is_read = newest.millis().saturating_sub(long_ms) < self.power_read.millis();
        let frozen =
            self.power > Timestamp::MIN && is_read && self.busy > self.any && still_ms >= long_ms;
        frozen.then_some(self.any)
    }
}

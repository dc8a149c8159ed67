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
    pub(super) frozen_period: (Timestamp, Timestamp),
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
    /// Records a changed reading of a signal.
    pub(crate) fn moved(&mut self, signal: SignalId, at: Timestamp) {
        self.any = self.any.max(at);
        if signal == SignalId::POWER_USAGE {
            self.power = self.power.max(at);
        }
    }

    /// Records that a target, frozen since `since`, has a changed reading at `at`.
    pub(crate) fn record_recovery(&mut self, since: Timestamp, at: Timestamp) {
        self.frozen_period = (since, at);
    }

    /// Records a reading of a signal.
    pub(crate) fn read(&mut self, signal: SignalId, at: Timestamp) {
        if signal == SignalId::POWER_USAGE {
            self.power_read = self.power_read.max(at);
        }
    }

    /// Records a busy GPU.
    pub(crate) fn busy(&mut self, at: Timestamp) {
        self.busy = self.busy.max(at);
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

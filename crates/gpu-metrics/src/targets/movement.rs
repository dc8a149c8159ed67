//! Whether the readings of a target move.

use super::super::signal::SignalId;
use apimachinery::time::Timestamp;

/// Readings of a busy GPU that stand still for so long are an exporter's that
/// has died inside.
pub const FROZEN_MS: i64 = 600_000;

/// When the readings of a target last moved. An exporter whose host engine has
/// died goes on answering with what it had last (NVIDIA/gpu-monitoring-tools,
/// issue 188): then all stand still, though a GPU is busy.
#[derive(Clone, Copy, Debug)]
pub struct Movement {
    /// Any reading.
    any: Timestamp,
    /// The power of a GPU: it moves with every reading, so that one that never
    /// did shows nothing.
    power: Timestamp,
    /// The newest sample of power: without one it is not known whether power moves.
    power_read: Timestamp,
    /// The newest reading of a GPU that is busy.
    busy: Timestamp,
}

impl Default for Movement {
    fn default() -> Self {
        Self {
            any: Timestamp::MIN,
            power: Timestamp::MIN,
            power_read: Timestamp::MIN,
            busy: Timestamp::MIN,
        }
    }
}

impl Movement {
    /// A reading of a signal changed.
    pub fn moved(&mut self, signal: SignalId, at: Timestamp) {
        self.any = self.any.max(at);
        if signal == SignalId::POWER_USAGE {
            self.power = self.power.max(at);
        }
    }

    /// A signal was read.
    pub fn read(&mut self, signal: SignalId, at: Timestamp) {
        if signal == SignalId::POWER_USAGE {
            self.power_read = self.power_read.max(at);
        }
    }

    /// A GPU was busy.
    pub fn busy(&mut self, at: Timestamp) {
        self.busy = self.busy.max(at);
    }

    /// Since when all readings stand still, if that is too long for an exporter
    /// that works.
    pub(super) fn frozen_since(&self, newest: Timestamp, scrape_ms: i64) -> Option<Timestamp> {
        let still_ms = newest.millis() - self.any.millis();
        let long_ms = FROZEN_MS.max(4 * scrape_ms);
        let is_read = newest.millis().saturating_sub(long_ms) < self.power_read.millis();
        let frozen =
            self.power > Timestamp::MIN && is_read && self.busy > self.any && still_ms >= long_ms;
        frozen.then_some(self.any)
    }
}

//! Which devices are active.

use apimachinery::time::millis;

use crate::policy::{Activity, ActivityCondition, DeviceValue};
use crate::reading::Span;
use crate::signal::Unit;
use crate::snapshot::Snapshot;

impl Snapshot {
    /// Whether a device is active. It stays active for a time after its last active reading.
    pub(crate) fn activity(
        &self,
        device: u32,
        value: DeviceValue,
        own: f64,
        run: &mut Span,
    ) -> Option<bool> {
        let (now, held) = (run.last, millis(self.policy.hold) / self.frame.step_ms);
        let is_own = self.policy.activity == Activity::OwnValueAboveZero && is_utilization(value);
        if !is_own || held > 0 {
            run.first = now;
        }
        let was = |earlier: i64| {
            let own = self.value(device, value, earlier);
            let own = own.map_or(f64::NAN, |(own, _)| own.value);
            self.is_active(device, value, own, earlier) == Some(true)
        };
        match self.is_active(device, value, own, now) {
            Some(false) | None if (now - held..now).any(was) => Some(true),
            is_active => is_active,
        }
    }

    /// Whether a device with this value, NaN without a reading, is active by its readings at
    /// an instant; `None`: unknown.
    fn is_active(&self, device: u32, value: DeviceValue, own: f64, instant: i64) -> Option<bool> {
        let conditions = match &self.policy.activity {
            Activity::OwnValueAboveZero if is_utilization(value) => return Some(own > 0.0),
            // Bytes and watts do not show use.
            Activity::OwnValueAboveZero => {
                return self.is_above(device, DeviceValue::MemoryUtilization, 0.0, instant);
            }
            Activity::Any(conditions) => conditions,
        };
        any(conditions.iter().map(|condition| match condition {
            ActivityCondition::Allocated => Some(self.is_held_at(device, instant)),
            ActivityCondition::Above(value, threshold) => {
                self.is_above(device, *value, *threshold, instant)
            }
        }))
    }

    /// Whether a device's value is above a threshold. `None`: the device had the value before
    /// and has none now. A device that never had it is not above.
    fn is_above(&self, device: u32, value: DeviceValue, most: f64, instant: i64) -> Option<bool> {
        if let Some((own, _)) = self.value(device, value, instant) {
            return Some(own.value > most * ratio_scale(value));
        }
        let mut signals = self.signals_of(device, value).into_iter().flatten();
        let never = self.last(device, value, self.end()).is_none()
            && signals.all(|signal| self.frame.is_answered(signal));
        never.then_some(false)
    }

    /// Whether a pod holds a device at an instant.
    pub(crate) fn is_held_at(&self, device: u32, instant: i64) -> bool {
        let instant = instant - self.holdings.behind(device);
        let mut claims = self.layout.claims_of(device);
        claims.any(|claim| self.holdings.holds(claim, instant))
    }
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

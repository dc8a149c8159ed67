//! Which devices are active.

use crate::policy::{DeviceValue, Threshold};
use crate::reading::Span;
use crate::signal::Unit;
use crate::snapshot::Snapshot;

/// Bytes and watts do not show use: memory utilisation decides.
const MEMORY_IN_USE: [Threshold; 1] = [Threshold {
    value: DeviceValue::MemoryUtilization,
    above: 0.0,
}];

impl Snapshot {
    /// Whether a device with this value is active at the last instant of a run; `None`: no
    /// condition holds, and one is unknown.
    pub(crate) fn activity(
        &self,
        device: u32,
        value: DeviceValue,
        own: f64,
        run: &mut Span,
    ) -> Option<bool> {
        let conditions = match self.policy.active.as_slice() {
            [] if is_utilization(value) => return Some(own > 0.0),
            [] => &MEMORY_IN_USE,
            set => set,
        };
        run.first = run.last;
        let known = conditions.iter();
        let known: Vec<_> = known
            .map(|it| self.is_above(device, *it, run.last))
            .collect();
        let is_any = known.contains(&Some(true));
        (is_any || !known.contains(&None)).then_some(is_any)
    }

    /// Whether a device's value is above a threshold. `None`: the device had the value before
    /// and has none now. A device that never had it is not above.
    fn is_above(&self, device: u32, of: Threshold, instant: i64) -> Option<bool> {
        let value = of.value;
        if let Some((own, _)) = self.value(device, value, instant) {
            return Some(own.value > of.above * ratio_scale(value));
        }
        let never = self.last(device, value, self.end()).is_none()
            && self.frame.is_answered(self.signal_of(device, value));
        never.then_some(false)
    }
}

fn is_utilization(value: DeviceValue) -> bool {
    matches!(
        value,
        DeviceValue::MemoryUtilization | DeviceValue::GpuUtilization | DeviceValue::Signal(_)
    )
}

/// Ratio signals are stored as percent; conditions state them as 0–1.
fn ratio_scale(value: DeviceValue) -> f64 {
    match value {
        DeviceValue::Signal(signal) if signal.unit() == Unit::Ratio => 100.0,
        _ => 1.0,
    }
}

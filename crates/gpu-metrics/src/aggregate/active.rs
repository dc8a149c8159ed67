//! Which devices are active: conditions on readings, each true, false or unknown.

use super::super::grid::{Reading, RowId};
use super::super::layout::RowFacts;
use super::super::policy::{Activity, ActivityCondition, DeviceValue};
use super::super::signal::Unit;
use super::instant_reader::{InstantReader, signals_of};
use apimachinery::time::millis;

impl InstantReader<'_> {
    /// Whether a device is active by the policy; `None`: unknown. One decisive condition
    /// is enough.
    #[inline]
    fn is_active(
        &self,
        value: DeviceValue,
        reading: Option<Reading>,
        facts: &RowFacts,
    ) -> Option<bool> {
        let holds = |condition: &ActivityCondition| match condition {
            ActivityCondition::Allocated => Some(match reading {
                Some(reading) => facts.was_held_at(reading.at),
                None => facts.attribution.was_held(),
            }),
            ActivityCondition::Above(value, threshold) => self.is_above(facts, *value, *threshold),
        };
        match &self.of.policy.activity {
            Activity::OwnValueAboveZero => match value {
                DeviceValue::MemoryUtilization
                | DeviceValue::GpuUtilization
                | DeviceValue::Signal(_) => Some(reading.is_some_and(|own| own.value > 0.0)),
                // Bytes and watts do not show use.
                DeviceValue::MemoryUsed
                | DeviceValue::MemoryUsedPercent
                | DeviceValue::PowerUsage => {
                    self.is_above(facts, DeviceValue::MemoryUtilization, 0.0)
                }
            },
            Activity::Any(conditions) => decide(conditions.iter().map(holds), true),
            Activity::All(conditions) => decide(conditions.iter().map(holds), false),
        }
    }

    /// Whether a device is active, or was at an earlier instant within `hold`.
    #[inline]
    pub(super) fn is_active_or_was(
        &self,
        rows: &[RowId],
        value: DeviceValue,
        reading: Reading,
        facts: &RowFacts,
    ) -> Option<bool> {
        let active = self.is_active(value, Some(reading), facts);
        let held = millis(self.of.policy.hold) / self.of.frame.step_ms();
        let mut earlier = (1..=held).map(|back| InstantReader::new(self.of, self.instant - back));
        let mut was_active = || {
            earlier.any(|reader| {
                let lines = reader.of.layout.facts_of(rows);
                let reading = lines
                    .filter_map(|facts| reader.reading(facts, value))
                    .reduce(Reading::better);
                reader.is_active(value, reading, facts) == Some(true)
            })
        };
        if active != Some(true) && was_active() {
            return Some(true);
        }
        active
    }

    /// Whether a device's value is above a threshold. `None`: the device had the value
    /// before and has none now, or no query of the field was answered. A device that never
    /// had the value is not above.
    fn is_above(&self, facts: &RowFacts, value: DeviceValue, threshold: f64) -> Option<bool> {
        if let Some(reading) = self.device_reading(facts, value) {
            return Some(reading.value > threshold * ratio_scale(value));
        }
        let mut lines = self.lines(facts);
        let had = lines.any(|line| self.last(line, value, self.instant).is_some());
        let mut signals = signals_of(facts, value).into_iter().flatten();
        let never_had = !had && signals.all(|signal| self.of.frame.is_answered(signal));
        never_had.then_some(false)
    }
}

/// `decisive` if a condition has this outcome; otherwise `None` if one is unknown.
fn decide(conditions: impl Iterator<Item = Option<bool>>, decisive: bool) -> Option<bool> {
    let mut open = false;
    for holds in conditions {
        match holds {
            Some(holds) if holds == decisive => return Some(decisive),
            Some(_) => {}
            None => open = true,
        }
    }
    (!open).then_some(!decisive)
}

/// Ratio signals are stored as percent; conditions state them as 0–1.
fn ratio_scale(value: DeviceValue) -> f64 {
    match value {
        DeviceValue::Signal(signal) if signal.unit() == Unit::Ratio => 100.0,
        _ => 1.0,
    }
}

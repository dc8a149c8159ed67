//! Which raw values are readings. A range test, never an equality: sentinels
//! lose digits on their way through Prometheus (docs/exporter.md, "Sentinels").

use super::signal::Unit;

/// Ratios a little over one are measurement noise; more is nonsense
/// (docs/exporter.md, "MIG").
const RATIO_MAX: f64 = 1.2;

/// The smallest sentinel: DCGM's blank 32-bit integer, 2^31 − 16.
const SMALLEST_SENTINEL: f64 = 2_147_483_632.0;

/// No GPU has a hundred terabytes; every sentinel lies above.
const MEBIBYTES_MAX: f64 = 1e8;

/// No GPU draws a megawatt.
const WATTS_MAX: f64 = 1e6;

/// The reading a raw value stands for, in the served unit: percent for
/// [`Unit::Percent`] and [`Unit::Ratio`]. `None`: no sample.
#[must_use]
pub fn reading(unit: Unit, raw: f64, percent_as_ratio: bool) -> Option<f64> {
    match unit {
        Unit::Percent if percent_as_ratio => ratio(raw),
        Unit::Percent => (0.0..=100.0).contains(&raw).then_some(raw),
        Unit::Ratio => ratio(raw),
        Unit::Mebibytes => (0.0..MEBIBYTES_MAX).contains(&raw).then_some(raw),
        Unit::Watts => (0.0..WATTS_MAX).contains(&raw).then_some(raw),
        Unit::Plain => (raw.abs() < SMALLEST_SENTINEL).then_some(raw),
    }
}

fn ratio(raw: f64) -> Option<f64> {
    (0.0..=RATIO_MAX)
        .contains(&raw)
        .then(|| 100.0 * raw.min(1.0))
}

/// Whether a job sends its percent fields as 0–1: judged over the job, never
/// by a single value, because a genuine 1 % looks like a full 1
/// (docs/numbers.md, "Readings and whose they are").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PercentEvidence {
    fraction: bool,
    above_one: bool,
}

impl PercentEvidence {
    /// Takes a raw value of a percent field.
    pub fn observe(&mut self, raw: f64) {
        if (0.0..=1.0).contains(&raw) {
            self.fraction |= raw.fract() != 0.0;
        } else {
            self.above_one |= (1.0..=100.0).contains(&raw);
        }
    }

    /// Whether the job's percent fields are ratios.
    #[must_use]
    pub fn is_ratio(self) -> bool {
        self.fraction && !self.above_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinels_and_what_is_no_number_are_no_samples() {
        let bad = [
            2_147_483_632.0,
            9_223_372_036_854_775_794.0,
            140_737_488_355_328.0,
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            -1.0,
        ];
        for raw in bad {
            for unit in [Unit::Percent, Unit::Ratio, Unit::Mebibytes, Unit::Watts] {
                assert_eq!(reading(unit, raw, false), None, "{unit:?} {raw}");
            }
        }
        assert_eq!(reading(Unit::Plain, 2_147_483_632.0, false), None);
        assert_eq!(reading(Unit::Plain, f64::NAN, false), None);
        assert_eq!(reading(Unit::Plain, -3.0, false), Some(-3.0));
    }

    #[test]
    fn percent_is_valid_up_to_a_hundred_and_ratios_up_to_a_little_over_one() {
        assert_eq!(reading(Unit::Percent, 100.0, false), Some(100.0));
        assert_eq!(reading(Unit::Percent, 100.5, false), None);
        assert_eq!(reading(Unit::Percent, 0.0, false), Some(0.0));
        assert_eq!(reading(Unit::Ratio, 1.2, false), Some(100.0));
        assert_eq!(reading(Unit::Ratio, 1.21, false), None);
        assert_eq!(reading(Unit::Percent, 0.5, true), Some(50.0));
    }

    #[test]
    fn a_job_is_rescaled_only_if_a_fraction_and_nothing_above_one_was_seen() {
        let judge = |values: &[f64]| {
            let mut evidence = PercentEvidence::default();
            values.iter().for_each(|value| evidence.observe(*value));
            evidence.is_ratio()
        };
        assert!(judge(&[0.0, 0.46, 1.0]));
        assert!(!judge(&[0.0, 1.0, 1.0]));
        assert!(!judge(&[0.5, 46.0]));
        assert!(judge(&[0.5, 9_223_372_036_854_775_794.0, f64::NAN]));
    }
}

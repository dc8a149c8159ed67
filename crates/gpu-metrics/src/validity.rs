//! Which raw values are readings. A range test, never an equality: sentinels
//! lose digits on their way through Prometheus (`crate::dcgm`, "Sentinels").

use super::signal::Unit;
use super::unit::{RATIO_MAX, Scale};

/// The smallest sentinel: DCGM's blank 32-bit integer, 2^31 − 16.
const SMALLEST_SENTINEL: f64 = 2_147_483_632.0;

/// No GPU has a hundred terabytes; every sentinel lies above.
const MEBIBYTES_MAX: f64 = 1e8;

/// No GPU draws a megawatt.
const WATTS_MAX: f64 = 1e6;

/// The reading of a raw value, in the served unit: percent for [`Unit::Percent`] and
/// [`Unit::Ratio`]. `scale` is the unit of percents. `None`: no reading.
#[must_use]
pub fn reading(unit: Unit, raw: f64, scale: Scale) -> Option<f64> {
    match unit {
        Unit::Percent if scale == Scale::Ratio => ratio(raw),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentinels_and_values_that_are_no_numbers_are_no_readings() {
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
                assert_eq!(reading(unit, raw, Scale::Percent), None, "{unit:?} {raw}");
            }
        }
        assert_eq!(reading(Unit::Plain, 2_147_483_632.0, Scale::Percent), None);
        assert_eq!(reading(Unit::Plain, f64::NAN, Scale::Percent), None);
        assert_eq!(reading(Unit::Plain, -3.0, Scale::Percent), Some(-3.0));
    }

    #[test]
    fn percent_is_valid_up_to_a_hundred_and_ratios_up_to_a_little_over_one() {
        assert_eq!(reading(Unit::Percent, 100.0, Scale::Percent), Some(100.0));
        assert_eq!(reading(Unit::Percent, 100.5, Scale::Percent), None);
        assert_eq!(reading(Unit::Percent, 0.0, Scale::Percent), Some(0.0));
        assert_eq!(reading(Unit::Ratio, 1.2, Scale::Percent), Some(100.0));
        assert_eq!(reading(Unit::Ratio, 1.21, Scale::Percent), None);
        assert_eq!(reading(Unit::Percent, 0.5, Scale::Ratio), Some(50.0));
    }
}

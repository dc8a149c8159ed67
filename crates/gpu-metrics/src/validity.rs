//! Which raw values are readings, and whether percents arrive as percents. A range test, never an
//! equality: sentinels lose digits on their way through Prometheus (`crate::dcgm`, "Sentinels").

use super::signal::Unit;

/// The largest ratio: it may be slightly above 1. In percent, values from 1 to this one show
/// no unit.
const RATIO_MAX: f64 = 1.2;

/// The smallest sentinel: DCGM's blank 32-bit integer, 2^31 − 16.
const SMALLEST_SENTINEL: f64 = 2_147_483_632.0;

/// No GPU has a hundred terabytes; every sentinel lies above.
const MEBIBYTES_MAX: f64 = 1e8;

/// No GPU draws a megawatt.
const WATTS_MAX: f64 = 1e6;

/// The reading of a raw value, in the served unit: percent for [`Unit::Percent`] and
/// [`Unit::Ratio`]. `None`: no reading.
#[must_use]
pub fn reading(unit: Unit, raw: f64) -> Option<f64> {
    match unit {
        Unit::Percent => (0.0..=100.0).contains(&raw).then_some(raw),
        Unit::Ratio => (0.0..=RATIO_MAX)
            .contains(&raw)
            .then(|| 100.0 * raw.min(1.0)),
        Unit::Mebibytes => (0.0..MEBIBYTES_MAX).contains(&raw).then_some(raw),
        Unit::Watts => (0.0..WATTS_MAX).contains(&raw).then_some(raw),
        Unit::Plain => (raw.abs() < SMALLEST_SENTINEL).then_some(raw),
    }
}

/// The largest share of values between 0 and 1 among the values that show a unit. More of
/// them contradict percents.
const FRACTIONS: f64 = 0.1;

/// What values of a field in percent show of its unit. A single value shows little: a
/// genuine 1 % looks like a full 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct UnitEvidence {
    percents: u32,
    fractions: u32,
}

impl UnitEvidence {
    #[inline]
    pub fn add(&mut self, value: f64) {
        self.fractions += u32::from(value > 0.0 && value < 1.0);
        self.percents += u32::from(value > RATIO_MAX);
    }

    #[must_use]
    pub fn contradicts_percents(self) -> bool {
        let (fractions, percents) = (f64::from(self.fractions), f64::from(self.percents));
        fractions > FRACTIONS * (fractions + percents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_without_a_unit_may_be_negative_and_are_below_the_sentinels() {
        assert_eq!(reading(Unit::Plain, 2_147_483_632.0), None);
        assert_eq!(reading(Unit::Plain, f64::NAN), None);
        assert_eq!(reading(Unit::Plain, -3.0), Some(-3.0));
    }

    #[test]
    fn more_than_a_tenth_of_values_between_0_and_1_contradict_percents() {
        for (values, contradict) in [
            (&[][..], false),
            (&[(0.0, 9), (1.0, 9), (1.2, 9)], false),
            (&[(0.5, 1)], true),
            (&[(0.999, 1), (1.201, 8)], true),
            (&[(0.001, 1), (1.201, 9)], false),
            (&[(0.5, 2), (50.0, 17)], true),
            (&[(0.5, 1), (1.2, 9)], true),
        ] {
            let mut evidence = UnitEvidence::default();
            for (value, count) in values {
                (0..*count).for_each(|_| evidence.add(*value));
            }
            assert_eq!(evidence.contradicts_percents(), contradict, "{values:?}");
        }
    }
}

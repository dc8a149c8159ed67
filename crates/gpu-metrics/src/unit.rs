//! Whether utilisation arrives as percent, 0 to 100, or as a ratio, 0 to 1.

/// Values from 1 to this one show no unit: a ratio may be slightly above 1.
pub(crate) const RATIO_MAX: f64 = 1.2;

/// The unit in which utilisation arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scale {
    Percent,
    Ratio,
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
    /// Adds a value. Returns whether it lies between 0 and 1.
    #[inline]
    pub fn add(&mut self, value: f64) -> bool {
        let is_fraction = value > 0.0 && value < 1.0;
        self.fractions += u32::from(is_fraction);
        self.percents += u32::from(value > RATIO_MAX);
        is_fraction
    }

    #[must_use]
    pub fn contradicts_percents(self) -> bool {
        let (fractions, percents) = (f64::from(self.fractions), f64::from(self.percents));
        fractions > FRACTIONS * (fractions + percents)
    }
}

//! How a measure counts the devices of an object at an instant, and whether enough of them
//! answer.

use crate::policy::{Measure, Over, Reducer};
use crate::reading::DeviceReading;
use crate::signal::Unit;
use crate::tally::Answering;

/// The share of devices that may be missing from a sum or a count, by number and by their last
/// readings.
const SHARE_OF_SUMS: f64 = 0.1;

/// The share of devices that may be missing from a mean or a maximum.
const SHARE_OF_MEANS: f64 = 0.5;

/// The share by which a mean or a maximum may change with the missing devices at their last
/// readings.
const CHANGE_OF_MEANS: f64 = 0.1;

/// The least such bound in percentage points, for values in percent.
const POINTS: f64 = 2.0;

/// A tolerance: rounding must not decide whether nine of ten devices are enough.
const ROUNDING: f64 = 1e-9;

/// The devices that a measure covers.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Total {
    pub(crate) devices: u32,
    /// The sum of their values; in means by weight.
    sum: f64,
    weight: f64,
    max: f64,
}

impl Total {
    fn add(&mut self, value: f64, weight: f64) {
        self.devices += 1;
        self.sum += weight * value;
        self.weight += weight;
        self.max = self.max.max(value);
    }

    fn plus(&self, other: &Self) -> Self {
        Self {
            devices: self.devices + other.devices,
            sum: self.sum + other.sum,
            weight: self.weight + other.weight,
            max: self.max.max(other.max),
        }
    }
}

/// Missing devices of one measure at an instant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Missing {
    /// Those that would count, at their last readings.
    total: Total,
    /// Those that were never read.
    never: u32,
}

/// How a measure counts devices.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    measure: Measure,
    /// Whether it is a number of held devices, and not of values.
    pub(crate) of_held: bool,
    /// Whether a device must be active; `None`: either.
    pub(crate) active: Option<bool>,
    pub(crate) reducer: Reducer,
}

impl Counts {
    pub(crate) fn of(measure: Measure) -> Self {
        let (of_held, active, reducer) = match measure {
            Measure::Devices { over, reducer, .. } => {
                (false, (over == Over::Active).then_some(true), reducer)
            }
            Measure::OriginalAverage => (false, Some(true), Reducer::Mean),
            Measure::HeldCount => (true, None, Reducer::Sum),
            Measure::ActiveCount => (true, Some(true), Reducer::Sum),
            Measure::IdleCount => (true, Some(false), Reducer::Sum),
        };
        Self {
            measure,
            of_held,
            active,
            reducer,
        }
    }

    /// Whether a device that answers is part of the number.
    #[inline]
    pub(crate) fn includes(self, seen: &DeviceReading, is_held: bool) -> bool {
        (is_held || !self.of_held) && self.active.is_none_or(|wanted| wanted == seen.is_active())
    }

    #[inline]
    fn include(self, value: f64, weight: f64, to: &mut Total) {
        match self.reducer {
            _ if self.of_held => to.add(1.0, 1.0),
            Reducer::Sum => to.add(value, 1.0),
            Reducer::Mean | Reducer::Max => to.add(value, weight),
        }
    }

    /// Adds a device that answers.
    #[inline]
    pub(crate) fn add(self, seen: &DeviceReading, is_held: bool, to: &mut Total) {
        if self.includes(seen, is_held) {
            self.include(seen.value, seen.weight, to);
        }
    }

    /// Adds a missing device, with its last reading and that reading's weight.
    pub(crate) fn miss(self, last: Option<(f64, f64)>, to: &mut Missing) {
        let Some((value, weight)) = last else {
            match self.of_held {
                true => to.total.add(1.0, 1.0),
                false => to.never += 1,
            }
            return;
        };
        if self.active.is_none_or(|wanted| wanted == (value > 0.0)) {
            self.include(value, weight, &mut to.total);
        }
    }

    /// The object's number at the instant, if enough devices answer.
    pub(crate) fn number(self, counted: &Total, missing: &Missing, of: &Answering) -> Option<f64> {
        let is_defined =
            || of.missing + of.missing_at_most == 0 || self.is_defined(counted, missing, of);
        (of.valid > 0 && is_defined()).then(|| self.value(counted, of))
    }

    fn is_defined(self, counted: &Total, missing: &Missing, of: &Answering) -> bool {
        let few = |missing: u32, share: f64| {
            let missing = f64::from(missing);
            missing <= share * (f64::from(of.valid) + missing) + ROUNDING
        };
        let devices = of.missing + of.missing_at_most;
        match self.measure {
            // Held devices are known without an answer, except those that may be shared.
            Measure::HeldCount => return few(of.missing_at_most, SHARE_OF_SUMS),
            Measure::OriginalAverage => return true,
            _ => {}
        }
        if self.reducer == Reducer::Sum {
            // A GPU that was never read counts with the largest reading of the object.
            let sum = missing.total.sum + f64::from(missing.never) * counted.max;
            let most = SHARE_OF_SUMS * (counted.sum + sum) + ROUNDING;
            return few(devices, SHARE_OF_SUMS) && sum <= most;
        }
        few(devices, SHARE_OF_MEANS) && self.is_near(counted, &missing.total, of)
    }

    /// Whether a number other than a sum changes little if the missing devices are added with
    /// their last readings.
    fn is_near(self, counted: &Total, missing: &Total, of: &Answering) -> bool {
        let number = self.value(counted, of);
        let whole = self.value(&counted.plus(missing), of);
        let points = match is_percent(&self.measure) {
            true => POINTS,
            false => 0.0,
        };
        let most = (CHANGE_OF_MEANS * number.abs()).max(points);
        (whole - number).abs() <= most + ROUNDING
    }

    fn value(self, total: &Total, of: &Answering) -> f64 {
        match self.reducer {
            _ if self.measure == Measure::HeldCount => total.sum + f64::from(of.missing),
            Reducer::Mean if total.weight > 0.0 => total.sum / total.weight,
            Reducer::Mean => 0.0,
            Reducer::Sum => total.sum,
            Reducer::Max => total.max,
        }
    }
}

fn is_percent(measure: &Measure) -> bool {
    let Measure::Devices { value, .. } = measure else {
        return false;
    };
    matches!(value.unit(), Unit::Percent | Unit::Ratio)
}

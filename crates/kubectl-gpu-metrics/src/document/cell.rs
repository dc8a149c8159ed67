//! A value as a table or a fact has it: typed, or absent with the reason.

use std::time::Duration;

use serde::Serialize;

use apimachinery::duration::format_duration;

use super::instants::drawn;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unit {
    /// 0 to 100 of one thing.
    Percent,
    /// Mebibytes, as DCGM and the targets of autoscalers have them.
    Mebibytes,
    Watts,
    Seconds,
    /// Things: GPUs, pods, replicas.
    Count,
    /// No unit, or one that the heading names.
    Plain,
}

/// A kind, a namespace and a name: what a page links to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The resource with its group: `deployments.apps`.
    pub(crate) resource: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    Text(String),
    Object(Object),
    /// The names of any number of objects.
    Objects(Vec<Object>),
    /// Objects as squares, each coloured by a percentage.
    Squares(Vec<(Object, Fill)>),
    Verdict(super::Verdict),
    Number {
        value: f64,
        unit: Unit,
        /// Whether the real number may be larger.
        at_least: bool,
    },
    /// A number at each of some instants, the newest last; `None`: unknown.
    Instants {
        values: Vec<Option<f64>>,
        unit: Unit,
    },
    /// An unknown value, and why it is unknown. The reason may be empty where it is said
    /// elsewhere. Never 0.
    Absent(String),
}

/// The colour of a square.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fill {
    /// It has no percentage, as it should be.
    Empty,
    Percent(f64),
    Unknown,
}

/// The name of an object in a text, and the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    /// The name as it is shown.
    pub(crate) text: String,
    pub(crate) of: Reference,
}

impl Reference {
    pub(crate) fn new(resource: &str, namespace: Option<&str>, name: &str) -> Self {
        Self {
            resource: resource.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(crate) fn object(text: impl Into<String>, of: Reference) -> Self {
        let text = text.into();
        Self::Object(Object { text, of })
    }

    pub(crate) fn verdict(severity: super::Severity, text: impl Into<String>) -> Self {
        let text = text.into();
        Self::Verdict(super::Verdict { severity, text })
    }

    /// A number; one that is not finite is absent.
    pub(crate) fn number(value: f64, unit: Unit) -> Self {
        if !value.is_finite() {
            return Self::absent("it is no number");
        }
        let at_least = false;
        Self::Number {
            value,
            unit,
            at_least,
        }
    }

    /// A number that may be larger in truth.
    pub(crate) fn at_least(value: f64, unit: Unit) -> Self {
        match Self::number(value, unit) {
            Self::Number { value, unit, .. } => Self::Number {
                value,
                unit,
                at_least: true,
            },
            cell => cell,
        }
    }

    /// An unknown value, and why it is unknown.
    pub(crate) fn absent(reason: impl Into<String>) -> Self {
        Self::Absent(reason.into())
    }

    /// A number, or why it is unknown.
    pub(crate) fn known(value: Option<f64>, unit: Unit, reason: &str) -> Self {
        value.map_or_else(|| Self::absent(reason), |value| Self::number(value, unit))
    }

    pub(crate) const fn value(&self) -> Option<f64> {
        match self {
            Self::Number { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// In words, with its unit; `–` if it is unknown.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Object(object) => object.text.clone(),
            Self::Objects(objects) => {
                let names = objects.iter().map(|object| object.text.as_str());
                names.collect::<Vec<_>>().join(", ")
            }
            Self::Squares(squares) => {
                let names = squares.iter().map(|(object, _)| object.text.as_str());
                names.collect::<Vec<_>>().join("; ")
            }
            Self::Verdict(verdict) => format!("{} {}", verdict.severity.mark(), verdict.text),
            Self::Number {
                value,
                unit,
                at_least,
            } => {
                let more = if *at_least { "+" } else { "" };
                format!("{}{more}", unit.shown(*value))
            }
            Self::Instants { values, unit } => drawn(values, *unit),
            Self::Absent(_) => "–".to_owned(),
        }
    }

    /// The sum of values of one unit. With an unknown value, the sum is unknown.
    pub(crate) fn sum<'c>(cells: impl IntoIterator<Item = &'c Self>) -> Self {
        let mut total: Option<(f64, Unit)> = None;
        for cell in cells {
            let Self::Number { value, unit, .. } = cell else {
                return Self::absent("a value of the sum is unknown");
            };
            let sum = total.map_or(0.0, |(sum, _)| sum);
            total = Some((sum + value, *unit));
        }
        total.map_or_else(
            || Self::absent("there is nothing to add"),
            |(sum, unit)| Self::number(sum, unit),
        )
    }
}

impl Unit {
    /// What stands behind a number of this unit, where its digits do not say it.
    pub(crate) const fn symbol(self) -> &'static str {
        match self {
            Self::Percent => "%",
            Self::Watts => " W",
            Self::Mebibytes => " MiB",
            Self::Seconds | Self::Count | Self::Plain => "",
        }
    }

    /// A number with its unit.
    pub(crate) fn shown(self, value: f64) -> String {
        format!("{}{}", self.digits(value), self.symbol())
    }

    /// A number of this unit: durations with their own units.
    pub(crate) fn digits(self, value: f64) -> String {
        match self {
            Self::Percent => format!("{value:.1}"),
            Self::Watts | Self::Mebibytes => format!("{value:.0}"),
            Self::Seconds => duration(value),
            Self::Count => trimmed(format!("{value:.1}")),
            Self::Plain => trimmed(format!("{value:.3}")),
        }
    }

    /// The least top of a chart of this unit: a percentage is seen against 100.
    pub(crate) const fn ceiling(self) -> f64 {
        match self {
            Self::Percent => 100.0,
            _ => 0.0,
        }
    }
}

fn trimmed(digits: String) -> String {
    match digits.contains('.') {
        true => digits
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
        false => digits,
    }
}

/// Whole seconds; tenths below ten seconds.
fn duration(seconds: f64) -> String {
    let sign = if seconds < 0.0 { "-" } else { "" };
    let seconds = seconds.abs();
    if seconds < 10.0 {
        return format!("{sign}{}s", trimmed(format!("{seconds:.1}")));
    }
    // A float becomes the nearest number that a `u64` has.
    let whole = Duration::from_secs(seconds as u64);
    format!("{sign}{}", format_duration(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_in_their_unit() {
        for (value, unit, shown) in [
            (71.43, Unit::Percent, "71.4%"),
            (0.0, Unit::Percent, "0.0%"),
            (410.5, Unit::Watts, "410 W"),
            (20480.0, Unit::Mebibytes, "20480 MiB"),
            (290.4, Unit::Seconds, "4m50s"),
            (0.4, Unit::Seconds, "0.4s"),
            (0.0, Unit::Seconds, "0s"),
            (-15.0, Unit::Seconds, "-15s"),
            (2.0, Unit::Count, "2"),
            (100.0, Unit::Count, "100"),
            (1.53, Unit::Count, "1.5"),
            (71.4312, Unit::Plain, "71.431"),
            (300.0, Unit::Plain, "300"),
        ] {
            assert_eq!(Cell::number(value, unit).shown(), shown, "{value} {unit:?}");
        }
        assert_eq!(Cell::at_least(290.0, Unit::Seconds).shown(), "4m50s+");
    }

    #[test]
    fn an_unknown_number_is_never_zero() {
        for cell in [
            Cell::known(None, Unit::Count, "nothing was read"),
            Cell::number(f64::NAN, Unit::Count),
            Cell::at_least(f64::INFINITY, Unit::Count),
            Cell::sum(&[Cell::number(1.0, Unit::Count), Cell::absent("")]),
            Cell::sum([]),
        ] {
            assert!(matches!(&cell, Cell::Absent(_)), "{cell:?}");
            assert_eq!((cell.shown().as_str(), cell.value()), ("–", None));
        }
        let numbers = [1.0, 2.5].map(|value| Cell::number(value, Unit::Watts));
        assert_eq!(Cell::sum(&numbers), Cell::number(3.5, Unit::Watts));
    }
}

//! Values over time.

use apimachinery::time::Timestamp;

use super::cell::Unit;

/// Lines over the same times.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What the values are.
    pub title: String,
    /// Their unit.
    pub unit: Unit,
    /// The times, the earliest first.
    pub times: Vec<Timestamp>,
    /// The lines, each with a value for each time.
    pub lines: Vec<Line>,
}

/// A line; an unknown value breaks it.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What the line is.
    pub name: String,
    /// The value at each time; `None`: unknown.
    pub values: Vec<Option<f64>>,
}

impl Series {
    /// One line.
    pub fn new(
        title: impl Into<String>,
        unit: Unit,
        times: Vec<Timestamp>,
        values: Vec<Option<f64>>,
    ) -> Self {
        let title = title.into();
        let line = Line {
            name: title.clone(),
            values,
        };
        Self {
            title,
            unit,
            times,
            lines: vec![line],
        }
    }

    /// The largest number that a chart has to show.
    pub(super) fn top(&self) -> f64 {
        let values = self.lines.iter().flat_map(|line| &line.values).flatten();
        let finite = values.filter(|value| value.is_finite());
        finite.fold(self.unit.ceiling(), |top, value| top.max(*value))
    }

    /// Its first and its last time.
    pub(super) fn ends(&self) -> Option<(Timestamp, Timestamp)> {
        Some((*self.times.first()?, *self.times.last()?))
    }
}

/// The range of a line and its newest value, in words.
pub(super) fn described(values: &[Option<f64>], unit: Unit) -> String {
    let finite = |value: &f64| value.is_finite();
    let known: Vec<f64> = values.iter().flatten().copied().filter(finite).collect();
    let Some(newest) = known.last() else {
        return "nothing is known".to_owned();
    };
    let least = known.iter().copied().fold(f64::INFINITY, f64::min);
    let most = known.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let newest = match values.last() {
        Some(Some(last)) if last.is_finite() => format!("newest {}", unit.shown(*newest)),
        _ => "the newest is unknown".to_owned(),
    };
    let gaps = match values.len() - known.len() {
        0 => String::new(),
        unknown => format!("; {unknown} of {} unknown", values.len()),
    };
    format!(
        "from {} to {}, {newest}{gaps}",
        unit.shown(least),
        unit.shown(most)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_described_with_its_gaps() {
        for (values, words) in [
            (&[][..], "nothing is known"),
            (&[None, Some(f64::NAN)], "nothing is known"),
            (
                &[Some(0.0), None, Some(100.0)],
                "from 0.0% to 100.0%, newest 100.0%; 1 of 3 unknown",
            ),
            (
                &[Some(5.0), None],
                "from 5.0% to 5.0%, the newest is unknown; 1 of 2 unknown",
            ),
        ] {
            assert_eq!(described(values, Unit::Percent), words);
        }
    }
}

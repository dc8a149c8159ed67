//! Values over time.

use apimachinery::time::Timestamp;

use super::cell::{Unit, bars};

/// The most bars of a line in a terminal.
const MOST_BARS: usize = 60;

/// Lines over the same times.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) title: String,
    pub(crate) unit: Unit,
    /// The times, the earliest first.
    pub(crate) times: Vec<Timestamp>,
    /// The lines, each with a value for each time.
    pub(crate) lines: Vec<Line>,
}

/// A line; an unknown value breaks it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// The value at each time; `None`: unknown.
    pub(crate) values: Vec<Option<f64>>,
}

impl Series {
    pub(crate) fn new(
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

    /// The series with at most this many points, each the mean of the known values of
    /// equally many of its own.
    pub(crate) fn folded(mut self, points: usize) -> Self {
        let size = self.times.len().div_ceil(points.max(1)).max(1);
        let firsts = self.times.iter().step_by(size).copied();
        self.times = firsts.collect();
        for line in &mut self.lines {
            line.values = means(&line.values, size);
        }
        self
    }
}

/// The mean of the known values of each `size` ones; `None`: none is known.
fn means(values: &[Option<f64>], size: usize) -> Vec<Option<f64>> {
    let mean = |values: &[Option<f64>]| {
        let known = values.iter().flatten();
        let count = known.clone().count();
        (count > 0).then(|| known.sum::<f64>() / count as f64)
    };
    values.chunks(size).map(mean).collect()
}

/// The bars of a line for a terminal.
pub(super) fn drawn(values: &[Option<f64>], unit: Unit) -> String {
    let size = values.len().div_ceil(MOST_BARS).max(1);
    bars(&means(values, size), unit)
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

    #[test]
    fn points_are_folded_into_means_of_known_values() {
        let times = (0..5).map(Timestamp::from_secs).collect();
        let values = vec![Some(1.0), Some(2.0), None, Some(6.0), None];
        let folded = Series::new("m", Unit::Count, times, values).folded(3);
        assert_eq!(folded.times, [0, 2, 4].map(Timestamp::from_secs));
        assert_eq!(folded.lines[0].values, [Some(1.5), Some(6.0), None]);
        assert_eq!(
            drawn(&[Some(1.0); 120], Unit::Count).chars().count(),
            MOST_BARS
        );
    }
}

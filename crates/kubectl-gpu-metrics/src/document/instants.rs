//! Numbers at instants, as bars and in words.

use super::cell::Unit;

/// The most bars of a line in a terminal.
const MOST_BARS: usize = 60;

/// The mean of the known values of each `size` ones; `None`: none is known.
pub(crate) fn means(values: &[Option<f64>], size: usize) -> Vec<Option<f64>> {
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

/// Each number as a block of one of eight heights, from 0 to the larger of the unit's ceiling
/// and the largest number.
fn bars(values: &[Option<f64>], unit: Unit) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let known = values.iter().flatten().filter(|value| value.is_finite());
    let top = known.fold(unit.ceiling(), |top, value| top.max(*value));
    let bar = |value: &Option<f64>| match value {
        Some(value) if value.is_finite() => {
            // Negative numbers become 0.
            BARS[((value / top * 8.0) as usize).min(BARS.len() - 1)]
        }
        _ => '·',
    };
    match values {
        [] => "–".to_owned(),
        values => values.iter().map(bar).collect(),
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

    #[test]
    fn many_instants_are_means_of_known_values() {
        let values = [Some(1.0), Some(2.0), None, Some(6.0), None];
        assert_eq!(means(&values, 2), [Some(1.5), Some(6.0), None]);
        let drawn = drawn(&[Some(1.0); 120], Unit::Count);
        assert_eq!(drawn.chars().count(), MOST_BARS);
    }

    #[test]
    fn instants_are_bars_and_an_unknown_one_is_a_dot() {
        let values = [
            Some(0.0),
            Some(12.5),
            None,
            Some(99.0),
            Some(100.0),
            Some(f64::NAN),
        ];
        assert_eq!(bars(&values, Unit::Percent), "▁▂·██·");
        assert_eq!(bars(&[Some(-5.0), Some(1e300)], Unit::Percent), "▁█");
        assert_eq!(bars(&[Some(0.0), Some(2.0)], Unit::Count), "▁█");
        assert_eq!(bars(&[], Unit::Count), "–");
    }
}

//! A few dozen numbers as a line, for a table cell or a page. The style sheet sets
//! its size and colours.

use maud::{Markup, html};

const WIDTH: f64 = 120.0;
const HEIGHT: f64 = 32.0;
/// The margin for the line's own width and the last dot.
const EDGE: f64 = 4.0;

/// The numbers in order of time, from 0 to the larger of `ceiling` and the largest
/// number. An unknown number is a gap, never a 0.
pub(crate) fn sparkline(title: &str, numbers: &[Option<f64>], ceiling: f64) -> Markup {
    let top = known(numbers).fold(ceiling.max(f64::MIN_POSITIVE), f64::max);
    let steps = numbers.len().saturating_sub(1).max(1) as f64;
    let point = |(place, number): (usize, f64)| {
        let x = EDGE + place as f64 / steps * (WIDTH - 2.0 * EDGE);
        let y = HEIGHT - EDGE - number.max(0.0) / top * (HEIGHT - 2.0 * EDGE);
        (x, y)
    };
    let runs = runs(numbers).into_iter();
    let runs = runs.map(|run| run.into_iter().map(point).collect());
    let runs: Vec<Vec<(f64, f64)>> = runs.collect();
    let last = runs.last().and_then(|run| run.last());
    let base = HEIGHT - 1.0;
    html! {
        svg.spark viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" {
            title { (title) }
            desc { (described(numbers)) }
            line.base x1="0" x2=(WIDTH) y1=(base) y2=(base) {}
            @for run in &runs {
                @let points = run.iter().map(|(x, y)| format!("{x:.1},{y:.1}"));
                @let points = points.collect::<Vec<_>>().join(" ");
                @if let [(x, y)] = run[..] {
                    (dot("alone", x, y))
                } @else {
                    polyline points=(points) {}
                }
            }
            @if let Some((x, y)) = last { (dot("last", *x, *y)) }
        }
    }
}

/// A line of zero length with round ends stays round however the picture is
/// stretched.
fn dot(class: &str, x: f64, y: f64) -> Markup {
    html! { path class=(class) d=(format!("M{x:.1} {y:.1}h0")) {} }
}

fn known(numbers: &[Option<f64>]) -> impl DoubleEndedIterator<Item = f64> {
    let all = numbers.iter().flatten().copied();
    all.filter(|it| it.is_finite())
}

/// The runs without a gap, each number with its index.
fn runs(numbers: &[Option<f64>]) -> Vec<Vec<(usize, f64)>> {
    let placed: Vec<_> = numbers.iter().copied().enumerate().collect();
    let runs = placed.split(|(_, number)| !number.is_some_and(f64::is_finite));
    let known = |run: &[(usize, Option<f64>)]| {
        let known = run
            .iter()
            .filter_map(|(place, number)| Some((*place, (*number)?)));
        known.collect()
    };
    runs.filter(|run| !run.is_empty()).map(known).collect()
}

fn described(numbers: &[Option<f64>]) -> String {
    let unknown = numbers.len() - known(numbers).count();
    let Some(newest) = known(numbers).next_back() else {
        return "nothing is known".to_owned();
    };
    let least = known(numbers).fold(f64::INFINITY, f64::min);
    let most = known(numbers).fold(f64::NEG_INFINITY, f64::max);
    let newest = match numbers.last() {
        Some(Some(_)) => format!("newest {newest:.1}"),
        _ => "the newest unknown".to_owned(),
    };
    let unknown = match unknown {
        0 => String::new(),
        some => format!("; {some} of {} unknown", numbers.len()),
    };
    format!("from {least:.1} to {most:.1}, {newest}{unknown}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_no_zero_and_breaks_the_line() {
        let numbers = [Some(0.0), Some(50.0), None, Some(100.0)];
        let svg = sparkline("busy", &numbers, 100.0).into_string();
        assert_eq!(svg.matches("<polyline").count(), 1, "{svg}");
        assert!(svg.contains("points=\"4.0,28.0 41.3,16.0\""), "{svg}");
        assert!(svg.contains("class=\"alone\" d=\"M116.0 4.0h0\""), "{svg}");
        assert!(svg.contains("<desc>from 0.0 to 100.0, newest 100.0; 1 of 4 unknown</desc>"));
    }

    #[test]
    fn unusual_numbers_and_names_give_a_valid_picture() {
        for numbers in [
            &[][..],
            &[None],
            &[Some(f64::NAN), Some(f64::INFINITY)],
            &[Some(-5.0), Some(1e300)],
        ] {
            let svg = sparkline("<script>", numbers, 0.0).into_string();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(svg.contains("&lt;script&gt;"), "{svg}");
        }
    }
}

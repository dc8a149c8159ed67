//! Lines as SVG, without a script. The style sheet of the page has sizes and colours. An
//! unknown number is a gap, never a 0.

use maud::{Markup, html};

use super::cell::Unit;
use super::instants::described;

/// Numbers at equal distances as a line, from 0 to the larger of the unit's ceiling and the
/// largest number. It lies in 112 × 24 of 120 × 32: the rest is for its own width and the
/// last dot.
pub(super) fn sparkline(title: &str, numbers: &[Option<f64>], unit: Unit) -> Markup {
    let finite = numbers.iter().flatten().filter(|it| it.is_finite());
    let least = unit.ceiling().max(f64::MIN_POSITIVE);
    let top = finite.fold(least, |top, it| top.max(*it));
    let steps = numbers.len().saturating_sub(1).max(1) as f64;
    let point = |place, share| (4.0 + 112.0 * place as f64 / steps, 28.0 - 24.0 * share);
    let runs = runs(numbers, top, point);
    let last = runs.last().and_then(|run| run.last());
    html! {
        svg.spark viewBox="0 0 120 32" preserveAspectRatio="none" role="img" {
            title { (title) }
            desc { (described(numbers, unit)) }
            line.base x1="0" x2="120" y1="31" y2="31" {}
            @for run in &runs { (trace(run)) }
            @if let Some((x, y)) = last { (dot("last", *x, *y)) }
        }
    }
}

/// The points of known numbers, without a break in each run: `point` gets the place of a
/// number and its share of `top`.
pub(super) fn runs(
    numbers: &[Option<f64>],
    top: f64,
    point: impl Fn(usize, f64) -> (f64, f64),
) -> Vec<Vec<(f64, f64)>> {
    let share = |number: &Option<f64>| {
        let known = number.filter(|it| it.is_finite());
        known.map(|it| (it / top).clamp(0.0, 1.0))
    };
    let points = numbers.iter().map(share).enumerate();
    let points: Vec<_> = points.map(|(place, it)| Some(point(place, it?))).collect();
    let runs = points.split(Option::is_none).filter(|run| !run.is_empty());
    runs.map(|run| run.iter().flatten().copied().collect())
        .collect()
}

/// A run as a line, or as a dot.
pub(super) fn trace(run: &[(f64, f64)]) -> Markup {
    if let [(x, y)] = run {
        return dot("alone", *x, *y);
    }
    let points = run.iter().map(|(x, y)| format!("{x:.1},{y:.1}"));
    html! { polyline points=(points.collect::<Vec<_>>().join(" ")) {} }
}

/// A line of zero length with round ends stays round however the picture is
/// stretched.
fn dot(class: &str, x: f64, y: f64) -> Markup {
    html! { path class=(class) d=(format!("M{x:.1} {y:.1}h0")) {} }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_no_zero_and_breaks_the_line() {
        let numbers = [Some(0.0), Some(50.0), None, Some(100.0)];
        let svg = sparkline("busy", &numbers, Unit::Percent).into_string();
        assert_eq!(svg.matches("<polyline").count(), 1, "{svg}");
        assert!(svg.contains("points=\"4.0,28.0 41.3,16.0\""), "{svg}");
        assert!(svg.contains("class=\"alone\" d=\"M116.0 4.0h0\""), "{svg}");
        assert!(svg.contains("<desc>from 0.0% to 100.0%, newest 100.0%; 1 of 4 unknown</desc>"));
    }

    #[test]
    fn unusual_numbers_and_names_give_a_valid_picture() {
        for numbers in [
            &[][..],
            &[None],
            &[Some(f64::NAN), Some(f64::INFINITY)],
            &[Some(-5.0), Some(1e300)],
        ] {
            let svg = sparkline("<script>", numbers, Unit::Plain).into_string();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert!(svg.contains("&lt;script&gt;"), "{svg}");
        }
    }
}

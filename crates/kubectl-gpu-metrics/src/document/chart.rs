//! Charts as SVG, without a script. The style sheet of the page has sizes and colours. An
//! unknown number is a gap, never a 0.

use maud::{Markup, html};

use apimachinery::time::Timestamp;

use super::cell::Unit;
use super::series::{Line, Series, described};

/// A place of a drawing: its lower left corner, width and height, in the drawing's units.
#[derive(Clone, Copy, Debug)]
struct Area {
    left: f64,
    bottom: f64,
    width: f64,
    height: f64,
}

/// The place of the line of a table cell: the rest of 120 × 32 is for the line's own
/// width and the last dot.
const CELL: Area = Area {
    left: 4.0,
    bottom: 28.0,
    width: 112.0,
    height: 24.0,
};

/// The place of the lines of a figure; around it are the labels.
const FIGURE: Area = Area {
    left: 64.0,
    bottom: 216.0,
    width: 808.0,
    height: 206.0,
};

impl Area {
    /// A share of the width and a share of the height as a point.
    fn point(self, x: f64, y: f64) -> (f64, f64) {
        let (x, y) = (x.clamp(0.0, 1.0), y.clamp(0.0, 1.0));
        (self.left + x * self.width, self.bottom - y * self.height)
    }
}

/// A few dozen numbers as a line, from 0 to the larger of the unit's ceiling and the largest
/// number.
pub(crate) fn sparkline(title: &str, numbers: &[Option<f64>], unit: Unit) -> Markup {
    let known = numbers.iter().flatten().filter(|number| number.is_finite());
    let top = known.fold(unit.ceiling(), |top, number| top.max(*number));
    let steps = numbers.len().saturating_sub(1).max(1) as f64;
    let shares = (0..numbers.len()).map(|place| place as f64 / steps);
    let runs = runs(CELL, &shares.collect::<Vec<_>>(), numbers, top);
    let last = runs.last().and_then(|run| run.last());
    html! {
        svg.spark viewBox="0 0 120 32" preserveAspectRatio="none" role="img" {
            title { (title) }
            desc { (described(numbers, unit)) }
            line.base x1="0" x2="120" y1="31" y2="31" {}
            @for run in &runs { (drawn(run)) }
            @if let Some((x, y)) = last { (dot("last", *x, *y)) }
        }
    }
}

/// A chart with its lines, and a table of its numbers; `place` tells the
/// figures of a document apart.
pub(super) fn figure(series: &Series, place: usize) -> Markup {
    let top = series.top();
    let top = if top > 0.0 { top } else { 1.0 };
    let Some((first, last)) = series.ends() else {
        return html! { p { (series.title) ": nothing is known" } };
    };
    let shares: Vec<f64> = series
        .times
        .iter()
        .map(|at| share(*at, first, last))
        .collect();
    let right = FIGURE.left + FIGURE.width;
    html! {
        figure {
            svg.chart viewBox="0 0 880 240" role="img" {
                title { (series.title) }
                desc { @for line in &series.lines { (line.name) ": " (described(&line.values, series.unit)) ". " } }
                @for quarter in 0..=4 {
                    @let height = f64::from(quarter) / 4.0;
                    @let y = FIGURE.point(0.0, height).1;
                    line.grid x1=(FIGURE.left) x2=(right) y1=(y) y2=(y) {}
                    text.value x=(FIGURE.left - 6.0) y=(y + 4.0) { (series.unit.shown(height * top)) }
                }
                @for (place, line) in series.lines.iter().enumerate() {
                    g class=(format!("line line-{place}")) {
                        @for run in runs(FIGURE, &shares, &line.values, top) { (drawn(&run)) }
                    }
                }
                text.time x=(FIGURE.left) y="234" { (first.whole_second().date()) }
                text.time.end x=(right) y="234" { (last.whole_second().date()) }
            }
            figcaption { (series.title) }
            details id=(format!("numbers-{place}")) { summary { "Numbers" } (numbers(series)) }
        }
    }
}

fn share(at: Timestamp, first: Timestamp, last: Timestamp) -> f64 {
    let whole = (last.millis() - first.millis()).max(1);
    (at.millis() - first.millis()) as f64 / whole as f64
}

fn numbers(series: &Series) -> Markup {
    let cell = |line: &Line, place: usize| {
        let value = line.values.get(place).copied().flatten();
        value.map_or_else(|| "–".to_owned(), |value| series.unit.digits(value))
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label={ "Numbers of " (series.title) } {
            table {
                thead { tr { th scope="col" { "TIME" } @for line in &series.lines { th.n scope="col" { (line.name) } } } }
                tbody {
                    @for (place, at) in series.times.iter().enumerate() {
                        tr {
                            th scope="row" { (at.whole_second().date()) }
                            @for line in &series.lines { td.n { (cell(line, place)) } }
                        }
                    }
                }
            }
        }
    }
}

/// The points of each run of known numbers.
fn runs(area: Area, shares: &[f64], numbers: &[Option<f64>], top: f64) -> Vec<Vec<(f64, f64)>> {
    let top = top.max(f64::MIN_POSITIVE);
    let placed: Vec<(f64, Option<f64>)> = shares
        .iter()
        .copied()
        .zip(numbers.iter().copied())
        .collect();
    let runs = placed.split(|(_, number)| !number.is_some_and(f64::is_finite));
    let points = |run: &[(f64, Option<f64>)]| {
        let known = run.iter().filter_map(|(x, number)| Some((*x, (*number)?)));
        known
            .map(|(x, number)| area.point(x, number / top))
            .collect()
    };
    runs.filter(|run| !run.is_empty()).map(points).collect()
}

/// A run as a line, or as a dot.
fn drawn(run: &[(f64, f64)]) -> Markup {
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

    #[test]
    fn a_figure_has_its_numbers_as_a_table() {
        let times: Vec<Timestamp> = (0..3).map(|at| Timestamp::from_secs(at * 60)).collect();
        let values = vec![Some(50.0), None, Some(300.0)];
        let series = Series::new("m <of> a", Unit::Percent, times, values);
        let svg = figure(&series, 0).into_string();
        for part in [
            "m &lt;of&gt; a",
            "<text class=\"value\" x=\"58\" y=\"14\">300.0%</text>",
            "<td class=\"n\">–</td>",
        ] {
            assert!(svg.contains(part), "{part}: {svg}");
        }
        let empty = Series::new("m", Unit::Count, Vec::new(), Vec::new());
        assert!(!figure(&empty, 0).into_string().contains("svg"));
    }
}

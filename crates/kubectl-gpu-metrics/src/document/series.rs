//! Numbers over time: lines in one chart, with a table of the same numbers behind it. An
//! unknown number is a gap, never a 0.

use maud::{Markup, html};
use serde_json::{Value, json};

use apimachinery::time::Timestamp;

use super::cell::{Cell, Reference, Unit};
use super::html::{Addresses, of_table};
use super::instants::{described, drawn};
use super::table::{Column, Table};

/// Lines of one unit at the same instants.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Series {
    pub(crate) caption: String,
    pub(crate) unit: Unit,
    pub(crate) times: Vec<Timestamp>,
    pub(crate) lines: Vec<Line>,
    /// Events at instants, in words.
    pub(crate) marks: Vec<(usize, String)>,
}

/// The numbers of a chart name no objects, and are not sorted.
struct Unlinked;

impl Addresses for Unlinked {
    fn of(&self, _: &Reference) -> Option<String> {
        None
    }
}

/// A number at each instant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) values: Vec<Option<f64>>,
    /// Whether it is drawn as a limit.
    pub(crate) is_limit: bool,
}

/// Width and height of the picture, which is stretched to its place.
const SIZE: (f64, f64) = (1000.0, 200.0);

impl Line {
    pub(crate) fn new(name: impl Into<String>, values: Vec<Option<f64>>) -> Self {
        Self {
            name: name.into(),
            values,
            is_limit: false,
        }
    }

    pub(crate) const fn limit(mut self) -> Self {
        self.is_limit = true;
        self
    }
}

impl Series {
    /// The numbers, a row for each instant.
    fn table(&self) -> Table {
        let column = |line: &Line| Column {
            name: line.name.clone().into(),
            heading: line.name.to_uppercase().into(),
            ..Column::new("", "", "").unit(self.unit)
        };
        let columns = [Column::new("time", "TIME", "")];
        let row = |(place, at): (usize, &Timestamp)| {
            let number = |line: &Line| {
                let value = line.values.get(place).copied().flatten();
                Cell::known(value, self.unit, "")
            };
            let time = [Cell::text(at.date())];
            time.into_iter()
                .chain(self.lines.iter().map(number))
                .collect()
        };
        Table {
            caption: self.caption.clone(),
            columns: columns
                .into_iter()
                .chain(self.lines.iter().map(column))
                .collect(),
            rows: self.times.iter().enumerate().map(row).collect(),
            ..Table::default()
        }
    }

    pub(super) fn json(&self) -> Value {
        let mut table = super::json::table(&self.table());
        table["kind"] = json!("series");
        let marks = self.marks.iter().map(|(_, text)| text);
        table["marks"] = json!(marks.collect::<Vec<_>>());
        table
    }

    pub(super) fn text(&self) -> Vec<String> {
        let line = |it: &Line| {
            let (bars, words) = (
                drawn(&it.values, self.unit),
                described(&it.values, self.unit),
            );
            format!("{}  {bars}  {words}", it.name)
        };
        let lines = self.lines.iter().map(line);
        let marks = self.marks.iter().map(|(_, text)| text.clone());
        [self.caption.clone()]
            .into_iter()
            .chain(lines)
            .chain(marks)
            .collect()
    }

    pub(super) fn html(&self) -> Markup {
        let ends = [self.times.first(), self.times.last()];
        let [from, to] = ends.map(|at| at.map(|at| at.date()).unwrap_or_default());
        html! {
            figure.chart {
                figcaption {
                    (self.caption)
                    ul.legend {
                        @for (place, line) in self.lines.iter().enumerate() {
                            li { span class={ "key l" (place) } {} (line.name) ": " (described(&line.values, self.unit)) }
                        }
                    }
                }
                p.axis { (self.unit.shown(self.top())) }
                (self.picture())
                p.axis { span { (from) } span { (to) } }
                output {}
                details { summary { "Numbers of " (self.caption) } (of_table(&self.table(), &Unlinked)) }
            }
        }
    }

    /// The number at the upper edge.
    fn top(&self) -> f64 {
        let numbers = self
            .lines
            .iter()
            .flat_map(|line| line.values.iter().flatten());
        let finite = numbers.filter(|it| it.is_finite());
        finite.fold(self.unit.ceiling().max(f64::MIN_POSITIVE), |top, it| {
            top.max(*it)
        })
    }

    fn picture(&self) -> Markup {
        let (width, height) = SIZE;
        let steps = self.times.len().saturating_sub(1).max(1) as f64;
        let across = |place: usize| width * place as f64 / steps;
        let point = |place: usize, share: f64| (across(place), height * (1.0 - share));
        html! {
            svg viewBox={ "0 0 " (width) " " (height) } preserveAspectRatio="none" role="img" aria-label=(self.caption) {
                @for (place, text) in &self.marks {
                    line.mark x1=(across(*place)) x2=(across(*place)) y1="0" y2=(height) { title { (text) } }
                }
                @for (place, line) in self.lines.iter().enumerate() {
                    g class={ "l" (place) @if line.is_limit { " limit" } } {
                        @for run in runs(&line.values, self.top(), point) { (run) }
                    }
                }
                @for place in 0..self.times.len() {
                    rect x=(across(place) - width / steps / 2.0) width=(width / steps) y="0" height=(height) {
                        title { (self.told(place)) }
                    }
                }
            }
        }
    }

    /// The numbers and events at an instant, in words.
    fn told(&self, place: usize) -> String {
        let value = |line: &Line| line.values.get(place).copied().flatten();
        let shown = |line: &Line| {
            let value = value(line).map(|it| self.unit.shown(it));
            format!("{} {}", line.name, value.as_deref().unwrap_or("unknown"))
        };
        let numbers: Vec<String> = self.lines.iter().map(shown).collect();
        let marks = self.marks.iter().filter(|(at, _)| *at == place);
        let marks: String = marks.map(|(_, text)| format!("; {text}")).collect();
        let time = self
            .times
            .get(place)
            .map(|at| at.date())
            .unwrap_or_default();
        format!("{time}: {}{marks}", numbers.join(", "))
    }
}

/// Known numbers as lines with gaps, one without neighbours as a dot: `point` gets the place
/// of a number and its share of `top`.
fn runs(
    numbers: &[Option<f64>],
    top: f64,
    point: impl Fn(usize, f64) -> (f64, f64),
) -> Vec<Markup> {
    let shown = |(place, number): (usize, &Option<f64>)| {
        let known = number.filter(|it| it.is_finite())?;
        let (x, y) = point(place, (known / top).clamp(0.0, 1.0));
        Some(format!("{x:.1},{y:.1}"))
    };
    let points: Vec<Option<String>> = numbers.iter().enumerate().map(shown).collect();
    let runs = points.split(Option::is_none).filter(|run| !run.is_empty());
    let trace = |run: &[Option<String>]| {
        let points: Vec<&str> = run.iter().flatten().map(String::as_str).collect();
        match points[..] {
            // A line of zero length with round ends is a dot.
            [point] => html! { path d={ "M" (point) "h0" } {} },
            _ => html! { polyline points=(points.join(" ")) {} },
        }
    };
    runs.map(trace).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unusual_numbers_give_a_valid_picture() {
        let values = vec![Some(f64::NAN), Some(f64::INFINITY), Some(-5.0), Some(1e300)];
        let drawn = runs(&values, 8.0, |place, share| (place as f64, share));
        let drawn: Vec<String> = drawn.into_iter().map(Markup::into_string).collect();
        assert_eq!(drawn, ["<polyline points=\"2.0,0.0 3.0,1.0\"></polyline>"]);
        let drawn = runs(&[None, Some(8.0), None], 8.0, |place, share| {
            (place as f64, share)
        });
        assert_eq!(drawn[0].0, "<path d=\"M1.0,1.0h0\"></path>");
    }
}

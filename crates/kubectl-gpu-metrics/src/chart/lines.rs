//! Lines over time, with a band and marked periods.

use maud::{Markup, html};

use apimachinery::time::Timestamp;

/// The size of the drawing in its own units; it is scaled to the page.
const WIDTH: f64 = 880.0;
const HEIGHT: f64 = 240.0;

/// Room for labels: left, right, top, bottom.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 24.0;

/// The largest number of columns that can be distinguished.
const COLUMNS: i64 = 440;

const TICKS: f64 = 4.0;

/// A line; times without a value break it.
#[derive(Clone, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) name: &'a str,
    pub(crate) class: &'a str,
    pub(crate) points: Vec<(Timestamp, Option<f64>)>,
}

/// A chart.
#[derive(Clone, Debug)]
pub(crate) struct Lines<'a> {
    /// The alternative text.
    pub(crate) title: &'a str,
    /// The description for screen readers.
    pub(crate) description: &'a str,
    /// The lines, the last one in front.
    pub(crate) lines: Vec<Line<'a>>,
    pub(crate) band: Option<(f64, f64)>,
    pub(crate) marked: Vec<(Timestamp, Timestamp)>,
}

#[derive(Clone, Copy, Debug)]
struct Scale {
    from: i64,
    to: i64,
    top: f64,
}

impl Scale {
    fn x(self, at: Timestamp) -> f64 {
        let share = (at.millis() - self.from) as f64 / (self.to - self.from).max(1) as f64;
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(self, value: f64) -> f64 {
        let share = (value / self.top).clamp(0.0, 1.0);
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }
}

impl Lines<'_> {
    pub(crate) fn svg(&self) -> Markup {
        let scale = self.scale();
        let values = ticks(scale.top);
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        html! {
            svg.chart viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" {
                title { (self.title) }
                desc { (self.description) }
                @if !self.marked.is_empty() { defs {
                    pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                        line.hatch x1="0" y1="0" x2="0" y2="6" {}
                    }
                } }
                @if let Some((low, high)) = self.band {
                    rect.band x=(LEFT) width=(right - LEFT) y=(number(scale.y(high)))
                        height=(number(scale.y(low) - scale.y(high))) {}
                }
                @for (from, to) in &self.marked {
                    rect.marked x=(number(scale.x(*from))) y=(TOP) height=(bottom - TOP)
                        width=(number((scale.x(*to) - scale.x(*from)).max(1.0))) fill="url(#hatch)" {}
                }
                @for value in &values {
                    line.grid x1=(LEFT) x2=(right) y1=(number(scale.y(*value))) y2=(number(scale.y(*value))) {}
                    text.value x=(LEFT - 6.0) y=(number(scale.y(*value) + 4.0)) { (number(*value)) }
                }
                @for (at, name) in times(scale.from, scale.to) {
                    text.time x=(number(scale.x(at))) y=(HEIGHT - 6.0) { (name) }
                }
                @for line in &self.lines {
                    path class=(format!("line {}", line.class)) d=(path(line, scale)) {}
                }
            }
        }
    }

    /// The names of the lines, each with a short piece of the line.
    pub(crate) fn legend(&self) -> Markup {
        html! {
            p.legend {
                @for line in &self.lines {
                    span {
                        svg viewBox="0 0 24 8" aria-hidden="true" {
                            path class=(format!("line {}", line.class)) d="M0 4H24" {}
                        }
                        (line.name)
                    }
                }
            }
        }
    }

    fn scale(&self) -> Scale {
        let points = self.lines.iter().flat_map(|line| &line.points);
        let times = points.clone().map(|(at, _)| at.millis());
        let values = points.filter_map(|(_, value)| *value);
        let band = self.band.map_or(0.0, |(_, high)| high);
        let highest = values.filter(|it| it.is_finite()).fold(band, f64::max);
        let step = step(highest);
        Scale {
            from: times.clone().min().unwrap_or(0),
            to: times.max().unwrap_or(1),
            top: ((highest / step).ceil() * step).max(step),
        }
    }
}

/// The distance of ticks for a highest value: one, two or five times a power of ten.
fn step(highest: f64) -> f64 {
    let rough = (highest / TICKS).max(1e-9);
    let power = 10_f64.powf(rough.log10().floor());
    let mut steps = [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * power);
    steps.find(|step| *step >= rough).unwrap_or(rough)
}

fn ticks(top: f64) -> Vec<f64> {
    let step = step(top);
    let ticks = (0..).map(|place: u32| f64::from(place) * step);
    ticks.take_while(|tick| *tick <= top * 1.001).collect()
}

/// Round times, and their text (UTC).
fn times(from: i64, to: i64) -> Vec<(Timestamp, String)> {
    const MINUTE: i64 = 60_000;
    let steps = [1, 5, 15, 60, 180, 360, 720, 1440, 2880, 10080, 40320];
    let step = steps.map(|minutes| minutes * MINUTE);
    let step = step.into_iter().find(|step| (to - from) / step <= 8);
    let step = step.unwrap_or(40320 * MINUTE);
    let first = from.div_euclid(step) + i64::from(from.rem_euclid(step) > 0);
    let all = (first..=to.div_euclid(step)).map(|place| {
        let at = Timestamp::from_millis(place * step);
        let date = at.date();
        let part = if step < 1440 * MINUTE { 11..16 } else { 5..10 };
        (at, date.get(part).unwrap_or_default().to_owned())
    });
    // A label at the edge would extend beyond the drawing.
    let edge = (to - from) / 50;
    all.filter(|(at, _)| (from + edge..=to - edge).contains(&at.millis()))
        .collect()
}

fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The path: the first, lowest, highest and last value of each column. Points without a
/// value end it.
fn path(line: &Line<'_>, scale: Scale) -> String {
    let width = (scale.to - scale.from).max(1);
    let column = |at: Timestamp| (at.millis() - scale.from) * COLUMNS / width;
    let mut path = String::new();
    let mut is_drawing = false;
    for points in line
        .points
        .chunk_by(|(a, _), (b, _)| column(*a) == column(*b))
    {
        let values = points.iter().filter_map(|(_, value)| *value);
        let mut values = values.filter(|it| it.is_finite());
        let Some(first) = values.next() else {
            is_drawing = false;
            continue;
        };
        let [mut low, mut high, mut last] = [first; 3];
        for value in values {
            (low, high, last) = (value.min(low), value.max(high), value);
        }
        let x = number(scale.x(points[0].0));
        let [first, low, high, last] = [first, low, high, last].map(|it| number(scale.y(it)));
        path += &match is_drawing {
            true => format!("H{x}V{first}"),
            false => format!("M{x} {first}"),
        };
        if points.len() > 1 {
            path += &format!("V{low}V{high}V{last}");
        }
        is_drawing = true;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(values: &[Option<f64>]) -> String {
        let at = |place: usize| Timestamp::from_secs(1_700_000_000 + 60 * place as i64);
        let points = values.iter().enumerate();
        let lines = Lines {
            title: "a <b>",
            description: "c & d",
            lines: vec![Line {
                name: "one",
                class: "demand",
                points: points.map(|(place, value)| (at(place), *value)).collect(),
            }],
            band: Some((1.0, 2.0)),
            marked: vec![(at(0), at(1))],
        };
        lines.svg().into_string()
    }

    fn path_of(svg: &str) -> &str {
        let (_, rest) = svg.split_once(" d=\"").unwrap();
        rest.split_once('"').unwrap().0
    }

    #[test]
    fn unknown_values_break_the_line_and_texts_are_escaped() {
        let svg = chart(&[Some(1.0), Some(4.0), None, None, Some(2.0)]);
        assert_eq!(path_of(&svg).matches('M').count(), 2, "{svg}");
        assert!(
            svg.contains("a &lt;b&gt;") && svg.contains("c &amp; d"),
            "{svg}"
        );
        let whole = chart(&[Some(1.0), Some(4.0), Some(2.0)]);
        assert_eq!(path_of(&whole).matches('M').count(), 1, "{whole}");
    }

    #[test]
    fn nan_and_missing_values_draw_nothing() {
        for values in [
            vec![],
            vec![Some(f64::NAN)],
            vec![None, Some(f64::INFINITY)],
        ] {
            let svg = chart(&values);
            assert_eq!(path_of(&svg), "", "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn a_long_line_stays_a_short_path() {
        let values: Vec<Option<f64>> = (0..40_000).map(|it| Some(f64::from(it % 97))).collect();
        assert!(path_of(&chart(&values)).len() < 40_000);
    }
}

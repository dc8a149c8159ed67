//! The past of an autoscaler, as kube-state-metrics recorded it.

use apimachinery::duration::format_duration;

use super::past::{ends, series};
use crate::Failure;
use crate::document::Block;
use crate::document::cell::Unit;
use crate::document::series::{Line, Series};
use crate::explain::hpa::{Decision, GAP};
use crate::history::History;
use crate::history::autoscaler::RecordedAutoscaler;
use crate::history::period::Period;

/// Charts of what kube-state-metrics recorded of an autoscaler, and its changes with their causes.
pub(super) async fn charts(
    history: &History,
    decision: &Decision,
    period: Period,
) -> Result<Vec<Block>, Failure> {
    let past = decision.past(history, ends(period)).await?;
    let charts = of_series(&past.recorded, period).into_iter();
    let length = format_duration(period.time(period.count).since(period.start));
    let changes = past.list(period.start, &length).blocks;
    Ok(charts.map(Block::Series).chain(changes).collect())
}

/// A chart for each metric of an autoscaler, and one of its replicas.
fn of_series(recorded: &RecordedAutoscaler, period: Period) -> Vec<Series> {
    let line = |of: [&str; 2], about: &str, name: &str| {
        let mut values = vec![None; period.count];
        for (at, value) in recorded.series(of, about) {
            if let Some(known) = period.place(at).and_then(|it| values.get_mut(it)) {
                *known = Some(known.map_or(value, |known: f64| known.max(value)));
            }
        }
        Line::new(name, values)
    };
    let highest = format!("highest in every {}", format_duration(period.step));
    let chart = |of: [&str; 2]| {
        let value = line(of, "status_target_metric", "value");
        let target = line(of, "spec_target_metric", "target").limit();
        let caption = format!("{}, {highest}", of[0]);
        series(&caption, Unit::Plain, period, [value, target])
    };
    let mut charts: Vec<Series> = recorded.metrics().map(chart).collect();
    let replicas = |about, name| line(["", ""], about, name);
    let lines = [
        replicas("status_desired_replicas", "wanted"),
        replicas("status_current_replicas", "had"),
        replicas("spec_min_replicas", "minimum").limit(),
        replicas("spec_max_replicas", "maximum").limit(),
    ];
    let rescales = recorded.rescales().into_iter();
    // Across a gap the time of a change is not known.
    let rescales = rescales.filter(|it| it.at.since(it.before) < GAP);
    let marks = rescales.filter_map(|it| {
        let place = period.place(it.at)?;
        Some((place, format!("rescaled from {} to {}", it.from, it.to)))
    });
    charts.push(Series {
        marks: marks.collect(),
        ..series(&format!("Replicas, {highest}"), Unit::Count, period, lines)
    });
    charts
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use apimachinery::time::Timestamp;

    use super::*;
    use crate::document::Document;
    use crate::history::autoscaler::tests::batch;

    #[test]
    fn a_rescale_is_a_mark_the_highest_value_counts_and_an_unknown_one_is_a_gap() {
        let of = Period {
            start: Timestamp::from_secs(600),
            step: GAP,
            count: 4,
        };
        let at = |place| of.time(place);
        let minute = Duration::from_secs(60);
        let replicas = [
            (at(0), 1.0),
            (at(2), 2.0),
            (at(2) + minute, 4.0),
            (at(2) + 2 * minute, 3.0),
        ];
        let targets = [0, 1, 2, 3].map(|place| (at(place), 50.0));
        let answers = [batch(&[
            (
                "kube_horizontalpodautoscaler_status_desired_replicas",
                ["", ""],
                &replicas,
            ),
            (
                "kube_horizontalpodautoscaler_spec_target_metric",
                ["m<x>", "average"],
                &targets,
            ),
        ])];
        let charts = of_series(&RecordedAutoscaler::of(&answers), of).into_iter();
        let mut document = Document::new("Past");
        document.blocks = charts.map(Block::Series).collect();
        let changed = crate::tests::changed("rescales", &document);
        assert!(changed.is_empty(), "{}", changed.join("\n\n"));
    }
}

//! The past of an autoscaler, as kube-state-metrics recorded it.

use super::past::series;
use crate::Failure;
use crate::document::Block;
use crate::document::cell::Unit;
use crate::document::series::{Line, Series};
use crate::history::History;
use crate::history::autoscaler::RecordedAutoscaler;
use crate::history::period::Period;

/// What kube-state-metrics recorded of an autoscaler.
pub(super) async fn charts(
    history: &History,
    name: [&str; 2],
    period: Period,
) -> Result<Vec<Block>, Failure> {
    let recorded = RecordedAutoscaler::at_instants(history, name, period).await?;
    if recorded.is_empty() {
        return Err(Failure::Failed(
            "no series kube_horizontalpodautoscaler_* of it is in the store: scrape kube-state-metrics"
                .to_owned(),
        ));
    }
    let charts = of_series(&recorded, period).into_iter();
    Ok(charts.map(Block::Series).collect())
}

/// A chart for each metric of an autoscaler, and one of its replicas.
fn of_series(recorded: &RecordedAutoscaler, period: Period) -> Vec<Series> {
    let line = |of: [&str; 2], about: &str, name: &str| {
        let mut values = vec![None; period.count];
        for (at, value) in recorded.series(of, about) {
            if let Some(known) = period.place(at).and_then(|it| values.get_mut(it)) {
                *known = Some(value);
            }
        }
        Line::new(name, values)
    };
    let chart = |of: [&str; 2]| {
        let value = line(of, "status_target_metric", "value");
        let target = line(of, "spec_target_metric", "target").limit();
        series(of[0], Unit::Plain, period, [value, target])
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
    let rescales = rescales.filter(|it| it.at.since(it.before) <= period.step);
    let marks = rescales.filter_map(|it| {
        let place = period.place(it.at)?;
        Some((place, format!("rescaled from {} to {}", it.from, it.to)))
    });
    charts.push(Series {
        marks: marks.collect(),
        ..series("Replicas", Unit::Count, period, lines)
    });
    charts
}

#[cfg(test)]
mod tests {
    use super::super::past::period;
    use super::*;
    use crate::history::autoscaler::tests::batch;

    #[test]
    fn a_rescale_is_a_mark_and_an_unknown_value_of_a_metric_a_gap() {
        let of = Period {
            count: 4,
            ..period("1h")
        };
        let at = |place| of.time(place);
        let replicas = [(at(0), 1.0), (at(2), 2.0), (at(3), 4.0)];
        let targets = [0, 1, 2, 3].map(|place| (at(place), 50.0));
        let answers = [batch(&[
            (
                "kube_horizontalpodautoscaler_status_desired_replicas",
                ["", ""],
                &replicas,
            ),
            (
                "kube_horizontalpodautoscaler_spec_target_metric",
                ["m", "average"],
                &targets,
            ),
        ])];
        let charts = of_series(&RecordedAutoscaler::of(&answers), of);
        assert_eq!(charts[0].lines[0].values, [None; 4]);
        assert_eq!(charts[1].marks, [(3, "rescaled from 2 to 4".to_owned())]);
    }
}

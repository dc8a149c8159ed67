//! The past of an autoscaler, as kube-state-metrics recorded it.

use std::collections::{BTreeMap, BTreeSet};

use apimachinery::labels::Labels;
use apimachinery::promql::equals;
use gpu_metrics::batch::Batch;

use super::past::series;
use crate::Failure;
use crate::document::Block;
use crate::document::cell::Unit;
use crate::document::series::{Line, Series};
use crate::history::History;
use crate::history::period::Period;

/// The series of kube-state-metrics about autoscalers, without their prefix.
const AUTOSCALER_SERIES: &str = "(status_current_replicas|status_desired_replicas|spec_min_replicas|spec_max_replicas|spec_target_metric|status_target_metric)";

/// What kube-state-metrics recorded of an autoscaler.
pub(super) async fn charts(
    history: &History,
    [namespace, name]: [&str; 2],
    period: Period,
) -> Result<Vec<Block>, Failure> {
    let name = equals("horizontalpodautoscaler", name);
    let of = ["namespace", "exported_namespace"].map(|label| {
        let (namespace, more) = (equals(label, namespace), history.matchers());
        format!("{{__name__=~\"kube_horizontalpodautoscaler_{AUTOSCALER_SERIES}\",{name},{namespace}{more}}}")
    });
    let answers = history.read(&of.join(" or "), period).await?;
    let mut lines: BTreeMap<[String; 3], Vec<Option<f64>>> = BTreeMap::new();
    for series in answers.iter().flat_map(Batch::iter) {
        let Ok(labels) = Labels::from_json(series.labels) else {
            continue;
        };
        let key = ["metric_name", "metric_target_type", "__name__"];
        let key = key.map(|label| labels.get(label).unwrap_or_default().to_owned());
        let line = lines.entry(key).or_insert_with(|| vec![None; period.count]);
        for sample in series.samples {
            let place = period.place(sample.at);
            if let Some(value) = place.and_then(|place| line.get_mut(place)) {
                *value = Some(value.map_or(sample.value, |known| known.max(sample.value)));
            }
        }
    }
    if lines.is_empty() {
        return Err(Failure::Failed(
            "no series kube_horizontalpodautoscaler_* of it is in the store: scrape kube-state-metrics"
                .to_owned(),
        ));
    }
    Ok(of_lines(&lines, period)
        .into_iter()
        .map(Block::Series)
        .collect())
}

/// A chart for each metric of an autoscaler, and one of its replicas.
fn of_lines(lines: &BTreeMap<[String; 3], Vec<Option<f64>>>, period: Period) -> Vec<Series> {
    let line = |metric: &str, form: &str, of: &str, name: &str| {
        let series = format!("kube_horizontalpodautoscaler_{of}");
        let known = lines.get(&[metric.to_owned(), form.to_owned(), series]);
        Line::new(
            name,
            known.cloned().unwrap_or_else(|| vec![None; period.count]),
        )
    };
    let metrics = lines.keys().map(|[metric, form, _]| (metric, form));
    let metrics: BTreeSet<_> = metrics.filter(|(metric, _)| !metric.is_empty()).collect();
    let chart = |(metric, form): (&String, &String)| {
        let value = line(metric, form, "status_target_metric", "value");
        let target = line(metric, form, "spec_target_metric", "target").limit();
        series(metric, Unit::Plain, period, [value, target])
    };
    let mut charts: Vec<Series> = metrics.into_iter().map(chart).collect();
    let replicas = |of, name| line("", "", of, name);
    let wanted = replicas("status_desired_replicas", "wanted");
    let changes = wanted.values.windows(2).enumerate();
    let marks = changes.filter_map(|(place, pair)| match pair {
        [Some(before), Some(after)] if before != after => {
            Some((place + 1, format!("rescaled from {before} to {after}")))
        }
        _ => None,
    });
    let marks = marks.collect();
    let lines = [
        wanted,
        replicas("status_current_replicas", "had"),
        replicas("spec_min_replicas", "minimum").limit(),
        replicas("spec_max_replicas", "maximum").limit(),
    ];
    charts.push(Series {
        marks,
        ..series("Replicas", Unit::Count, period, lines)
    });
    charts
}

#[cfg(test)]
mod tests {
    use super::super::past::period;
    use super::*;

    #[test]
    fn a_rescale_is_a_mark_and_an_unknown_value_of_a_metric_a_gap() {
        let key = |metric: &str, of: &str| {
            let form = if metric.is_empty() { "" } else { "average" };
            let series = format!("kube_horizontalpodautoscaler_{of}");
            [metric.to_owned(), form.to_owned(), series]
        };
        let lines = [
            (
                key("", "status_desired_replicas"),
                vec![Some(1.0), None, Some(2.0), Some(4.0)],
            ),
            (key("m", "spec_target_metric"), vec![Some(50.0); 4]),
        ];
        let of = Period {
            count: 4,
            ..period("1h")
        };
        let charts = of_lines(&lines.into(), of);
        assert_eq!(charts[0].lines[0].values, [None; 4]);
        assert_eq!(charts[1].marks, [(3, "rescaled from 2 to 4".to_owned())]);
    }
}

//! What kube-state-metrics recorded of an autoscaler and of the replicas of its target.

use std::collections::BTreeMap;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerCondition;

use apimachinery::labels::Labels;
use apimachinery::promql::equals;
use apimachinery::quantity::milli_from_f64;
use apimachinery::time::Timestamp;
use gpu_metrics::batch::Batch;
use hpa::Hpa;
use hpa::hpa::{HpaStatus, Metric, MetricTarget};
use hpa::ratio::Milli;

use crate::Failure;

use super::History;

/// A kind of targets with its label, the ordered replicas and those that are Ready.
const KINDS: [[&str; 4]; 2] = [
    [
        "Deployment",
        "deployment",
        "kube_deployment_spec_replicas",
        "kube_deployment_status_replicas_ready",
    ],
    [
        "StatefulSet",
        "statefulset",
        "kube_statefulset_replicas",
        "kube_statefulset_status_replicas_ready",
    ],
];

const WRITTEN: &str = "kube_horizontalpodautoscaler_((spec_(min|max)|status_(current|desired))_replicas|(spec|status)_target_metric|status_condition)";

const LABEL: &str = "horizontalpodautoscaler";

const DESIRED: &str = "status_desired_replicas";

/// The condition in which the controller writes that a bound or a rate limits the replicas.
pub(crate) const LIMITED: &str = "ScalingLimited";

/// Numbers of replicas in the order of time, one for each scrape.
pub(crate) type Replicas = Vec<(Timestamp, i32)>;

/// A metric, the form of its target, and a series about it without the prefix
/// `kube_horizontalpodautoscaler_`. Series about the replicas have no metric and no form.
type Key = [String; 3];

/// Series of an autoscaler and of its target.
#[derive(Debug, Default)]
pub(crate) struct RecordedAutoscaler(BTreeMap<Key, BTreeMap<Timestamp, f64>>);

/// A change of the replicas between two samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rescale {
    pub(crate) before: Timestamp,
    pub(crate) at: Timestamp,
    pub(crate) from: i32,
    pub(crate) to: i32,
}

impl RecordedAutoscaler {
    /// All samples between two times.
    pub(crate) async fn read(
        history: &History,
        hpa: &Hpa,
        ends: [Timestamp; 2],
    ) -> Result<Self, Failure> {
        let mut selectors =
            of_object(history, &hpa.namespace, WRITTEN, (LABEL, &hpa.name)).to_vec();
        let kind = KINDS.iter().find(|[kind, ..]| *kind == hpa.scaled.kind);
        if let Some([_, label, ordered, ready]) = kind {
            let series = format!("{ordered}|{ready}");
            let of = (*label, &*hpa.scaled.name);
            selectors.extend(of_object(history, &hpa.namespace, &series, of));
        }
        let mut answers = Vec::new();
        for selector in selectors {
            answers.push(history.samples(&selector, ends).await?);
        }
        Ok(Self::of(&answers))
    }

    pub(crate) fn of(answers: &[Batch]) -> Self {
        let mut all = Self::default();
        for series in answers.iter().flat_map(Batch::iter) {
            let labels = Labels::from_json(series.labels).unwrap_or_default();
            let get = |label| labels.get(label).unwrap_or_default();
            let about = get("__name__");
            let about = about
                .strip_prefix("kube_horizontalpodautoscaler_")
                .unwrap_or(about);
            let is_other = about == "status_condition"
                && (get("condition"), get("status")) != (LIMITED, "true");
            if is_other {
                continue;
            }
            let key = [get("metric_name"), get("metric_target_type"), about];
            let known = all.0.entry(key.map(str::to_owned)).or_default();
            let samples = series.samples.iter().filter(|it| it.value.is_finite());
            known.extend(samples.map(|it| (it.at, it.value)));
        }
        all
    }

    /// Each metric with the form of its target.
    pub(crate) fn metrics(&self) -> impl Iterator<Item = [&str; 2]> {
        let keys = self.0.keys().filter(|[metric, ..]| !metric.is_empty());
        let mut metrics: Vec<_> = keys.map(|[metric, form, _]| [&**metric, form]).collect();
        metrics.dedup();
        metrics.into_iter()
    }

    /// The samples of a series.
    pub(crate) fn series(
        &self,
        [metric, form]: [&str; 2],
        about: &str,
    ) -> impl DoubleEndedIterator<Item = (Timestamp, f64)> {
        let known = self.0.get(&[metric, form, about].map(str::to_owned));
        known.into_iter().flatten().map(|(at, value)| (*at, *value))
    }

    fn replicas(&self, about: &str) -> Replicas {
        let samples = self.series(["", ""], about);
        let samples = samples.filter(|(_, value)| (0.0..=f64::from(i32::MAX)).contains(value));
        samples.map(|(at, value)| (at, value as i32)).collect()
    }

    /// The replicas that the target was ordered to have, otherwise those that the autoscaler
    /// wanted.
    pub(crate) fn ordered(&self) -> Replicas {
        let known = KINDS.map(|[_, _, ordered, _]| self.replicas(ordered));
        let known = known.into_iter().find(|it| !it.is_empty());
        known.unwrap_or_else(|| self.replicas(DESIRED))
    }

    /// The replicas that were Ready.
    pub(crate) fn ready(&self) -> Replicas {
        KINDS
            .iter()
            .flat_map(|[.., ready]| self.replicas(ready))
            .collect()
    }

    /// The changes of the ordered replicas.
    pub(crate) fn rescales(&self) -> Vec<Rescale> {
        let ordered = self.ordered();
        let pairs = ordered.windows(2).map(|pair| Rescale {
            before: pair[0].0,
            at: pair[1].0,
            from: pair[0].1,
            to: pair[1].1,
        });
        pairs.filter(|it| it.from != it.to).collect()
    }

    /// The times at which the status was scraped.
    pub(crate) fn scrapes(&self) -> impl DoubleEndedIterator<Item = Timestamp> {
        self.series(["", ""], DESIRED).map(|(at, _)| at)
    }

    /// An autoscaler with the bounds, targets and status of a scrape.
    pub(crate) fn autoscaler(&self, now: &Hpa, scrape: Timestamp) -> Hpa {
        let get = |of: [&str; 2], about: &str| {
            let known = self.0.get(&[of[0], of[1], about].map(str::to_owned))?;
            known.get(&scrape).copied()
        };
        let replicas = |about| get(["", ""], about).map(|it| it as i32);
        let key = |metric: &Metric| (metric.source.name().to_owned(), form(metric.target));
        // Of several metrics of one name, one value is recorded.
        let value = |metric: &Metric| {
            let same = now.metrics.iter().filter(|it| key(it) == key(metric));
            let of = [metric.source.name(), form(metric.target)];
            get(of, "status_target_metric").filter(|_| same.count() == 1)
        };
        let limited = get(["", ""], "status_condition").filter(|it| *it > 0.0);
        let limited = limited.map(|_| HorizontalPodAutoscalerCondition {
            type_: LIMITED.to_owned(),
            status: "True".to_owned(),
            ..HorizontalPodAutoscalerCondition::default()
        });
        let status = HpaStatus {
            replicas: replicas("status_current_replicas"),
            desired: replicas(DESIRED),
            values: now.metrics.iter().map(value).collect(),
            conditions: limited.into_iter().collect(),
            scaled_at: None,
        };
        let mut hpa = Hpa {
            min: replicas("spec_min_replicas").unwrap_or(now.min),
            max: replicas("spec_max_replicas").unwrap_or(now.max),
            status,
            ..now.clone()
        };
        for metric in &mut hpa.metrics {
            let of = [metric.source.name(), form(metric.target)];
            let target = get(of, "spec_target_metric").and_then(milli_from_f64);
            if let Some(milli) = target.filter(|it| *it > 0) {
                metric.target = match metric.target {
                    MetricTarget::Value(_) => MetricTarget::Value(Milli(milli)),
                    MetricTarget::AverageValue(_) => MetricTarget::AverageValue(Milli(milli)),
                    MetricTarget::Utilization(_) => {
                        MetricTarget::Utilization(i32::try_from(milli / 1000).unwrap_or(i32::MAX))
                    }
                };
            }
        }
        hpa
    }
}

/// The word of kube-state-metrics.
const fn form(target: MetricTarget) -> &'static str {
    match target {
        MetricTarget::Value(_) => "value",
        MetricTarget::AverageValue(_) => "average",
        MetricTarget::Utilization(_) => "utilization",
    }
}

/// The selectors of series of an object: a scrape can rename the label of its namespace.
fn of_object(
    history: &History,
    namespace: &str,
    series: &str,
    (label, name): (&str, &str),
) -> [String; 2] {
    let own = equals("namespace", namespace) + r#",exported_namespace="""#;
    let (name, matchers) = (equals(label, name), history.matchers());
    [own, equals("exported_namespace", namespace)]
        .map(|within| format!(r#"{{__name__=~"{series}",{name},{within}{matchers}}}"#))
}

#[cfg(test)]
pub(crate) mod tests {
    use gpu_metrics::batch::{Sample, SeriesKey};
    use gpu_metrics::signal::SignalId;
    use serde_json::json;

    use super::*;

    /// A series with its metric and form.
    pub(crate) type Given<'a> = (&'a str, [&'a str; 2], &'a [(Timestamp, f64)]);

    pub(crate) fn batch(all: &[Given<'_>]) -> Batch {
        let mut batch = Batch::new(SignalId(0));
        for (place, (name, [metric, form], samples)) in all.iter().enumerate() {
            let labels = json!({
                "__name__": name, "metric_name": metric, "metric_target_type": form,
                "condition": "ScalingLimited", "status": "true",
            });
            batch.begin_series(SeriesKey(place as u128), &labels.to_string());
            for (at, value) in samples.iter().copied() {
                batch.push(Sample { at, value });
            }
        }
        batch
    }
}

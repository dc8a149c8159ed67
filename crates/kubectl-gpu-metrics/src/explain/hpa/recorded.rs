//! What an autoscaler and its metrics were at a time of the past.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::MetricIdentifier;

use apimachinery::labels::Labels;
use apimachinery::promql::equals;
use apimachinery::quantity::milli_from_f64;
use apimachinery::time::Timestamp;
use gpu_metrics::external::ExternalMetrics;
use gpu_metrics::layout::Object;
use gpu_metrics::policy::Measure;
use gpu_metrics::snapshot::Snapshot;
use hpa::hpa::{Metric, MetricSource, MetricTarget};
use hpa::pods::PodCounts;
use hpa::ratio::Milli;
use hpa::{Hpa, MetricsAnswer, ScaledPod, Trace};

use crate::Failure;
use crate::history::History;
use crate::history::playback::{find, value};
use crate::replay::window;

use super::past::GAP;

/// An autoscaler as kube-state-metrics recorded it.
#[derive(Debug)]
pub(super) struct Recorded {
    /// With the bounds and targets of that time.
    pub(super) hpa: Hpa,
    /// What the controller wrote as the value of each metric.
    pub(super) values: Vec<Option<f64>>,
}

impl Recorded {
    /// The newest samples up to a time.
    pub(super) async fn read(history: &History, hpa: &Hpa, at: Timestamp) -> Result<Self, Failure> {
        let selector = format!(
            r#"{{__name__=~"kube_horizontalpodautoscaler_(spec_(min|max)_replicas|(spec|status)_target_metric)",{},{}{}}}"#,
            equals("namespace", &hpa.namespace),
            equals("horizontalpodautoscaler", &hpa.name),
            history.matchers()
        );
        let answer = history.samples(&selector, [at - GAP, at]).await?;
        let mut newest: BTreeMap<(String, String), (Timestamp, f64)> = BTreeMap::new();
        for series in answer.iter() {
            let labels = Labels::from_json(series.labels).unwrap_or_default();
            let get = |label| labels.get(label).unwrap_or_default().to_owned();
            let key = (get("__name__"), get("metric_name"));
            let samples = series.samples.iter().filter(|it| it.value.is_finite());
            let last = samples
                .map(|it| (it.at, it.value))
                .max_by_key(|(at, _)| *at);
            if let Some(last) = last {
                let known = newest.entry(key).or_insert(last);
                *known = if known.0 < last.0 { last } else { *known };
            }
        }
        let of = |series: &str, metric: &str| {
            let name = format!("kube_horizontalpodautoscaler_{series}");
            newest
                .get(&(name, metric.to_owned()))
                .map(|(_, value)| *value)
        };
        let mut hpa = hpa.clone();
        let values = hpa.metrics.iter();
        let values = values
            .map(|it| of("status_target_metric", it.source.name()))
            .collect();
        hpa.min = of("spec_min_replicas", "").map_or(hpa.min, |it| it as i32);
        hpa.max = of("spec_max_replicas", "").map_or(hpa.max, |it| it as i32);
        for metric in &mut hpa.metrics {
            let target = of("spec_target_metric", metric.source.name()).and_then(milli_from_f64);
            let target = target.filter(|it| *it > 0);
            as_pods(metric);
            metric.target = match (metric.target, target) {
                (target, None) => target,
                (MetricTarget::Value(_), Some(milli)) => MetricTarget::Value(Milli(milli)),
                (_, Some(milli)) => MetricTarget::AverageValue(Milli(milli)),
            };
        }
        Ok(Self { hpa, values })
    }

    /// How far the values of a sync are from those that the controller wrote.
    pub(super) fn distance(&self, trace: &Trace) -> f64 {
        let pairs = trace.metrics.iter().zip(&self.values);
        let pairs = pairs.filter_map(|(of, written)| Some((of.shown()?.number(), (*written)?)));
        pairs.map(|(value, written)| (value - written).abs()).sum()
    }
}

/// Makes a metric of `cpu` or `memory` one of pods with their percents: the controller
/// multiplies the pods by the ratio to the target in the same way.
fn as_pods(metric: &mut Metric) {
    let MetricSource::Resource { resource } = &metric.source else {
        return;
    };
    let name = resource.clone();
    let selector = None;
    metric.source = MetricSource::Pods {
        metric: MetricIdentifier { name, selector },
    };
    metric.target = match metric.target {
        MetricTarget::Utilization(percent) => {
            MetricTarget::AverageValue(Milli(i64::from(percent) * 1000))
        }
        target => target,
    };
}

/// The inputs of a sync.
#[derive(Debug)]
pub(super) struct At<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) external: &'a ExternalMetrics,
    pub(super) pods: &'a [ScaledPod],
    pub(super) replicas: i32,
    pub(super) now: Timestamp,
}

impl At<'_> {
    /// The answer of the metrics API: for metrics of devices the values that were served, for
    /// others the one that the controller wrote.
    pub(super) fn answer(&self, hpa: &Hpa, metric: &Metric, written: Option<f64>) -> MetricsAnswer {
        let known = self.external.named(metric.source.name());
        let known = known.filter(|known| !known.is_of_cluster);
        let window = window(metric.source.selector());
        let (Some(known), Some(window)) = (known, window) else {
            return self.as_written(metric, written);
        };
        let of = |object: &Object| self.value(object, &known.spec.measure, window);
        let none = || MetricsAnswer::Failed("the samples of that time give no value".to_owned());
        let namespace = Some(&*hpa.namespace);
        let object = match &metric.source {
            MetricSource::Pods { .. } | MetricSource::Resource { .. } => {
                let values = self.pods.iter().filter_map(|pod| {
                    let object = find(self.snapshot, "Pod", namespace, &pod.name)?;
                    Some((pod.name.clone(), of(object)?))
                });
                return MetricsAnswer::Pods(values.collect());
            }
            MetricSource::Object { described, .. } if described.kind != "Namespace" => {
                find(self.snapshot, &described.kind, namespace, &described.name)
            }
            MetricSource::Object { .. } | MetricSource::External { .. } => {
                find(self.snapshot, "Namespace", None, &hpa.namespace)
            }
        };
        let value = object.and_then(of);
        value.map_or_else(none, |value| MetricsAnswer::Values(vec![value]))
    }

    /// In thousandths.
    fn value(&self, object: &Object, measure: &Measure, window: Option<Duration>) -> Option<i64> {
        let value = value(self.snapshot, object, (measure, window), self.now)?;
        milli_from_f64(value.value)
    }

    fn as_written(&self, metric: &Metric, written: Option<f64>) -> MetricsAnswer {
        let Some(milli) = written.and_then(milli_from_f64) else {
            let why = "its value is not recorded: kube_horizontalpodautoscaler_status_target_metric \
                       has none";
            return MetricsAnswer::Failed(why.to_owned());
        };
        match (&metric.source, metric.target) {
            (MetricSource::Pods { .. } | MetricSource::Resource { .. }, _) => {
                let counted = self.pods.iter().filter(|pod| pod.counts == PodCounts::Yes);
                MetricsAnswer::Pods(counted.map(|pod| (pod.name.clone(), milli)).collect())
            }
            (_, MetricTarget::Value(_)) => MetricsAnswer::Values(vec![milli]),
            _ => MetricsAnswer::Values(vec![milli.saturating_mul(i64::from(self.replicas))]),
        }
    }
}

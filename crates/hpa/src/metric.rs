//! One metric of an autoscaler: its answer, its proposal, and the controller's messages
//! when it cannot be used.

use std::collections::BTreeMap;

use serde::Serialize;

use super::hpa::{Metric, MetricSource, MetricTarget};
use super::measure::{Measure, PodsStep, count, requests};
use super::pods::PodMetric;
use super::ratio::{Milli, Tolerances};
use super::total::{TotalStep, sum, sum_shared};
use super::{Situation, TargetScale};

/// The metrics API's answer to the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricsAnswer {
    /// A value of each pod by name (`Pods`, `Resource`, `ContainerResource`).
    Pods(BTreeMap<String, PodMetric>),
    /// Values in thousandths: one (`Object`) or a list (`External`).
    Values(Vec<i64>),
    /// The message of the failure.
    Failed(String),
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum MetricStep {
    Pods(Box<PodsStep>),
    Total(TotalStep),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Invalid {
    /// The reason of `ScalingActive`.
    pub(crate) reason: &'static str,
    /// Its message, if this is the first such metric and blocks scaling.
    pub(crate) message: String,
    /// The text of the event `FailedComputeMetricsReplicas`.
    pub(crate) error: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum MetricOutcome {
    Asks(MetricStep),
    Invalid(Invalid),
}

/// The proposal of one metric, and its reasons.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricTrace {
    source: MetricSource,
    target: MetricTarget,
    tolerances: Tolerances,
    /// The metric in the controller's messages.
    pub name: String,
    pub(crate) outcome: MetricOutcome,
}

impl MetricStep {
    pub(crate) fn replicas(&self) -> i32 {
        match self {
            Self::Pods(step) => step.replicas,
            Self::Total(step) => step.replicas,
        }
    }

    pub(crate) fn shown(&self) -> Milli {
        match self {
            Self::Pods(step) => step.mean.mean,
            Self::Total(step) => step.shown,
        }
    }
}

impl MetricTrace {
    pub(super) fn compute(
        metric: &Metric,
        answer: Option<&MetricsAnswer>,
        scale: &TargetScale,
        tolerances: Tolerances,
        situation: &Situation<'_>,
    ) -> Self {
        let outcome = match step(metric, answer, scale, tolerances, situation) {
            Ok(step) => MetricOutcome::Asks(step),
            Err(cause) => MetricOutcome::Invalid(metric.invalid(cause)),
        };
        Self {
            source: metric.source.clone(),
            target: metric.target,
            tolerances,
            name: metric.name(),
            outcome,
        }
    }

    /// The value in the status of the autoscaler, if the metric can be used. For pods it
    /// is the mean before substitution.
    #[must_use]
    pub fn shown(&self) -> Option<Milli> {
        match &self.outcome {
            MetricOutcome::Asks(step) => Some(step.shown()),
            MetricOutcome::Invalid(_) => None,
        }
    }

    /// One sentence for each step.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let mut told = vec![format!("{}, target {}", self.name, self.target)];
        match &self.outcome {
            MetricOutcome::Invalid(invalid) => {
                told.push(format!("cannot be used: {}", invalid.error));
            }
            MetricOutcome::Asks(MetricStep::Pods(step)) => {
                told.push(step.groups.to_string());
                told.push(step.mean.to_string());
                told.extend(step.filled.as_ref().map(ToString::to_string));
                told.push(step.verdict.sentence(self.tolerances, step.replicas));
            }
            MetricOutcome::Asks(MetricStep::Total(step)) => {
                told.push(step.to_string());
                told.push(step.verdict.sentence(self.tolerances, step.replicas));
            }
        }
        told
    }
}

fn step(
    metric: &Metric,
    answer: Option<&MetricsAnswer>,
    scale: &TargetScale,
    tolerances: Tolerances,
    situation: &Situation<'_>,
) -> Result<MetricStep, String> {
    let api = metric.source.api();
    let unread = |text: &str| Err(metric.source.unread(text, &situation.hpa.namespace));
    let unfetched = |text: &str| {
        unread(&format!(
            "unable to fetch metrics from {api} metrics API: {text}"
        ))
    };
    match (&metric.source, answer) {
        (_, Some(MetricsAnswer::Failed(text))) => unfetched(text),
        (MetricSource::Object { .. }, Some(MetricsAnswer::Values(values))) if values.len() != 1 => {
            unfetched(&format!(
                "the custom metrics API server returned {} results when we asked for exactly one",
                values.len()
            ))
        }
        (
            MetricSource::Object { .. } | MetricSource::External { .. },
            Some(MetricsAnswer::Values(values)),
        ) if !values.is_empty() => {
            total_step(metric, values, scale, tolerances, situation).map(MetricStep::Total)
        }
        (
            MetricSource::Pods { .. } | MetricSource::Resource { .. },
            Some(MetricsAnswer::Pods(samples)),
        ) if !samples.is_empty() => {
            let current = scale.spec_replicas;
            pods_step(metric, samples, tolerances, current, situation)
                .map(|step| MetricStep::Pods(Box::new(step)))
        }
        _ => unread(&format!("no metrics returned from {api} metrics API")),
    }
}

fn total_step(
    metric: &Metric,
    values: &[i64],
    scale: &TargetScale,
    tolerances: Tolerances,
    situation: &Situation<'_>,
) -> Result<TotalStep, String> {
    let is_list = matches!(metric.source, MetricSource::External { .. });
    let count = values.len();
    match metric.target {
        MetricTarget::Value(target) => {
            let value = (sum(values), count);
            TotalStep::whole(value, target, tolerances, scale, situation.pods)
        }
        MetricTarget::AverageValue(target) => {
            let value = if is_list {
                sum_shared(values)
            } else {
                sum(values)
            };
            let replicas = scale.status_replicas;
            let step = TotalStep::shared((value, count), target, tolerances, replicas, is_list);
            Ok(step)
        }
        MetricTarget::Utilization(_) => Err("a utilization needs pods".to_owned()),
    }
}

fn pods_step(
    metric: &Metric,
    samples: &BTreeMap<String, PodMetric>,
    tolerances: Tolerances,
    current: i32,
    situation: &Situation<'_>,
) -> Result<PodsStep, String> {
    let (resource, container) = match &metric.source {
        MetricSource::Resource {
            resource,
            container,
        } => (Some(resource.as_str()), container.as_deref()),
        _ => (None, None),
    };
    let counted = count(situation, samples, resource)?;
    match metric.target {
        MetricTarget::Utilization(target) => {
            let requests = requests(situation, resource.unwrap_or_default(), container)?;
            let measure = Measure::Utilization {
                target,
                requests: &requests,
            };
            PodsStep::compute(counted, measure, tolerances, current)
        }
        MetricTarget::Value(Milli(target)) | MetricTarget::AverageValue(Milli(target)) => {
            PodsStep::compute(counted, Measure::Usage { target }, tolerances, current)
        }
    }
}

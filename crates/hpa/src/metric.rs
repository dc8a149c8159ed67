//! One metric of an autoscaler: its answer, its proposal, and the controller's messages
//! about it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::hpa::{Metric, MetricSource, MetricTarget};
use super::measure::{Measure, PodsStep, count};
use super::pods::{PodMetric, ResourceRequests};
use super::printed::printed;
use super::ratio::{Milli, Tolerances};
use super::total::{TotalStep, sum, sum_shared};
use super::{ScaledPod, Situation, TargetScale};

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

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Invalid {
    /// The reason of `ScalingActive`.
    pub(crate) reason: &'static str,
    /// The message of `ScalingActive` if this is the first invalid metric and blocks scaling.
    pub(crate) message: String,
    /// The text of the event `FailedComputeMetricsReplicas`.
    pub(crate) error: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum MetricOutcome {
    /// A proposal from values of pods.
    Pods(Box<PodsStep>),
    /// A proposal from one value or a sum.
    Total(TotalStep),
    Invalid(Invalid),
}

/// The proposal of one metric, and its reasons.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricTrace {
    source: MetricSource,
    target: MetricTarget,
    tolerances: Tolerances,
    /// The metric's name in the controller's messages.
    pub name: String,
    pub(crate) outcome: MetricOutcome,
}

impl MetricTrace {
    pub(super) fn compute(
        metric: &Metric,
        answer: Option<&MetricsAnswer>,
        scale: &TargetScale,
        tolerances: Tolerances,
        situation: &Situation<'_>,
    ) -> Self {
        let outcome = step(metric, answer, scale, tolerances, situation);
        let outcome = outcome.unwrap_or_else(|cause| MetricOutcome::Invalid(metric.invalid(cause)));
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
            MetricOutcome::Pods(step) => Some(step.mean.mean),
            MetricOutcome::Total(step) => Some(step.shown),
            MetricOutcome::Invalid(_) => None,
        }
    }

    /// The proposal, if the metric can be used.
    pub(crate) fn replicas(&self) -> Option<i32> {
        match &self.outcome {
            MetricOutcome::Pods(step) => Some(step.replicas),
            MetricOutcome::Total(step) => Some(step.replicas),
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
            MetricOutcome::Pods(step) => {
                told.push(step.groups.to_string());
                told.push(step.mean.to_string());
                told.extend(step.filled.as_ref().map(ToString::to_string));
                told.push(step.verdict.sentence(self.tolerances, step.replicas));
            }
            MetricOutcome::Total(step) => {
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
) -> Result<MetricOutcome, String> {
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
            total_step(metric, values, scale, tolerances, situation).map(MetricOutcome::Total)
        }
        (
            MetricSource::Pods { .. } | MetricSource::Resource { .. },
            Some(MetricsAnswer::Pods(samples)),
        ) if !samples.is_empty() => {
            let step = pods_step(metric, samples, tolerances, scale.spec_replicas, situation)?;
            Ok(MetricOutcome::Pods(Box::new(step)))
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
            let sum = if is_list { sum_shared } else { sum };
            let (value, replicas) = ((sum(values), count), scale.status_replicas);
            Ok(TotalStep::shared(
                value, target, tolerances, replicas, is_list,
            ))
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
    let request = |pod: &ScaledPod| {
        let request = pod.request(resource.unwrap_or_default(), container, situation.flags)?;
        Ok((pod.name.clone(), request))
    };
    let (target, requests) = match metric.target {
        MetricTarget::Utilization(target) => {
            let requests: Result<ResourceRequests, String> =
                situation.pods.iter().map(request).collect();
            (target.into(), Some(requests?))
        }
        MetricTarget::Value(Milli(target)) | MetricTarget::AverageValue(Milli(target)) => {
            (target, None)
        }
    };
    let measure = Measure {
        target,
        requests: requests.as_ref(),
    };
    PodsStep::compute(counted, measure, tolerances, current)
}

impl MetricSource {
    /// The API of a metric, by its name in messages.
    const fn api(&self) -> &'static str {
        match self {
            Self::Pods { .. } | Self::Object { .. } => "custom",
            Self::External { .. } => "external",
            Self::Resource { .. } => "resource",
        }
    }

    /// The reason of the condition, and the event's text before the cause.
    fn around(&self, is_shared: bool) -> (&'static str, String) {
        match self {
            Self::Pods { .. } => ("FailedGetPodsMetric", "pods metric value".to_owned()),
            Self::Object { metric, .. } => {
                let mut around = "object metric value".to_owned();
                if is_shared {
                    around += &format!(": failed to get {metric} object metric");
                }
                ("FailedGetObjectMetric", around)
            }
            Self::External { metric, .. } => {
                let inner = match is_shared {
                    true => format!("{metric} external metric"),
                    false => format!("external metric {metric}"),
                };
                let around = format!("{metric} external metric value: failed to get {inner}");
                ("FailedGetExternalMetric", around)
            }
            Self::Resource {
                resource,
                container,
            } => match container {
                Some(container) => (
                    "FailedGetContainerResourceMetric",
                    format!("{container} container metric value"),
                ),
                None => (
                    "FailedGetResourceMetric",
                    format!("{resource} resource metric value"),
                ),
            },
        }
    }

    /// The cause, when the API failed or had no value.
    fn unread(&self, text: &str, namespace: &str) -> String {
        match self {
            Self::Pods { metric, .. } => format!("unable to get metric {metric}: {text}"),
            // The controller's message has these in the wrong order.
            Self::Object {
                metric, kind, name, ..
            } => format!("unable to get metric {metric}: {kind} on {namespace} {name}/{text}"),
            Self::External { metric, selector } => {
                let selector = printed(selector.as_ref());
                format!("unable to get external metric {namespace}/{metric}/{selector}: {text}")
            }
            Self::Resource { resource, .. } => {
                format!("unable to get metrics for resource {resource}: {text}")
            }
        }
    }
}

impl Metric {
    /// The metric's name in the controller's messages. They call an Object metric of type
    /// `AverageValue` external.
    fn name(&self) -> String {
        let is_shared = matches!(self.target, MetricTarget::AverageValue(_));
        match &self.source {
            MetricSource::Pods { metric, .. } => format!("pods metric {metric}"),
            MetricSource::Object { metric, kind, .. } if !is_shared => {
                format!("{kind} metric {metric}")
            }
            MetricSource::Object {
                metric, selector, ..
            }
            | MetricSource::External { metric, selector } => {
                format!("external metric {metric}({})", printed(selector.as_ref()))
            }
            MetricSource::Resource { resource, .. } if is_shared => format!("{resource} resource"),
            MetricSource::Resource {
                resource,
                container,
            } => {
                let of = container.as_ref().map_or("", |_| " container");
                format!("{resource}{of} resource utilization (percentage of request)")
            }
        }
    }

    /// A failure with the messages of its condition and its event.
    fn invalid(&self, cause: String) -> Invalid {
        let is_shared = matches!(self.target, MetricTarget::AverageValue(_));
        let (reason, around) = self.source.around(is_shared);
        let cause = match &self.source {
            MetricSource::Resource { resource, .. } => {
                let what = if is_shared { "usage" } else { "utilization" };
                format!("failed to get {resource} {what}: {cause}")
            }
            _ => cause,
        };
        Invalid {
            reason,
            error: format!("failed to get {around}: {cause}"),
            message: format!("the HPA was unable to compute the replica count: {cause}"),
        }
    }
}

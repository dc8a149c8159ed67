//! One metric of an autoscaler: its answer, its proposal, and the controller's messages
//! when it cannot be used.

use std::collections::BTreeMap;

use serde::Serialize;

use super::hpa::{Metric, Source, Target};
use super::measure::{Measure, PodsStep, count, requests};
use super::pods::Sample;
use super::ratio::{Milli, Tolerances};
use super::total::{TotalStep, sum, sum_shared};
use super::{Scale, Situation};

/// The metrics API's answer to the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A value of each pod by name (`Pods`, `Resource`, `ContainerResource`).
    Pods(BTreeMap<String, Sample>),
    /// Values in thousandths: one (`Object`) or a list (`External`).
    Values(Vec<i64>),
    /// The message of the failure.
    Failed(String),
}

/// The steps of one metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Step {
    /// From values of pods.
    Pods(Box<PodsStep>),
    /// From one value or a sum.
    Total(TotalStep),
}

/// The kind of a metric's failure: the text around the cause differs.
pub(super) enum Failure {
    /// The API failed, or had no value.
    Fetch(String),
    /// The values could not be used.
    Compute(String),
}

/// A metric that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Invalid {
    /// The reason of `ScalingActive`.
    pub reason: &'static str,
    /// Its message, if this is the first such metric and blocks scaling.
    pub message: String,
    /// The text of the event `FailedComputeMetricsReplicas`.
    pub error: String,
}

/// The result of a metric.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It proposes replicas.
    Asks(Step),
    /// It could not be used.
    Invalid(Invalid),
}

/// The proposal of one metric, and its reasons.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MetricTrace {
    /// The source of its value.
    pub source: Source,
    /// Its target.
    pub target: Target,
    /// The range of ratios that count as on target.
    pub tolerances: Tolerances,
    /// The metric in the controller's messages.
    pub name: String,
    /// The steps, or why there are none.
    pub outcome: Outcome,
}

impl Step {
    /// The replicas that the metric proposes.
    #[must_use]
    pub fn replicas(&self) -> i32 {
        match self {
            Self::Pods(step) => step.replicas,
            Self::Total(step) => step.replicas,
        }
    }

    /// The value in the status of the autoscaler. For pods it is the mean before
    /// substitution.
    #[must_use]
    pub fn shown(&self) -> Milli {
        match self {
            Self::Pods(step) => step.mean.mean,
            Self::Total(step) => step.shown,
        }
    }
}

impl MetricTrace {
    /// Computes a metric's proposal.
    pub(super) fn compute(
        metric: &Metric,
        answer: Option<&Answer>,
        scale: &Scale,
        tolerances: Tolerances,
        situation: &Situation<'_>,
    ) -> Self {
        let namespace = &situation.hpa.namespace;
        let outcome = match step(metric, answer, scale, tolerances, situation) {
            Ok(step) => Outcome::Asks(step),
            Err(failure) => Outcome::Invalid(metric.invalid(failure, namespace)),
        };
        Self {
            source: metric.source.clone(),
            target: metric.target,
            tolerances,
            name: metric.name(),
            outcome,
        }
    }

    /// One sentence for each step.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let mut told = vec![format!("{}, target {}", self.name, self.target)];
        match &self.outcome {
            Outcome::Invalid(invalid) => told.push(format!("cannot be used: {}", invalid.error)),
            Outcome::Asks(Step::Pods(step)) => {
                told.push(step.groups.to_string());
                told.push(step.mean.to_string());
                told.extend(step.filled.as_ref().map(ToString::to_string));
                told.push(step.verdict.sentence(self.tolerances, step.replicas));
            }
            Outcome::Asks(Step::Total(step)) => {
                told.push(step.to_string());
                told.push(step.verdict.sentence(self.tolerances, step.replicas));
            }
        }
        told
    }
}

fn step(
    metric: &Metric,
    answer: Option<&Answer>,
    scale: &Scale,
    tolerances: Tolerances,
    situation: &Situation<'_>,
) -> Result<Step, Failure> {
    let api = metric.source.api();
    let unfetched = |text: &str| {
        let text = format!("unable to fetch metrics from {api} metrics API: {text}");
        Err(Failure::Fetch(text))
    };
    let step = match (&metric.source, answer) {
        (_, Some(Answer::Failed(text))) => return unfetched(text),
        (Source::Object { .. }, Some(Answer::Values(values))) if values.len() != 1 => {
            return unfetched(&format!(
                "the custom metrics API server returned {} results when we asked for exactly one",
                values.len()
            ));
        }
        (Source::Object { .. } | Source::External { .. }, Some(Answer::Values(values)))
            if !values.is_empty() =>
        {
            total_step(metric, values, scale, tolerances, situation).map(Step::Total)
        }
        (Source::Pods { .. } | Source::Resource { .. }, Some(Answer::Pods(samples)))
            if !samples.is_empty() =>
        {
            let current = scale.spec_replicas;
            pods_step(metric, samples, tolerances, current, situation)
                .map(|step| Step::Pods(Box::new(step)))
        }
        _ => {
            let text = format!("no metrics returned from {api} metrics API");
            return Err(Failure::Fetch(text));
        }
    };
    step.map_err(Failure::Compute)
}

fn total_step(
    metric: &Metric,
    values: &[i64],
    scale: &Scale,
    tolerances: Tolerances,
    situation: &Situation<'_>,
) -> Result<TotalStep, String> {
    let is_list = matches!(metric.source, Source::External { .. });
    let count = values.len();
    match metric.target {
        Target::Value(target) => {
            let value = (sum(values), count);
            TotalStep::whole(value, target, tolerances, scale, situation.pods)
        }
        Target::AverageValue(target) => {
            let value = if is_list {
                sum_shared(values)
            } else {
                sum(values)
            };
            let replicas = scale.status_replicas;
            let step = TotalStep::shared((value, count), target, tolerances, replicas, is_list);
            Ok(step)
        }
        Target::Utilization(_) => Err("a utilization needs pods".to_owned()),
    }
}

fn pods_step(
    metric: &Metric,
    samples: &BTreeMap<String, Sample>,
    tolerances: Tolerances,
    current: i32,
    situation: &Situation<'_>,
) -> Result<PodsStep, String> {
    let (resource, container) = match &metric.source {
        Source::Resource {
            resource,
            container,
        } => (Some(resource.as_str()), container.as_deref()),
        _ => (None, None),
    };
    let counted = count(situation, samples, resource)?;
    match metric.target {
        Target::Utilization(target) => {
            let requests = requests(situation, resource.unwrap_or_default(), container)?;
            let measure = Measure::Utilization {
                target,
                requests: &requests,
            };
            PodsStep::compute(counted, measure, tolerances, current)
        }
        Target::Value(Milli(target)) | Target::AverageValue(Milli(target)) => {
            PodsStep::compute(counted, Measure::Usage { target }, tolerances, current)
        }
    }
}

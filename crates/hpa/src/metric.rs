//! The replicas that one metric proposes (`replica_calculator.go` of Kubernetes 1.37).

use std::collections::BTreeMap;

use super::hpa::{Metric, MetricSource, MetricTarget};
use super::pods::PodCounts;
use super::ratio::{Milli, four_decimals, rounded_up};
use super::{Situation, counted};

/// The metrics API's answer to the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetricsAnswer {
    /// The value of each pod in thousandths, by name (`Pods`).
    Pods(BTreeMap<String, i64>),
    /// Values in thousandths: one (`Object`) or a list (`External`).
    Values(Vec<i64>),
    /// The message of the failure.
    Failed(String),
    /// The value was not requested: the metric is of type Resource or ContainerResource.
    NotAsked,
}

/// What a metric proposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// A number of replicas.
    Replicas {
        /// The value in the status: for pods the mean before substitution.
        shown: Milli,
        /// The number.
        replicas: i32,
    },
    /// Nothing: the metric has no value.
    Failed,
    /// Only the controller knows.
    NotComputed,
}

/// The proposal of one metric, with a sentence for each step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricTrace {
    /// What it proposes.
    pub proposal: Proposal,
    /// How it is computed.
    pub steps: Vec<String>,
}

const NO_VALUE: &str = "the metrics API has no value";
const NO_PODS: &str = "the selector of the target selects no pods";

impl MetricTrace {
    pub(super) fn compute(metric: &Metric, answer: &MetricsAnswer, of: &Situation<'_>) -> Self {
        let mut steps = Vec::new();
        let is_list = matches!(metric.source, MetricSource::External { .. });
        let proposed = match (metric.target, answer) {
            _ if matches!(metric.source, MetricSource::Resource { .. }) => {
                steps.push("only the controller computes it".to_owned());
                Ok(Proposal::NotComputed)
            }
            (_, MetricsAnswer::Failed(text)) => Err(text.as_str()),
            (MetricTarget::AverageValue(target), MetricsAnswer::Pods(values)) => {
                from_pods(values, target, of, &mut steps)
            }
            (_, MetricsAnswer::Values(values)) if values.is_empty() => Err(NO_VALUE),
            (MetricTarget::Value(target), MetricsAnswer::Values(values)) => {
                from_value(values, target, of, &mut steps)
            }
            (MetricTarget::AverageValue(target), MetricsAnswer::Values(values)) => {
                Ok(from_average((values, is_list), target, of, &mut steps))
            }
            _ => Err("the answer does not fit the metric"),
        };
        let proposal = proposed.unwrap_or_else(|why| {
            steps.push(format!("no value: {why}"));
            Proposal::Failed
        });
        Self { proposal, steps }
    }

    /// The value that the controller writes in the status, if the metric has one.
    #[must_use]
    pub const fn shown(&self) -> Option<Milli> {
        match self.proposal {
            Proposal::Replicas { shown, .. } => Some(shown),
            Proposal::Failed | Proposal::NotComputed => None,
        }
    }
}

const fn replicas(shown: i64, replicas: i32) -> Proposal {
    Proposal::Replicas {
        shown: Milli(shown),
        replicas,
    }
}

/// The mean, rounded down, and its ratio to the target.
fn mean(values: &BTreeMap<&str, i64>, target: Milli) -> Option<(i64, f64)> {
    let sum = values.values().fold(0_i64, |sum, it| sum.wrapping_add(*it));
    let mean = sum.checked_div(i64::try_from(values.len()).ok()?)?;
    Some((mean, mean as f64 / target.0 as f64))
}

/// The mean of the pods with a value; where one is missing, the mean again with a
/// conservative value for it.
fn from_pods(
    answered: &BTreeMap<String, i64>,
    target: Milli,
    of: &Situation<'_>,
    steps: &mut Vec<String>,
) -> Result<Proposal, &'static str> {
    if of.pods.is_empty() {
        return Err(NO_PODS);
    }
    let mut values: BTreeMap<&str, i64> = answered.iter().map(|(pod, it)| (&**pod, *it)).collect();
    let (mut ready, mut missing, mut pending) = (0, Vec::new(), Vec::new());
    for pod in of.pods {
        match pod.counts {
            PodCounts::Yes if values.contains_key(&*pod.name) => ready += 1,
            PodCounts::Yes => missing.push(&*pod.name),
            PodCounts::Pending => pending.push(&*pod.name),
            PodCounts::No => {}
        }
        if pod.counts != PodCounts::Yes {
            values.remove(&*pod.name);
        }
    }
    let nothing = "no pod that counts has a value";
    let (shown, ratio) = mean(&values, target).ok_or(nothing)?;
    let others = values.len() - ready;
    let ignored = of.pods.len() - ready - missing.len() - pending.len();
    let groups = [
        (ready, "pod", " with a value"),
        (others, "value", " of pods that are not selected"),
        (missing.len(), "pod", " without a value"),
        (pending.len(), "pending pod", ""),
        (ignored, "failed or deleted pod", ""),
    ];
    let groups = groups.iter().filter(|(count, ..)| *count > 0);
    let groups = groups.map(|(count, what, more)| counted(*count, what) + more);
    steps.push(groups.collect::<Vec<_>>().join(", "));
    steps.push(say_ratio("the mean", shown, ratio));
    pending.retain(|_| ratio > 1.0);
    let is_filled = !pending.is_empty() || !missing.is_empty();
    let (mut second, mut multiplied) = (ratio, ready);
    if is_filled {
        let substitute = if ratio <= 1.0 { target.0 } else { 0 };
        values.extend(missing.into_iter().map(|pod| (pod, substitute)));
        values.extend(pending.into_iter().map(|pod| (pod, 0)));
        let again;
        (again, second) = mean(&values, target).ok_or(nothing)?;
        multiplied = values.len();
        let each = Milli(substitute);
        let what = format!("with {each} for each missing and 0 for each pending pod the mean");
        steps.push(say_ratio(&what, again, second));
    }
    let current = of.scale.spec_replicas;
    let computed = rounded_up(second * multiplied as f64);
    let turns = ratio > 1.0 && second < 1.0;
    let is_against = (second < 1.0 && computed > current) || (second > 1.0 && computed < current);
    if of.is_tolerated(second, steps) {
        return Ok(replicas(shown, current));
    }
    if is_filled && (turns || is_against) {
        steps.push(format!("missing pods turn the direction: {current} stay"));
        return Ok(replicas(shown, current));
    }
    steps.push(say_product(second, multiplied, computed));
    Ok(replicas(shown, computed))
}

fn say_ratio(what: &str, value: i64, ratio: f64) -> String {
    let (value, ratio) = (Milli(value), four_decimals(ratio));
    format!("{what} is {value}, {ratio} of the target")
}

fn say_product(ratio: f64, pods: usize, replicas: i32) -> String {
    let ratio = four_decimals(ratio);
    let pods = counted(pods, "pod");
    format!("{ratio} times {pods} is {replicas}, rounded up")
}

/// A target of type `Value`: the ratio multiplies the ready pods.
fn from_value(
    values: &[i64],
    target: Milli,
    of: &Situation<'_>,
    steps: &mut Vec<String>,
) -> Result<Proposal, &'static str> {
    let value = sum(values);
    let ratio = value as f64 / target.0 as f64;
    steps.push(say_ratio("the value", value, ratio));
    let current = of.scale.spec_replicas;
    if current == 0 {
        return Ok(replicas(value, rounded_up(ratio)));
    }
    if of.is_tolerated(ratio, steps) {
        return Ok(replicas(value, current));
    }
    if of.pods.is_empty() {
        return Err(NO_PODS);
    }
    let ready = of.pods.iter().filter(|pod| pod.is_ready).count();
    let proposed = rounded_up(ratio * ready as f64);
    steps.push(say_product(ratio, ready, proposed));
    Ok(replicas(value, proposed))
}

/// A target of type `AverageValue`: the value is divided by the replicas of the status,
/// ready or not.
fn from_average(
    (values, is_list): (&[i64], bool),
    target: Milli,
    of: &Situation<'_>,
    steps: &mut Vec<String>,
) -> Proposal {
    let divisor = of.scale.status_replicas;
    let value = sum(values);
    if is_list && value < 0 {
        // The controller takes it for an overflow.
        return replicas(i64::MAX, i32::MAX);
    }
    let (total, wanted) = (value as f64, value as f64 / target.0 as f64);
    let ratio = total / (target.0 as f64 * f64::from(divisor));
    let what = format!("the value, shared by {},", counted(divisor, "replica"));
    steps.push(say_ratio(&what, value, wanted));
    // The controller writes the smallest number for an infinite mean.
    let shown = match divisor {
        0 => i64::MIN,
        _ => (total / f64::from(divisor)).ceil() as i64,
    };
    if of.is_tolerated(ratio, steps) {
        return replicas(shown, divisor);
    }
    let proposed = rounded_up(wanted);
    let exact = four_decimals(wanted);
    steps.push(format!("{exact} is {proposed}, rounded up"));
    replicas(shown, proposed)
}

impl Situation<'_> {
    /// Whether a ratio is too close to 1 for a change.
    fn is_tolerated(&self, ratio: f64, steps: &mut Vec<String>) -> bool {
        let tolerances = self.flags.tolerances(self.hpa);
        let is_within = tolerances.hold(ratio);
        if is_within {
            steps.push(format!("within the tolerance, {tolerances}: no change"));
        }
        is_within
    }
}

fn sum(values: &[i64]) -> i64 {
    values
        .iter()
        .fold(0, |sum: i64, it| sum.saturating_add(*it))
}

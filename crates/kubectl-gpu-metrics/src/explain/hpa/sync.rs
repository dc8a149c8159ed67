//! The arithmetic of what a controller wrote at a sync.

use std::time::Duration;

use k8s_openapi::api::autoscaling::v2::MetricIdentifier;

use apimachinery::quantity::milli_from_f64;
use apimachinery::time::Timestamp;
use hpa::hpa::{Metric, MetricSource, MetricTarget};
use hpa::pods::PodCounts;
use hpa::ratio::Milli;
use hpa::stabilise::PastReplicas;
use hpa::{
    ControllerFlags, History, Hpa, Limit, MetricsAnswer, Proposal, ScaledPod, Situation,
    TargetScale, Trace, counted,
};

use crate::history::autoscaler::LIMITED;

/// The arithmetic of what the controller wrote at a sync.
#[derive(Debug)]
pub(super) struct Sync {
    pub(super) hpa: Hpa,
    pub(super) trace: Trace,
    /// Why the replicas are not those that the metrics ask for, if they are not. `Err`: they are
    /// not explained.
    pub(super) held: Result<&'static str, String>,
}

/// The metric that asked for most replicas.
#[derive(Debug)]
pub(super) struct Cause {
    pub(super) metric: String,
    pub(super) value: Milli,
    pub(super) target: String,
    pub(super) replicas: i32,
    pub(super) held: &'static str,
}

impl Sync {
    /// A sync that changed the replicas from one number to another one, with values of this
    /// number of pods. The last number may have been recommended before.
    pub(super) fn of(
        hpa: Hpa,
        flags: &ControllerFlags,
        [from, to, count]: [i32; 3],
        at: Timestamp,
    ) -> Self {
        let hpa = of_pods(hpa);
        let pod = |place: i32| ScaledPod {
            name: place.to_string(),
            counts: PodCounts::Yes,
            is_ready: place < count,
        };
        let pods: Vec<ScaledPod> = (0..from).map(pod).collect();
        let metrics = hpa.metrics.iter().zip(&hpa.status.values);
        let current = hpa.status.replicas.unwrap_or(from);
        let answers = metrics.map(|(metric, value)| answer(metric, *value, current, count));
        let recommended = PastReplicas {
            replicas: to,
            at: at - Duration::from_secs(1),
        };
        let situation = Situation {
            hpa: &hpa,
            scale: TargetScale {
                spec_replicas: from,
                status_replicas: from,
            },
            pods: &pods,
            answers: &answers.collect::<Vec<_>>(),
            flags,
            history: &History {
                recommendations: vec![recommended],
                // Only the controller adds replicas to none.
                scaled_to_zero: from == 0,
                ..History::default()
            },
            now: at,
        };
        let mut trace = situation.sync();
        let held = held(&hpa, &trace, [from, to]);
        // Of policies and recommendations the controller alone knows the times.
        trace.steps.truncate(1);
        Self { hpa, trace, held }
    }

    /// The metric that asked for most replicas.
    pub(super) fn cause(self) -> Result<Cause, String> {
        let held = self.held?;
        let mut best: Option<Cause> = None;
        for (metric, of) in self.hpa.metrics.iter().zip(&self.trace.metrics) {
            let Proposal::Replicas { shown, replicas } = of.proposal else {
                continue;
            };
            if best.as_ref().is_none_or(|best| best.replicas < replicas) {
                best = Some(Cause {
                    metric: metric.source.name().to_owned(),
                    value: shown,
                    target: metric.target.to_string(),
                    replicas,
                    held,
                });
            }
        }
        best.ok_or_else(|| self.trace.steps.join("; "))
    }
}

/// The answer of the metrics API that makes a written value, which is a mean of pods with a
/// value, the value itself, or its share of each of the current replicas.
fn answer(metric: &Metric, value: Option<f64>, current: i32, pods: i32) -> MetricsAnswer {
    let is_share = matches!(
        metric.source,
        MetricSource::Object { .. } | MetricSource::External { .. }
    ) && matches!(metric.target, MetricTarget::AverageValue(_));
    let Some(milli) = value
        .and_then(milli_from_f64)
        .filter(|_| !is_share || current > 0)
    else {
        let why = "its value is not recorded: kube_horizontalpodautoscaler_status_target_metric has \
                   none";
        return MetricsAnswer::Failed(why.to_owned());
    };
    let replicas = i64::from(current);
    match metric.source {
        MetricSource::Pods { .. } | MetricSource::Resource { .. } => {
            MetricsAnswer::Pods((0..pods).map(|place| (place.to_string(), milli)).collect())
        }
        // The written share is rounded up.
        _ if is_share && milli > 0 => {
            MetricsAnswer::Values(vec![milli.saturating_mul(replicas) - (replicas - 1)])
        }
        _ if is_share => MetricsAnswer::Values(vec![milli.saturating_mul(replicas)]),
        _ => MetricsAnswer::Values(vec![milli]),
    }
}

/// Makes metrics of `cpu` and `memory` ones of pods with their percents: the controller
/// multiplies the pods by the ratio to the target in the same way.
fn of_pods(mut hpa: Hpa) -> Hpa {
    for metric in &mut hpa.metrics {
        let MetricSource::Resource { resource } = &metric.source else {
            continue;
        };
        let (name, selector) = (resource.clone(), None);
        metric.source = MetricSource::Pods {
            metric: MetricIdentifier { name, selector },
        };
        if let MetricTarget::Utilization(percent) = metric.target {
            metric.target = MetricTarget::AverageValue(Milli(i64::from(percent) * 1000));
        }
    }
    hpa
}

/// What made a change other than the metrics asked for, if anything did.
fn held(hpa: &Hpa, trace: &Trace, [from, to]: [i32; 2]) -> Result<&'static str, String> {
    let asked = trace.desired.and(trace.proposed);
    let is_beyond = |asked| (asked > to && to >= from) || (asked < to && to <= from);
    match asked {
        Some(asked) if asked == to => Ok(""),
        Some(asked) if is_beyond(asked) && hpa.status.is_true(LIMITED) => Ok(match asked > to {
            true if to == hpa.max => Limit::Maximum,
            true => Limit::UpRate,
            false if to == hpa.min => Limit::Minimum,
            false => Limit::DownRate,
        }
        .reason()),
        Some(asked) if is_beyond(asked) && trace.desired == Some(to) => {
            Ok(trace.limit.map_or("stabilisation", Limit::reason))
        }
        // Outside of the bounds no metric is read.
        None if trace.desired == Some(to) => Ok(""),
        _ => Err(contradiction(hpa, trace)),
    }
}

/// Why a sync does not explain its replicas.
fn contradiction(hpa: &Hpa, trace: &Trace) -> String {
    let metrics = hpa.metrics.iter().zip(&trace.metrics);
    let mut failed = metrics.filter(|(_, of)| of.shown().is_none());
    match (trace.desired.and(trace.proposed), failed.next()) {
        (Some(asked), _) => {
            let makes = asked.max(hpa.min).min(hpa.max);
            format!("the recorded values make {}", counted(makes, "replica"))
        }
        (None, Some((metric, of))) => {
            let why = of.steps.last().map_or("", String::as_str);
            format!("{}: {why}", metric.source.name())
        }
        (None, None) => "no metric is read".to_owned(),
    }
}

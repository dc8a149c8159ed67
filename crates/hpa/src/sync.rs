//! One sync, from the scale to the replicas that are written.

use super::metric::{MetricOutcome, MetricTrace};
use super::policy::Limited;
use super::stabilise::{PastReplicas, Stabilised};
use super::trace::{HpaCondition, SCALED_TO_ZERO, Trace};
use super::{Selection, Situation, TargetScale};

pub(super) fn sync(situation: &Situation<'_>) -> Trace {
    let mut trace = Trace::default();
    let scale = match situation.scale {
        Ok(scale) => scale,
        Err(text) => {
            let message =
                format!("the HPA controller was unable to get the target's current scale: {text}");
            trace.set("AbleToScale", false, "FailedGetScale", message);
            trace.error = Some(text.to_owned());
            return trace;
        }
    };
    trace.current = Some(scale.spec_replicas);
    let message = "the HPA controller was able to get the target's current scale";
    trace.set("AbleToScale", true, "SucceededGetScale", message);
    let (current, hpa) = (scale.spec_replicas, situation.hpa);
    if current == 0 && !scales_up_from_zero(situation) {
        let message = "scaling is disabled since the replica count of the target is zero";
        trace.set("ScalingActive", false, "ScalingDisabled", message);
        trace.shortcut = Some(match hpa.min {
            0 => {
                "no replicas, and the controller did not scale to zero itself (condition ScaledToZero): scaling is switched off"
            }
            _ => "no replicas and a minimum above zero: scaling is switched off",
        });
        trace.desired = Some(0);
    } else if current > hpa.max {
        trace.shortcut = Some("more than the maximum: set to it, no metric is read");
        trace.rescaled(hpa.max, "Current number of replicas above Spec.MaxReplicas");
    } else if current > 0 && current < hpa.min {
        trace.shortcut = Some("fewer than the minimum: set to it, no metric is read");
        trace.rescaled(hpa.min, "Current number of replicas below Spec.MinReplicas");
    } else if let Some(text) = trace.unselectable(situation) {
        trace.error = Some(text);
    } else if let Some((proposed, name)) = trace.propose(scale, situation) {
        trace.normalize(current, proposed, &name, situation);
    }
    trace.record_zero(current, situation);
    trace
}

/// Whether metrics are read while the target has no replicas.
fn scales_up_from_zero(situation: &Situation<'_>) -> bool {
    let hpa = situation.hpa;
    if !situation.flags.records_zero() {
        return hpa.min == 0;
    }
    situation.history.scaled_to_zero && (hpa.min != 0 || hpa.has_metric_without_pods())
}

impl Trace {
    fn set(
        &mut self,
        type_: &'static str,
        status: bool,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let condition = HpaCondition {
            type_,
            status,
            reason,
            message: message.into(),
        };
        match self.conditions.iter_mut().find(|old| old.type_ == type_) {
            Some(old) => *old = condition,
            None => self.conditions.push(condition),
        }
    }

    fn rescaled(&mut self, desired: i32, reason: impl Into<String>) {
        let message =
            format!("the HPA controller was able to update the target scale to {desired}");
        self.set("AbleToScale", true, "SucceededRescale", message);
        self.desired = Some(desired);
        self.rescale = Some(reason.into());
    }

    /// Sets the condition `ScaledToZero`, which every write of the scale renews.
    fn record_zero(&mut self, current: i32, situation: &Situation<'_>) {
        let hpa = situation.hpa;
        if self.rescale.is_none() || !situation.flags.records_zero() {
            return;
        }
        let is_zero = self.desired == Some(0) && hpa.min == 0 && hpa.has_metric_without_pods();
        let (reason, message) = match current > 0 && is_zero {
            true => (
                "ScaledToZero",
                "the HPA controller scaled the workload to zero",
            ),
            false => (
                "NotScaledToZero",
                "the HPA controller did not scale the workload to zero",
            ),
        };
        self.set(SCALED_TO_ZERO, current > 0 && is_zero, reason, message);
    }

    /// The error when the pods cannot be selected.
    fn unselectable(&mut self, situation: &Situation<'_>) -> Option<String> {
        let (reason, message, error) = match situation.selection {
            Selection::Clear => return None,
            Selection::Missing => (
                "InvalidSelector",
                "the HPA target's scale is missing a selector".to_owned(),
                "selector is required".to_owned(),
            ),
            Selection::Invalid(text) => {
                let error = format!(
                    "couldn't convert selector into a corresponding internal selector object: {text}"
                );
                ("InvalidSelector", error.clone(), error)
            }
            Selection::Ambiguous {
                selector,
                autoscalers,
            } => {
                let by = match (situation.flags.minor, &autoscalers[..]) {
                    (37.., [one, two, ..]) => format!("more than one HPA (e.g. [{one} {two}])"),
                    _ => format!("multiple HPAs: [{}]", autoscalers.join(" ")),
                };
                let error = format!("pods by selector {selector} are controlled by {by}");
                ("AmbiguousSelector", error.clone(), error)
            }
        };
        self.set("ScalingActive", false, reason, message);
        Some(error)
    }

    /// The highest proposal and the name of its metric. `None` if all metrics failed, or
    /// if one failed and the others propose fewer than the current replicas.
    fn propose(&mut self, scale: &TargetScale, situation: &Situation<'_>) -> Option<(i32, String)> {
        let metrics = &situation.hpa.metrics;
        let tolerances = situation.flags.tolerances(situation.hpa);
        let mut best: Option<(usize, i32)> = None;
        let mut invalid = Vec::new();
        for (index, metric) in metrics.iter().enumerate() {
            let answer = situation.answers.get(index);
            let trace = MetricTrace::compute(metric, answer, scale, tolerances, situation);
            if let MetricOutcome::Invalid(failure) = &trace.outcome {
                invalid.push(failure.clone());
            }
            if let Some(replicas) = trace.replicas() {
                // As in the controller: any later proposal replaces one of zero.
                let best_so_far = best.map_or(0, |(_, replicas)| replicas);
                if best_so_far == 0 || replicas > best_so_far {
                    best = Some((index, replicas));
                }
            }
            self.metrics.push(trace);
        }
        let replicas = best.map_or(0, |(_, replicas)| replicas);
        if let Some(first) = invalid.first() {
            let (some, all) = (invalid.len(), metrics.len());
            self.error = Some(format!(
                "invalid metrics ({some} invalid out of {all}), first error is: {}",
                first.error
            ));
            if some >= all || replicas < scale.spec_replicas {
                self.set("ScalingActive", false, first.reason, &*first.message);
                return None;
            }
        }
        let name = best.and_then(|(index, _)| self.metrics.get(index));
        let name = name.map(|metric| metric.name.clone()).unwrap_or_default();
        let message =
            format!("the HPA was able to successfully calculate a replica count from {name}");
        self.set("ScalingActive", true, "ValidMetricFound", message);
        self.proposal = Some(replicas.max(0));
        Some((replicas.max(0), name))
    }

    fn normalize(&mut self, current: i32, proposed: i32, name: &str, situation: &Situation<'_>) {
        let (hpa, now) = (situation.hpa, situation.now);
        let window = situation.flags.downscale_stabilisation;
        let first = [PastReplicas {
            replicas: current,
            at: now,
        }];
        let past = match situation.history.recommendations.as_slice() {
            [] => &first,
            past => past,
        };
        let behavior = hpa.behavior.as_ref();
        let stabilised = Stabilised::new(past, behavior, window, current, proposed, now);
        let to = stabilised.replicas;
        let limited = match behavior {
            None => Limited::plain(current, to, hpa.min, hpa.max),
            Some(behavior) => {
                let (history, bounds) = (situation.history, (hpa.min, hpa.max));
                Limited::with_behavior(behavior, history, current, to, bounds, now)
            }
        };
        let (reason, message) = stabilised.condition(current);
        self.set("AbleToScale", true, reason, message);
        let (reason, message) = (limited.reason, limited.message);
        self.set("ScalingLimited", limited.is_limited(), reason, message);
        self.desired = Some(limited.replicas);
        if limited.replicas != current {
            let reason = match proposed.cmp(&current) {
                std::cmp::Ordering::Greater => format!("{name} above target"),
                std::cmp::Ordering::Less => "All metrics below target".to_owned(),
                std::cmp::Ordering::Equal => String::new(),
            };
            self.rescaled(limited.replicas, reason);
        }
        self.stabilised = Some(stabilised);
        self.limited = Some(limited);
    }
}

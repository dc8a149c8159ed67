//! One sync, from the scale to the replicas that are written (`horizontal.go` of
//! Kubernetes 1.37).

use super::metric::{MetricTrace, Proposal};
use super::policy::{Limit, limit};
use super::stabilise::{History, PastReplicas, stabilise};
use super::{ControllerFlags, Hpa, Situation};
use apimachinery::time::Timestamp;

/// The result of one sync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The replicas of the scale.
    pub current: i32,
    /// Each metric, in the order of the specification; empty if none is read.
    pub metrics: Vec<MetricTrace>,
    /// The highest proposal.
    pub proposed: Option<i32>,
    /// The proposal after stabilisation.
    pub stabilised: Option<i32>,
    /// What limited the stabilised number.
    pub limit: Option<Limit>,
    /// `status.desiredReplicas`. `None`: the controller changes nothing because a metric
    /// has no value, or a metric is not computed.
    pub desired: Option<i32>,
    /// The condition `ScaledToZero`, if the sync writes it.
    pub scaled_to_zero: Option<bool>,
    /// One sentence for each step after the metrics.
    pub steps: Vec<String>,
}

impl Situation<'_> {
    /// Computes one sync.
    #[must_use]
    pub fn sync(&self) -> Trace {
        let (current, hpa) = (self.scale.spec_replicas, self.hpa);
        let mut trace = Trace {
            current,
            ..Trace::default()
        };
        if current == 0 && !self.scales_up_from_zero() {
            trace
                .steps
                .push("0 replicas, not set by the controller: scaling is off".to_owned());
            trace.desired = Some(0);
        } else if current > hpa.max || (current > 0 && current < hpa.min) {
            trace.steps.push(format!(
                "{current} is outside minReplicas and maxReplicas: no metric is read"
            ));
            trace.desired = Some(current.max(hpa.min).min(hpa.max));
        } else if let Some(proposed) = self.propose(&mut trace) {
            let stabilised = stabilise(self, proposed, &mut trace.steps);
            let (limited, by) = limit(self, stabilised, &mut trace.steps);
            trace.stabilised = Some(stabilised);
            trace.limit = by;
            // Zero is left for a minimum that was raised meanwhile, whatever limits it.
            let is_raised = current == 0 && self.flags.records_zero() && limited < hpa.min;
            trace.desired = Some(if is_raised { hpa.min } else { limited });
        }
        if let Some(desired) = trace.desired {
            let is_zero = desired == 0 && hpa.min == 0;
            let is_written = desired != current && self.flags.records_zero();
            trace.scaled_to_zero = is_written.then(|| is_zero && hpa.has_metric_without_pods());
        }
        trace
    }

    /// Whether metrics are read while the target has no replicas.
    fn scales_up_from_zero(&self) -> bool {
        let hpa = self.hpa;
        if !self.flags.records_zero() {
            return hpa.min == 0;
        }
        self.history.scaled_to_zero && (hpa.min != 0 || hpa.has_metric_without_pods())
    }

    /// The highest proposal. `None` if all metrics failed, if one failed and the others
    /// propose fewer than the current replicas, or if one is not computed.
    fn propose(&self, trace: &mut Trace) -> Option<i32> {
        let metrics = self.hpa.metrics.iter().zip(self.answers);
        let metrics = metrics.map(|(metric, answer)| MetricTrace::compute(metric, answer, self));
        trace.metrics = metrics.collect();
        let highest = trace.metrics.iter().filter_map(|it| match it.proposal {
            Proposal::Replicas { replicas, .. } => Some(replicas),
            Proposal::Failed | Proposal::NotComputed => None,
        });
        // As in the controller: any later proposal replaces one of zero.
        let highest = highest.reduce(|best, next| if best == 0 { next } else { best.max(next) });
        let best = highest.unwrap_or(0).max(0);
        let is_any = |proposal| trace.metrics.iter().any(|it| it.proposal == proposal);
        let why = match highest {
            _ if is_any(Proposal::NotComputed) => Some("only the controller computes a metric"),
            None => Some("no metric has a value: nothing is changed"),
            Some(_) if is_any(Proposal::Failed) && best < trace.current => {
                Some("a metric without a value forbids a scale-down")
            }
            Some(_) => None,
        };
        trace.proposed = highest.map(|_| best);
        trace.steps.push(match why {
            Some(why) => why.to_owned(),
            None => format!("the metrics ask for {best}"),
        });
        why.is_none().then_some(best)
    }
}

impl Trace {
    /// Adds this sync to the controller's memory.
    pub fn remember(
        &self,
        history: &mut History,
        hpa: &Hpa,
        flags: &ControllerFlags,
        now: Timestamp,
    ) {
        if let Some(desired) = self.desired.filter(|_| hpa.behavior.is_some()) {
            history.scaled(self.current, desired, now);
        }
        history.scaled_to_zero = self.scaled_to_zero.unwrap_or(history.scaled_to_zero);
        self.recommend(history, flags, now);
    }

    /// Adds only the recommendation, for an observer that records scale changes itself.
    pub fn recommend(&self, history: &mut History, flags: &ControllerFlags, now: Timestamp) {
        let past = |replicas| PastReplicas { replicas, at: now };
        if history.recommendations.is_empty() {
            history.recommendations.push(past(self.current));
        }
        let recommended = self.proposed.filter(|_| self.stabilised.is_some());
        history.recommendations.extend(recommended.map(past));
        history.forget(flags.downscale_stabilisation, now);
    }
}

//! Computes replicas from values of pods: the mean, conservative values for the missing
//! ones, and the mean again.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::Situation;
use super::pods::{Groups, PodMetric, ResourceRequests, group};
use super::printed::counted;
use super::ratio::{Milli, ReplicaDecision, Tolerances, four_decimals};

/// The sum of the pods' values, compared with the target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Mean {
    sum: Milli,
    values: usize,
    /// Rounded down.
    pub(crate) mean: Milli,
    /// The pods' total requests, for a utilization target.
    requested: Option<Milli>,
    /// Percent of the requests, rounded down.
    pub(crate) percent: Option<i32>,
    /// Mean or percent, divided by the target.
    ratio: f64,
}

/// The substitute for missing values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Substitute {
    /// Scaling down: as if each pod were exactly at the target.
    Target,
    /// Scaling down: this percent of the pod's request.
    Requested(i64),
    /// Scaling up: zero.
    Zero,
    /// The ratio is exactly 1: no substitute.
    Nothing,
}

/// The second mean, with missing and unready pods.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SubstitutedMean {
    missing: usize,
    missing_as: Substitute,
    unready_as_zero: usize,
    mean: Mean,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodsStep {
    pub(crate) groups: Groups,
    /// The mean of the pods that answered, which kubectl shows.
    pub(crate) mean: Mean,
    /// Set when a pod was missing, or unready while scaling up.
    pub(crate) filled: Option<SubstitutedMean>,
    /// The number of pods by which the ratio is multiplied.
    multiplied: usize,
    pub(crate) verdict: ReplicaDecision,
    pub(crate) replicas: i32,
}

/// The comparison of values with the target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measure<'a> {
    /// In thousandths, or in percent of `requests` if they are given.
    pub(super) target: i64,
    pub(super) requests: Option<&'a ResourceRequests>,
}

type Values = BTreeMap<String, i64>;

impl Measure<'_> {
    /// `None` if there is no value, or if the requests are 0.
    fn of(self, values: &Values) -> Option<Mean> {
        let sum = |sum: i64, milli: &i64| sum.wrapping_add(*milli);
        let is_known = |pod: &String| self.requests.is_none_or(|it| it.contains_key(pod));
        let known = values.iter().filter(|(pod, _)| is_known(pod));
        let total = known.clone().map(|(_, milli)| milli).fold(0, sum);
        let count = known.clone().count();
        let mean = total.checked_div(i64::try_from(count).ok()?)?;
        let target = self.target as f64;
        let (requested, percent, ratio) = match self.requests {
            None => (None, None, mean as f64 / target),
            Some(requests) => {
                let requested = known.filter_map(|(pod, _)| requests.get(pod)).fold(0, sum);
                let percent = total.wrapping_mul(100).checked_div(requested)? as i32;
                let ratio = f64::from(percent) / target;
                (Some(Milli(requested)), Some(percent), ratio)
            }
        };
        Some(Mean {
            sum: Milli(total),
            values: count,
            mean: Milli(mean),
            requested,
            percent,
            ratio,
        })
    }

    /// The substitute for a missing pod while scaling down.
    fn conservative(self, pod: &str) -> (Substitute, i64) {
        let Some(requests) = self.requests else {
            return (Substitute::Target, self.target);
        };
        let percent = self.target.max(100);
        let request = requests.get(pod).copied().unwrap_or(0);
        let value = request.wrapping_mul(percent) / 100;
        (Substitute::Requested(percent), value)
    }
}

/// Groups the pods. Returns the values without those of unready and ignored pods. The
/// error is the controller's message.
pub(super) fn count(
    situation: &Situation<'_>,
    samples: &BTreeMap<String, PodMetric>,
    resource: Option<&str>,
) -> Result<(Groups, Values), String> {
    if situation.pods.is_empty() {
        return Err(NO_PODS.to_owned());
    }
    let cpu = resource == Some("cpu");
    let groups = group(situation.pods, samples, cpu, situation.flags, situation.now);
    let aside = |name: &String| {
        let mut left = groups.ignored.iter().chain(&groups.unready);
        left.any(|left| left.pod == *name)
    };
    let kept = samples.iter().filter(|(name, _)| !aside(name));
    let values: Values = kept
        .map(|(name, sample)| (name.clone(), sample.milli))
        .collect();
    if values.is_empty() {
        let text = "did not receive metrics for targeted pods (pods might be unready)";
        return Err(text.to_owned());
    }
    Ok((groups, values))
}

/// The controller's message when the selector selects no pod.
pub(super) const NO_PODS: &str = "no pods returned by selector while calculating replica count";

impl PodsStep {
    /// The replicas that the values of pods propose. The error is in the controller's words.
    pub(super) fn compute(
        (groups, mut values): (Groups, Values),
        measure: Measure<'_>,
        tolerances: Tolerances,
        current: i32,
    ) -> Result<Self, String> {
        let nothing = || "no metrics returned matched known pods".to_owned();
        let mean = measure.of(&values).ok_or_else(nothing)?;
        let ratio = mean.ratio;
        let with_unready = !groups.unready.is_empty() && ratio > 1.0;
        let (mut filled, mut second, mut multiplied) = (None, ratio, groups.ready.len());
        if with_unready || !groups.missing.is_empty() {
            let missing_as = substitute(&mut values, &groups, measure, ratio);
            let unready = groups.unready.iter().filter(|_| with_unready);
            values.extend(unready.clone().map(|left| (left.pod.clone(), 0)));
            let mean = measure.of(&values).ok_or_else(nothing)?;
            (second, multiplied) = (mean.ratio, values.len());
            filled = Some(SubstitutedMean {
                missing: groups.missing.len(),
                missing_as,
                unready_as_zero: unready.count(),
                mean,
            });
        }
        let (scaled, computed) = ReplicaDecision::scaled(second * multiplied as f64, false);
        let turns = (ratio < 1.0 && second > 1.0) || (ratio > 1.0 && second < 1.0);
        let is_against =
            (second < 1.0 && computed > current) || (second > 1.0 && computed < current);
        let (verdict, replicas) = match filled {
            _ if tolerances.hold(second) => (ReplicaDecision::WithinTolerance, current),
            Some(_) if turns => (ReplicaDecision::DirectionChanged, current),
            Some(_) if is_against => (ReplicaDecision::RoundedAgainst { computed }, current),
            _ => (scaled, computed),
        };
        Ok(Self {
            groups,
            mean,
            filled,
            multiplied,
            verdict,
            replicas,
        })
    }
}

/// Substitutes a conservative value for each missing one.
fn substitute(
    values: &mut Values,
    groups: &Groups,
    measure: Measure<'_>,
    ratio: f64,
) -> Substitute {
    let mut counted_as = Substitute::Nothing;
    for left in &groups.missing {
        let (as_what, value) = if ratio < 1.0 {
            measure.conservative(&left.pod)
        } else if ratio > 1.0 {
            (Substitute::Zero, 0)
        } else {
            break;
        };
        counted_as = as_what;
        values.insert(left.pod.clone(), value);
    }
    counted_as
}

impl fmt::Display for Mean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sum, mean, ratio) = (self.sum, self.mean, four_decimals(self.ratio));
        let pods = counted(self.values, "pod");
        match (self.requested, self.percent) {
            (Some(requested), Some(percent)) => {
                write!(f, "{sum} of {requested} requested by {pods} is {percent} %")?;
            }
            _ => write!(f, "{sum} over {pods} is {mean}")?,
        }
        write!(f, ", {ratio} of the target")
    }
}

impl fmt::Display for SubstitutedMean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = self.missing;
        match self.missing_as {
            Substitute::Target => write!(f, "{missing} missing count as exactly the target: ")?,
            Substitute::Requested(percent) => {
                write!(
                    f,
                    "{missing} missing count as {percent} % of their requests: "
                )?;
            }
            Substitute::Zero => write!(f, "{missing} missing count as 0: ")?,
            Substitute::Nothing => {}
        }
        if self.unready_as_zero > 0 {
            write!(f, "{} not ready count as 0: ", self.unready_as_zero)?;
        }
        write!(f, "{}", self.mean)
    }
}

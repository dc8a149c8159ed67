//! Computes replicas from values of pods: the mean, conservative values for the missing
//! ones, and the mean again.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::pods::{Groups, PodMetric, ResourceRequests, group};
use super::printed::counted;
use super::ratio::{Milli, Ratio, Tolerances, Verdict};
use super::{ScaledPod, Situation};

/// The sum of the pods' values, compared with the target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Mean {
    /// The sum.
    pub sum: Milli,
    /// The number of values.
    pub values: usize,
    /// The mean, rounded down.
    pub mean: Milli,
    /// The pods' total requests, for a utilization target.
    pub requested: Option<Milli>,
    /// Percent of the requests, rounded down.
    pub percent: Option<i32>,
    /// Mean or percent, divided by the target.
    pub ratio: Ratio,
}

/// The substitute for missing values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Filling {
    /// Scaling down: as if each pod were exactly at the target.
    Target,
    /// Scaling down: this percent of the pod's request.
    Requested(i32),
    /// Scaling up: zero.
    Zero,
    /// The ratio is exactly 1: none.
    Nothing,
}

/// The second mean, with missing and unready pods.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Filled {
    /// The number of missing pods.
    pub missing: usize,
    /// Their substitute.
    pub missing_as: Filling,
    /// The number of unready pods that count as zero.
    pub unready_as_zero: usize,
    /// The mean including these.
    pub mean: Mean,
}

/// The whole computation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodsStep {
    /// The groups of pods that count.
    pub groups: Groups,
    /// The mean of the pods that answered, which kubectl shows.
    pub mean: Mean,
    /// Set when a pod was missing, or unready while scaling up.
    pub filled: Option<Filled>,
    /// The factor of the ratio.
    pub multiplied: usize,
    /// The verdict on the last ratio.
    pub verdict: Verdict,
    /// The replicas that this metric proposes.
    pub replicas: i32,
}

/// The comparison of values with the target.
#[derive(Clone, Copy, Debug)]
pub(super) enum Measure<'a> {
    Usage {
        target: i64,
    },
    Utilization {
        target: i32,
        requests: &'a ResourceRequests,
    },
}

type Values = BTreeMap<String, i64>;

impl Measure<'_> {
    /// `None` when nothing can be divided.
    fn of(self, values: &Values) -> Option<Mean> {
        let sum = |sum: i64, milli: &i64| sum.wrapping_add(*milli);
        let is_known = |pod: &String| match self {
            Self::Usage { .. } => true,
            Self::Utilization { requests, .. } => requests.contains_key(pod),
        };
        let known = values.iter().filter(|(pod, _)| is_known(pod));
        let total = known.clone().map(|(_, milli)| milli).fold(0, sum);
        let count = known.clone().count();
        let mean = total.checked_div(i64::try_from(count).ok()?)?;
        let (requested, percent, ratio) = match self {
            Self::Usage { target } => (None, None, mean as f64 / target as f64),
            Self::Utilization { target, requests } => {
                let requested = known.filter_map(|(pod, _)| requests.get(pod)).fold(0, sum);
                let percent = total.wrapping_mul(100).checked_div(requested)? as i32;
                let ratio = f64::from(percent) / f64::from(target);
                (Some(Milli(requested)), Some(percent), ratio)
            }
        };
        Some(Mean {
            sum: Milli(total),
            values: count,
            mean: Milli(mean),
            requested,
            percent,
            ratio: Ratio(ratio),
        })
    }

    /// The substitute for a missing pod while scaling down.
    fn careful(self, pod: &str) -> (Filling, i64) {
        match self {
            Self::Usage { target } => (Filling::Target, target),
            Self::Utilization { target, requests } => {
                let percent = target.max(100);
                let request = requests.get(pod).copied().unwrap_or(0);
                let value = request.wrapping_mul(i64::from(percent)) / 100;
                (Filling::Requested(percent), value)
            }
        }
    }
}

/// Groups the pods, and sets the values of unready ones aside.
///
/// # Errors
/// In the controller's words, when no pod or no value is left.
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

/// The request of each pod.
///
/// # Errors
/// In the controller's words, when a pod has no request.
pub(super) fn requests(
    situation: &Situation<'_>,
    resource: &str,
    container: Option<&str>,
) -> Result<ResourceRequests, String> {
    let request = |pod: &ScaledPod| {
        let request = pod.request(resource, container, situation.flags)?;
        Ok((pod.name.clone(), request))
    };
    situation.pods.iter().map(request).collect()
}

impl PodsStep {
    /// The replicas that the values of pods propose.
    ///
    /// # Errors
    /// In the controller's words, when no value belongs to a known pod.
    pub(super) fn compute(
        (groups, mut values): (Groups, Values),
        measure: Measure<'_>,
        tolerances: Tolerances,
        current: i32,
    ) -> Result<Self, String> {
        let nothing = || "no metrics returned matched known pods".to_owned();
        let mean = measure.of(&values).ok_or_else(nothing)?;
        let ratio = mean.ratio.0;
        let with_unready = !groups.unready.is_empty() && ratio > 1.0;
        if !with_unready && groups.missing.is_empty() {
            let multiplied = groups.ready.len();
            let (verdict, replicas) = if tolerances.hold(ratio) {
                (Verdict::WithinTolerance, current)
            } else {
                Verdict::scaled(ratio * multiplied as f64)
            };
            return Ok(Self {
                groups,
                mean,
                filled: None,
                multiplied,
                verdict,
                replicas,
            });
        }
        let missing_as = fill(&mut values, &groups, measure, ratio);
        let unready = groups.unready.iter().filter(|_| with_unready);
        values.extend(unready.clone().map(|left| (left.pod.clone(), 0)));
        let filled = Filled {
            missing: groups.missing.len(),
            missing_as,
            unready_as_zero: unready.count(),
            mean: measure.of(&values).ok_or_else(nothing)?,
        };
        let multiplied = values.len();
        let second = filled.mean.ratio.0;
        let (verdict, replicas) = look_again(ratio, second, multiplied, tolerances, current);
        Ok(Self {
            groups,
            mean,
            filled: Some(filled),
            multiplied,
            verdict,
            replicas,
        })
    }
}

/// Substitutes a conservative value for each missing one.
fn fill(values: &mut Values, groups: &Groups, measure: Measure<'_>, ratio: f64) -> Filling {
    let mut filling = Filling::Nothing;
    for left in &groups.missing {
        let (as_what, value) = if ratio < 1.0 {
            measure.careful(&left.pod)
        } else if ratio > 1.0 {
            (Filling::Zero, 0)
        } else {
            break;
        };
        filling = as_what;
        values.insert(left.pod.clone(), value);
    }
    filling
}

fn look_again(
    first: f64,
    second: f64,
    values: usize,
    tolerances: Tolerances,
    current: i32,
) -> (Verdict, i32) {
    if tolerances.hold(second) {
        return (Verdict::WithinTolerance, current);
    }
    if (first < 1.0 && second > 1.0) || (first > 1.0 && second < 1.0) {
        return (Verdict::DirectionChanged, current);
    }
    let (scaled, computed) = Verdict::scaled(second * values as f64);
    if (second < 1.0 && computed > current) || (second > 1.0 && computed < current) {
        return (Verdict::RoundedAgainst { computed }, current);
    }
    (scaled, computed)
}

impl fmt::Display for Mean {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            sum,
            values,
            mean,
            ratio,
            ..
        } = self;
        let pods = counted(*values, "pod");
        match (self.requested, self.percent) {
            (Some(requested), Some(percent)) => {
                write!(f, "{sum} of {requested} requested by {pods} is {percent} %")?;
            }
            _ => write!(f, "{sum} over {pods} is {mean}")?,
        }
        write!(f, ", {ratio} of the target")
    }
}

impl fmt::Display for Filled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let missing = self.missing;
        match self.missing_as {
            Filling::Target => write!(f, "{missing} missing count as exactly the target: ")?,
            Filling::Requested(percent) => {
                write!(
                    f,
                    "{missing} missing count as {percent} % of their requests: "
                )?;
            }
            Filling::Zero => write!(f, "{missing} missing count as 0: ")?,
            Filling::Nothing => {}
        }
        if self.unready_as_zero > 0 {
            write!(f, "{} not ready count as 0: ", self.unready_as_zero)?;
        }
        write!(f, "{}", self.mean)
    }
}

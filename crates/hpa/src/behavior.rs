//! `spec.behavior` of a HorizontalPodAutoscaler, defaults filled in
//! (`pkg/apis/autoscaling/v2/defaults.go` of Kubernetes 1.37).

use k8s_openapi::api::autoscaling::v2 as api;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Serialize;

use apimachinery::quantity::parse_milli;

/// `spec.behavior`, defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Behavior {
    /// Rules for more replicas.
    pub up: ScalingRules,
    /// Rules for fewer replicas.
    pub down: ScalingRules,
}

/// How fast replicas may change in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingRules {
    /// Seconds of `stabilizationWindowSeconds`; `None` is the controller's flag.
    pub window: Option<i32>,
    /// The policy that applies.
    pub select: Select,
    /// The allowed changes in a period.
    pub policies: Vec<ScalingPolicy>,
    /// The tolerance of this direction; `None` is the controller's flag.
    pub tolerance: Option<f64>,
}

/// `selectPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Select {
    /// The policy that allows the largest change.
    Max,
    /// The policy that allows the smallest change.
    Min,
    /// No change in this direction.
    Disabled,
}

/// One scaling policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ScalingPolicy {
    /// Percent of the replicas at the start of the period; otherwise pods.
    pub percent: bool,
    /// How many.
    pub value: i32,
    /// The period in seconds.
    pub period: i32,
}

impl TryFrom<&api::HorizontalPodAutoscalerBehavior> for Behavior {
    type Error = String;

    fn try_from(behavior: &api::HorizontalPodAutoscalerBehavior) -> Result<Self, String> {
        let (up, down) = (behavior.scale_up.as_ref(), behavior.scale_down.as_ref());
        Ok(Self {
            up: rules(up, ScalingRules::up(), "scaleUp")?,
            down: rules(down, ScalingRules::down(), "scaleDown")?,
        })
    }
}

impl ScalingPolicy {
    const fn each_15_s(percent: bool, value: i32) -> Self {
        Self {
            percent,
            value,
            period: 15,
        }
    }
}

impl ScalingRules {
    /// The defaults for scaling up.
    #[must_use]
    pub fn up() -> Self {
        Self {
            window: Some(0),
            select: Select::Max,
            policies: vec![
                ScalingPolicy::each_15_s(false, 4),
                ScalingPolicy::each_15_s(true, 100),
            ],
            tolerance: None,
        }
    }

    /// The defaults for scaling down.
    #[must_use]
    pub fn down() -> Self {
        Self {
            window: None,
            select: Select::Max,
            policies: vec![ScalingPolicy::each_15_s(true, 100)],
            tolerance: None,
        }
    }
}

fn rules(
    given: Option<&api::HPAScalingRules>,
    mut rules: ScalingRules,
    side: &str,
) -> Result<ScalingRules, String> {
    let Some(given) = given else {
        return Ok(rules);
    };
    let place = |field: &str| format!("spec.behavior.{side}.{field}");
    let unknown = |field: &str, word: &str, allowed: &str| {
        format!("{}: {word:?} is not known; {allowed}", place(field))
    };
    rules.window = given.stabilization_window_seconds.or(rules.window);
    if let Some(word) = &given.select_policy {
        rules.select = match word.as_str() {
            "Max" => Select::Max,
            "Min" => Select::Min,
            "Disabled" => Select::Disabled,
            _ => return Err(unknown("selectPolicy", word, "Max, Min or Disabled")),
        };
    }
    if let Some(policies) = &given.policies {
        let read = |policy: &api::HPAScalingPolicy| {
            Ok(ScalingPolicy {
                percent: match policy.type_.as_str() {
                    "Percent" => true,
                    "Pods" => false,
                    word => return Err(unknown("policies", word, "Pods or Percent")),
                },
                value: policy.value,
                period: policy.period_seconds,
            })
        };
        rules.policies = policies.iter().map(read).collect::<Result<_, _>>()?;
    }
    if let Some(Quantity(text)) = &given.tolerance {
        let tolerance = approximate(text).filter(|tolerance| *tolerance >= 0.0);
        rules.tolerance = Some(tolerance.ok_or_else(|| {
            format!("{}: {text:?} is no quantity above zero", place("tolerance"))
        })?);
    }
    Ok(rules)
}

/// `Quantity.AsApproximateFloat64` for the range of tolerances: the controller multiplies
/// a whole number by a power of ten, which must be reproduced bit for bit.
fn approximate(text: &str) -> Option<f64> {
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    if fraction.len() > 3 {
        return text.parse().ok();
    }
    parse_milli(text).map(|milli| milli as f64 * 1e-3)
}

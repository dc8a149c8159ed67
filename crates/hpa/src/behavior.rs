//! `spec.behavior` of a HorizontalPodAutoscaler, defaults filled in
//! (`pkg/apis/autoscaling/v2/defaults.go` of Kubernetes 1.37).

use k8s_openapi::api::autoscaling::v2 as api;

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
    /// `stabilizationWindowSeconds`; `None`: the controller's flag applies.
    pub window: Option<i32>,
    pub(crate) select: Select,
    pub(crate) policies: Vec<ScalingPolicy>,
    /// `None`: the controller's flag applies.
    pub(crate) tolerance: Option<f64>,
}

/// `selectPolicy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Select {
    /// The policy that allows the largest change.
    Max,
    /// The policy that allows the smallest change.
    Min,
    /// No change in this direction.
    Disabled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ScalingPolicy {
    /// Whether `value` is a percentage of the period's first replicas, or else a number of pods.
    pub(crate) percent: bool,
    pub(crate) value: i32,
    /// Seconds.
    pub(crate) period: i32,
}

impl Default for Behavior {
    fn default() -> Self {
        let each_15_s = |percent, value| ScalingPolicy {
            percent,
            value,
            period: 15,
        };
        Self {
            up: ScalingRules {
                window: Some(0),
                select: Select::Max,
                policies: vec![each_15_s(false, 4), each_15_s(true, 100)],
                tolerance: None,
            },
            down: ScalingRules {
                window: None,
                select: Select::Max,
                policies: vec![each_15_s(true, 100)],
                tolerance: None,
            },
        }
    }
}

impl Behavior {
    pub(super) fn read(behavior: &api::HorizontalPodAutoscalerBehavior) -> Result<Self, String> {
        let (up, down) = (behavior.scale_up.as_ref(), behavior.scale_down.as_ref());
        let defaults = Self::default();
        Ok(Self {
            up: rules(up, defaults.up, "scaleUp")?,
            down: rules(down, defaults.down, "scaleDown")?,
        })
    }
}

fn rules(
    given: Option<&api::HPAScalingRules>,
    defaults: ScalingRules,
    side: &str,
) -> Result<ScalingRules, String> {
    let Some(given) = given else {
        return Ok(defaults);
    };
    let place = |field: &str| format!("spec.behavior.{side}.{field}");
    let policies = given.policies.as_ref().map(|policies| {
        let read = |policy: &api::HPAScalingPolicy| {
            Ok(ScalingPolicy {
                percent: match policy.type_.as_str() {
                    "Percent" => true,
                    "Pods" => false,
                    word => return Err(unknown(&place("policies"), word, "Pods or Percent")),
                },
                value: policy.value,
                period: policy.period_seconds,
            })
        };
        policies.iter().map(read).collect::<Result<_, _>>()
    });
    Ok(ScalingRules {
        window: given.stabilization_window_seconds.or(defaults.window),
        select: match given.select_policy.as_deref() {
            None => defaults.select,
            Some("Max") => Select::Max,
            Some("Min") => Select::Min,
            Some("Disabled") => Select::Disabled,
            Some(word) => {
                let allowed = "Max, Min or Disabled";
                return Err(unknown(&place("selectPolicy"), word, allowed));
            }
        },
        policies: policies.transpose()?.unwrap_or(defaults.policies),
        tolerance: given.tolerance.as_ref().and_then(|it| tolerance(&it.0)),
    })
}

pub(super) fn unknown(place: &str, word: &str, allowed: &str) -> String {
    format!("{place}: {word:?} is not known; {allowed}")
}

/// A tolerance: a decimal number, or a quantity such as `50m`.
fn tolerance(text: &str) -> Option<f64> {
    let quantity = || parse_milli(text).map(|milli| milli as f64 / 1000.0);
    text.parse().ok().or_else(quantity)
}

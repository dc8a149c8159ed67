//! The specification of a HorizontalPodAutoscaler as its controller sees it:
//! defaults filled in, quantities in thousandths (`pkg/apis/autoscaling/v2/
//! defaults.go` of Kubernetes 1.35).

use std::fmt;

use k8s_openapi::api::autoscaling::v2 as api;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde::Serialize;

use super::ratio::Milli;
use super::words::printed;
use apimachinery::quantity::parse_milli;

/// A valid HorizontalPodAutoscaler.
#[derive(Clone, Debug, PartialEq)]
pub struct Hpa {
    /// Its namespace, and that of the objects it requests.
    pub namespace: String,
    /// `minReplicas`; 1 when not set.
    pub min: i32,
    /// `maxReplicas`.
    pub max: i32,
    /// In the order of the specification: the first of equal proposals wins.
    pub metrics: Vec<Metric>,
    /// `None` chooses the older arithmetic, with limits built in.
    pub behavior: Option<Behavior>,
}

/// One metric and its target.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Where the value comes from.
    pub source: Source,
    /// The target.
    pub target: Target,
}

/// Where the values of a metric come from.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", tag = "type")]
pub enum Source {
    /// One value of each pod, from custom.metrics.k8s.io.
    Pods {
        /// The metric.
        metric: String,
    },
    /// One value of one object, from custom.metrics.k8s.io.
    Object {
        /// The metric.
        metric: String,
        /// The metric's selector, as the controller prints it.
        selector: String,
        /// The object's kind.
        kind: String,
        /// The object's name.
        name: String,
    },
    /// A list of values, summed, from external.metrics.k8s.io.
    External {
        /// The metric.
        metric: String,
        /// The metric's selector, as the controller prints it.
        selector: String,
    },
    /// The usage of pods, from metrics.k8s.io.
    Resource {
        /// `cpu`, `memory`.
        resource: String,
        /// One container of each pod (`ContainerResource`), or all.
        container: Option<String>,
    },
}

impl Source {
    fn resource(name: &str, container: Option<&str>) -> Self {
        Self::Resource {
            resource: name.to_owned(),
            container: container.map(str::to_owned),
        }
    }
}

/// The target of a metric. Always above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Target {
    /// The value as it is.
    Value(Milli),
    /// The value divided by the number of pods.
    AverageValue(Milli),
    /// Percent of the pods' requests.
    Utilization(i32),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "{value}"),
            Self::AverageValue(value) => write!(f, "{value} per pod"),
            Self::Utilization(percent) => write!(f, "{percent} % of the requests"),
        }
    }
}

/// `spec.behavior`, defaults filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Behavior {
    /// Rules for more replicas.
    pub up: Rules,
    /// Rules for fewer replicas.
    pub down: Rules,
}

/// How fast replicas may change in one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// Seconds of `stabilizationWindowSeconds`; `None` is the controller's flag.
    pub window: Option<i32>,
    /// The policy that applies.
    pub select: Select,
    /// The allowed changes in a period.
    pub policies: Vec<Policy>,
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
pub struct Policy {
    /// Percent of the replicas at the start of the period; otherwise pods.
    pub percent: bool,
    /// How many.
    pub value: i32,
    /// The period in seconds.
    pub period: i32,
}

/// Why a specification is invalid. The API server refuses such objects, but a file may
/// not have passed one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHpa {
    /// A field that the type of the metric needs.
    #[error("{0} is missing")]
    Missing(String),
    /// Not a quantity above zero.
    #[error("{place}: {text:?} is no quantity above zero")]
    Quantity {
        /// The field.
        place: String,
        /// The text.
        text: String,
    },
    /// Not a word of a closed set.
    #[error("{place}: {text:?} is not known; {allowed}")]
    Word {
        /// The field.
        place: String,
        /// The text.
        text: String,
        /// The allowed words.
        allowed: &'static str,
    },
}

impl TryFrom<&api::HorizontalPodAutoscaler> for Hpa {
    type Error = InvalidHpa;

    fn try_from(object: &api::HorizontalPodAutoscaler) -> Result<Self, InvalidHpa> {
        let missing = || InvalidHpa::Missing("spec".to_owned());
        let spec = object.spec.as_ref().ok_or_else(missing)?;
        let mut metrics = Vec::new();
        for (index, metric) in spec.metrics.iter().flatten().enumerate() {
            metrics.push(read_metric(metric, &format!("spec.metrics[{index}]"))?);
        }
        if metrics.is_empty() {
            metrics.push(Metric {
                source: Source::resource("cpu", None),
                target: Target::Utilization(80),
            });
        }
        let behavior = spec.behavior.as_ref().map(|behavior| {
            Ok(Behavior {
                up: rules(behavior.scale_up.as_ref(), Rules::up(), "scaleUp")?,
                down: rules(behavior.scale_down.as_ref(), Rules::down(), "scaleDown")?,
            })
        });
        Ok(Self {
            namespace: object.metadata.namespace.clone().unwrap_or_default(),
            min: spec.min_replicas.unwrap_or(1),
            max: spec.max_replicas,
            metrics,
            behavior: behavior.transpose()?,
        })
    }
}

impl Policy {
    const fn each_15_s(percent: bool, value: i32) -> Self {
        Self {
            percent,
            value,
            period: 15,
        }
    }
}

impl Rules {
    /// The defaults for scaling up.
    #[must_use]
    pub fn up() -> Self {
        Self {
            window: Some(0),
            select: Select::Max,
            policies: vec![Policy::each_15_s(false, 4), Policy::each_15_s(true, 100)],
            tolerance: None,
        }
    }

    /// The defaults for scaling down.
    #[must_use]
    pub fn down() -> Self {
        Self {
            window: None,
            select: Select::Max,
            policies: vec![Policy::each_15_s(true, 100)],
            tolerance: None,
        }
    }
}

fn rules(
    given: Option<&api::HPAScalingRules>,
    mut rules: Rules,
    side: &str,
) -> Result<Rules, InvalidHpa> {
    let Some(given) = given else {
        return Ok(rules);
    };
    let place = |field: &str| format!("spec.behavior.{side}.{field}");
    rules.window = given.stabilization_window_seconds.or(rules.window);
    if let Some(word) = &given.select_policy {
        rules.select = match word.as_str() {
            "Max" => Select::Max,
            "Min" => Select::Min,
            "Disabled" => Select::Disabled,
            _ => return Err(unknown(place("selectPolicy"), word, "Max, Min or Disabled")),
        };
    }
    if let Some(policies) = &given.policies {
        let read = |policy: &api::HPAScalingPolicy| {
            Ok(Policy {
                percent: match policy.type_.as_str() {
                    "Percent" => true,
                    "Pods" => false,
                    word => return Err(unknown(place("policies"), word, "Pods or Percent")),
                },
                value: policy.value,
                period: policy.period_seconds,
            })
        };
        rules.policies = policies.iter().map(read).collect::<Result<_, _>>()?;
    }
    if let Some(Quantity(text)) = &given.tolerance {
        let tolerance = approximate(text).filter(|tolerance| *tolerance >= 0.0);
        rules.tolerance = Some(tolerance.ok_or_else(|| InvalidHpa::Quantity {
            place: place("tolerance"),
            text: text.clone(),
        })?);
    }
    Ok(rules)
}

fn unknown(place: String, text: &str, allowed: &'static str) -> InvalidHpa {
    InvalidHpa::Word {
        place,
        text: text.to_owned(),
        allowed,
    }
}

/// `Quantity.AsApproximateFloat64` for the range of tolerances: the controller multiplies
/// a whole number by a power of ten, which must be reproduced bit for bit.
fn approximate(text: &str) -> Option<f64> {
    for (suffix, scale) in [('u', 1e-6), ('n', 1e-9)] {
        if let Some(digits) = text.strip_suffix(suffix) {
            return Some(digits.parse::<i64>().ok()? as f64 * scale);
        }
    }
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    if fraction.len() > 3 {
        return text.parse().ok();
    }
    parse_milli(text).map(|milli| milli as f64 * 1e-3)
}

fn read_metric(metric: &api::MetricSpec, place: &str) -> Result<Metric, InvalidHpa> {
    let missing = |field: &str| InvalidHpa::Missing(format!("{place}.{field}"));
    let (source, target, field) = match metric.type_.as_str() {
        "Pods" => {
            let given = metric.pods.as_ref().ok_or_else(|| missing("pods"))?;
            let metric = given.metric.name.clone();
            (Source::Pods { metric }, &given.target, "pods")
        }
        "Object" => {
            let given = metric.object.as_ref().ok_or_else(|| missing("object"))?;
            let source = Source::Object {
                metric: given.metric.name.clone(),
                selector: printed(given.metric.selector.as_ref()),
                kind: given.described_object.kind.clone(),
                name: given.described_object.name.clone(),
            };
            (source, &given.target, "object")
        }
        "External" => {
            let given = metric.external.as_ref();
            let given = given.ok_or_else(|| missing("external"))?;
            let selector = printed(given.metric.selector.as_ref());
            let metric = given.metric.name.clone();
            (
                Source::External { metric, selector },
                &given.target,
                "external",
            )
        }
        "Resource" => {
            let given = metric.resource.as_ref();
            let given = given.ok_or_else(|| missing("resource"))?;
            (
                Source::resource(&given.name, None),
                &given.target,
                "resource",
            )
        }
        "ContainerResource" => {
            let given = metric.container_resource.as_ref();
            let given = given.ok_or_else(|| missing("containerResource"))?;
            let source = Source::resource(&given.name, Some(given.container.as_str()));
            (source, &given.target, "containerResource")
        }
        word => {
            let allowed = "Pods, Object, External, Resource or ContainerResource";
            return Err(unknown(format!("{place}.type"), word, allowed));
        }
    };
    let target = read_target(&source, target, &format!("{place}.{field}.target"))?;
    Ok(Metric { source, target })
}

/// The field that the controller reads, which may differ from the one that `type` names.
fn read_target(
    source: &Source,
    target: &api::MetricTarget,
    place: &str,
) -> Result<Target, InvalidHpa> {
    let average = || quantity(target.average_value.as_ref(), place, "averageValue");
    let value = || quantity(target.value.as_ref(), place, "value");
    Ok(match source {
        Source::Pods { .. } => Target::AverageValue(average()?),
        Source::Object { .. } if target.type_ == "Value" => Target::Value(value()?),
        Source::Object { .. } => Target::AverageValue(average()?),
        _ if target.average_value.is_some() => Target::AverageValue(average()?),
        Source::External { .. } => Target::Value(value()?),
        Source::Resource { .. } => {
            let percent = target.average_utilization.filter(|percent| *percent > 0);
            Target::Utilization(percent.ok_or_else(|| {
                InvalidHpa::Missing(format!("{place}.averageUtilization above zero"))
            })?)
        }
    })
}

fn quantity(given: Option<&Quantity>, place: &str, field: &str) -> Result<Milli, InvalidHpa> {
    let place = format!("{place}.{field}");
    let Some(Quantity(text)) = given else {
        return Err(InvalidHpa::Missing(place));
    };
    match parse_milli(text) {
        Some(milli) if milli > 0 => Ok(Milli(milli)),
        _ => Err(InvalidHpa::Quantity {
            place,
            text: text.clone(),
        }),
    }
}

//! Whether an autoscaler does its work, judged by its specification and by what its
//! controller wrote.

use std::fmt;

use super::Hpa;
use super::SCALED_TO_ZERO;
use super::behavior::{Behavior, ScalingRules, Select};

const UP_DISABLED: &str = "Scaling up is disabled by selectPolicy";
const DOWN_DISABLED: &str = "Scaling down is disabled by selectPolicy";
const STABILISED: &str = "Held by its stabilisation window";

/// The state of an autoscaler. `Display` says it in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// The controller has written no condition.
    NotSynced,
    /// The scale of the target cannot be read or written: the controller's message.
    NoScale(String),
    /// The pods of the target cannot be selected: the controller's message.
    NoSelector(String),
    /// No metric proposes replicas: the controller's message.
    NoMetric(String),
    /// The target has no replicas, and the controller adds none.
    SwitchedOff,
    /// The metrics ask for more than `maxReplicas`.
    AtMaximum {
        /// The current replicas.
        has: i32,
        /// From the written values; `None` if a metric has none.
        wants: Option<i32>,
    },
    /// These metrics have no value. The others can add replicas, and cannot remove any.
    MetricsMissing(Vec<String>),
    /// A bound, a policy or the stabilisation holds the replicas: in words.
    Limited(&'static str),
    /// The controller scaled the target to zero, and adds replicas when there is load.
    IdleAtZero,
    /// No bound and no limit applies.
    Well,
}

/// How much an autoscaler needs a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Concern {
    /// Not at all.
    Fine,
    /// It works, and does not follow its load.
    Warning,
    /// It cannot work.
    Error,
}

impl Health {
    /// Judges an autoscaler.
    #[must_use]
    pub fn of(hpa: &Hpa) -> Self {
        let status = &hpa.status;
        let is = |reason: &str| status.message(reason).is_some();
        let failed = |type_: &str| {
            let mut all = status.conditions.iter();
            let found = all.find(|it| it.type_ == type_ && it.status == "False")?;
            Some(found.message.clone().unwrap_or_default())
        };
        let is_disabled = |rules: fn(&Behavior) -> &ScalingRules| {
            let behavior = hpa.behavior.as_ref();
            behavior.is_some_and(|it| rules(it).select == Select::Disabled)
        };
        let values = hpa.metrics.iter().zip(&status.values);
        let missing = values.filter(|(_, value)| value.is_none());
        let missing: Vec<_> = missing.map(|(it, _)| it.source.name().to_owned()).collect();
        match (failed("AbleToScale"), failed("ScalingActive")) {
            (Some(told), _) => Self::NoScale(told),
            _ if is("ScalingDisabled") => Self::SwitchedOff,
            (_, Some(told)) if is("InvalidSelector") || is("AmbiguousSelector") => {
                Self::NoSelector(told)
            }
            (_, Some(told)) => Self::NoMetric(told),
            _ if status.conditions.is_empty() => Self::NotSynced,
            _ if is("TooManyReplicas") => Self::AtMaximum {
                has: status.replicas.unwrap_or(hpa.max),
                wants: wanted(hpa).filter(|wants| *wants > hpa.max),
            },
            _ if status.is_true(SCALED_TO_ZERO) && status.desired == Some(0) => Self::IdleAtZero,
            _ if !missing.is_empty() => Self::MetricsMissing(missing),
            _ if is("ScaleUpLimit") && is_disabled(|it| &it.up) => Self::Limited(UP_DISABLED),
            _ if is("ScaleUpLimit") => Self::Limited("Scales up as fast as its rate allows"),
            _ if is("ScaleDownLimit") && is_disabled(|it| &it.down) => Self::Limited(DOWN_DISABLED),
            _ if is("ScaleDownLimit") => Self::Limited("Scales down as fast as its rate allows"),
            _ if is("ScaleUpStabilized") || is("ScaleDownStabilized") => Self::Limited(STABILISED),
            _ if is("TooFewReplicas") => Self::Limited("At its minimum"),
            _ => Self::Well,
        }
    }

    /// How much it needs a person.
    #[must_use]
    pub const fn concern(&self) -> Concern {
        match self {
            Self::NoScale(_) | Self::NoSelector(_) | Self::NoMetric(_) => Concern::Error,
            Self::AtMaximum { .. } | Self::MetricsMissing(_) | Self::SwitchedOff => {
                Concern::Warning
            }
            _ => Concern::Fine,
        }
    }
}

/// The replicas that the highest written value asks for, beyond the bounds too.
#[must_use]
pub fn wanted(hpa: &Hpa) -> Option<i32> {
    let replicas = f64::from(hpa.status.replicas?);
    let asks = hpa.metrics.iter().zip(&hpa.status.values);
    let asks = asks.map(|(metric, value)| Some((*value)? * replicas / metric.target.number()));
    let asks = asks.collect::<Option<Vec<f64>>>()?.into_iter();
    asks.reduce(f64::max).map(|most| most.ceil() as i32)
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSynced => f.write_str("Not looked at by the controller yet"),
            Self::NoScale(told) => write!(f, "Cannot scale its target: {told}"),
            Self::NoSelector(told) => write!(f, "Cannot select its pods: {told}"),
            Self::NoMetric(told) => write!(f, "Cannot read its metric: {told}"),
            Self::SwitchedOff => f.write_str("Switched off: its target has 0 replicas"),
            Self::AtMaximum { has, wants } => {
                let wants = wants.map_or("more".to_owned(), |it| it.to_string());
                write!(f, "At its maximum: has {has}, wants {wants}")
            }
            Self::MetricsMissing(names) => {
                write!(f, "Cannot scale down: no value of {}", names.join(", "))
            }
            Self::Limited(how) => f.write_str(how),
            Self::IdleAtZero => f.write_str("Scaled to zero, waits for load"),
            Self::Well => f.write_str("Follows its metrics"),
        }
    }
}

//! A HorizontalPodAutoscaler as its controller sees it: defaults filled in, quantities in
//! thousandths (`pkg/apis/autoscaling/v2/defaults.go` of Kubernetes 1.37).

use std::fmt;

pub use super::behavior::Behavior;
use k8s_openapi::api::autoscaling::v2 as api;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::behavior::unknown;
use super::ratio::Milli;
use apimachinery::quantity::parse_milli;
use apimachinery::time::Timestamp;

/// A valid HorizontalPodAutoscaler.
#[derive(Clone, Debug, PartialEq)]
pub struct Hpa {
    /// Its namespace and that of its metrics' objects; empty if a manifest has none.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `scaleTargetRef`: the object whose replicas it sets.
    pub scaled: api::CrossVersionObjectReference,
    /// `minReplicas`; 1 when not set.
    pub min: i32,
    /// `maxReplicas`.
    pub max: i32,
    /// In the order of the specification: the first of equal proposals wins.
    pub metrics: Vec<Metric>,
    /// `None`: the controller uses its older arithmetic with built-in limits.
    pub behavior: Option<Behavior>,
    /// What its controller wrote last.
    pub status: HpaStatus,
}

impl Hpa {
    /// Whether a metric is of type Object or External and can have a value without pods.
    /// kube-apiserver requires one for `minReplicas: 0`.
    #[must_use]
    pub fn has_metric_without_pods(&self) -> bool {
        let has_none = |it: &Metric| match it.source {
            MetricSource::Object { .. } | MetricSource::External { .. } => true,
            MetricSource::Pods { .. } | MetricSource::Resource { .. } => false,
        };
        self.metrics.iter().any(has_none)
    }
}

/// `HorizontalPodAutoscaler team/infer`
impl fmt::Display for Hpa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "HorizontalPodAutoscaler {}/{}",
            self.namespace, self.name
        )
    }
}

/// What the controller wrote last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HpaStatus {
    /// `currentReplicas`.
    pub replicas: Option<i32>,
    /// `desiredReplicas`; `None` if it was never computed.
    pub desired: Option<i32>,
    /// `lastScaleTime`.
    pub scaled_at: Option<Timestamp>,
    /// The value of each metric in the form and the unit of its target, in the order of
    /// the specification; `None` if it was not known.
    pub values: Vec<Option<f64>>,
    /// Its conditions.
    pub conditions: Vec<api::HorizontalPodAutoscalerCondition>,
}

impl HpaStatus {
    pub(crate) fn new(
        given: Option<&api::HorizontalPodAutoscalerStatus>,
        metrics: &[Metric],
    ) -> Self {
        let Some(given) = given else {
            return Self::default();
        };
        let (desired, scaled_at) = (desired(given), given.last_scale_time.as_ref());
        let values = given.current_metrics.iter().flatten().zip(metrics);
        let values = values.map(|(value, metric)| written(value, metric));
        Self {
            // Kubernetes leaves a zero out.
            replicas: given.current_replicas.or(desired.and(Some(0))),
            desired,
            scaled_at: scaled_at.map(|time| Timestamp::from_millis(time.0.as_millisecond())),
            values: values.collect(),
            conditions: given.conditions.clone().unwrap_or_default(),
        }
    }

    /// Whether the condition of this type is true.
    #[must_use]
    pub fn is_true(&self, type_: &str) -> bool {
        let mut conditions = self.conditions.iter();
        conditions.any(|it| it.type_ == type_ && it.status == "True")
    }

    /// The message of the condition with this reason.
    #[must_use]
    pub fn message(&self, reason: &str) -> Option<&str> {
        let mut conditions = self.conditions.iter();
        let found = conditions.find(|it| it.reason.as_deref() == Some(reason))?;
        Some(found.message.as_deref().unwrap_or_default())
    }
}

/// `desiredReplicas`, if the controller computed it. A new status contains 0, so 0 counts
/// only if scaling is active or switched off.
fn desired(status: &api::HorizontalPodAutoscalerStatus) -> Option<i32> {
    let is_computed = |condition: &api::HorizontalPodAutoscalerCondition| {
        condition.type_ == "ScalingActive"
            && (condition.status == "True"
                || condition.reason.as_deref() == Some("ScalingDisabled"))
    };
    let desired = status.desired_replicas;
    let is_known = desired > 0 || status.conditions.iter().flatten().any(is_computed);
    is_known.then_some(desired)
}

/// The value in the form of the target.
fn written(status: &api::MetricStatus, metric: &Metric) -> Option<f64> {
    let value = match metric.source {
        MetricSource::Pods { .. } => &status.pods.as_ref()?.current,
        MetricSource::Object { .. } => &status.object.as_ref()?.current,
        MetricSource::External { .. } => &status.external.as_ref()?.current,
        MetricSource::Resource { .. } => {
            let of_one = || Some(&status.container_resource.as_ref()?.current);
            let of_all = status.resource.as_ref().map(|it| &it.current);
            of_all.or_else(of_one)?
        }
    };
    let quantity = match metric.target {
        MetricTarget::Value(_) => value.value.as_ref(),
        MetricTarget::AverageValue(_) => value.average_value.as_ref(),
        MetricTarget::Utilization(_) => return value.average_utilization.map(f64::from),
    };
    Some(parse_milli(&quantity?.0)? as f64 / 1000.0)
}

/// One metric and its target.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Where the value comes from.
    pub source: MetricSource,
    /// The target.
    pub target: MetricTarget,
}

/// Where the values of a metric come from.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricSource {
    /// One value of each pod, from custom.metrics.k8s.io.
    Pods {
        /// Its name and selector.
        metric: api::MetricIdentifier,
    },
    /// One value of one object, from custom.metrics.k8s.io.
    Object {
        /// Its name and selector.
        metric: api::MetricIdentifier,
        /// The object.
        described: api::CrossVersionObjectReference,
    },
    /// A list of values, summed, from external.metrics.k8s.io.
    External {
        /// Its name and selector.
        metric: api::MetricIdentifier,
    },
    /// The usage of pods, from metrics.k8s.io.
    Resource {
        /// `cpu`, `memory`.
        resource: String,
    },
}

impl MetricSource {
    /// The name of the metric, or of the resource.
    #[must_use]
    pub fn name(&self) -> &str {
        self.identifier()
            .map_or_else(|resource| resource, |metric| &metric.name)
    }

    /// The metric's selector, if it has one.
    #[must_use]
    pub fn selector(&self) -> Option<&LabelSelector> {
        self.identifier().ok()?.selector.as_ref()
    }

    /// Name and selector of the metric, or the name of the resource.
    const fn identifier(&self) -> Result<&api::MetricIdentifier, &str> {
        match self {
            Self::Pods { metric } | Self::Object { metric, .. } | Self::External { metric } => {
                Ok(metric)
            }
            Self::Resource { resource } => Err(resource.as_str()),
        }
    }
}

/// The target of a metric. Always above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricTarget {
    /// The value as it is.
    Value(Milli),
    /// The value divided by the number of pods.
    AverageValue(Milli),
    /// Percent of the pods' requests.
    Utilization(i32),
}

impl MetricTarget {
    /// The number, in the unit of the metric or in percent of the requests.
    #[must_use]
    pub fn number(self) -> f64 {
        match self {
            Self::Value(milli) | Self::AverageValue(milli) => milli.number(),
            Self::Utilization(percent) => f64::from(percent),
        }
    }
}

impl fmt::Display for MetricTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => write!(f, "{value}"),
            Self::AverageValue(value) => write!(f, "{value} per pod"),
            Self::Utilization(percent) => write!(f, "{percent} % of the requests"),
        }
    }
}

impl TryFrom<&api::HorizontalPodAutoscaler> for Hpa {
    /// The invalid field. kube-apiserver rejects such objects, but a manifest in a file
    /// may be invalid.
    type Error = String;

    fn try_from(object: &api::HorizontalPodAutoscaler) -> Result<Self, String> {
        let spec = object.spec.as_ref().ok_or("spec is missing")?;
        let mut metrics = Vec::new();
        for (index, metric) in spec.metrics.iter().flatten().enumerate() {
            metrics.push(read_metric(metric, &format!("spec.metrics[{index}]"))?);
        }
        if metrics.is_empty() {
            metrics.push(Metric {
                source: MetricSource::Resource {
                    resource: "cpu".to_owned(),
                },
                target: MetricTarget::Utilization(80),
            });
        }
        let behavior = spec.behavior.as_ref().map(Behavior::read);
        Ok(Self {
            namespace: object.metadata.namespace.clone().unwrap_or_default(),
            name: object.metadata.name.clone().unwrap_or_default(),
            scaled: spec.scale_target_ref.clone(),
            status: HpaStatus::new(object.status.as_ref(), &metrics),
            min: spec.min_replicas.unwrap_or(1),
            max: spec.max_replicas,
            metrics,
            behavior: behavior.transpose()?,
        })
    }
}

fn read_metric(given: &api::MetricSpec, place: &str) -> Result<Metric, String> {
    let of_pods = |resource: &str| MetricSource::Resource {
        resource: resource.to_owned(),
    };
    let (field, parts) = match given.type_.as_str() {
        "Pods" => (
            "pods",
            given.pods.as_ref().map(|it| {
                let metric = it.metric.clone();
                (MetricSource::Pods { metric }, &it.target)
            }),
        ),
        "Object" => (
            "object",
            given.object.as_ref().map(|it| {
                let (metric, described) = (it.metric.clone(), it.described_object.clone());
                (MetricSource::Object { metric, described }, &it.target)
            }),
        ),
        "External" => (
            "external",
            given.external.as_ref().map(|it| {
                let metric = it.metric.clone();
                (MetricSource::External { metric }, &it.target)
            }),
        ),
        "Resource" => {
            let given = given.resource.as_ref();
            ("resource", given.map(|it| (of_pods(&it.name), &it.target)))
        }
        "ContainerResource" => {
            let given = given.container_resource.as_ref();
            let parts = given.map(|it| (of_pods(&it.name), &it.target));
            ("containerResource", parts)
        }
        word => {
            let allowed = "Pods, Object, External, Resource or ContainerResource";
            return Err(unknown(&format!("{place}.type"), word, allowed));
        }
    };
    let place = format!("{place}.{field}");
    let (source, target) = parts.ok_or_else(|| format!("{place} is missing"))?;
    let target = read_target(&source, target, &format!("{place}.target"))?;
    Ok(Metric { source, target })
}

/// The field that the controller reads, which may differ from the one that `type` names.
fn read_target(
    source: &MetricSource,
    target: &api::MetricTarget,
    place: &str,
) -> Result<MetricTarget, String> {
    if !["Utilization", "Value", "AverageValue"].contains(&target.type_.as_str()) {
        let allowed = "Utilization, Value or AverageValue";
        return Err(unknown(&format!("{place}.type"), &target.type_, allowed));
    }
    let average = || quantity(target.average_value.as_ref(), place, "averageValue");
    let value = || quantity(target.value.as_ref(), place, "value");
    Ok(match source {
        MetricSource::Pods { .. } => MetricTarget::AverageValue(average()?),
        MetricSource::Object { .. } if target.type_ == "Value" => MetricTarget::Value(value()?),
        MetricSource::Object { .. } => MetricTarget::AverageValue(average()?),
        _ if target.average_value.is_some() => MetricTarget::AverageValue(average()?),
        MetricSource::External { .. } => MetricTarget::Value(value()?),
        MetricSource::Resource { .. } => {
            let percent = target.average_utilization.filter(|percent| *percent > 0);
            let missing = || format!("{place}.averageUtilization above zero is missing");
            MetricTarget::Utilization(percent.ok_or_else(missing)?)
        }
    })
}

fn quantity(given: Option<&Quantity>, place: &str, field: &str) -> Result<Milli, String> {
    let place = format!("{place}.{field}");
    let Some(Quantity(text)) = given else {
        return Err(format!("{place} is missing"));
    };
    match parse_milli(text) {
        Some(milli) if milli > 0 => Ok(Milli(milli)),
        _ => Err(format!("{place}: {text:?} is no quantity above zero")),
    }
}

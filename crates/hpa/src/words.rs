//! The controller's messages for metrics, and for failed ones.

use super::hpa::{Metric, MetricSource, MetricTarget};
use super::metric::Invalid;
use super::printed::printed;

impl MetricSource {
    /// The API of a metric, by its name in messages.
    pub(super) const fn api(&self) -> &'static str {
        match self {
            Self::Pods { .. } | Self::Object { .. } => "custom",
            Self::External { .. } => "external",
            Self::Resource { .. } => "resource",
        }
    }

    /// The reason of the condition, and the event's text before the cause.
    fn around(&self, is_shared: bool) -> (&'static str, String) {
        match self {
            Self::Pods { .. } => ("FailedGetPodsMetric", "pods metric value".to_owned()),
            Self::Object { metric, .. } => {
                let mut around = "object metric value".to_owned();
                if is_shared {
                    around += &format!(": failed to get {metric} object metric");
                }
                ("FailedGetObjectMetric", around)
            }
            Self::External { metric, .. } => {
                let inner = if is_shared {
                    format!("{metric} external metric")
                } else {
                    format!("external metric {metric}")
                };
                let around = format!("{metric} external metric value: failed to get {inner}");
                ("FailedGetExternalMetric", around)
            }
            Self::Resource {
                container: Some(container),
                ..
            } => {
                let around = format!("{container} container metric value");
                ("FailedGetContainerResourceMetric", around)
            }
            Self::Resource { resource, .. } => {
                let around = format!("{resource} resource metric value");
                ("FailedGetResourceMetric", around)
            }
        }
    }

    /// The cause, when the API failed or had no value.
    pub(super) fn unread(&self, text: &str, namespace: &str) -> String {
        match self {
            Self::Pods { metric, .. } => format!("unable to get metric {metric}: {text}"),
            // The controller passes these in the wrong order, and so does its message.
            Self::Object {
                metric, kind, name, ..
            } => format!("unable to get metric {metric}: {kind} on {namespace} {name}/{text}"),
            Self::External { metric, selector } => {
                let selector = printed(selector.as_ref());
                format!("unable to get external metric {namespace}/{metric}/{selector}: {text}")
            }
            Self::Resource { resource, .. } => {
                format!("unable to get metrics for resource {resource}: {text}")
            }
        }
    }
}

impl Metric {
    /// The controller's name for it in messages, where an object's shared value is called
    /// external.
    pub(super) fn name(&self) -> String {
        let is_shared = matches!(self.target, MetricTarget::AverageValue(_));
        match &self.source {
            MetricSource::Pods { metric, .. } => format!("pods metric {metric}"),
            MetricSource::Object { metric, kind, .. } if !is_shared => {
                format!("{kind} metric {metric}")
            }
            MetricSource::Object {
                metric, selector, ..
            }
            | MetricSource::External { metric, selector } => {
                format!("external metric {metric}({})", printed(selector.as_ref()))
            }
            MetricSource::Resource { resource, .. } if is_shared => format!("{resource} resource"),
            MetricSource::Resource {
                resource,
                container,
            } => {
                let of = if container.is_some() {
                    " container"
                } else {
                    ""
                };
                format!("{resource}{of} resource utilization (percentage of request)")
            }
        }
    }

    /// A failure in the words of the condition and of the event.
    pub(super) fn invalid(&self, cause: String) -> Invalid {
        let is_shared = matches!(self.target, MetricTarget::AverageValue(_));
        let (reason, around) = self.source.around(is_shared);
        let cause = match &self.source {
            MetricSource::Resource { resource, .. } => {
                let what = if is_shared { "usage" } else { "utilization" };
                format!("failed to get {resource} {what}: {cause}")
            }
            _ => cause,
        };
        Invalid {
            reason,
            error: format!("failed to get {around}: {cause}"),
            message: format!("the HPA was unable to compute the replica count: {cause}"),
        }
    }
}

//! What identifies a series: its device, the pod it names, its node.

use std::sync::Arc;

/// Labels that hold the GPU's model (`crate::dcgm`, "Labels").
pub const MODEL_LABELS: [&str; 2] = ["modelName", "model_name"];

/// A GPU or a MIG instance of one. Ordered by its text, so that every replica sums the
/// readings of devices in the same order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    /// The GPU's UUID; a MIG instance carries its parent's.
    pub uuid: Arc<str>,
    /// The MIG GPU-instance id; `None` for a whole GPU.
    pub instance: Option<Arc<str>>,
    /// The MIG profile, `1g.10gb`: part of the identity, because an id is reused with
    /// another profile after a reconfiguration.
    pub profile: Option<Arc<str>>,
}

impl Device {
    /// Whether this is a MIG instance.
    pub(crate) fn is_mig(&self) -> bool {
        self.instance.is_some()
    }

    /// Compute slices of a MIG instance: the leading number of its profile
    /// (`3g.40gb` → 3). A whole GPU has seven.
    pub(crate) fn slices(&self) -> u32 {
        let Some(profile) = &self.profile else {
            return if self.is_mig() { 1 } else { 7 };
        };
        let digits = profile.find(|c: char| !c.is_ascii_digit());
        digits
            .and_then(|end| profile[..end].parse().ok())
            .filter(|slices| *slices > 0)
            .unwrap_or(1)
    }
}

/// How the owner was read from the labels (docs/numbers.md, "Whose a device is").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// `exported_pod`: `honor_labels: false`, the default.
    Exported,
    /// `pod_name`, `pod_namespace`: exporters before 2.0.
    Legacy,
    /// `exported_namespace` with a bare `pod`: annotation discovery of
    /// endpoints, PodMonitoring.
    Mixed,
    /// Bare `namespace`, `pod`: `honor_labels: true`, managed Prometheus.
    Bare,
}

impl Scheme {
    /// The labels that name the owner, as text.
    pub(crate) const fn describe(self) -> &'static str {
        match self {
            Self::Exported => "exported_namespace and exported_pod (honor_labels: false)",
            Self::Legacy => "pod_namespace and pod_name (exporter before 2.0)",
            Self::Mixed => "exported_namespace and pod (endpoints discovery)",
            Self::Bare => "namespace and pod (honor_labels: true or none in the way)",
        }
    }
}

/// The pod that a series names as the holder of its device.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// The pod's namespace.
    pub namespace: Arc<str>,
    /// The pod's name.
    pub pod: Arc<str>,
    /// The container, where the label is present.
    pub container: Option<Arc<str>>,
}

/// A name of the device's node in a series.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeName {
    /// The rank of its label; 0 is the best (docs/numbers.md, "Whose a device is").
    pub rank: u8,
    pub name: Arc<str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_the_leading_number_of_the_profile() {
        let device = |instance: Option<&str>, profile: Option<&str>| Device {
            uuid: "GPU-a".into(),
            instance: instance.map(Into::into),
            profile: profile.map(Into::into),
        };
        assert_eq!(device(Some("1"), Some("3g.40gb")).slices(), 3);
        assert_eq!(device(Some("7"), Some("1g.10gb+me")).slices(), 1);
        assert_eq!(device(Some("7"), Some("odd")).slices(), 1);
        assert_eq!(device(None, None).slices(), 7);
    }
}

//! Kinds of objects, and the labels that identify an object in an expression.

/// The series that replaces the pod watch: 1 for each pod.
pub(crate) const POD: &str = "pod_info";

/// The labels of a device.
pub(super) const DEVICE: &str = "uuid, gpu_i_id, gpu_i_profile";

/// A kind of object, and the labels that identify an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Pods,
    Namespaces,
    Nodes,
    /// By the label of [`POD`] with the owner's name.
    Workloads(String),
    Cluster,
}

impl View {
    /// The view of a kind by its resource name.
    pub(crate) fn of(resource: &str) -> Self {
        match resource {
            "pods" => Self::Pods,
            "namespaces" => Self::Namespaces,
            "nodes" => Self::Nodes,
            "cluster" => Self::Cluster,
            workload => Self::Workloads(owner_label(workload)),
        }
    }

    /// The labels that identify an object.
    pub(crate) fn labels(&self) -> Vec<&str> {
        match self {
            Self::Pods => vec!["ns", "po"],
            Self::Namespaces => vec!["ns"],
            Self::Nodes => vec!["n"],
            Self::Workloads(label) => vec!["ns", label],
            Self::Cluster => vec![],
        }
    }

    pub(super) fn key(&self) -> String {
        self.labels().join(", ")
    }

    /// Device and object.
    pub(super) fn device_key(&self) -> String {
        let labels = self.labels().into_iter().map(|label| format!(", {label}"));
        format!("{DEVICE}{}", labels.collect::<String>())
    }
}

/// The label of [`POD`] for owners of a kind: `deployments_apps`.
pub(crate) fn owner_label(resource: &str) -> String {
    resource.replace('.', "_")
}

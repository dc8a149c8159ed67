//! Raw series as the reference reads them: labels by hand, samples in order.

use std::collections::{BTreeMap, BTreeSet};

use gpu_metrics::inventory::{Inventory, Pod};
use simulator::ScrapedSeries;

/// UUID, MIG instance, MIG profile.
pub(crate) type Device = (String, Option<String>, Option<String>);

/// Job, replica, instance and node of an exporter.
pub(super) type TargetKey = [String; 4];

/// A target, the index of a GPU behind it, and the id of the MIG instance.
pub(super) type Place = (TargetKey, String, Option<String>);

/// Namespace, pod, container.
pub(crate) type Owner = (String, String, Option<String>);

/// What a series reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Field {
    MemCopy,
    Dram,
    GpuUtil,
    Engine,
    Used,
    Free,
    Reserved,
    Power,
}

impl Field {
    fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let table = [
            ("mem_copy", Self::MemCopy),
            ("prof_dram", Self::Dram),
            ("gpu_util", Self::GpuUtil),
            ("prof_gr_engine", Self::Engine),
            ("fb_used", Self::Used),
            ("fb_free", Self::Free),
            ("fb_reserved", Self::Reserved),
            ("power_usage", Self::Power),
        ];
        let found = table.into_iter().find(|(part, _)| name.contains(part));
        found.unwrap_or_else(|| panic!("{name} is no field")).1
    }

    /// Whether it is read of MIG instances only.
    pub(super) fn is_for_instances(self) -> bool {
        matches!(self, Self::Dram | Self::Engine)
    }

    /// The reading a raw value stands for.
    pub(super) fn reading(self, raw: f64, percent_as_ratio: bool) -> Option<f64> {
        let ratio = |raw: f64| {
            if (0.0..=1.2).contains(&raw) {
                Some(100.0 * raw.min(1.0))
            } else {
                None
            }
        };
        let below = |limit: f64| {
            if raw >= 0.0 && raw < limit {
                Some(raw)
            } else {
                None
            }
        };
        match self {
            Self::MemCopy | Self::GpuUtil if percent_as_ratio => ratio(raw),
            Self::MemCopy | Self::GpuUtil => {
                if (0.0..=100.0).contains(&raw) {
                    Some(raw)
                } else {
                    None
                }
            }
            Self::Dram | Self::Engine => ratio(raw),
            Self::Used | Self::Free | Self::Reserved => below(1e8),
            Self::Power => below(1e6),
        }
    }
}

/// A series.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) field: Field,
    pub(super) device: Device,
    pub(super) owner: Option<Owner>,
    /// The owner was read from bare `namespace` and `pod`.
    pub(super) bare: bool,
    /// Labels of sharing or of a resource claim prove that a pod holds it.
    pub(super) proven: bool,
    /// The value may be one process' share of the device.
    pub(super) share: bool,
    pub(super) target: TargetKey,
    /// Where its device is, if it says its index.
    pub(super) place: Option<Place>,
    /// Names the node may have, best first.
    pub(super) nodes: Vec<String>,
    /// Times in milliseconds.
    pub(super) samples: Vec<(i64, f64)>,
}

impl Line {
    pub(super) fn new(series: &ScrapedSeries) -> Self {
        let labels: BTreeMap<String, &str> = series
            .labels
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| (name.to_ascii_lowercase(), &**value))
            .collect();
        let text = |name: &str| labels.get(name).map(|&value| value.to_owned());
        let namespace = || text("exported_namespace").or_else(|| text("namespace"));
        let (owner, bare) = if let Some(pod) = text("exported_pod") {
            let container = text("exported_container").or_else(|| text("container"));
            (Some((namespace().unwrap(), pod, container)), false)
        } else if let (Some(namespace), Some(pod)) = (text("pod_namespace"), text("pod_name")) {
            (Some((namespace, pod, text("container_name"))), false)
        } else if let Some(pod) = text("pod") {
            let bare = text("exported_namespace").is_none();
            (Some((namespace().unwrap(), pod, text("container"))), bare)
        } else {
            (None, false)
        };
        let host = text("instance").map(|instance| instance.split(':').next().unwrap().to_owned());
        let nodes = ["hostname", "exported_hostname", "node"]
            .into_iter()
            .filter_map(text)
            .chain(host);
        let nodes: Vec<String> = nodes.collect();
        let [job, replica, instance] =
            ["job", "prometheus_replica", "instance"].map(|name| text(name).unwrap_or_default());
        let node = nodes.first().cloned().unwrap_or_default();
        let target = [job, replica, instance, node];
        let field = Field::of(&text("__name__").unwrap());
        let split = matches!(field, Field::GpuUtil | Field::Used);
        Self {
            field,
            device: (
                text("uuid").unwrap(),
                text("gpu_i_id"),
                text("gpu_i_profile"),
            ),
            owner,
            bare,
            proven: text("vgpu").is_some(),
            share: split && text("vgpu").is_some() && text("pod_uid").is_some(),
            place: text("gpu").map(|gpu| (target.clone(), gpu, text("gpu_i_id"))),
            target,
            nodes,
            samples: series
                .samples
                .iter()
                .map(|(at, value)| (at.millis(), *value))
                .collect(),
        }
    }

    /// The newest sample at or before `instant`, if it is younger than `hold_ms`.
    pub(super) fn newest(&self, instant: i64, hold_ms: i64) -> Option<(i64, f64)> {
        let until = self.samples.partition_point(|(at, _)| *at <= instant);
        let newest = *self.samples[..until].last()?;
        (newest.0 > instant - hold_ms).then_some(newest)
    }
}

/// What became of a claim to an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Held,
    Nobody,
    Gone,
    Elsewhere,
}

/// Judges a claim, last made at `newest`, against the cluster's word; with the
/// pod that is meant.
pub(super) fn standing<'a>(
    line: &Line,
    nodes: &[String],
    newest: i64,
    inventory: &'a Inventory,
) -> (Standing, Option<&'a Pod>) {
    let Some((namespace, name, _)) = &line.owner else {
        return (Standing::Nobody, None);
    };
    let meant = |pod: &&Pod| *pod.namespace == **namespace && *pod.name == **name;
    let listed = inventory.pods.iter().find(meant);
    let Some(pod) = listed.or_else(|| inventory.departed.iter().find(meant)) else {
        let exporter = line.bare && name.contains("dcgm-exporter");
        let standing = if exporter {
            Standing::Nobody
        } else {
            Standing::Gone
        };
        return (standing, None);
    };
    if line.bare && !pod.requests_gpu() && !line.proven {
        return (Standing::Nobody, None);
    }
    let named = named_node(nodes, inventory);
    let elsewhere = |pod: &Pod| named.is_some_and(|node| pod.node.as_deref() != Some(node));
    if elsewhere(pod) && !line.proven {
        let before = inventory.departed.iter().filter(meant);
        if let Some(before) = before.into_iter().find(|pod| !elsewhere(pod)) {
            return (Standing::Gone, Some(before));
        }
        let earlier = pod.started.is_some_and(|started| newest < started.millis());
        let standing = if earlier {
            Standing::Gone
        } else {
            Standing::Elsewhere
        };
        return (standing, None);
    }
    if listed.is_none() || !pod.is_live() {
        return (Standing::Gone, Some(pod));
    }
    (Standing::Held, Some(pod))
}

/// The first name that is a node's.
pub(super) fn named_node<'a>(names: &'a [String], inventory: &Inventory) -> Option<&'a str> {
    let known: BTreeSet<&str> = inventory.nodes.iter().map(|node| &*node.name).collect();
    names
        .iter()
        .map(String::as_str)
        .find(|name| known.contains(name))
}

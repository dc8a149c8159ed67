//! Layer 5: exporter generations and their labels (docs/exporter.md, "Generations",
//! "Labels", "Lines").

use std::borrow::Cow;

use super::attribution::Holder;
use super::fleet::{Device, Fleet};
use super::sampler::Field;
use super::scenario::picks;
use apimachinery::time::Timestamp;

/// A generation of dcgm-exporter, named by its first release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Profile {
    /// 1.x with pod-gpu-metrics-exporter.
    V1Pod,
    /// 2.0.13-2.1.1: spaces after the first commas, empty labels when idle.
    V2_1,
    /// 3.1.6-3.1.3: empty labels when idle.
    V3_1,
    /// 3.3.5-3.4.1: no labels when idle.
    V3_3,
    /// 4.1.1-4.0.3: `pci_bus_id`, sharing mode.
    V4_1,
    /// 4.5.3-4.8.2: `FB_RESERVED`, lines per process in sharing mode.
    V4_5_3,
    /// 4.6.0-4.8.3: `hostname`, sorted labels, Go's number format.
    V4_8_3,
}

impl Profile {
    /// All generations.
    pub const ALL: [Self; 7] = [
        Self::V1Pod,
        Self::V2_1,
        Self::V3_1,
        Self::V3_3,
        Self::V4_1,
        Self::V4_5_3,
        Self::V4_8_3,
    ];

    /// Its name of a field, if it prints the field.
    #[must_use]
    pub const fn wire_name(self, field: Field, renamed: bool) -> Option<&'static str> {
        let renamed = renamed && matches!(self, Self::V4_8_3);
        let old = matches!(self, Self::V1Pod);
        let no_profiling = matches!(self, Self::V1Pod | Self::V2_1);
        Some(match field {
            Field::MemCopyUtil if old => "dcgm_mem_copy_utilization",
            Field::MemCopyUtil => "DCGM_FI_DEV_MEM_COPY_UTIL",
            Field::GpuUtil if old => "dcgm_gpu_utilization",
            Field::GpuUtil if renamed => "DCGM_FI_DEV_GPU_UTIL_RATIO",
            Field::GpuUtil => "DCGM_FI_DEV_GPU_UTIL",
            Field::FbUsed if old => "dcgm_fb_used",
            Field::FbUsed => "DCGM_FI_DEV_FB_USED",
            Field::FbFree if old => "dcgm_fb_free",
            Field::FbFree => "DCGM_FI_DEV_FB_FREE",
            Field::PowerUsage if old => "dcgm_power_usage",
            Field::PowerUsage => "DCGM_FI_DEV_POWER_USAGE",
            Field::DramActive | Field::GrEngineActive if no_profiling => return None,
            Field::DramActive if renamed => "DCGM_FI_PROF_DRAM_UTIL_RATIO",
            Field::DramActive => "DCGM_FI_PROF_DRAM_ACTIVE",
            Field::GrEngineActive if renamed => "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
            Field::GrEngineActive => "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
            Field::FbReserved => match self {
                Self::V4_5_3 | Self::V4_8_3 => "DCGM_FI_DEV_FB_RESERVED",
                Self::V1Pod | Self::V2_1 | Self::V3_1 | Self::V3_3 | Self::V4_1 => return None,
            },
        })
    }

    /// Whether it collects on its own timer and serves cached text, so that a reading may
    /// be 2 × I old when scraped (docs/exporter.md, "Lines").
    #[must_use]
    pub const fn has_pipeline(self) -> bool {
        matches!(self, Self::V2_1 | Self::V3_1 | Self::V3_3)
    }

    /// Whether it can print one line per replica.
    #[must_use]
    pub const fn knows_sharing(self) -> bool {
        matches!(self, Self::V4_1 | Self::V4_5_3 | Self::V4_8_3)
    }

    /// Whether it splits GPU_UTIL and FB_USED by process in sharing mode.
    #[must_use]
    pub const fn splits_by_process(self) -> bool {
        matches!(self, Self::V4_5_3 | Self::V4_8_3)
    }

    /// Whether an idle GPU's labels are printed empty.
    pub(super) const fn has_empty_labels(self) -> bool {
        matches!(self, Self::V2_1 | Self::V3_1)
    }

    pub(super) const fn prints_nan(self) -> bool {
        !matches!(self, Self::V4_8_3)
    }

    const fn driver(self) -> &'static str {
        match self {
            Self::V1Pod | Self::V2_1 | Self::V3_1 => "470.182.03",
            Self::V3_3 => "535.86.10",
            Self::V4_1 | Self::V4_5_3 => "570.133.20",
            Self::V4_8_3 => "580.95.05",
        }
    }
}

/// An exporter: one per node.
#[derive(Clone, Debug)]
pub struct Exporter {
    /// Index of its node.
    pub node: u32,
    /// Its version at the start of the timeline.
    pub profile: Profile,
    /// Namespace of its pod.
    pub namespace: &'static str,
    /// Name of its pod.
    pub pod: String,
    /// `address:9400`.
    pub instance: String,
    /// When it becomes silent for good.
    pub silent_from: Option<Timestamp>,
    pub(super) frozen_from: Option<Timestamp>,
    pub(super) duplicates_label: bool,
}

/// Labels in the printed order.
pub(super) type Pairs<'a> = Vec<(Cow<'static, str>, Cow<'a, str>)>;

impl Exporter {
    pub(super) fn new(fleet: &Fleet, node: u32) -> Self {
        let knobs = &fleet.scenario.exporters;
        let noise = fleet.noise.at(12).at(u64::from(node));
        let from = |event: Option<(u32, std::time::Duration)>| {
            event
                .filter(|&(every, _)| picks(every, node))
                .map(|(_, offset)| fleet.scenario.offset(offset))
        };
        Self {
            node,
            profile: fleet.profile_of(node),
            namespace: "gpu-operator",
            pod: format!("nvidia-dcgm-exporter-{}", noise.suffix(5)),
            instance: format!("{}:9400", fleet.nodes[node as usize].address),
            silent_from: from(knobs.silent),
            frozen_from: from(knobs.frozen),
            duplicates_label: picks(knobs.duplicate_label_every, node),
        }
    }

    /// Its version at a time.
    #[must_use]
    pub fn profile_at(&self, fleet: &Fleet, at: Timestamp) -> Profile {
        match fleet.scenario.exporters.upgrade {
            Some((offset, profile)) if at >= fleet.scenario.offset(offset) => profile,
            _ => self.profile,
        }
    }

    /// Whether it does not answer at a time.
    #[must_use]
    pub fn is_silent(&self, at: Timestamp) -> bool {
        self.silent_from.is_some_and(|from| at >= from)
    }

    /// The time of the data that it serves at a time: earlier if a pipeline caches the
    /// text, and never after it froze.
    pub(super) fn visible(&self, fleet: &Fleet, at: Timestamp) -> Timestamp {
        let at = self.frozen_from.map_or(at, |frozen| at.min(frozen));
        if self.profile_at(fleet, at).has_pipeline() {
            fleet.grid(self.node, at, 13)
        } else {
            at
        }
    }
}

/// The labels of a line, in the order of its generation.
pub(super) fn labels<'a>(
    profile: Profile,
    node: &'a str,
    device: &'a Device,
    holder: Option<&Holder<'a>>,
    process: bool,
) -> Pairs<'a> {
    let mut pairs: Pairs<'a> = Vec::with_capacity(20);
    let mut put = |name: &'static str, value: Cow<'a, str>| {
        pairs.push((Cow::Borrowed(name), value));
    };
    put("gpu", small_number(device.gpu));
    if profile == Profile::V1Pod {
        put("uuid", Cow::Borrowed(&device.uuid));
        if let Some(holder) = holder {
            put("pod_name", Cow::Borrowed(holder.pod));
            put("pod_namespace", Cow::Borrowed(holder.namespace));
            put("container_name", Cow::Borrowed(holder.container));
        }
        return pairs;
    }
    put("UUID", Cow::Borrowed(&device.uuid));
    if profile >= Profile::V4_1 {
        put("pci_bus_id", Cow::Borrowed(&device.pci_bus_id));
    }
    put("device", Cow::Borrowed(&device.name));
    if profile >= Profile::V3_1 {
        put("modelName", Cow::Borrowed(device.model.name()));
        if let Some(mig) = device.mig {
            put("GPU_I_PROFILE", Cow::Borrowed(mig.profile));
            put("GPU_I_ID", small_number(mig.id));
        }
        let lower = profile == Profile::V4_8_3;
        put(
            if lower { "hostname" } else { "Hostname" },
            Cow::Borrowed(node),
        );
        put("DCGM_FI_DRIVER_VERSION", Cow::Borrowed(profile.driver()));
    }
    match holder {
        Some(holder) => {
            put("container", Cow::Borrowed(holder.container));
            put("namespace", Cow::Borrowed(holder.namespace));
            put("pod", Cow::Borrowed(holder.pod));
            if process {
                put("pod_uid", Cow::Borrowed(holder.uid));
            }
            if let Some(replica) = holder.replica {
                put("vgpu", small_number(replica));
            }
        }
        None if profile.has_empty_labels() => {
            for name in ["container", "namespace", "pod"] {
                put(name, Cow::Borrowed(""));
            }
        }
        None => {}
    }
    if profile == Profile::V4_8_3 {
        pairs.sort_unstable();
    }
    pairs
}

/// A number as text, without an allocation for a single digit.
fn small_number(number: u32) -> Cow<'static, str> {
    const DIGITS: &str = "0123456789";
    let digit = number as usize;
    match DIGITS.get(digit..=digit) {
        Some(text) => Cow::Borrowed(text),
        None => Cow::Owned(number.to_string()),
    }
}

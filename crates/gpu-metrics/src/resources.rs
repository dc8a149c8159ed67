//! Which resources of a pod are GPUs, and which amounts count devices.

/// Resources that are GPUs, or parts of one, by default: NVIDIA's own names, and those of
/// schedulers that share GPUs.
const DEFAULT: [&str; 10] = [
    "nvidia.com/gpu*",
    "nvidia.com/mig-*",
    "nvidia.com/vgpu*",
    "k8s.amazonaws.com/vgpu",
    "volcano.sh/vgpu*",
    "volcano.sh/gpu*",
    "4paradigm.com/vgpu*",
    "aliyun.com/gpu*",
    "tencent.com/vcuda*",
    "koordinator.sh/gpu*",
];

/// Parts of a resource's name which show that several pods share a device, or that the
/// amount is memory, cores or hundredths of one.
const SHARES: [&str; 7] = [
    "shared", "vgpu", "mem", "core", "percent", "ratio", "priority",
];

/// Domains of schedulers that share GPUs, whatever the resource's name.
const SHARING: [&str; 4] = [
    "volcano.sh/",
    "aliyun.com/",
    "tencent.com/",
    "koordinator.sh/",
];

/// The meaning of an amount of a GPU resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// A number of devices that the pod has for itself.
    Devices,
    /// Parts of devices that other pods may hold too.
    Share,
}

/// The names of resources that count as GPUs; a trailing `*` matches any ending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuResources(Vec<String>);

impl Default for GpuResources {
    fn default() -> Self {
        Self(DEFAULT.map(str::to_owned).to_vec())
    }
}

impl GpuResources {
    /// Exactly these names.
    #[must_use]
    pub const fn new(names: Vec<String>) -> Self {
        Self(names)
    }

    /// The names as text; of the default ones only NVIDIA's.
    #[must_use]
    pub fn words(&self) -> String {
        match *self == Self::default() {
            true => "nvidia.com/gpu".to_owned(),
            false => self.0.join(" or "),
        }
    }

    /// The meaning of an amount of this resource; `None`: it is no GPU.
    #[must_use]
    pub fn amount(&self, resource: &str) -> Option<Amount> {
        let is_gpu = self.0.iter().any(|name| match name.strip_suffix('*') {
            Some(prefix) => resource.starts_with(prefix),
            None => resource == name,
        });
        let name = resource.rsplit('/').next().unwrap_or_default();
        let share = SHARING.iter().any(|domain| resource.starts_with(domain))
            || SHARES.iter().any(|part| name.contains(part));
        is_gpu.then_some(if share {
            Amount::Share
        } else {
            Amount::Devices
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_told_from_shares_and_from_what_is_no_gpu() {
        let resources = GpuResources::default();
        for name in [
            "nvidia.com/gpu",
            "nvidia.com/gpu-a100",
            "nvidia.com/mig-1g.10gb",
        ] {
            assert_eq!(resources.amount(name), Some(Amount::Devices), "{name}");
        }
        for name in [
            "nvidia.com/gpu.shared",
            "nvidia.com/gpumem",
            "nvidia.com/vgpu",
            "volcano.sh/vgpu-number",
            "4paradigm.com/vgpu",
            "volcano.sh/vgpu-memory",
            "aliyun.com/gpu-mem",
            "tencent.com/vcuda-core",
            "koordinator.sh/gpu",
        ] {
            assert_eq!(resources.amount(name), Some(Amount::Share), "{name}");
        }
        for name in ["cpu", "nvidia.com/hostdev", "amd.com/gpu", "gpu"] {
            assert_eq!(resources.amount(name), None, "{name}");
        }
    }

    #[test]
    fn names_that_are_given_stand_alone() {
        let resources =
            GpuResources::new(vec!["example.com/a100*".into(), "example.com/t4".into()]);
        assert_eq!(
            resources.amount("example.com/a100-80gb"),
            Some(Amount::Devices)
        );
        assert_eq!(resources.amount("example.com/t4"), Some(Amount::Devices));
        assert_eq!(resources.amount("example.com/t4-other"), None);
        assert_eq!(resources.amount("nvidia.com/gpu"), None);
    }
}

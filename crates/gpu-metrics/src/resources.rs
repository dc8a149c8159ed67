//! Which resources of a pod are GPUs, and how many devices it requests.

use std::fmt;

use apimachinery::quantity::parse_milli;

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
/// amount is memory, cores or a percentage.
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

/// The GPUs that a container or a pod requests, or that a node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GpuRequest {
    /// Whole devices.
    pub devices: u32,
    /// Whether there are shares of devices, which other pods may hold too.
    pub has_share: bool,
}

impl GpuRequest {
    /// Whether it contains no GPU.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.devices == 0 && !self.has_share
    }

    fn join(self, other: Self, join: impl Fn(u32, u32) -> u32) -> Self {
        Self {
            devices: join(self.devices, other.devices),
            has_share: self.has_share || other.has_share,
        }
    }
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

    /// The names in the text that [`fmt::Display`] writes.
    #[must_use]
    pub fn from_text(text: &str) -> Self {
        Self(text.split(", ").map(str::to_owned).collect())
    }

    /// The GPUs among amounts: names of resources and quantities.
    pub fn among<'a>(&self, amounts: impl IntoIterator<Item = (&'a str, &'a str)>) -> GpuRequest {
        let mut found = GpuRequest::default();
        let gpus = amounts.into_iter().filter(|(name, _)| self.are_gpus(name));
        for (name, quantity) in gpus {
            match devices(quantity) {
                0 => {}
                _ if is_share(name) => found.has_share = true,
                devices => found.devices = found.devices.saturating_add(devices),
            }
        }
        found
    }

    /// The GPUs of a whole pod, as the scheduler counts a resource
    /// (`k8s.io/component-helpers/resource`, `PodRequests`): containers and sidecars run
    /// together; before that, each init container runs with the sidecars listed before
    /// it. `init` has the limits of each init container, and whether it is a sidecar.
    pub fn of_pod<'a, A: IntoIterator<Item = (&'a str, &'a str)>>(
        &self,
        init: impl IntoIterator<Item = (bool, A)>,
        containers: impl IntoIterator<Item = A>,
    ) -> GpuRequest {
        let (mut together, mut most) = (GpuRequest::default(), GpuRequest::default());
        for (is_sidecar, limits) in init {
            let with_sidecars = together.join(self.among(limits), u32::saturating_add);
            most = most.join(with_sidecars, u32::max);
            if is_sidecar {
                together = with_sidecars;
            }
        }
        for limits in containers {
            together = together.join(self.among(limits), u32::saturating_add);
        }
        together.join(most, u32::max)
    }

    fn are_gpus(&self, resource: &str) -> bool {
        self.0.iter().any(|name| match name.strip_suffix('*') {
            Some(prefix) => resource.starts_with(prefix),
            None => resource == name,
        })
    }
}

/// Whether an amount of a GPU resource is parts of devices that other pods may hold too, and
/// not a number of devices.
fn is_share(resource: &str) -> bool {
    let name = resource.rsplit('/').next().unwrap_or_default();
    SHARING.iter().any(|domain| resource.starts_with(domain))
        || SHARES.iter().any(|part| name.contains(part))
}

/// `nvidia.com/gpu*, nvidia.com/mig-*`
impl fmt::Display for GpuResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

/// The number of devices of a quantity, rounded up.
fn devices(quantity: &str) -> u32 {
    let milli = parse_milli(quantity).unwrap_or(0).max(0);
    u32::try_from(milli.unsigned_abs().div_ceil(1000)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_shares_and_other_resources_are_distinguished() {
        let names = vec!["example.com/a100*".into(), "example.com/t4".into()];
        let (default, configured) = (GpuResources::default(), GpuResources::new(names));
        let (devices, share) = (Some(false), Some(true));
        for (resources, names, amount) in [
            (
                &default,
                "nvidia.com/gpu nvidia.com/gpu-a100 nvidia.com/mig-1g.10gb",
                devices,
            ),
            (
                &default,
                "nvidia.com/gpu.shared nvidia.com/gpumem nvidia.com/vgpu",
                share,
            ),
            (
                &default,
                "volcano.sh/gpu-number 4paradigm.com/vgpu aliyun.com/gpu-count",
                share,
            ),
            (&default, "tencent.com/vcuda-core koordinator.sh/gpu", share),
            (&default, "cpu nvidia.com/hostdev amd.com/gpu gpu", None),
            (&configured, "example.com/a100-80gb example.com/t4", devices),
            (&configured, "example.com/t4-other nvidia.com/gpu", None),
        ] {
            for name in names.split(' ') {
                let found = resources.are_gpus(name).then(|| is_share(name));
                assert_eq!(found, amount, "{name}");
            }
            let same = GpuResources::from_text(&resources.to_string());
            assert_eq!(*resources, same);
        }
    }

    #[test]
    fn amounts_of_devices_are_added_and_those_of_shares_are_not() {
        let of = |amounts: &[(&'static str, &'static str)]| {
            GpuResources::default().among(amounts.iter().copied())
        };
        assert_eq!(
            of(&[("nvidia.com/gpu", "2"), ("nvidia.com/mig-1g.5gb", "1")]).devices,
            3
        );
        assert!(of(&[("nvidia.com/gpu", "0"), ("nvidia.com/gpumem", "0")]).is_empty());
        let share = of(&[("nvidia.com/gpumem", "2k")]);
        assert!(share.has_share && share.devices == 0 && !share.is_empty());
    }

    #[test]
    fn a_pod_has_what_its_containers_need_at_one_time() {
        const GPU: &str = "nvidia.com/gpu";
        let gpus = |count: &'static str| [(GPU, count)];
        for (init, containers, devices) in [
            (&[][..], &["1", "2"][..], 3),
            (&[(false, "4")], &["1", "2"], 4),
            (&[(true, "1")], &["1", "2"], 4),
            (&[(true, "2"), (false, "3")], &["1"], 5),
            (&[(false, "3"), (true, "2")], &["0"], 3),
        ] {
            let init = init
                .iter()
                .map(|(is_sidecar, count)| (*is_sidecar, gpus(count)));
            let containers = containers.iter().map(|count| gpus(count));
            let found = GpuResources::default().of_pod(init, containers);
            assert_eq!((found.devices, found.has_share), (devices, false));
        }
        let share = [(false, [("nvidia.com/gpumem", "1")])];
        let found = GpuResources::default().of_pod(share, [gpus("1")]);
        assert_eq!((found.devices, found.has_share), (1, true));
    }
}

//! Which resources of a pod are GPUs, and how many devices it requests.

use std::borrow::Cow;
use std::collections::BTreeMap;
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

/// The meaning of an amount of a GPU resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Amount {
    /// A number of devices that no other pod holds.
    Devices,
    /// Parts of devices that other pods may hold too.
    Share,
}

/// The GPUs that a container or a pod requests, or that a node has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuRequest<'a> {
    /// Whole devices by resource, each above zero.
    pub devices: BTreeMap<&'a str, u32>,
    /// Whether there are shares of devices, which other pods may hold too.
    pub has_share: bool,
}

impl<'a> GpuRequest<'a> {
    /// Whether it contains no GPU.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty() && !self.has_share
    }

    /// Whole devices of all resources.
    #[must_use]
    pub fn total(&self) -> u32 {
        let devices = self.devices.values();
        devices.fold(0, |sum, devices| sum.saturating_add(*devices))
    }

    fn plus(&mut self, other: &Self) {
        self.join(other, u32::saturating_add);
    }

    fn at_least(&mut self, other: &Self) {
        self.join(other, u32::max);
    }

    fn join(&mut self, other: &Self, join: impl Fn(u32, u32) -> u32) {
        for (name, devices) in &other.devices {
            let known = self.devices.entry(*name).or_default();
            *known = join(*known, *devices);
        }
        self.has_share |= other.has_share;
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

    /// The GPUs among amounts: names of resources and quantities. If a resource appears
    /// several times, as in limits and requests, the largest amount counts.
    pub fn among<'a>(
        &self,
        amounts: impl IntoIterator<Item = (&'a str, Cow<'a, str>)>,
    ) -> GpuRequest<'a> {
        let mut found = GpuRequest::default();
        for (name, quantity) in amounts {
            let Some(amount) = self.amount(name) else {
                continue;
            };
            match (devices(&quantity), amount) {
                (0, _) => {}
                (_, Amount::Share) => found.has_share = true,
                (devices, Amount::Devices) => {
                    let known = found.devices.entry(name).or_default();
                    *known = devices.max(*known);
                }
            }
        }
        found
    }

    /// The GPUs of a whole pod as the scheduler counts them
    /// (`k8s.io/component-helpers/resource`, `PodRequests`): containers and sidecars run
    /// together; before that, each init container runs with the sidecars listed before
    /// it. `init` has the amounts of each init container, and whether it is a sidecar.
    pub fn of_pod<'a, A>(
        &self,
        init: impl IntoIterator<Item = (bool, A)>,
        containers: impl IntoIterator<Item = A>,
    ) -> GpuRequest<'a>
    where
        A: IntoIterator<Item = (&'a str, Cow<'a, str>)>,
    {
        let (mut together, mut most) = (GpuRequest::default(), GpuRequest::default());
        for (is_sidecar, amounts) in init {
            let own = self.among(amounts);
            let mut with_sidecars = together.clone();
            with_sidecars.plus(&own);
            most.at_least(&with_sidecars);
            if is_sidecar {
                together.plus(&own);
            }
        }
        for amounts in containers {
            together.plus(&self.among(amounts));
        }
        together.at_least(&most);
        together
    }

    /// The meaning of an amount of this resource; `None`: it is no GPU.
    fn amount(&self, resource: &str) -> Option<Amount> {
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
        let (devices, share) = (Some(Amount::Devices), Some(Amount::Share));
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
                assert_eq!(resources.amount(name), amount, "{name}");
            }
            let same = GpuResources::from_text(&resources.to_string());
            assert_eq!(*resources, same);
        }
    }

    #[test]
    fn the_larger_of_limits_and_requests_counts_for_each_resource() {
        let resources = GpuResources::default();
        let of = |amounts: &[(&'static str, &'static str)]| {
            resources.among(amounts.iter().map(|(name, it)| (*name, (*it).into())))
        };
        let twice = of(&[("nvidia.com/gpu", "2"), ("nvidia.com/gpu", "1")]);
        assert_eq!(twice.devices, [("nvidia.com/gpu", 2)].into());
        assert!(of(&[("nvidia.com/gpu", "0"), ("nvidia.com/gpumem", "0")]).is_empty());
        let share = of(&[("nvidia.com/gpumem", "2k")]);
        assert!(share.has_share && share.total() == 0 && !share.is_empty());
    }
}

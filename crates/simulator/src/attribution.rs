//! The owner in a line: the exporter's view of the kubelet, with its errors
//! (`gpu_metrics::dcgm`, "How a GPU gets its pod").

use super::exporter::Exporter;
use super::fleet::Fleet;
use super::orchestrator::{Holder, Tenancy};
use super::overrides::Overrides;
use super::profile::{Field, Profile};
use super::scenario::SharingMode;
use apimachinery::time::{Timestamp, millis};

/// One line's owner and its part of the device's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Owner<'a> {
    pub(super) holder: Option<Holder<'a>>,
    /// The process' part of the value, 0 to 1, in a line of one process, which has `pod_uid`.
    pub(super) part: Option<f64>,
}

impl<'a> Owner<'a> {
    const NONE: Self = Self::whole(None);

    const fn whole(holder: Option<Holder<'a>>) -> Self {
        Self { holder, part: None }
    }

    /// Whether two lines belong to one series. A pod created again under its name
    /// continues the series of the first, unless the line has the UID.
    pub(super) fn is(&self, other: &Self) -> bool {
        let key = |owner: &Self| {
            let uid = |holder: Holder<'a>| owner.part.map_or("", |_| holder.uid);
            owner.holder.map(|it| Holder { uid: uid(it), ..it })
        };
        self.part.is_some() == other.part.is_some() && key(self) == key(other)
    }
}

impl Fleet {
    /// The true holders of a device at a time; several for a shared one.
    #[must_use]
    pub fn holders(&self, device: usize, at: Timestamp) -> Vec<Holder<'_>> {
        let tenancies = self.orchestrator.tenancies(device).iter();
        tenancies
            .filter(|tenancy| tenancy.holds(at))
            .map(|tenancy| self.holder(tenancy))
            .collect()
    }

    fn holder(&self, tenancy: &Tenancy) -> Holder<'_> {
        let pod = &self.orchestrator.pods[tenancy.pod as usize];
        Holder {
            namespace: &pod.plan.namespace,
            pod: &pod.plan.name,
            container: pod.plan.container,
            uid: &pod.uid,
            replica: tenancy.replica,
        }
    }

    /// The owners under which an exporter prints a field of a device at a scrape: one
    /// line each, into `out`.
    pub(super) fn owners<'a>(
        &'a self,
        exporter: &Exporter,
        number: usize,
        field: Field,
        at: Timestamp,
        overrides: &'a Overrides,
        out: &mut Vec<Owner<'a>>,
    ) {
        out.clear();
        let dropout = self.machines.scenario.exporters.dropout_rate;
        let second = at.millis().div_euclid(1000);
        let node = self.machines.noise.at(14).at(u64::from(exporter.node));
        let profile = exporter.profile_at(&self.machines, at);
        let printed = exporter.visible(&self.machines, at);
        let device = &self.machines.devices[number];
        if let Some(named) = overrides.holders.get(&number) {
            let holder = named.as_ref().map(|[namespace, pod]| Holder {
                namespace,
                pod,
                container: "main",
                uid: "",
                replica: None,
            });
            out.push(Owner::whole(holder));
        } else if device.parent || node.at_bucket(second).chance(dropout) {
            out.push(Owner::NONE);
        } else if self.shares(profile, printed) {
            self.owners_by_replica(profile, number, field, printed, out);
        } else {
            out.push(self.one_owner(number, printed));
        }
    }

    fn shares(&self, profile: Profile, at: Timestamp) -> bool {
        let scenario = &self.machines.scenario;
        let on = match scenario.exporters.sharing {
            SharingMode::Off => false,
            SharingMode::On => true,
            SharingMode::Flapping(period) => {
                let since = at.millis() - scenario.epoch.millis();
                since.div_euclid(millis(period).max(1)).rem_euclid(2) == 0
            }
        };
        on && profile.knows_sharing()
    }

    fn owners_by_replica<'a>(
        &'a self,
        profile: Profile,
        number: usize,
        field: Field,
        at: Timestamp,
        out: &mut Vec<Owner<'a>>,
    ) {
        let tenancies = self.orchestrator.tenancies(number);
        let holding = || tenancies.iter().filter(|tenancy| tenancy.holds(at));
        let shared = self.machines.devices[number].replicas > 1;
        let split = shared
            && profile.splits_by_process()
            && matches!(field, Field::GpuUtil | Field::FbUsed);
        if split {
            out.push(Owner::NONE);
        }
        let weight = |tenancy: &Tenancy| match field {
            Field::FbUsed => tenancy.load.memory_share(),
            _ => tenancy.load.busy(at.millis()),
        };
        // A pod with two replicas of the device runs one process on it, which has the
        // memory of both. Each of its lines repeats the process' value.
        let mut parts: Vec<(u32, f64)> = Vec::new();
        for tenancy in holding().filter(|_| split) {
            match parts.iter_mut().find(|(pod, _)| *pod == tenancy.pod) {
                Some((_, part)) if field == Field::FbUsed => *part += weight(tenancy),
                Some(_) => {}
                None => parts.push((tenancy.pod, weight(tenancy))),
            }
        }
        let total: f64 = parts.iter().map(|(_, part)| part).sum();
        out.extend(holding().map(|tenancy| {
            let part = parts.iter().find(|(pod, _)| *pod == tenancy.pod);
            Owner {
                holder: Some(self.holder(tenancy)),
                part: part.map(|(_, part)| if total > 0.0 { part / total } else { 0.0 }),
            }
        }));
        // Before 4.4.1-4.5.2 sharing mode omitted GPUs without a pod.
        if out.is_empty() && profile != Profile::V4_1 {
            out.push(Owner::NONE);
        }
    }

    /// Sharing mode off: one of the pods that share the device, drawn again every 10 s.
    fn one_owner(&self, number: usize, at: Timestamp) -> Owner<'_> {
        let tenancies = self.orchestrator.tenancies(number);
        let holding = || tenancies.iter().filter(|tenancy| tenancy.holds(at));
        let count = holding().count() as u64;
        if count == 0 {
            return Owner::NONE;
        }
        let noise = self.machines.devices[number].noise.at(40);
        let pick = noise.at_bucket(at.millis().div_euclid(10_000)).below(count);
        let pick = holding().nth(usize::try_from(pick).unwrap_or(0));
        Owner::whole(pick.map(|tenancy| Holder {
            replica: None,
            ..self.holder(tenancy)
        }))
    }
}

//! The owner in a line: the exporter's view of the kubelet, with its errors
//! (`gpu_metrics::dcgm`, "How a GPU gets its pod").

use super::exporter::Exporter;
use super::fleet::Fleet;
use super::orchestrator::{Holder, Tenancy};
use super::overrides::Overrides;
use super::profile::Profile;
use apimachinery::time::Timestamp;

impl Fleet {
    /// The true holders of a device at a time; several for a shared one.
    #[must_use]
    pub fn holders(&self, device: usize, at: Timestamp) -> Vec<Holder<'_>> {
        self.holding(device, at).collect()
    }

    fn holding(&self, device: usize, at: Timestamp) -> impl Iterator<Item = Holder<'_>> + Clone {
        let tenancies = self.orchestrator.tenancies(device).iter();
        let holding = tenancies.filter(move |tenancy| tenancy.holds(at));
        holding.map(|tenancy| self.holder(tenancy))
    }

    fn holder(&self, tenancy: &Tenancy) -> Holder<'_> {
        let pod = &self.orchestrator.pods[tenancy.pod as usize];
        Holder {
            namespace: &pod.plan.namespace,
            pod: &pod.plan.name,
            container: pod.plan.container,
            replica: tenancy.replica,
        }
    }

    /// The pods under which an exporter prints a device at a scrape: one line each, into
    /// `out`; `None`: a line without a pod.
    pub(super) fn owners<'a>(
        &'a self,
        exporter: &Exporter,
        number: usize,
        at: Timestamp,
        overrides: &'a Overrides,
        out: &mut Vec<Option<Holder<'a>>>,
    ) {
        out.clear();
        let dropout = self.machines.scenario.exporters.dropout_rate;
        let second = at.millis().div_euclid(1000);
        let node = self.machines.noise.at(14).at(u64::from(exporter.node));
        let printed = exporter.visible(&self.machines, at);
        let device = &self.machines.devices[number];
        if let Some(named) = overrides.holders.get(&number) {
            out.push(named.as_ref().map(|[namespace, pod]| Holder {
                namespace,
                pod,
                container: "main",
                replica: None,
            }));
        } else if device.parent || node.at_bucket(second).chance(dropout) {
            out.push(None);
        } else if exporter.profile >= Profile::V4_1 {
            out.extend(self.holding(number, printed).map(Some));
            // Before 4.4.1-4.5.2 sharing mode omitted GPUs without a pod.
            if out.is_empty() && exporter.profile != Profile::V4_1 {
                out.push(None);
            }
        } else {
            out.push(self.one_owner(number, printed));
        }
    }

    /// Without sharing mode: one of the pods that share the device, drawn again every 10 s.
    fn one_owner(&self, number: usize, at: Timestamp) -> Option<Holder<'_>> {
        let holding = self.holding(number, at);
        let count = holding.clone().count() as u64;
        let noise = self.machines.devices[number].noise.at(40);
        let pick = noise.at_bucket(at.millis().div_euclid(10_000)).below(count);
        let picked = { holding }.nth(usize::try_from(pick).unwrap_or(0))?;
        Some(Holder {
            replica: None,
            ..picked
        })
    }
}

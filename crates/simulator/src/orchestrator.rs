//! Layer 2: pods, their owners, and the times for which each holds a device.
//!
//! The whole timeline is built once; lookups then read sorted tables.

use super::load::{Load, LoadClass};
use super::machines::Machines;
use super::scenario::picks;
use super::workloads::{Controller, PlannedPod, Slot, Workloads};
use apimachinery::time::Timestamp;

/// A pod's life on the timeline.
#[derive(Clone, Debug)]
pub(super) struct PodRecord {
    pub(super) plan: PlannedPod,
    pub(super) node: u32,
    pub(super) from: Timestamp,
    pub(super) until: Option<Timestamp>,
    /// The devices that it holds; a device occurs once for each replica that it holds.
    pub(super) devices: Vec<usize>,
}

/// A pod that holds a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// The pod's name.
    pub pod: &'a str,
    pub container: &'a str,
    /// The replica of a time-sliced device.
    pub replica: Option<u32>,
}

/// A span of time for which a pod holds a device, or a replica of it.
#[derive(Clone, Debug)]
pub(super) struct Tenancy {
    pub(super) replica: Option<u32>,
    pub(super) pod: u32,
    pub(super) from: Timestamp,
    pub(super) until: Option<Timestamp>,
    pub(super) load: Load,
}

impl Tenancy {
    pub(super) fn holds(&self, at: Timestamp) -> bool {
        self.from <= at && self.until.is_none_or(|until| at < until)
    }
}

/// The timeline of all pods.
#[derive(Debug)]
pub(super) struct Orchestrator {
    pub(super) pods: Vec<PodRecord>,
    pub(super) workloads: Workloads,
    /// For each device, in the order of time.
    tenancies: Vec<Vec<Tenancy>>,
}

impl Orchestrator {
    pub(super) fn new(machines: &Machines) -> Self {
        let mut builder = Builder {
            machines,
            built: Self {
                pods: Vec::new(),
                workloads: Workloads::new(machines),
                tenancies: vec![Vec::new(); machines.devices.len()],
            },
            slots: 0,
        };
        builder.place_all();
        for holders in &mut builder.built.tenancies {
            holders.sort_by_key(|tenancy| (tenancy.from, tenancy.replica));
        }
        builder.built
    }

    /// All holders of the device, over all time.
    pub(super) fn tenancies(&self, device: usize) -> &[Tenancy] {
        self.tenancies.get(device).map_or(&[], Vec::as_slice)
    }
}

struct Builder<'a> {
    machines: &'a Machines,
    built: Orchestrator,
    slots: u32,
}

impl Builder<'_> {
    fn place_all(&mut self) {
        for node in 0..self.machines.scenario.nodes {
            let (first, end) = self.machines.node_devices[node as usize];
            let mut whole = Vec::new();
            for index in first..end {
                let device = &self.machines.devices[index];
                if device.parent {
                } else if device.replicas > 1 {
                    self.share_out(node, index, device.replicas);
                } else if device.mig.is_some() {
                    self.fill(node, vec![(index, None)]);
                } else {
                    whole.push(index);
                }
            }
            self.place_whole(node, &whole);
        }
    }

    fn place_whole(&mut self, node: u32, whole: &[usize]) {
        let sizes = &self.machines.scenario.workloads.gpus_per_pod;
        let mut rest = whole;
        while !rest.is_empty() {
            let noise = self.machines.noise.at(2).at(u64::from(self.slots));
            let pick = noise.at(1).below(sizes.len() as u64);
            let size = sizes.get(usize::try_from(pick).unwrap_or(0)).copied();
            let size = (size.unwrap_or(1).max(1) as usize).min(rest.len());
            let (these, others) = rest.split_at(size);
            rest = others;
            self.fill(node, these.iter().map(|&device| (device, None)).collect());
        }
    }

    /// Divides a time-sliced card: with four replicas or more the first pod holds the first and
    /// the last replica; each other pod holds one (`gpu_metrics::dcgm`, "Lines", e).
    fn share_out(&mut self, node: u32, device: usize, replicas: u32) {
        if replicas >= 4 {
            let ends = vec![(device, Some(0)), (device, Some(replicas - 1))];
            self.fill(node, ends);
            for replica in 1..replicas - 1 {
                self.fill(node, vec![(device, Some(replica))]);
            }
        } else {
            for replica in 0..replicas {
                self.fill(node, vec![(device, Some(replica))]);
            }
        }
    }

    /// Places pods on a slot.
    fn fill(&mut self, node: u32, devices: Vec<(usize, Option<u32>)>) {
        let number = self.slots;
        self.slots += 1;
        let knobs = &self.machines.scenario.workloads;
        let shared = devices.iter().any(|(_, replica)| replica.is_some());
        if picks(knobs.free_every, number) && !shared {
            return;
        }
        let slot = Slot {
            node,
            noise: self.machines.noise.at(2).at(u64::from(number)),
            idle: picks(knobs.idle_every, number),
            devices,
        };
        let hours = slot.noise.at(2).between(1.0, 48.0);
        let start = self.machines.scenario.epoch
            - std::time::Duration::from_millis((hours * 3_600_000.0) as u64);
        let event = self.machines.event_time(slot.noise);
        if picks(knobs.recreated_every, number) {
            // `pod-0` dies, and another `pod-0` replaces it 20 s later.
            let set = self.open(Controller::StatefulSet, &slot);
            self.run(&slot, &set, start, Some(event));
            let again = event + std::time::Duration::from_secs(20);
            self.run(&slot, &set, again, None);
        } else if picks(knobs.handover_every, number) {
            let old = self.open(Controller::Deployment, &slot);
            self.run(&slot, &old, start, Some(event));
            let new = self.open(Controller::Job, &slot);
            self.run(&slot, &new, event, None);
        } else {
            let controller = match slot.noise.at(3).below(10) {
                0..6 => Controller::Deployment,
                6..8 => Controller::StatefulSet,
                _ => Controller::Job,
            };
            let pod = self.open(controller, &slot);
            self.run(&slot, &pod, start, None);
        }
    }

    fn open(&mut self, controller: Controller, slot: &Slot) -> PlannedPod {
        self.built.workloads.open(controller, slot)
    }

    /// Puts a pod of a workload on a slot.
    fn run(&mut self, slot: &Slot, plan: &PlannedPod, from: Timestamp, until: Option<Timestamp>) {
        let pod = u32::try_from(self.built.pods.len()).unwrap_or(u32::MAX);
        let noise = self.machines.noise.at(3).at(u64::from(pod));
        self.built.pods.push(PodRecord {
            plan: plan.clone(),
            node: slot.node,
            from,
            until,
            devices: slot.devices.iter().map(|(device, _)| *device).collect(),
        });
        let last = slot.devices.len() - 1;
        for (place, &(device, replica)) in slot.devices.iter().enumerate() {
            let idles = slot.idle && place == last;
            let class = match self.machines.scenario.workloads.load {
                Some(class) => class,
                None if idles => LoadClass::Idle,
                None => plan.class,
            };
            self.built.tenancies[device].push(Tenancy {
                replica,
                pod,
                from,
                until,
                load: Load {
                    class,
                    noise: noise.at(10 + place as u64),
                },
            });
        }
    }
}

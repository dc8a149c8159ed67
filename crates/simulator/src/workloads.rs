//! Names and owner chains: Deployment → ReplicaSet → Pod, StatefulSet → Pod, Job → Pod, with
//! names as Kubernetes generates them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::load::LoadClass;
use super::machines::Machines;
use super::random::Noise;
use apimachinery::labels::Labels;
use apimachinery::time::Timestamp;
use gpu_metrics::inventory::{ObjectKind, Workload};

/// What controls a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Controller {
    Deployment,
    StatefulSet,
    Job,
}

/// Devices that one pod after another holds, with the replica of each.
pub(super) struct Slot {
    pub(super) node: u32,
    pub(super) devices: Vec<(usize, Option<u32>)>,
    pub(super) noise: Noise,
    pub(super) idle: bool,
}

impl Slot {
    /// Noise of the names of its pods.
    const fn names(&self, part: u64) -> Noise {
        self.noise.at(5).at(part)
    }

    fn is_shared(&self) -> bool {
        self.devices.iter().any(|(_, replica)| replica.is_some())
    }
}

/// A planned pod: its name, its owners, its load.
#[derive(Clone, Debug)]
pub(super) struct PlannedPod {
    pub(super) namespace: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) app: Arc<str>,
    pub(super) container: &'static str,
    pub(super) owners: Vec<u32>,
    pub(super) class: LoadClass,
}

/// A Deployment or StatefulSet that still needs replicas.
#[derive(Debug)]
struct Growing {
    /// The next pod, with the prefix of its name.
    pod: PlannedPod,
    replicas: u64,
    wanted: u64,
}

/// All workloads so far.
#[derive(Debug)]
pub(super) struct Workloads {
    pub(super) table: Vec<Workload>,
    pub(super) namespaces: Vec<Arc<str>>,
    created: Timestamp,
    growing: BTreeMap<(Controller, usize, bool), Growing>,
    named: BTreeMap<&'static str, u32>,
}

const NAMESPACES: [&str; 8] = [
    "team-a", "team-b", "vision", "search", "research", "batch", "speech", "ads",
];

/// Name, container and load of a role.
type Role = (&'static str, &'static str, LoadClass);

const SERVICES: [Role; 6] = [
    ("llm-server", "vllm", LoadClass::DecodeServing),
    ("detector", "triton", LoadClass::VisionInference),
    ("reranker", "tei", LoadClass::DecodeServing),
    ("embedder", "tei", LoadClass::VisionInference),
    ("chat", "vllm", LoadClass::DecodeServing),
    ("notebook", "jupyter", LoadClass::Training),
];
const SETS: [Role; 2] = [
    ("sharded-llm", "sglang", LoadClass::DecodeServing),
    ("trainer", "torch", LoadClass::Training),
];
const JOBS: [Role; 3] = [
    ("finetune", "torch", LoadClass::Training),
    ("pretrain", "torch", LoadClass::Training),
    ("evaluate", "lm-eval", LoadClass::DecodeServing),
];

impl Workloads {
    pub(super) fn new(machines: &Machines) -> Self {
        let count = machines.scenario.workloads.namespaces.max(1) as usize;
        let namespaces = (0..count).map(|index| {
            let name = NAMESPACES[index % NAMESPACES.len()];
            match index / NAMESPACES.len() {
                0 => Arc::from(name),
                turn => Arc::from(format!("{name}-{}", turn + 1)),
            }
        });
        Self {
            table: Vec::new(),
            namespaces: namespaces.collect(),
            created: machines.long_ago(),
            growing: BTreeMap::new(),
            named: BTreeMap::new(),
        }
    }

    /// The next pod for a slot: another replica of a workload that needs one, or the
    /// first of a new workload.
    pub(super) fn open(&mut self, controller: Controller, slot: &Slot) -> PlannedPod {
        match controller {
            Controller::Deployment | Controller::StatefulSet => self.replica(controller, slot),
            Controller::Job => self.job(slot),
        }
    }

    fn replica(&mut self, controller: Controller, slot: &Slot) -> PlannedPod {
        let key = (controller, slot.devices.len(), slot.is_shared());
        let mut growing = match self.growing.remove(&key) {
            Some(growing) if growing.replicas < growing.wanted => growing,
            _ => self.start(controller, slot),
        };
        let (prefix, ordinal) = (&growing.pod.name, growing.replicas);
        let name = match controller {
            Controller::StatefulSet => format!("{prefix}-{ordinal}"),
            _ => format!("{prefix}-{}", slot.names(20 + ordinal).suffix(5)),
        };
        let pod = PlannedPod {
            name: name.into(),
            ..growing.pod.clone()
        };
        growing.replicas += 1;
        self.growing.insert(key, growing);
        pod
    }

    fn start(&mut self, controller: Controller, slot: &Slot) -> Growing {
        let stateful = controller == Controller::StatefulSet;
        let roles: &[Role] = if stateful { &SETS } else { &SERVICES };
        let (app, (_, container, class)) = self.name(roles);
        let namespace = self.namespace();
        let (owners, prefix) = if stateful {
            let set = self.add(STATEFUL_SET, &namespace, &app, &app);
            (vec![set], Arc::clone(&app))
        } else {
            let name = format!("{app}-{}", slot.names(6).suffix(10));
            let deployment = self.add(DEPLOYMENT, &namespace, &app, &app);
            let set = self.add(REPLICA_SET, &namespace, &name, &app);
            (vec![set, deployment], name.into())
        };
        Growing {
            pod: PlannedPod {
                namespace,
                name: prefix,
                app,
                container,
                owners,
                class,
            },
            replicas: 0,
            wanted: 1 + slot.names(7).below(4),
        }
    }

    fn job(&mut self, slot: &Slot) -> PlannedPod {
        let (app, (_, container, class)) = self.name(&JOBS);
        let namespace = self.namespace();
        let job = self.add(JOB, &namespace, &app, &app);
        PlannedPod {
            name: format!("{app}-{}", slot.names(8).suffix(5)).into(),
            namespace,
            app,
            container,
            owners: vec![job],
            class,
        }
    }

    /// The next role in turn and a unique name.
    fn name(&mut self, roles: &[Role]) -> (Arc<str>, Role) {
        let first = roles[0].0;
        let turn = self.named.entry(first).or_default();
        let count = u32::try_from(roles.len()).unwrap_or(1);
        let (round, role) = (*turn / count, roles[(*turn % count) as usize]);
        *turn += 1;
        let name = match round {
            0 => Arc::from(role.0),
            _ => Arc::from(format!("{}-{}", role.0, round + 1)),
        };
        (name, role)
    }

    /// Namespaces in turn, one per new workload.
    fn namespace(&mut self) -> Arc<str> {
        let turn = self.named.entry("").or_default();
        let index = *turn as usize % self.namespaces.len();
        *turn += 1;
        Arc::clone(&self.namespaces[index])
    }

    fn add(&mut self, kind: Kind, namespace: &Arc<str>, name: &str, app: &Arc<str>) -> u32 {
        let (resource, kind, api_version) = kind;
        self.table.push(Workload {
            created: Some(self.created),
            kind: ObjectKind::new(resource, kind, api_version, true),
            namespace: Arc::clone(namespace),
            name: name.into(),
            labels: Labels::from_pairs([("app", Arc::clone(app))]),
        });
        u32::try_from(self.table.len() - 1).unwrap_or(u32::MAX)
    }
}

/// Resource, kind, version.
pub(super) type Kind = (&'static str, &'static str, &'static str);
const DEPLOYMENT: Kind = ("deployments.apps", "Deployment", "apps/v1");
const REPLICA_SET: Kind = ("replicasets.apps", "ReplicaSet", "apps/v1");
const STATEFUL_SET: Kind = ("statefulsets.apps", "StatefulSet", "apps/v1");
const JOB: Kind = ("jobs.batch", "Job", "batch/v1");
pub(super) const DAEMON_SET: Kind = ("daemonsets.apps", "DaemonSet", "apps/v1");

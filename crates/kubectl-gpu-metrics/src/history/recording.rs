//! A span of the past as the server would have seen it: samples of devices and the lives of
//! pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apimachinery::labels::Labels;
use apimachinery::promql::equals;
use apimachinery::time::Timestamp;
use cluster_state::startup::READ_EVERY;
use gpu_metrics::batch::{Batch, Sample, SeriesKey};
use gpu_metrics::dcgm::{metrics, schemes};
use gpu_metrics::inventory::{
    ClusterObject, Inventory, InventoryOrigin, ObjectKind, Pod, PodPhase, Startup,
    Workload as Controller,
};
use gpu_metrics::pipeline::Settings;
use gpu_metrics::policy::MetricSpec;
use gpu_metrics::signal::{SignalId, SignalSpec};
use hpa::ScaledPod;
use hpa::pods::PodCounts;
use prometheus_source::query::any_name;

use crate::Failure;
use crate::kinds;

use super::History;
use super::devices::scopes;
use super::owners::{Named, Owners, Workload, pod};

/// How long before a span samples are read: the lateness that the server waits for, and the
/// validity of a reading.
const BEFORE: Duration = Duration::from_secs(300);

/// The scrape interval of series of pods that have one sample.
const SCRAPED: Duration = Duration::from_secs(30);

/// A span of the past of a namespace.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(super) settings: Settings,
    include_starting: bool,
    pub(super) devices: Vec<DeviceSeries>,
    lives: BTreeMap<Named, Life>,
    /// The owners of all pods, with their namespaces, in order.
    workloads: Vec<(Arc<str>, Workload)>,
    /// The interval of the samples of pods.
    scraped: Duration,
    pub(super) from: Timestamp,
}

/// The samples of a series of a device, in the order of time.
#[derive(Debug)]
pub(super) struct DeviceSeries {
    pub(super) signal: SignalId,
    pub(super) key: SeriesKey,
    pub(super) labels: String,
    pub(super) samples: Vec<Sample>,
}

/// What was recorded of a pod, in the order of time.
#[derive(Debug, Default)]
struct Life {
    /// Whether it was Ready. It existed while this has samples.
    ready: Vec<(Timestamp, bool)>,
    /// The times at which it was in a phase or in deletion.
    states: Vec<(Timestamp, State)>,
    /// With its namespace.
    owner: Option<(Arc<str>, Workload)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pending,
    Succeeded,
    Failed,
    Deleted,
}

impl History {
    /// The metrics of devices.
    pub(crate) fn metrics(&self) -> Vec<MetricSpec> {
        let configured = self.config.metrics.iter().cloned();
        metrics::built_in().into_iter().chain(configured).collect()
    }

    /// All that values of a namespace between two times need.
    pub(crate) async fn record(
        &self,
        namespace: &str,
        owners: &Owners,
        [from, to]: [Timestamp; 2],
    ) -> Result<Recording, Failure> {
        let config = &self.config;
        let start = from - config.policy.max_window - BEFORE;
        let specs: Vec<&SignalSpec> = config.signals.iter().collect();
        let mut devices: BTreeMap<SeriesKey, DeviceSeries> = BTreeMap::new();
        for scope in scopes(Some(namespace)) {
            let selector = format!("{{{}{scope}{}}}", any_name(&specs), self.matchers());
            let answer = self.samples(&selector, [start, to]).await?;
            let series = answer.iter().filter_map(|it| of_device(it, &specs));
            devices.extend(series.map(|it| (it.key, it)));
        }
        let selector = format!(
            r#"{{__name__=~"kube_pod_status_ready|kube_pod_status_phase|kube_pod_deletion_timestamp",{},condition=~"true|",phase=~"Pending|Succeeded|Failed|"{}}}"#,
            equals("namespace", namespace),
            self.matchers()
        );
        let pods = self.samples(&selector, [start, to]).await?;
        let settings = Settings {
            policy: config.policy.clone(),
            signals: config.signals.clone(),
            metrics: self.metrics(),
        };
        let devices = devices.into_values().collect();
        let mut recording = Recording::new(settings, devices, (&pods, owners), start);
        recording.include_starting = config.include_starting;
        Ok(recording)
    }
}

/// A series of a device with the signal that its name tells.
fn of_device(
    series: gpu_metrics::batch::BatchSeries<'_>,
    specs: &[&SignalSpec],
) -> Option<DeviceSeries> {
    let labels = Labels::from_json(series.labels).ok()?;
    let name = labels.get("__name__")?;
    let is_it = |spec: &&&SignalSpec| {
        let mut names = spec.wire_names.iter();
        names.any(|it| it.eq_ignore_ascii_case(name))
    };
    let mut samples = series.samples.to_vec();
    samples.sort_by_key(|sample| sample.at);
    Some(DeviceSeries {
        signal: specs.iter().find(is_it)?.id,
        key: series.key,
        labels: series.labels.to_owned(),
        samples,
    })
}

impl Recording {
    fn new(
        settings: Settings,
        devices: Vec<DeviceSeries>,
        (pods, owners): (&Batch, &Owners),
        from: Timestamp,
    ) -> Self {
        let mut recording = Self {
            settings,
            include_starting: false,
            devices,
            lives: BTreeMap::new(),
            workloads: Vec::new(),
            scraped: SCRAPED,
            from,
        };
        recording.add_lives(pods);
        let mut workloads = BTreeSet::new();
        for (pod, life) in &mut recording.lives {
            life.owner = owners.of(pod).map(|owner| (Arc::clone(&pod.0), owner));
            workloads.extend(life.owner.clone());
        }
        for series in &recording.devices {
            let labels = Labels::from_json(&series.labels).unwrap_or_default();
            let named = schemes::claim(&labels).owner;
            let named = named.map(|named| (named.namespace, named.pod));
            let owner = named.and_then(|pod| Some((Arc::clone(&pod.0), owners.of(&pod)?)));
            workloads.extend(owner);
        }
        recording.workloads = workloads.into_iter().collect();
        recording
    }

    /// A recording of series of devices and of pods with the default settings, for tests.
    #[cfg(test)]
    pub(crate) fn of(devices: &Batch, pods: &Batch, owners: &Owners, from: Timestamp) -> Self {
        let signals = gpu_metrics::dcgm::fields::built_in();
        let specs: Vec<&SignalSpec> = signals.iter().collect();
        let devices = devices.iter().filter_map(|it| of_device(it, &specs));
        let devices = devices.collect();
        let settings = Settings {
            policy: gpu_metrics::policy::Policy::default(),
            metrics: metrics::built_in(),
            signals,
        };
        Self::new(settings, devices, (pods, owners), from)
    }

    /// Reads the lives of pods.
    fn add_lives(&mut self, pods: &Batch) {
        for series in pods.iter() {
            let Ok(labels) = Labels::from_json(series.labels) else {
                continue;
            };
            let Some(pod) = pod(&labels) else {
                continue;
            };
            let life = self.lives.entry(pod).or_default();
            let state = match (labels.get("__name__"), labels.get("phase")) {
                (Some("kube_pod_status_ready"), _) => {
                    let known = series.samples.iter().filter(|it| it.value.is_finite());
                    life.ready.extend(known.map(|it| (it.at, it.value > 0.0)));
                    continue;
                }
                (_, Some("Pending")) => State::Pending,
                (_, Some("Succeeded")) => State::Succeeded,
                (_, Some("Failed")) => State::Failed,
                _ => State::Deleted,
            };
            let true_ones = series.samples.iter().filter(|it| it.value > 0.0);
            life.states.extend(true_ones.map(|it| (it.at, state)));
        }
        let mut gaps = Vec::new();
        for life in self.lives.values_mut() {
            life.ready.sort_unstable();
            life.states.sort_unstable_by_key(|(at, _)| *at);
            let pairs = life.ready.windows(2);
            gaps.extend(pairs.map(|pair| pair[1].0.since(pair[0].0)));
        }
        gaps.retain(|gap| !gap.is_zero());
        gaps.sort_unstable();
        // Of several replicas of Prometheus the short gaps between their scrapes do not count.
        self.scraped = gaps.get(gaps.len() * 3 / 4).copied().unwrap_or(SCRAPED);
    }

    /// Whether kube-state-metrics recorded the pods; otherwise series of devices name them.
    pub(crate) fn has_pods(&self) -> bool {
        !self.lives.is_empty()
    }

    /// The pods of a workload at a time, as its autoscaler saw them.
    pub(crate) fn scaled_pods(
        &self,
        namespace: &str,
        (kind, name): (&str, &str),
        at: Timestamp,
    ) -> Vec<ScaledPod> {
        let is_its = |life: &Life| {
            let owner = life.owner.as_ref();
            owner.is_some_and(|(within, it)| {
                (&**within, &*it.kind, &*it.name) == (namespace, kind, name)
            })
        };
        let pods = self.lives.iter();
        let pods = pods.filter(|(_, life)| is_its(life) && self.exists(life, at));
        let pods = pods.map(|(pod, life)| ScaledPod {
            name: pod.1.to_string(),
            counts: match self.state(life, at) {
                Some(State::Deleted | State::Failed) => PodCounts::No,
                Some(State::Pending) => PodCounts::Pending,
                Some(State::Succeeded) | None => PodCounts::Yes,
            },
            is_ready: until(&life.ready, at)
                .last()
                .is_some_and(|(_, ready)| *ready),
        });
        pods.collect()
    }

    fn exists(&self, life: &Life, at: Timestamp) -> bool {
        let newest = until(&life.ready, at).last();
        newest.is_some_and(|(seen, _)| at.since(*seen) < self.scraped * 2)
    }

    /// The state of a pod; deletion takes precedence over its phase.
    fn state(&self, life: &Life, at: Timestamp) -> Option<State> {
        let (seen, _) = until(&life.ready, at).last()?;
        let now = until(&life.states, at).iter().rev();
        let now = now
            .take_while(|(time, _)| time >= seen)
            .map(|(_, state)| *state);
        now.reduce(|one, other| if one == State::Deleted { one } else { other })
    }

    /// The objects of the cluster at a time.
    pub(super) fn inventory(&self, at: Timestamp) -> Inventory {
        let mut inventory = Inventory {
            authority: match self.has_pods() {
                true => InventoryOrigin::Cluster,
                false => InventoryOrigin::Series,
            },
            workloads: self.workloads.iter().map(controller).collect(),
            namespaces: self.namespaces().collect(),
            ..Inventory::default()
        };
        for (name, life) in &self.lives {
            let seen = until(&life.ready, at);
            let Some((newest, _)) = seen.last() else {
                continue;
            };
            let owner = life.owner.as_ref();
            let owner = owner.and_then(|owner| self.workloads.binary_search(owner).ok());
            let owner = owner.and_then(|place| u32::try_from(place).ok());
            let is_there = self.exists(life, at);
            let state = self.state(life, at);
            let pod = Pod {
                namespace: Arc::clone(&name.0),
                name: Arc::clone(&name.1),
                phase: match state {
                    Some(State::Pending) => PodPhase::Pending,
                    Some(State::Succeeded | State::Failed) => PodPhase::Finished,
                    Some(State::Deleted) | None => PodPhase::Running,
                },
                terminating: state == Some(State::Deleted),
                startup: self.startup(seen),
                ended: (!is_there).then_some(*newest),
                // How many GPUs it requested is not read: it held those that name it.
                uncounted: true,
                owners: owner.into_iter().collect(),
                ..Pod::default()
            };
            match is_there {
                true => inventory.pods.push(pod),
                false => inventory.departed.push(pod),
            }
        }
        inventory
    }

    fn namespaces(&self) -> impl Iterator<Item = ClusterObject> {
        let names: BTreeSet<&Arc<str>> =
            self.lives.keys().map(|(namespace, _)| namespace).collect();
        names.into_iter().map(|name| ClusterObject {
            name: Arc::clone(name),
            labels: Labels::default(),
            created: None,
        })
    }

    /// Whether a pod had been Ready, by its samples so far.
    fn startup(&self, seen: &[(Timestamp, bool)]) -> Startup {
        let first_ready = seen.iter().position(|(_, ready)| *ready);
        let began_here = seen
            .first()
            .is_some_and(|(at, _)| at.since(self.from) > self.scraped * 2);
        match first_ready {
            _ if self.include_starting => Startup::Unknown,
            None => Startup::Starting,
            Some(0) if !began_here => Startup::Unknown,
            Some(place) => Startup::ReadySince(seen[place].0 + READ_EVERY),
        }
    }
}

/// The entries up to a time.
fn until<T>(entries: &[(Timestamp, T)], at: Timestamp) -> &[(Timestamp, T)] {
    &entries[..entries.partition_point(|(time, _)| *time <= at)]
}

fn controller((namespace, owner): &(Arc<str>, Workload)) -> Controller {
    let kind = kinds::known().of_request(&owner.kind).cloned();
    let resource = kind.map_or_else(|| owner.kind.to_lowercase().into(), |it| it.resource());
    Controller {
        kind: ObjectKind::new(&resource, &owner.kind, "", true),
        namespace: Arc::clone(namespace),
        name: Arc::clone(&owner.name),
        labels: Labels::default(),
        created: None,
    }
}

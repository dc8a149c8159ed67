//! The values of a namespace at a time of the past: samples of devices and the lives of pods,
//! from which the server's own pipeline computes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apimachinery::labels::Labels;
use apimachinery::promql::equals;
use apimachinery::time::Timestamp;
use cluster_state::startup::READ_EVERY;
use gpu_metrics::batch::{Batch, BatchSeries, Sample, SeriesKey};
use gpu_metrics::dcgm::{metrics, schemes};
use gpu_metrics::inventory::{
    ClusterObject, Inventory, InventoryOrigin, ObjectKind, Pod, PodPhase, Startup,
    Workload as Controller,
};
use gpu_metrics::layout::Object;
use gpu_metrics::metric::Value;
use gpu_metrics::pipeline::{Pipeline, Settings};
use gpu_metrics::policy::{Measure, MetricSpec};
use gpu_metrics::signal::{SignalId, SignalSpec};
use gpu_metrics::snapshot::Snapshot;
use prometheus_source::query::any_name;

use crate::Failure;
use crate::kinds;

use super::History;
use super::devices::scopes;
use super::owners::{Named, Owners, Workload, pod};

/// How long before the time samples are read: the lateness that the server waits for, and the
/// validity of a reading.
const BEFORE: Duration = Duration::from_secs(300);

/// The scrape interval of series of pods that have one sample.
const SCRAPED: Duration = Duration::from_secs(30);

/// The time between polls of the server.
const POLL: Duration = Duration::from_secs(5);

/// What was served at a time of the past.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) snapshot: Snapshot,
    /// Whether kube-state-metrics recorded the pods; otherwise series of devices name them.
    pub(crate) has_pods: bool,
}

/// The samples of a series of a device, in the order of time.
#[derive(Debug)]
struct DeviceSeries {
    signal: SignalId,
    key: SeriesKey,
    labels: String,
    samples: Vec<Sample>,
}

/// What was recorded of a pod.
#[derive(Debug, Default)]
struct Life {
    /// Whether it was Ready. It existed while this has samples.
    ready: BTreeMap<Timestamp, bool>,
    /// When it was last seen Succeeded or Failed, and in deletion.
    finished: Option<Timestamp>,
    deleted: Option<Timestamp>,
}

/// An owner of pods with its namespace.
type Owner = (Arc<str>, Workload);

/// The lives of pods up to a time.
#[derive(Debug)]
struct Pods<'o> {
    lives: BTreeMap<Named, Life>,
    owners: &'o Owners,
    /// The interval of the samples.
    scraped: Duration,
    include_starting: bool,
    from: Timestamp,
}

impl History {
    /// The metrics of devices.
    pub(crate) fn metrics(&self) -> Vec<MetricSpec> {
        let configured = self.config.metrics.iter().cloned();
        metrics::built_in().into_iter().chain(configured).collect()
    }

    /// All values of a namespace at a time.
    pub(crate) async fn record(
        &self,
        namespace: &str,
        owners: &Owners,
        at: Timestamp,
    ) -> Result<Recording, Failure> {
        let config = &self.config;
        let from = at - config.policy.max_window - BEFORE;
        let specs: Vec<&SignalSpec> = config.signals.iter().collect();
        let mut devices: BTreeMap<SeriesKey, DeviceSeries> = BTreeMap::new();
        for scope in scopes(Some(namespace)) {
            let selector = format!("{{{}{scope}{}}}", any_name(&specs), self.matchers());
            let answer = self.samples(&selector, [from, at]).await?;
            let series = answer.iter().filter_map(|it| of_device(it, &specs));
            devices.extend(series.map(|it| (it.key, it)));
        }
        let selector = format!(
            r#"{{__name__=~"kube_pod_status_ready|kube_pod_status_phase|kube_pod_deletion_timestamp",{},condition=~"true|",phase=~"Succeeded|Failed|"{}}}"#,
            equals("namespace", namespace),
            self.matchers()
        );
        let lives = lives(&self.samples(&selector, [from, at]).await?);
        let devices: Vec<DeviceSeries> = devices.into_values().collect();
        let pods = Pods {
            scraped: scrape_interval(&lives),
            lives,
            owners,
            include_starting: config.include_starting,
            from,
        };
        let mut pipeline = Pipeline::new(Settings {
            policy: config.policy.clone(),
            signals: config.signals.clone(),
            metrics: self.metrics(),
        });
        let mut until = from;
        while until < at {
            let since = until;
            until = at.min(until + POLL);
            for spec in &specs {
                let of_signal = devices.iter().filter(|series| series.signal == spec.id);
                pipeline.take(&new(spec.id, of_signal, [since, until]), until);
            }
            pipeline.end_round();
        }
        Ok(Recording {
            snapshot: pipeline.publish(&Arc::new(pods.inventory(&devices, at)), at),
            has_pods: !pods.lives.is_empty(),
        })
    }
}

/// A series of a device with the signal that its name tells.
fn of_device(series: BatchSeries<'_>, specs: &[&SignalSpec]) -> Option<DeviceSeries> {
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

/// The samples of a signal after a time and up to another one.
fn new<'d>(
    signal: SignalId,
    series: impl Iterator<Item = &'d DeviceSeries>,
    [since, until]: [Timestamp; 2],
) -> Batch {
    let mut batch = Batch::new(signal);
    for series in series {
        let known = series.samples.partition_point(|it| it.at <= since);
        let new = series.samples[known..].iter();
        let mut new = new.take_while(|it| it.at <= until).peekable();
        if new.peek().is_some() {
            batch.begin_series(series.key, &series.labels);
            new.for_each(|sample| batch.push(*sample));
        }
    }
    batch
}

fn lives(series: &Batch) -> BTreeMap<Named, Life> {
    let mut lives: BTreeMap<Named, Life> = BTreeMap::new();
    for series in series.iter() {
        let labels = Labels::from_json(series.labels).unwrap_or_default();
        let Some(pod) = pod(&labels) else {
            continue;
        };
        let life = lives.entry(pod).or_default();
        let samples = series.samples.iter();
        let is_true = samples.clone().filter(|it| it.value > 0.0);
        let last = is_true.map(|it| it.at).max();
        match labels.get("__name__") {
            Some("kube_pod_status_ready") => {
                let known = samples.filter(|it| it.value.is_finite());
                life.ready.extend(known.map(|it| (it.at, it.value > 0.0)));
            }
            Some("kube_pod_status_phase") => life.finished = life.finished.max(last),
            _ => life.deleted = life.deleted.max(last),
        }
    }
    lives
}

fn scrape_interval(lives: &BTreeMap<Named, Life>) -> Duration {
    let gaps = lives.values().flat_map(|life| {
        let later = life.ready.keys().skip(1);
        later.zip(life.ready.keys()).map(|(b, a)| b.since(*a))
    });
    let mut gaps: Vec<Duration> = gaps.collect();
    gaps.sort_unstable();
    // Of several replicas of Prometheus the short gaps between their scrapes do not count.
    gaps.get(gaps.len() * 3 / 4).copied().unwrap_or(SCRAPED)
}

impl Pods<'_> {
    fn owner(&self, pod: &Named) -> Option<Owner> {
        Some((Arc::clone(&pod.0), self.owners.of(pod)?))
    }

    /// The owners of all pods, in order.
    fn workloads(&self, devices: &[DeviceSeries]) -> Vec<Owner> {
        let named = devices.iter().filter_map(|series| {
            let labels = Labels::from_json(&series.labels).unwrap_or_default();
            let named = schemes::claim(&labels).owner?;
            self.owner(&(named.namespace, named.pod))
        });
        let owners = self.lives.keys().filter_map(|pod| self.owner(pod));
        let all: BTreeSet<Owner> = owners.chain(named).collect();
        all.into_iter().collect()
    }

    /// The objects of the cluster at a time.
    fn inventory(&self, devices: &[DeviceSeries], at: Timestamp) -> Inventory {
        let workloads = self.workloads(devices);
        let namespaces: BTreeSet<&Arc<str>> = self.lives.keys().map(|(it, _)| it).collect();
        let namespaces = namespaces.into_iter().map(|name| ClusterObject {
            name: Arc::clone(name),
            labels: Labels::default(),
            created: None,
        });
        let mut inventory = Inventory {
            authority: match self.lives.is_empty() {
                true => InventoryOrigin::Series,
                false => InventoryOrigin::Cluster,
            },
            workloads: workloads.iter().map(controller).collect(),
            namespaces: namespaces.collect(),
            ..Inventory::default()
        };
        for (name, life) in &self.lives {
            let Some((newest, _)) = life.ready.last_key_value() else {
                continue;
            };
            let owner = self.owner(name);
            let owner = owner.and_then(|owner| workloads.binary_search(&owner).ok());
            let owner = owner.and_then(|place| u32::try_from(place).ok());
            let is_there = at.since(*newest) < self.scraped * 2;
            let is_now = |seen: Option<Timestamp>| seen >= Some(*newest);
            let pod = Pod {
                namespace: Arc::clone(&name.0),
                name: Arc::clone(&name.1),
                phase: match is_now(life.finished) {
                    true => PodPhase::Finished,
                    false => PodPhase::Running,
                },
                terminating: is_now(life.deleted),
                startup: self.startup(life),
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

    /// Whether a pod had been Ready.
    fn startup(&self, life: &Life) -> Startup {
        let began = life.ready.keys().next();
        let began_here = began.is_some_and(|at| at.since(self.from) > self.scraped * 2);
        let first_ready = life.ready.iter().find(|(_, ready)| **ready);
        match first_ready.map(|(at, _)| at) {
            _ if self.include_starting => Startup::Unknown,
            None => Startup::Starting,
            at if at == began && !began_here => Startup::Unknown,
            Some(at) => Startup::ReadySince(*at + READ_EVERY),
        }
    }
}

fn controller((namespace, owner): &Owner) -> Controller {
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

impl Recording {
    /// An object with devices, by its kind and name.
    pub(crate) fn find(&self, kind: &str, namespace: Option<&str>, name: &str) -> Option<&Object> {
        let mut tables = self.snapshot.layout.tables.iter();
        let table = tables.find(|table| *table.kind.kind == *kind)?;
        table.objects.get(table.find(namespace, name)?)
    }

    /// The value that was served of an object, over another window than the default if there is
    /// one.
    pub(crate) fn value(
        &self,
        object: &Object,
        (measure, window): (&Measure, Option<Duration>),
        at: Timestamp,
    ) -> Option<Value> {
        let values = match object.is_starting {
            true => Vec::new(),
            false => self.snapshot.evaluate(&[object], measure, window),
        };
        let value = values.into_iter().next().flatten()?;
        (value.is_fresh(at) && value.value.is_finite()).then_some(value)
    }
}

//! What `top` shows: the server's list of devices, and nodes and autoscalers of the cluster.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Node;
use serde::de::DeserializeOwned;

use apimachinery::kinds::Kind;
use cluster_checks::paths::{autoscalers, encode, within};
use cluster_state::error::CallError;
use findings::target::provided;
use gpu_metrics::devices::{DeviceList, DeviceReport, DevicesOf};
use gpu_metrics::explain::HOLDERS_UNNAMED;
use gpu_metrics::resources::GpuResources;

use crate::Failure;
use crate::check::live::{UNREAD, trouble};
use crate::cluster::Cluster;
use crate::explain::failure;
use crate::kinds;
use crate::values::{CUSTOM, FindingList, List};

use super::autoscalers::Autoscaler;
use super::columns::Row;
use super::{TopArgs, What};

const NO_DEVICES: &str =
    "the server lists no devices: upgrade gpu-metrics-apiserver to the version of this command";

/// The rows, and what is missing.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) rows: Vec<Row>,
    /// The number of devices of the cluster, with those of no row; 0 for one namespace.
    pub(crate) device_count: usize,
    /// Notes on missing values.
    pub(crate) notes: BTreeSet<String>,
    /// Why no row has a value, if GPU data cannot be read.
    pub(crate) unread: Option<String>,
}

impl Found {
    /// The rows that are asked for, by namespace and name.
    ///
    /// # Errors
    /// When the list cannot be read, and when it would be empty because GPU data cannot be
    /// read: an empty table would mean that there are no GPUs.
    pub(crate) async fn read(args: &TopArgs, cluster: &Cluster) -> Result<Self, Failure> {
        let mut found = match rows(args, cluster).await {
            Err(refused @ Failure::Refused(_)) => return Err(refused),
            found => found,
        };
        let is_clear = |found: &Self| found.rows.iter().any(|row| row.item.held.is_some());
        if found.as_ref().is_ok_and(is_clear) {
            return found;
        }
        let Some((cause, remedy)) = trouble(cluster).await else {
            return found;
        };
        let unread = format!("{UNREAD}: {cause}: {remedy}");
        match &mut found {
            Ok(found) if args.what != What::Gpus && !found.rows.is_empty() => {
                found.notes.clear();
                found.unread = Some(unread);
            }
            _ => return Err(Failure::Failed(unread)),
        }
        found
    }

    /// Takes the GPUs out of the nodes, and adds a note if their holders are not named.
    pub(crate) fn gpus(&mut self) -> Vec<DeviceReport> {
        let mut gpus = Vec::new();
        for Row { item, .. } in &mut self.rows {
            for mut device in item.devices.drain(..) {
                if device.shared_with > 0 {
                    self.notes.insert(HOLDERS_UNNAMED.to_owned());
                }
                device.node = Some(item.name.clone());
                gpus.push(device);
            }
        }
        gpus
    }

    /// Adds what the cluster says about nodes, and a row for each node with GPUs that the
    /// server does not list.
    fn add(&mut self, mut allocatable: BTreeMap<String, f64>) {
        for row in &mut self.rows {
            row.allocatable = allocatable.remove(&row.item.name);
        }
        let unknown = allocatable.into_iter().map(|(name, gpus)| Row {
            item: DevicesOf {
                no_value: Some(format!(
                    "no GPU of node {name} is reported: check dcgm-exporter there"
                )),
                resource: "nodes".to_owned(),
                name,
                ..DevicesOf::default()
            },
            allocatable: Some(gpus),
            ..Row::default()
        });
        self.rows.extend(unknown);
        self.rows.sort_by(|a, b| a.item.name.cmp(&b.item.name));
    }

    /// Keeps the named row.
    async fn keep(&mut self, args: &TopArgs, name: &str, cluster: &Cluster) -> Result<(), Failure> {
        let is_it = |item: &DevicesOf| {
            item.name == name || format!("{}/{}", item.resource, item.name) == name
        };
        self.rows.retain(|row| is_it(&row.item));
        if !self.rows.is_empty() {
            return Ok(());
        }
        let (namespace, singular) = (args.namespace(cluster), args.what.singular());
        let of = namespace.map_or_else(String::new, |it| format!(" of namespace {it}"));
        let said = format!("no {singular} {name}{of} holds reported GPUs or requests GPUs");
        // That a pod which exists has no GPUs is an answer.
        let path = format!("/api/v1/{}pods/{}", within(namespace), encode(name));
        let is_there = args.what == What::Pods
            && namespace.is_some()
            && cluster.read::<serde_json::Value>(&path).await.is_ok();
        if !is_there {
            return Err(Failure::Failed(said));
        }
        self.notes.insert(said);
        Ok(())
    }

    /// Reads a list. It is empty if the API does not exist, or if access is forbidden,
    /// which adds a note.
    async fn list<T: DeserializeOwned>(
        &mut self,
        cluster: &Cluster,
        path: &str,
    ) -> Result<Vec<T>, Failure> {
        match cluster.read::<List<T>>(path).await {
            Ok(list) => Ok(list.items),
            Err(CallError::NotFound(_)) => Ok(Vec::new()),
            Err(CallError::Forbidden { text, .. }) => {
                self.notes.insert(text);
                Ok(Vec::new())
            }
            Err(error) => Err(Failure::Failed(error.to_string())),
        }
    }

    /// The autoscalers of a namespace, or of all.
    pub(crate) async fn autoscalers(
        &mut self,
        cluster: &Cluster,
        namespace: Option<&str>,
    ) -> Result<Vec<Autoscaler>, Failure> {
        let path = autoscalers(namespace);
        let objects: Vec<HorizontalPodAutoscaler> = self.list(cluster, &path).await?;
        let mut read = Vec::new();
        for object in &objects {
            match Autoscaler::of(object) {
                Ok(autoscaler) => read.push(autoscaler),
                Err(note) => _ = self.notes.insert(note),
            }
        }
        Ok(read)
    }

    /// The GPUs that each node offers to pods, by the node's name.
    async fn allocatable(
        &mut self,
        args: &TopArgs,
        cluster: &Cluster,
    ) -> Result<BTreeMap<String, f64>, Failure> {
        // The default GPU resources apply if the findings cannot be read.
        let said = FindingList::read(cluster).await;
        let resources = said.map_or_else(|_| GpuResources::default(), |it| it.gpu_resources());
        let path = format!("/api/v1/nodes?{}", args.labels());
        let nodes: Vec<Node> = self.list(cluster, &path).await?;
        let offered = nodes.into_iter().filter_map(|node| {
            let gpus: u32 = provided(&resources, &node).devices.values().sum();
            let name = node.metadata.name.filter(|_| gpus > 0)?;
            Some((name, f64::from(gpus)))
        });
        Ok(offered.collect())
    }
}

/// The rows, also where GPU data cannot be read.
pub(crate) async fn rows(args: &TopArgs, cluster: &Cluster) -> Result<Found, Failure> {
    let list = list(args, cluster).await?;
    let mut found = Found {
        device_count: list.device_count.unwrap_or_default(),
        ..Found::default()
    };
    let namespace = args.namespace(cluster);
    let autoscalers = match args.what.is_namespaced() {
        true => found.autoscalers(cluster, namespace).await?,
        false => Vec::new(),
    };
    let row = |item: DevicesOf| Row {
        autoscalers: of_item(&autoscalers, &item),
        item,
        allocatable: None,
    };
    found.rows = list.items.into_iter().map(row).collect();
    if matches!(args.what, What::Nodes | What::Gpus) {
        let allocatable = found.allocatable(args, cluster).await?;
        found.add(allocatable);
    }
    match &args.name {
        Some(name) if args.what != What::Gpus => found.keep(args, name, cluster).await?,
        None if found.rows.is_empty() => {
            let said = nothing(namespace, args.selector.as_deref());
            found.notes.insert(said);
        }
        _ => {}
    }
    if args.what != What::Gpus {
        let reasons = found.rows.iter().map(|row| &row.item.no_value);
        found.notes.extend(reasons.flatten().cloned());
    }
    Ok(found)
}

/// The server's list of devices.
pub(crate) async fn list(args: &TopArgs, cluster: &Cluster) -> Result<DeviceList, Failure> {
    // The list by node has each GPU as a device.
    let by = match args.what {
        What::Gpus => What::Nodes,
        what => what,
    };
    let (place, by) = (within(args.namespace(cluster)), by.singular());
    let path = format!("{CUSTOM}/{place}devices?by={by}&{}", args.labels());
    let list = cluster.read(&path).await;
    list.map_err(|error| match error {
        CallError::NotFound(_) => Failure::Failed(NO_DEVICES.to_owned()),
        error => failure(&error),
    })
}

/// The autoscalers of a workload, or of the workloads of a pod.
fn of_item(autoscalers: &[Autoscaler], item: &DevicesOf) -> Vec<Autoscaler> {
    let own = format!("{}/{}", item.resource, item.name);
    let is_of = |it: &&Autoscaler| {
        Some(&it.hpa.namespace) == item.namespace.as_ref()
            && (it.workload == own || item.workloads.contains(&it.workload))
    };
    autoscalers.iter().filter(is_of).cloned().collect()
}

/// A note on GPUs that are not listed because their series name no node.
pub(crate) fn of_no_node(all: usize, listed: usize) -> Option<String> {
    let more = all.checked_sub(listed).filter(|more| *more > 0)?;
    Some(format!(
        "GPUs without a node in their series, which are not listed: {more}"
    ))
}

/// Splits a name into its namespace, if it has one, and the name as in rows. For pods it
/// is `train-0` or `ml/train-0`; for workloads also `deploy/train` or `ml/deploy/train`.
pub(crate) fn named(what: What, name: &str) -> (Option<String>, String) {
    let own = || (None, name.to_owned());
    let Some((before, bare)) = name.rsplit_once('/') else {
        return own();
    };
    match what {
        What::Pods | What::Hpas => (Some(before.to_owned()), bare.to_owned()),
        What::Workloads => {
            let parts = before.rsplit_once('/');
            let (namespace, kind) = parts.map_or((None, before), |(of, kind)| (Some(of), kind));
            let known = kinds::known().of_request(kind).map(Kind::resource);
            // A resource of another group has a dot, and a namespace has none.
            let resource = known.or_else(|| kind.contains('.').then(|| kind.into()));
            match resource {
                Some(resource) => (namespace.map(str::to_owned), format!("{resource}/{bare}")),
                None => (Some(before.to_owned()), bare.to_owned()),
            }
        }
        What::Namespaces | What::Nodes | What::Gpus => own(),
    }
}

/// The text in place of an empty table; `namespace` is the one that was searched.
fn nothing(namespace: Option<&str>, selector: Option<&str>) -> String {
    let labels = selector.map_or_else(String::new, |it| format!(" with the labels {it}"));
    match namespace {
        Some(namespace) => format!(
            "no object in namespace {namespace}{labels} holds reported GPUs or requests GPUs: use -A for all namespaces"
        ),
        None => format!("no object in the cluster{labels} holds reported GPUs or requests GPUs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_its_namespace_and_its_kind() {
        let (pods, workloads) = (What::Pods, What::Workloads);
        for (what, name, namespace, own) in [
            (pods, "train-0", None, "train-0"),
            (pods, "ml/train-0", Some("ml"), "train-0"),
            (workloads, "ml/train", Some("ml"), "train"),
            (
                workloads,
                "deployment/train",
                None,
                "deployments.apps/train",
            ),
            (workloads, "ml/job/train", Some("ml"), "jobs.batch/train"),
            (
                workloads,
                "ml/rollouts.argoproj.io/train",
                Some("ml"),
                "rollouts.argoproj.io/train",
            ),
            (What::Nodes, "a/b", None, "a/b"),
        ] {
            let wanted = (namespace.map(str::to_owned), own.to_owned());
            assert_eq!(named(what, name), wanted, "{name}");
        }
    }

    #[test]
    fn the_text_for_an_empty_table_names_the_searched_namespace_and_labels() {
        let one = nothing(Some("default"), Some("app=x"));
        for part in ["namespace default", "labels app=x", "-A"] {
            assert!(one.contains(part), "{one}");
        }
        assert!(!nothing(None, None).contains("-A"));
    }
}

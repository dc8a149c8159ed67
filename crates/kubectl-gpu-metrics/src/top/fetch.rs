//! Rows of `top`: the server's list of devices, and nodes with GPUs that are not in it.

use std::collections::BTreeSet;

use apimachinery::kinds::Kind;
use cluster_state::error::CallError;
use gpu_metrics::devices::{DeviceList, DeviceNow, DevicesOf};
use gpu_metrics::explain::HOLDERS_UNNAMED;

use crate::Failure;
use crate::cluster::Cluster;
use crate::explain::failure;
use crate::kinds;
use crate::values::CUSTOM;
use cluster_checks::paths::{encode, within};

use super::objects::ClusterObjects;
use super::rows::Row;
use super::{TopArgs, What};

/// Kinds that own pods.
const WORKLOADS: [&str; 5] = [
    "deployments.apps",
    "statefulsets.apps",
    "daemonsets.apps",
    "jobs.batch",
    "cronjobs.batch",
];

const NO_DEVICES: &str =
    "the server lists no devices: upgrade gpu-metrics-apiserver to the version of this command";

/// The rows, and notes on missing data.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) rows: Vec<Row>,
    /// The number of devices of the cluster, with those of no row; 0 for one namespace.
    pub(crate) device_count: usize,
    pub(crate) notes: BTreeSet<String>,
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

impl Found {
    /// Takes the GPUs out of the nodes, and adds a note if their holders are not named.
    pub(crate) fn gpus(&mut self) -> Vec<DeviceNow> {
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

    /// Adds a row for each node with GPUs that the server does not list.
    fn add(&mut self, nodes: &BTreeSet<String>) {
        let known = self.rows.iter().map(|row| row.item.name.clone());
        let known: BTreeSet<String> = known.collect();
        let unknown = nodes.difference(&known).map(|name| DevicesOf {
            name: name.clone(),
            no_value: Some(format!(
                "no GPU of node {name} is reported: check dcgm-exporter there"
            )),
            ..DevicesOf::default()
        });
        self.rows.extend(unknown.map(Row::from));
        if !nodes.is_empty() {
            self.rows.sort_by(|a, b| a.item.name.cmp(&b.item.name));
        }
    }
}

/// A note on GPUs that are not listed because their series name no node.
pub(crate) fn of_no_node(all: usize, listed: usize) -> Option<String> {
    let more = all.checked_sub(listed).filter(|more| *more > 0)?;
    Some(format!(
        "GPUs without a node in their series, which are not listed: {more}"
    ))
}

/// The requested rows, by namespace and name.
pub(crate) async fn rows(args: &TopArgs, cluster: &Cluster) -> Result<Found, Failure> {
    let list = list(args, cluster).await?;
    let objects = ClusterObjects::read(args, cluster).await?;
    let row = |mut item: DevicesOf| {
        if args.what == What::Workloads {
            item.name = format!("{}/{}", item.resource, item.name);
        }
        let namespace = item.namespace.as_deref().unwrap_or_default();
        let hpas = objects.of(namespace, item.workloads.iter().chain([&item.name]));
        Row { item, hpas }
    };
    let mut found = Found {
        rows: list.items.into_iter().map(row).collect(),
        device_count: list.device_count.unwrap_or_default(),
        notes: objects.notes.clone(),
    };
    found.add(&objects.nodes);
    if let (Some(name), true) = (&args.name, args.what != What::Gpus) {
        let is_it = |of: &str| of == name || of.ends_with(&format!("/{name}"));
        found.rows.retain(|row| is_it(&row.item.name));
        if found.rows.is_empty() {
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
            found.notes.insert(said);
        }
    } else if found.rows.is_empty() {
        let said = nothing(args.namespace(cluster), args.selector.as_deref());
        found.notes.insert(said);
    }
    if args.what != What::Gpus {
        let reasons = found.rows.iter().map(|row| &row.item.no_value);
        found.notes.extend(reasons.flatten().cloned());
    }
    Ok(found)
}

/// Splits a name into its namespace, if it has one, and the name as in rows. For pods it
/// is `train-0` or `ml/train-0`; for workloads also `deploy/train` or `ml/deploy/train`.
pub(crate) fn named(what: What, name: &str) -> (Option<String>, String) {
    let own = || (None, name.to_owned());
    let Some((before, bare)) = name.rsplit_once('/') else {
        return own();
    };
    match what {
        What::Pods => (Some(before.to_owned()), bare.to_owned()),
        What::Workloads => {
            let parts = before.rsplit_once('/');
            let (namespace, kind) = parts.map_or((None, before), |(of, kind)| (Some(of), kind));
            let known = kinds::known();
            let resource = known.of_request(kind).map(Kind::resource);
            match resource.filter(|it| WORKLOADS.contains(&&**it)) {
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
                "deployments.apps/train",
                None,
                "deployments.apps/train",
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

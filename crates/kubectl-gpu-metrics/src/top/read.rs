//! What `top` shows: the server's list of devices, and nodes and autoscalers of the cluster.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Node;
use serde::de::DeserializeOwned;

use cluster_checks::paths::{self, within};
use cluster_state::error::CallError;
use gpu_metrics::devices::{DeviceList, DeviceReport, DevicesOf};
use gpu_metrics::explain::HOLDERS_UNNAMED;
use gpu_metrics::resources::GpuResources;
use hpa::Hpa;

use crate::Failure;
use crate::cluster::Cluster;
use crate::explain::failure;
use crate::values::{CUSTOM, FindingList, List};

use super::columns::{Row, UNKNOWN_OFFER};
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
}

impl Found {
    /// The rows that are asked for, by namespace.
    ///
    /// # Errors
    /// When the list cannot be read, and when it has no value because GPU data cannot be read:
    /// an empty table would mean that there are no GPUs.
    pub(crate) async fn read(args: &TopArgs, cluster: &Cluster) -> Result<Self, Failure> {
        // The user may have no right to read what the server says about its data.
        let data = FindingList::read(cluster).await.ok();
        let list = list(args, cluster).await;
        let is_clear = match &list {
            Ok(list) => list.items.iter().any(|item| !item.values.is_empty()),
            Err(failure) => matches!(failure, Failure::Refused(_)),
        };
        let trouble = data.as_ref().and_then(FindingList::trouble);
        if let Some(trouble) = trouble.filter(|_| !is_clear) {
            return Err(Failure::Failed(trouble));
        }
        let list = list?;
        let mut found = Self {
            device_count: list.device_count.unwrap_or_default(),
            ..Self::default()
        };
        let row = |item: DevicesOf| Row {
            item,
            allocatable: None,
        };
        found.rows = list.items.into_iter().map(row).collect();
        if matches!(args.what, What::Nodes | What::Gpus) {
            // The default GPU resources apply if the configuration cannot be read.
            let resources = data.as_ref().map(FindingList::gpu_resources);
            let resources = resources.unwrap_or_default();
            found.add_nodes(args, cluster, &resources).await?;
        }
        if found.rows.is_empty() {
            found.notes.insert(nothing(args, args.namespace(cluster)));
        }
        if args.what != What::Gpus {
            let reasons = found.rows.iter().map(|row| &row.item.no_value);
            found.notes.extend(reasons.flatten().cloned());
        }
        Ok(found)
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

    /// Adds the GPUs that nodes offer to pods, and a row for each node with GPUs that the
    /// server does not list.
    async fn add_nodes(
        &mut self,
        args: &TopArgs,
        cluster: &Cluster,
        resources: &GpuResources,
    ) -> Result<(), Failure> {
        let path = format!("/api/v1/nodes?{}", args.labels());
        let nodes: Vec<Node> = objects(cluster, &path, &mut self.notes).await?;
        let offered = nodes.into_iter().filter_map(|node| {
            let allocatable = node.status.and_then(|it| it.allocatable);
            let amounts = allocatable.iter().flatten();
            let amounts = amounts.map(|(name, it)| (name.as_str(), it.0.as_str()));
            let gpus = resources.among(amounts).devices;
            let name = node.metadata.name.filter(|_| gpus > 0)?;
            Some((name, f64::from(gpus)))
        });
        let mut allocatable: BTreeMap<String, f64> = offered.collect();
        for row in &mut self.rows {
            row.allocatable = allocatable.remove(&row.item.name);
        }
        let is_unknown = self.rows.iter().any(|row| row.allocatable.is_none());
        if args.what == What::Nodes && is_unknown && self.notes.is_empty() {
            self.notes.insert(UNKNOWN_OFFER.to_owned());
        }
        let unlisted = allocatable.into_iter().map(|(name, gpus)| Row {
            item: DevicesOf {
                no_value: Some(format!(
                    "no GPU of node {name} is reported: check dcgm-exporter there"
                )),
                resource: "nodes".to_owned(),
                name,
                ..DevicesOf::default()
            },
            allocatable: Some(gpus),
        });
        self.rows.extend(unlisted);
        self.rows.sort_by(|a, b| a.item.name.cmp(&b.item.name));
        Ok(())
    }

    /// A note on GPUs that are not listed because their series name no node.
    pub(crate) fn of_no_node(&self, listed: usize) -> Option<String> {
        let more = self.device_count.saturating_sub(listed);
        (more > 0)
            .then(|| format!("GPUs without a node in their series, which are not listed: {more}"))
    }
}

/// The server's list of devices.
async fn list(args: &TopArgs, cluster: &Cluster) -> Result<DeviceList, Failure> {
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

/// Reads a list. It is empty if the API does not exist, or if access is forbidden, which adds
/// a note.
async fn objects<T: DeserializeOwned>(
    cluster: &Cluster,
    path: &str,
    notes: &mut BTreeSet<String>,
) -> Result<Vec<T>, Failure> {
    match cluster.read::<List<T>>(path).await {
        Ok(list) => Ok(list.items),
        Err(CallError::NotFound(_)) => Ok(Vec::new()),
        Err(CallError::Forbidden { text, .. }) => {
            notes.insert(text);
            Ok(Vec::new())
        }
        Err(error) => Err(Failure::Failed(error.to_string())),
    }
}

/// The autoscalers of a namespace, or of all, and notes on what could not be read.
pub(crate) async fn autoscalers(
    cluster: &Cluster,
    namespace: Option<&str>,
) -> Result<(Vec<Hpa>, BTreeSet<String>), Failure> {
    let (mut read, mut notes) = (Vec::new(), BTreeSet::new());
    let path = paths::autoscalers(namespace);
    let objects: Vec<HorizontalPodAutoscaler> = objects(cluster, &path, &mut notes).await?;
    for object in &objects {
        match Hpa::try_from(object) {
            Ok(hpa) => read.push(hpa),
            Err(error) => {
                let name = object.metadata.name.as_deref().unwrap_or_default();
                notes.insert(format!("HorizontalPodAutoscaler {name}: {error}"));
            }
        }
    }
    Ok((read, notes))
}

/// The text in place of an empty table; `namespace` is the one that was searched.
fn nothing(args: &TopArgs, namespace: Option<&str>) -> String {
    let place = namespace.map_or("the cluster".to_owned(), |it| format!("namespace {it}"));
    let labels = args.selector.as_ref();
    let labels = labels.map_or_else(String::new, |it| format!(" with the labels {it}"));
    let everywhere = namespace.map_or("", |_| ": use -A for all namespaces");
    format!("no object in {place}{labels} holds reported GPUs or requests GPUs{everywhere}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_for_an_empty_table_names_the_searched_namespace_and_labels() {
        let all = TopArgs::all(What::Pods, true, None);
        let labelled = TopArgs {
            selector: Some("app=x".to_owned()),
            ..all.clone()
        };
        let one = nothing(&labelled, Some("default"));
        for part in ["namespace default", "labels app=x", "-A"] {
            assert!(one.contains(part), "{one}");
        }
        assert!(!nothing(&all, None).contains("-A"));
    }
}

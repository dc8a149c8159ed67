//! GPUs one by one: what the nodes' values are explained by.

use std::collections::BTreeSet;

use serde::Serialize;

use super::rows::{Idle, Row, shown};
use super::{Page, TopArgs, fetch};
use crate::cli::Failure;
use crate::cli::cluster::{Cluster, encode};
use crate::cli::values::{EXTERNAL, of_object};
use crate::cluster::error::CallError;
use crate::dcgm::metrics::MEMORY_UTILIZATION;
use crate::why::{Explanation, Reading, State};

/// A GPU or MIG instance.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Gpu {
    node: String,
    pub(in crate::cli) uuid: String,
    pub(in crate::cli) instance: Option<String>,
    pub(in crate::cli) model: Option<String>,
    pub(in crate::cli) state: &'static str,
    /// Percent, at the last instant.
    pub(in crate::cli) memory_utilization: Option<f64>,
    pub(in crate::cli) held: Option<bool>,
    idle_since: Option<Idle>,
    silent_since: Option<String>,
}

/// The GPUs of nodes, as JSON, as cells, and what could not be had. The name that
/// is asked for is that of a GPU, its UUID, or of a node.
pub(super) async fn of_nodes(
    nodes: Vec<Row>,
    args: &TopArgs,
    cluster: &Cluster,
) -> Result<Page, Failure> {
    let (mut gpus, mut of_nodes) = (Vec::new(), 0);
    let mut notes = BTreeSet::new();
    for node in nodes {
        match explained(
            cluster,
            &of_object(("nodes", None), &node.name, MEMORY_UTILIZATION),
        )
        .await
        {
            Ok(found) => {
                of_nodes += found.device_count;
                gpus.extend(devices(&node.name, found));
            }
            Err(error) => _ = notes.insert(format!("{}: {error}", node.name)),
        }
    }
    if let (None, None) = (&args.name, &args.selector) {
        let namespace = encode(&cluster.namespace);
        let all = format!("{EXTERNAL}/{namespace}/cluster_{MEMORY_UTILIZATION}");
        match explained(cluster, &all).await {
            Ok(all) if all.device_count > of_nodes => {
                let others = all.device_count - of_nodes;
                notes.insert(format!(
                    "GPUs of which no series names a node, and which are not listed: {others}"
                ));
            }
            Ok(_) => {}
            Err(error) => _ = notes.insert(format!("GPUs of no node: {error}")),
        }
    }
    if let Some(name) = &args.name {
        gpus.retain(|gpu| gpu.uuid == *name || gpu.node == *name);
        if gpus.is_empty() {
            let unread = notes.iter().map(|note| format!("; {note}"));
            return Err(Failure::Failed(format!(
                "no GPU with the UUID {name}, and no node of that name with GPUs, is reported{}",
                unread.collect::<String>()
            )));
        }
    }
    let json = serde_json::to_string_pretty(&gpus);
    let heading = "NODE GPU MODEL HELD STATE MEM% IDLE-SINCE".split(' ');
    let mut cells = vec![heading.map(str::to_owned).collect()];
    cells.extend(gpus.iter().map(Gpu::cells));
    Ok(Page {
        json: json.map_err(|error| Failure::Failed(error.to_string()))?,
        cells,
        spare: "MODEL HELD NODE IDLE-SINCE",
        notes,
    })
}

impl Gpu {
    fn cells(&self) -> Vec<String> {
        let uuid = match &self.instance {
            Some(instance) => format!("{} ({instance})", self.uuid),
            None => self.uuid.clone(),
        };
        let held = self
            .held
            .map_or("–", |held| if held { "yes" } else { "no" });
        vec![
            self.node.clone(),
            uuid,
            self.model.clone().unwrap_or_else(|| "–".to_owned()),
            held.to_owned(),
            match &self.silent_since {
                Some(since) => format!("silent since {since}"),
                None => self.state.to_owned(),
            },
            shown(self.memory_utilization, |number| format!("{number:.1}")),
            shown(self.idle_since, |idle| idle.to_string()),
        ]
    }
}

async fn explained(cluster: &Cluster, path: &str) -> Result<Explanation, CallError> {
    cluster.read(&format!("{path}?explain=true")).await
}

/// The GPUs behind a node's value.
pub(in crate::cli) fn devices(node: &str, explanation: Explanation) -> impl Iterator<Item = Gpu> {
    let lag = explanation.window.map_or(0.0, |window| window.lag_seconds);
    explanation.devices.into_iter().map(move |device| {
        // What is older than a reading is believed is not what the GPU does now.
        let is_believed = device.silent_since.is_none() && lag <= device.fresh_seconds;
        let last = device.readings.last().filter(|_| is_believed);
        let idle_since = last.and_then(|_| fetch::idle(std::slice::from_ref(&device)));
        Gpu {
            idle_since,
            node: node.to_owned(),
            state: last.map_or("unknown", state),
            memory_utilization: last.and_then(|reading| reading.number),
            held: last.and_then(|reading| reading.held),
            uuid: device.uuid,
            instance: device.instance,
            model: device.model,
            silent_since: device.silent_since,
        }
    })
}

const fn state(reading: &Reading) -> &'static str {
    match reading.state {
        State::Counted | State::Active => "active",
        State::Idle => "idle",
        State::ActivityUnknown | State::NotHeld | State::BeforeItsTime => "unknown",
        State::Missing => "missing",
        State::Lost => "lost",
        State::NoReading => "no reading",
    }
}

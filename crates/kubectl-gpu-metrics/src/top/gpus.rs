//! Single GPUs, from the explanations of the nodes' values.

use serde::Serialize;

use cluster_state::error::CallError;
use gpu_metrics::dcgm::metrics::MEMORY_UTILIZATION;
use gpu_metrics::explain::{Explanation, HOLDERS_UNNAMED, Reading, State};

use crate::Failure;
use crate::cluster::{Cluster, encode};
use crate::values::EXTERNAL;

use super::cells::shown;
use super::fetch::{self, Found};
use super::rows::Idle;
use super::{Page, TopArgs};

/// A GPU or MIG instance.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Gpu {
    pub(crate) node: String,
    pub(crate) uuid: String,
    pub(crate) instance: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) state: &'static str,
    /// Percent, at the last instant.
    pub(crate) memory_utilization: Option<f64>,
    pub(crate) held: Option<bool>,
    /// The pods that hold it and that may be named.
    pods: Vec<String>,
    idle_since: Option<Idle>,
    silent_since: Option<String>,
}

/// The columns of [`Gpu::cells`].
pub(crate) const HEADING: [&str; 8] = [
    "NODE",
    "GPU",
    "STATE",
    "POD",
    "MEM%",
    "IDLE-SINCE",
    "HELD",
    "MODEL",
];

/// The GPUs of nodes, as JSON and as cells, and what could not be read. A name
/// selects a GPU, by its UUID, or a node.
pub(super) async fn of_nodes(
    mut found: Found,
    args: &TopArgs,
    cluster: &Cluster,
) -> Result<Page, Failure> {
    let mut gpus = found.gpus();
    let (mut notes, mut is_partial) = (found.notes, found.is_partial);
    if let (None, None) = (&args.name, &args.selector) {
        match of_no_node(cluster, gpus.len()).await {
            Ok(note) => notes.extend(note),
            Err(note) => {
                is_partial = true;
                notes.insert(note);
            }
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
    let mut cells = Vec::new();
    if !gpus.is_empty() {
        cells.push(HEADING.map(str::to_owned).to_vec());
        cells.extend(gpus.iter().map(Gpu::cells));
    }
    Ok(Page {
        json: json.map_err(|error| Failure::Failed(error.to_string()))?,
        cells,
        spare: "MODEL HELD NODE IDLE-SINCE",
        notes,
        failed: is_partial
            .then(|| "not all GPUs could be read: the notes name the cause".to_owned()),
    })
}

/// Notes on GPUs that are not listed because no series names their node.
///
/// Why the notes could not be read.
pub(crate) async fn of_no_node(cluster: &Cluster, listed: usize) -> Result<Option<String>, String> {
    let namespace = encode(&cluster.namespace);
    let all = format!("{EXTERNAL}/{namespace}/cluster_{MEMORY_UTILIZATION}?explain=true");
    match cluster.read::<Explanation>(&all).await {
        Ok(all) if all.device_count > listed => Ok(Some(format!(
            "GPUs of which no series names a node, and which are not listed: {}",
            all.device_count - listed
        ))),
        Ok(_) => Ok(None),
        Err(CallError::NotFound(said)) => Ok(Some(format!("GPUs of no node: {said}"))),
        Err(error) => Err(format!("GPUs of no node: {error}")),
    }
}

impl Gpu {
    pub(crate) fn cells(&self) -> Vec<String> {
        let uuid = match &self.instance {
            Some(instance) => format!("{} ({instance})", self.uuid),
            None => self.uuid.clone(),
        };
        let held = |held| if held { "yes" } else { "no" }.to_owned();
        vec![
            self.node.clone(),
            uuid,
            match &self.silent_since {
                Some(since) => format!("silent since {since}"),
                None => self.state.to_owned(),
            },
            match &*self.pods {
                [] => "–".to_owned(),
                pods => pods.join(", "),
            },
            shown(self.memory_utilization, |number| format!("{number:.1}")),
            shown(self.idle_since, |idle| idle.to_string()),
            shown(self.held, held),
            shown(self.model.clone(), |model| model),
        ]
    }
}

impl Found {
    /// Takes the GPUs out of the explanations of the nodes, and adds a note if their
    /// holders are not named.
    pub(crate) fn gpus(&mut self) -> Vec<Gpu> {
        let mut gpus = Vec::new();
        for row in &mut self.rows {
            let Some(explanation) = row.explanation.take() else {
                continue;
            };
            if explanation.notes.iter().any(|note| note == HOLDERS_UNNAMED) {
                self.notes.insert(HOLDERS_UNNAMED.to_owned());
            }
            gpus.extend(devices(&row.name, *explanation));
        }
        gpus
    }
}

/// The GPUs behind a node's value.
fn devices(node: &str, explanation: Explanation) -> impl Iterator<Item = Gpu> {
    let lag = explanation.window.map_or(0.0, |window| window.lag_seconds);
    explanation.devices.into_iter().map(move |device| {
        // A reading that is too old does not show what the GPU does now.
        let is_believed = device.silent_since.is_none() && lag <= device.fresh_seconds;
        let last = device.readings.last().filter(|_| is_believed);
        let held = last.and_then(|reading| reading.held);
        Gpu {
            node: node.to_owned(),
            state: match (held, last) {
                (Some(false), _) => "free",
                (_, Some(last)) => state(last),
                (_, None) => "unknown",
            },
            memory_utilization: last.and_then(|reading| reading.number),
            held,
            idle_since: last.and_then(|_| fetch::idle(std::slice::from_ref(&device))),
            pods: match held {
                Some(false) => Vec::new(),
                _ => device.pods,
            },
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
        State::ActivityUnknown | State::NotHeld | State::BeforeItsTime | State::AfterItsTime => {
            "unknown"
        }
        State::Missing => "missing",
        State::Lost => "lost",
        State::NoReading => "no reading",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu_metrics::explain::Device;

    #[test]
    fn a_gpu_has_its_pods_and_a_free_one_has_none() {
        let device = |held: bool| Device {
            pods: vec!["ml/train-0".to_owned()],
            fresh_seconds: 6.0,
            readings: vec![Reading {
                number: Some(40.0),
                sampled: None,
                held: Some(held),
                state: if held { State::Counted } else { State::Idle },
            }],
            ..Device::default()
        };
        let explanation = Explanation {
            devices: vec![device(true), device(false)],
            ..Explanation::default()
        };
        let gpus: Vec<Gpu> = devices("node-0", explanation).collect();
        let [held, free] = &gpus[..] else {
            panic!("{gpus:?}")
        };
        assert_eq!(held.cells().len(), HEADING.len());
        assert_eq!(held.cells()[2..4], ["active", "ml/train-0"]);
        assert_eq!(free.cells()[2..4], ["free", "–"]);
        let json = serde_json::to_value(&gpus).unwrap();
        assert_eq!(json[0]["pods"], serde_json::json!(["ml/train-0"]));
        assert_eq!(json[1]["pods"], serde_json::json!([]));
    }
}

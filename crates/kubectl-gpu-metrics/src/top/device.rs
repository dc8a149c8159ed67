//! A GPU as the server lists it, and as a row shows it.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use apimachinery::duration::format_duration;

use super::cells::shown;

/// A GPU or MIG instance, as the server lists it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Gpu {
    pub(crate) node: String,
    pub(crate) uuid: String,
    pub(crate) instance: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) state: String,
    /// Percent, at the last instant.
    pub(crate) memory_utilization: Option<f64>,
    pub(crate) held: Option<bool>,
    /// The pods that hold it and that may be named.
    pods: Vec<String>,
    idle_since: Option<IdleTime>,
    pub(crate) silent_since: Option<String>,
    /// How many more pods hold it.
    #[serde(skip_serializing)]
    pub(super) shared_with: usize,
    #[serde(skip_serializing)]
    pub(crate) field: Option<String>,
    /// The labels that name the pod.
    #[serde(skip_serializing)]
    pub(crate) owner_labels: Option<String>,
    #[serde(skip_serializing)]
    pub(crate) scrape_seconds: f64,
    #[serde(skip_serializing)]
    pub(crate) fresh_seconds: f64,
    #[serde(skip_serializing)]
    pub(crate) newest: Option<String>,
    #[serde(skip_serializing)]
    pub(crate) frozen_since: Option<String>,
}

/// Heading and meaning of each column of [`Gpu::cells`].
pub(crate) const COLUMNS: [(&str, &str); 8] = [
    ("NODE", "node of the GPU"),
    ("GPU", "UUID, with the MIG instance"),
    ("STATE", "what it does now; free: no pod holds it"),
    ("POD", "the pods that hold it, as far as you may read them"),
    (
        "MEM BW %",
        "memory bandwidth utilisation at the newest instant; not memory in use",
    ),
    ("IDLE FOR", "time since it was active"),
    ("HELD", "whether a pod holds it"),
    ("MODEL", "model that DCGM reports"),
];

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
                None => self.state.replace('-', " "),
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

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct IdleTime {
    /// Seconds since the last use; 0: a GPU is in use.
    pub(super) seconds: f64,
    /// Whether it may be longer, because no older readings are held.
    pub(super) or_longer: bool,
}

/// `4m50s+`
impl fmt::Display for IdleTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = format_duration(Duration::from_secs(self.seconds as u64));
        write!(f, "{time}{}", if self.or_longer { "+" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_gpu_has_its_pods_and_what_is_unknown_of_it_is_a_dash() {
        let listed = json!([
            {"uuid": "A", "state": "active", "held": true, "memoryUtilization": 40.0, "pods": ["ml/train-0"]},
            {"uuid": "B", "state": "no-reading", "pods": []},
        ]);
        let gpus: Vec<Gpu> = serde_json::from_value(listed).unwrap();
        assert_eq!(gpus[0].cells().len(), COLUMNS.len());
        assert_eq!(gpus[0].cells()[2..5], ["active", "ml/train-0", "40.0"]);
        assert_eq!(gpus[1].cells()[2..5], ["no reading", "–", "–"]);
        let json = serde_json::to_value(&gpus).unwrap();
        assert_eq!(json[1]["memoryUtilization"], json!(null));
    }
}

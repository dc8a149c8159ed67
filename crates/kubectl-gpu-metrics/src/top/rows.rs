//! A row of the table: the GPUs of an object, or one GPU. An unknown value is `–`, never 0.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use apimachinery::duration::format_duration;
use gpu_metrics::explain::Window;

use crate::table::{shown, whole};

use super::Column;
use super::objects::HpaCell;

/// An object of the server's list of devices, in the units of the metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Row {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) held: Option<f64>,
    pub(crate) active: Option<f64>,
    pub(crate) idle: Option<f64>,
    /// Percent, over the window.
    pub(crate) memory_utilization: Option<f64>,
    /// The same at the newest instant.
    #[serde(rename = "memoryUtilizationNow")]
    pub(crate) now: Option<f64>,
    /// The same at each instant of the window.
    #[serde(rename = "memoryUtilizationInstants")]
    pub(crate) instants: Vec<Option<f64>>,
    pub(crate) gpu_utilization: Option<f64>,
    /// MiB.
    pub(crate) memory_used: Option<f64>,
    /// Watts.
    pub(crate) power: Option<f64>,
    /// How long all held GPUs have been idle.
    pub(crate) idle_since: Option<IdleTime>,
    /// Seconds since the newest sample.
    pub(crate) age_seconds: Option<f64>,
    /// The autoscalers that set its replicas.
    #[serde(skip_deserializing)]
    pub(crate) hpas: Vec<HpaCell>,
    /// Its kind: `deployments.apps`.
    #[serde(skip_serializing)]
    pub(crate) resource: String,
    /// The workloads of a pod: `deployments.apps/NAME`.
    #[serde(skip_serializing)]
    pub(crate) workloads: Vec<String>,
    /// Whether it is a pod that runs.
    #[serde(skip_serializing)]
    pub(crate) running: bool,
    /// Why there is no memory utilization.
    #[serde(skip_serializing)]
    pub(crate) no_value: Option<String>,
    #[serde(skip_serializing)]
    pub(crate) window: Option<Window>,
    #[serde(skip_serializing)]
    pub(crate) devices: Vec<Gpu>,
}

/// Heading and meaning of each column, and the order by it.
pub(crate) const COLUMNS: [(&str, &str, Option<Column>); 13] = [
    ("NAME", "name of the object", None),
    (
        "HELD",
        "GPUs that the object's pods hold, mean over the window; 1.5: one all the time and one for half of it",
        Some(Column::Held),
    ),
    (
        "ACTIVE",
        "held GPUs with a memory bandwidth utilisation above 0, mean over the window",
        Some(Column::Active),
    ),
    (
        "IDLE",
        "held GPUs that are not active, mean over the window",
        Some(Column::Idle),
    ),
    (
        "MEM BW %",
        "memory bandwidth utilisation of the active GPUs, mean over the window; not memory in use",
        Some(Column::Mem),
    ),
    ("NOW %", "MEM BW % at the newest instant", Some(Column::Now)),
    (
        "GPU %",
        "GPU utilisation of the GPUs on which it is above 0, mean over the window",
        Some(Column::Gpu),
    ),
    (
        "MEM USED",
        "framebuffer memory in use, sum of the GPUs, mean over the window",
        Some(Column::Vram),
    ),
    (
        "POWER W",
        "power in watts, sum of the GPUs, mean over the window; for nodes, of free GPUs too",
        Some(Column::Watt),
    ),
    (
        "IDLE FOR",
        "time since one of the held GPUs was active; 0s: one is active; 5m+: five minutes or longer",
        Some(Column::IdleSince),
    ),
    ("SAMPLE AGE", "time since the newest sample", None),
    (
        "HPA",
        "value/target of the autoscaler's first metric → desired/maximum replicas",
        None,
    ),
    (
        "WINDOW",
        "MEM BW % at each instant of the window, in eighths of 100; ·: unknown",
        None,
    ),
];

pub(crate) fn meaning(heading: &str) -> Option<&'static str> {
    let found = COLUMNS.iter().find(|(name, ..)| *name == heading);
    found.map(|(_, meaning, _)| *meaning)
}

/// Columns that a narrow terminal leaves out, in this order.
pub(super) const SPARE: &[&str] = &[
    "WINDOW",
    "POWER W",
    "MEM USED",
    "GPU %",
    "SAMPLE AGE",
    "ACTIVE",
    "IDLE",
    "IDLE FOR",
];

pub(super) fn help() -> String {
    let line = |(heading, meaning, _): &(&str, &str, _)| format!("\n  {heading:<10}  {meaning}");
    let lines: String = COLUMNS.iter().map(line).collect();
    format!("Columns:{lines}")
}

impl Row {
    pub(crate) fn heading(namespaced: bool) -> Vec<String> {
        let first = namespaced.then_some("NAMESPACE");
        let names = COLUMNS.iter().map(|(heading, ..)| *heading);
        first.into_iter().chain(names).map(str::to_owned).collect()
    }

    /// The cells for a terminal; the last two are the autoscalers and the window.
    pub(crate) fn cells(&self, namespaced: bool) -> Vec<String> {
        let first = namespaced.then(|| self.namespace.clone().unwrap_or_default());
        let percent = |number| shown(number, |number| format!("{number:.1}"));
        let cells = [
            self.name.clone(),
            shown(self.held, whole),
            shown(self.active, whole),
            shown(self.idle, whole),
            percent(self.memory_utilization),
            percent(self.now),
            percent(self.gpu_utilization),
            shown(self.memory_used, mebibytes),
            shown(self.power, |watts| format!("{watts:.0}")),
            shown(self.idle_since, |idle| idle.to_string()),
            shown(self.age_seconds, |age| format!("{age:.0}s")),
            match &*self.hpas {
                [] => "–".to_owned(),
                [hpa] => hpa.to_string(),
                [first, others @ ..] => format!("{first} +{}", others.len()),
            },
            match &*self.instants {
                [] => "–".to_owned(),
                instants => instants.iter().map(|number| bar(*number)).collect(),
            },
        ];
        first.into_iter().chain(cells).collect()
    }

    fn by(&self, column: Column) -> Option<f64> {
        match column {
            Column::Held => self.held,
            Column::Active => self.active,
            Column::Idle => self.idle,
            Column::Mem => self.memory_utilization,
            Column::Now => self.now,
            Column::Gpu => self.gpu_utilization,
            Column::Vram => self.memory_used,
            Column::Watt => self.power,
            Column::IdleSince => self.idle_since.map(|idle| idle.seconds),
        }
    }

    /// Sorts the largest first.
    pub(crate) fn sort(rows: &mut [Self], column: Column) {
        rows.sort_by(|a, b| {
            let largest = b.by(column).partial_cmp(&a.by(column));
            largest.unwrap_or(std::cmp::Ordering::Equal)
        });
    }

    /// The sums of the columns that can be added; a sum with an unknown term is
    /// unknown.
    pub(crate) fn sum(rows: &[Self]) -> Self {
        let sum = |of: fn(&Self) -> Option<f64>| rows.iter().map(of).sum::<Option<f64>>();
        Self {
            name: "SUM".to_owned(),
            held: sum(|row| row.held),
            active: sum(|row| row.active),
            idle: sum(|row| row.idle),
            memory_used: sum(|row| row.memory_used),
            power: sum(|row| row.power),
            ..Self::default()
        }
    }
}

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
pub(crate) const GPU_COLUMNS: [(&str, &str); 8] = [
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

/// A percentage as a block of one of eight heights.
fn bar(percent: Option<f64>) -> char {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let height = |percent: f64| BARS[((percent * 0.08) as usize).min(7)];
    percent.map_or('·', height)
}

fn mebibytes(number: f64) -> String {
    match number >= 10_240.0 {
        true => format!("{:.1}Gi", number / 1024.0),
        false => format!("{number:.0}Mi"),
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
        assert_eq!(gpus[0].cells().len(), GPU_COLUMNS.len());
        assert_eq!(gpus[0].cells()[2..5], ["active", "ml/train-0", "40.0"]);
        assert_eq!(gpus[1].cells()[2..5], ["no reading", "–", "–"]);
        let json = serde_json::to_value(&gpus).unwrap();
        assert_eq!(json[1]["memoryUtilization"], json!(null));
    }

    #[test]
    fn what_is_unknown_is_a_dash_and_makes_a_sum_unknown() {
        let known = Row {
            name: "a".to_owned(),
            held: Some(2.0),
            memory_used: Some(20_480.0),
            ..Row::default()
        };
        let unknown = Row {
            name: "b".to_owned(),
            memory_used: Some(100.0),
            ..Row::default()
        };
        assert_eq!(known.cells(false)[..3], ["a", "2", "–"]);
        assert_eq!(known.cells(true).len(), Row::heading(true).len());
        let sum = Row::sum(&[known, unknown]);
        assert_eq!((sum.held, sum.memory_used), (None, Some(20_580.0)));
        assert!(sum.cells(true).contains(&"20.1Gi".to_owned()));
    }

    #[test]
    fn the_window_is_drawn_and_what_may_be_longer_is_marked() {
        let row = Row {
            instants: vec![Some(0.0), Some(12.5), None, Some(99.0), Some(100.0)],
            idle_since: Some(IdleTime {
                seconds: 290.4,
                or_longer: true,
            }),
            ..Row::default()
        };
        let cells = row.cells(false);
        assert_eq!(cells[12], "▁▂·██");
        assert_eq!(cells[9], "4m50s+");
    }
}

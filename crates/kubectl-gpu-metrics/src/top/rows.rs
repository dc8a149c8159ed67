//! A row of the table: the GPUs of an object, or one GPU. An unknown value is `–`, never 0.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use apimachinery::duration::format_duration;
use gpu_metrics::devices::{DeviceNow, DevicesOf, IdleTime};

use crate::table::{shown, whole};

use super::Column;
use super::objects::HpaCell;

/// An object of the server's list of devices.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Row {
    #[serde(flatten)]
    pub(crate) item: DevicesOf,
    /// The autoscalers that set its replicas.
    pub(crate) hpas: Vec<HpaCell>,
}

impl From<DevicesOf> for Row {
    fn from(item: DevicesOf) -> Self {
        let hpas = Vec::new();
        Self { item, hpas }
    }
}

/// The fields of rows and of GPUs that may be unknown.
pub(super) const OF_ROWS: &[&str] = &[
    "held",
    "active",
    "idle",
    "memoryUtilization",
    "memoryUtilizationNow",
    "gpuUtilization",
    "memoryUsed",
    "power",
    "idleSince",
    "ageSeconds",
];
pub(super) const OF_GPUS: &[&str] = &[
    "instance",
    "model",
    "memoryUtilization",
    "held",
    "idleSince",
    "silentSince",
];

/// For `--output json`: the server omits unknown values, here they are null.
pub(super) fn json(items: &[impl Serialize], fields: &[&str]) -> serde_json::Result<String> {
    let mut items = serde_json::to_value(items)?;
    let objects = items.as_array_mut().into_iter().flatten();
    for object in objects.filter_map(Value::as_object_mut) {
        for field in fields {
            object.entry(*field).or_insert(Value::Null);
        }
    }
    serde_json::to_string_pretty(&items)
}

/// Heading, meaning and sort key of each column; `None`: rows cannot be sorted by it.
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
        let item = &self.item;
        let first = namespaced.then(|| item.namespace.clone().unwrap_or_default());
        let percent = |number| shown(number, |number| format!("{number:.1}"));
        let cells = [
            item.name.clone(),
            shown(item.held, whole),
            shown(item.active, whole),
            shown(item.idle, whole),
            percent(item.memory_utilization),
            percent(item.memory_utilization_now),
            percent(item.gpu_utilization),
            shown(item.memory_used, mebibytes),
            shown(item.power, |watts| format!("{watts:.0}")),
            shown(item.idle_since, idle_for),
            shown(item.age_seconds, |age| format!("{age:.0}s")),
            match &*self.hpas {
                [] => "–".to_owned(),
                [hpa] => hpa.to_string(),
                [first, others @ ..] => format!("{first} +{}", others.len()),
            },
            match &*item.memory_utilization_instants {
                [] => "–".to_owned(),
                instants => instants.iter().map(|number| bar(*number)).collect(),
            },
        ];
        first.into_iter().chain(cells).collect()
    }

    fn by(&self, column: Column) -> Option<f64> {
        let item = &self.item;
        match column {
            Column::Held => item.held,
            Column::Active => item.active,
            Column::Idle => item.idle,
            Column::Mem => item.memory_utilization,
            Column::Now => item.memory_utilization_now,
            Column::Gpu => item.gpu_utilization,
            Column::Vram => item.memory_used,
            Column::Watt => item.power,
            Column::IdleSince => item.idle_since.map(|idle| idle.seconds),
        }
    }

    /// Sorts the largest first.
    pub(crate) fn sort(rows: &mut [Self], column: Column) {
        rows.sort_by(|a, b| {
            let largest = b.by(column).partial_cmp(&a.by(column));
            largest.unwrap_or(std::cmp::Ordering::Equal)
        });
    }

    /// The sums of the columns that can be added; a sum with an unknown value is unknown.
    pub(crate) fn sum(rows: &[Self]) -> Self {
        let items = rows.iter().map(|row| &row.item);
        let sum = |of: fn(&DevicesOf) -> Option<f64>| items.clone().map(of).sum::<Option<f64>>();
        Self::from(DevicesOf {
            name: "SUM".to_owned(),
            held: sum(|item| item.held),
            active: sum(|item| item.active),
            idle: sum(|item| item.idle),
            memory_used: sum(|item| item.memory_used),
            power: sum(|item| item.power),
            ..DevicesOf::default()
        })
    }
}

/// Heading and meaning of each column of [`gpu_cells`].
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

/// The cells of a GPU or MIG instance of a node.
pub(crate) fn gpu_cells(device: &DeviceNow) -> Vec<String> {
    let uuid = match &device.instance {
        Some(instance) => format!("{} ({instance})", device.uuid),
        None => device.uuid.clone(),
    };
    let held = |held| if held { "yes" } else { "no" }.to_owned();
    vec![
        shown(device.node.clone(), |node| node),
        uuid,
        match &device.silent_since {
            Some(since) => format!("silent since {since}"),
            None => device.state.replace('-', " "),
        },
        match &*device.pods {
            [] => "–".to_owned(),
            pods => pods.join(", "),
        },
        shown(device.memory_utilization, |number| format!("{number:.1}")),
        shown(device.idle_since, idle_for),
        shown(device.held, held),
        shown(device.model.clone(), |model| model),
    ]
}

/// `4m50s+`
fn idle_for(idle: IdleTime) -> String {
    let time = format_duration(Duration::from_secs(idle.seconds as u64));
    format!("{time}{}", if idle.or_longer { "+" } else { "" })
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
    fn a_gpu_row_has_its_pods_and_dashes_for_unknown_values() {
        let listed = json!([
            {"uuid": "A", "state": "active", "held": true, "memoryUtilization": 40.0, "pods": ["ml/train-0"]},
            {"uuid": "B", "state": "no-reading", "pods": []},
        ]);
        let known_and_unknown: [DeviceNow; 2] = serde_json::from_value(listed).unwrap();
        let [known, unknown] = known_and_unknown.each_ref().map(gpu_cells);
        assert_eq!(known.len(), GPU_COLUMNS.len());
        assert_eq!(known[2..5], ["active", "ml/train-0", "40.0"]);
        assert_eq!(unknown[2..5], ["no reading", "–", "–"]);
        let json = json(&known_and_unknown, OF_GPUS).unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json[0]["memoryUtilization"], 40.0);
        assert_eq!(json[1].get("memoryUtilization"), Some(&Value::Null));
    }

    #[test]
    fn an_unknown_value_is_a_dash_and_makes_the_sum_unknown() {
        let known = Row::from(DevicesOf {
            name: "a".to_owned(),
            held: Some(2.0),
            memory_used: Some(20_480.0),
            ..DevicesOf::default()
        });
        let unknown = Row::from(DevicesOf {
            name: "b".to_owned(),
            memory_used: Some(100.0),
            ..DevicesOf::default()
        });
        assert_eq!(known.cells(false)[..3], ["a", "2", "–"]);
        assert_eq!(known.cells(true).len(), Row::heading(true).len());
        let sum = Row::sum(&[known, unknown]);
        let sums = (sum.item.held, sum.item.memory_used);
        assert_eq!(sums, (None, Some(20_580.0)));
        assert!(sum.cells(true).contains(&"20.1Gi".to_owned()));
    }

    #[test]
    fn the_window_is_drawn_and_an_idle_time_that_may_be_longer_is_marked() {
        let row = Row::from(DevicesOf {
            memory_utilization_instants: vec![Some(0.0), Some(12.5), None, Some(99.0), Some(100.0)],
            idle_since: Some(IdleTime {
                seconds: 290.4,
                or_longer: true,
            }),
            ..DevicesOf::default()
        });
        let cells = row.cells(false);
        assert_eq!(cells[12], "▁▂·██");
        assert_eq!(cells[9], "4m50s+");
    }
}

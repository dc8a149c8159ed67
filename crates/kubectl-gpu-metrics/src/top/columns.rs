//! The columns of `top`: each is declared once, for the table, `--sort-by`, `--sum`,
//! `--help`, the page and JSON.

use clap::builder::PossibleValuesParser;

use gpu_metrics::devices::{DeviceReport, DevicesOf, IdleTime};

use crate::document::cell::{Cell, Object, Reference, Unit};
use crate::document::table::{Column, ColumnOf, of};

use super::autoscalers::{AUTOSCALERS_COLUMNS, Autoscaler};

/// An object that holds, has or requests GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) item: DevicesOf,
    /// The autoscalers that set its replicas.
    pub(crate) autoscalers: Vec<Autoscaler>,
    /// The GPUs that a node offers to pods.
    pub(crate) allocatable: Option<f64>,
}

/// The columns of objects. Those of [`NODES_ONLY`] and `namespace` are left out where they
/// say nothing.
pub(super) const OBJECTS: &[ColumnOf<Row>] = &[
    of(Column::new("namespace", "NAMESPACE", "namespace of the object"), |row| {
        let name = row.item.namespace.as_deref();
        name.map_or_else(|| Cell::text(""), |it| Cell::object(it, namespace(it)))
    }),
    of(Column::new("name", "NAME", "name of the object"), name),
    of(
        Column::new("allocatable", "ALLOCATABLE", "GPUs that the node offers to pods")
            .unit(Unit::Count)
            .ordered()
            .summed(),
        |row| Cell::known(row.allocatable, Unit::Count, "its Node is not known"),
    ),
    of(
        Column::new("free", "FREE", "GPUs that no pod holds, at the newest instant")
            .unit(Unit::Count)
            .ordered()
            .summed(),
        free,
    ),
    of(
        Column::new(
            "held",
            "HELD",
            "GPUs that the object's pods hold, mean over the window; 1.5: one all the time and one for half of it",
        )
        .unit(Unit::Count)
        .ordered()
        .summed(),
        |row| known(row, row.item.held, Unit::Count),
    ),
    of(
        Column::new(
            "active",
            "ACTIVE",
            "held GPUs with a memory bandwidth utilisation above 0, mean over the window",
        )
        .unit(Unit::Count)
        .ordered()
        .summed()
        .rank(3),
        |row| known(row, row.item.active, Unit::Count),
    ),
    of(
        Column::new("idle", "IDLE", "held GPUs that are not active, mean over the window")
            .unit(Unit::Count)
            .ordered()
            .summed()
            .rank(2),
        |row| known(row, row.item.idle, Unit::Count),
    ),
    of(
        Column::new(
            "memoryUtilization",
            "MEM BW",
            "memory bandwidth utilisation of the active GPUs, mean over the window; not memory in use",
        )
        .unit(Unit::Percent)
        .ordered(),
        |row| known(row, row.item.memory_utilization, Unit::Percent),
    ),
    of(
        Column::new("memoryUtilizationNow", "NOW", "MEM BW % at the newest instant")
            .unit(Unit::Percent)
            .ordered(),
        |row| known(row, row.item.memory_utilization_now, Unit::Percent),
    ),
    of(
        Column::new(
            "gpuUtilization",
            "GPU",
            "GPU utilisation of the GPUs on which it is above 0, mean over the window",
        )
        .unit(Unit::Percent)
        .ordered()
        .rank(5),
        |row| known(row, row.item.gpu_utilization, Unit::Percent),
    ),
    of(
        Column::new(
            "memoryUsed",
            "MEM USED",
            "framebuffer memory in use, sum of the GPUs, mean over the window",
        )
        .unit(Unit::Bytes)
        .ordered()
        .summed()
        .rank(6),
        |row| known(row, row.item.memory_used.map(|mib| mib * MIB), Unit::Bytes),
    ),
    of(
        Column::new(
            "power",
            "POWER",
            "power, sum of the GPUs, mean over the window; for nodes, of free GPUs too",
        )
        .unit(Unit::Watts)
        .ordered()
        .summed()
        .rank(7),
        |row| known(row, row.item.power, Unit::Watts),
    ),
    of(
        Column::new(
            "idleFor",
            "IDLE FOR",
            "time since one of the held GPUs was active; 0s: one is active; 5m+: five minutes or longer",
        )
        .unit(Unit::Seconds)
        .ordered()
        .rank(1),
        |row| idle_for(row.item.idle_since, row.item.no_value.as_deref()),
    ),
    of(
        Column::new("ageSeconds", "SAMPLE AGE", "time since the newest sample")
            .unit(Unit::Seconds)
            .rank(4),
        |row| known(row, row.item.age_seconds, Unit::Seconds),
    ),
    of(
        Column::new(
            "autoscalers",
            "HPA",
            "value/target of the autoscaler's first metric, current → wanted replicas (maximum)",
        ),
        |row| match &*row.autoscalers {
            [] => Cell::absent("no HorizontalPodAutoscaler scales it"),
            autoscalers => Cell::Objects(autoscalers.iter().map(Autoscaler::object).collect()),
        },
    ),
    of(
        Column::new(
            "memoryUtilizationInstants",
            "WINDOW",
            "MEM BW % at each instant of the window, in eighths of 100; ·: unknown",
        )
        .rank(8),
        |row| Cell::Instants {
            values: row.item.memory_utilization_instants.clone(),
            unit: Unit::Percent,
        },
    ),
];

/// The columns that only nodes have.
pub(super) const NODES_ONLY: [&str; 2] = ["allocatable", "free"];

/// The columns of GPUs and MIG instances.
pub(super) const GPUS: &[ColumnOf<DeviceReport>] = &[
    of(
        Column::new("node", "NODE", "node of the GPU"),
        |gpu| match &gpu.node {
            Some(name) => Cell::object(name, node(name)),
            None => Cell::absent("its series name no node"),
        },
    ),
    of(
        Column::new("uuid", "UUID", "UUID, with the MIG instance"),
        |gpu| {
            Cell::text(match &gpu.instance {
                Some(instance) => format!("{} ({instance})", gpu.uuid),
                None => gpu.uuid.clone(),
            })
        },
    ),
    of(
        Column::new("state", "STATE", "what it does now; free: no pod holds it"),
        |gpu| {
            Cell::text(match &gpu.silent_since {
                Some(since) => format!("silent since {since}"),
                None => gpu.state.replace('-', " "),
            })
        },
    ),
    of(
        Column::new(
            "pods",
            "POD",
            "the pods that hold it, as far as you may read them",
        ),
        |gpu| match &*gpu.pods {
            [] if gpu.held == Some(false) => Cell::text("none"),
            [] => Cell::absent("no pod is named"),
            pods => Cell::Objects(pods.iter().map(|it| pod(it)).collect()),
        },
    ),
    of(
        Column::new(
            "memoryUtilization",
            "MEM BW",
            "memory bandwidth utilisation at the newest instant; not memory in use",
        )
        .unit(Unit::Percent)
        .ordered(),
        |gpu| Cell::known(gpu.memory_utilization, Unit::Percent, reason(gpu)),
    ),
    of(
        Column::new("idleFor", "IDLE FOR", "time since it was active")
            .unit(Unit::Seconds)
            .ordered()
            .rank(1),
        |gpu| idle_for(gpu.idle_since, gpu.reason.as_deref()),
    ),
    of(
        Column::new("held", "HELD", "whether a pod holds it").rank(3),
        |gpu| match gpu.held {
            Some(true) => Cell::text("yes"),
            Some(false) => Cell::text("no"),
            None => Cell::absent(reason(gpu)),
        },
    ),
    of(
        Column::new("model", "MODEL", "model that DCGM reports").rank(4),
        |gpu| match &gpu.model {
            Some(model) => Cell::text(model),
            None => Cell::absent("the exporter reports no model"),
        },
    ),
];

const MIB: f64 = 1024.0 * 1024.0;

/// The words of all columns by which rows can be sorted.
pub(super) fn orders() -> PossibleValuesParser {
    let objects = OBJECTS.iter().map(|it| &it.column);
    let gpus = GPUS.iter().map(|it| &it.column);
    let autoscalers = AUTOSCALERS_COLUMNS.iter().map(|it| &it.column);
    let all = objects.chain(gpus).chain(autoscalers);
    let mut words: Vec<String> = Vec::new();
    for word in all.filter(|it| it.ordered).map(Column::word) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    PossibleValuesParser::new(words)
}

/// The columns for `--help`.
pub(super) fn help() -> String {
    let line = |it: &ColumnOf<Row>| {
        let (title, meaning) = (it.column.title(), &it.column.meaning);
        format!("\n  {title:<11}  {meaning}")
    };
    let lines: String = OBJECTS.iter().map(line).collect();
    format!("Columns:{lines}")
}

fn name(row: &Row) -> Cell {
    let item = &row.item;
    let of = Reference::new(&item.resource, item.namespace.as_deref(), &item.name);
    let is_workload = item.resource.contains('.');
    let text = match is_workload {
        true => format!("{}/{}", item.resource, item.name),
        false => item.name.clone(),
    };
    Cell::object(text, of)
}

fn free(row: &Row) -> Cell {
    let devices = &row.item.devices;
    let is_whole = row.item.device_count == Some(devices.len());
    let held: Option<Vec<bool>> = devices.iter().map(|device| device.held).collect();
    match held.filter(|_| is_whole) {
        Some(held) => {
            let free = held.iter().filter(|held| !**held).count();
            Cell::number(free as f64, Unit::Count)
        }
        None => Cell::absent(
            row.item
                .no_value
                .as_deref()
                .unwrap_or("the holders of some of them are unknown"),
        ),
    }
}

/// A value of an object; the server gives one reason for all that are unknown.
fn known(row: &Row, value: Option<f64>, unit: Unit) -> Cell {
    Cell::known(
        value,
        unit,
        row.item.no_value.as_deref().unwrap_or_default(),
    )
}

fn idle_for(idle: Option<IdleTime>, reason: Option<&str>) -> Cell {
    match idle {
        Some(idle) if idle.or_longer => Cell::at_least(idle.seconds, Unit::Seconds),
        Some(idle) => Cell::number(idle.seconds, Unit::Seconds),
        None => Cell::absent(reason.unwrap_or_default()),
    }
}

fn reason(gpu: &DeviceReport) -> &str {
    gpu.reason.as_deref().unwrap_or_default()
}

fn namespace(name: &str) -> Reference {
    Reference::new("namespaces", None, name)
}

fn node(name: &str) -> Reference {
    Reference::new("nodes", None, name)
}

/// A pod as the server names it: `ml/train-0`.
fn pod(text: &str) -> Object {
    let (namespace, name) = text.split_once('/').unwrap_or(("", text));
    Object {
        text: text.to_owned(),
        of: Reference::new("pods", Some(namespace), name),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::document::table::Table;

    fn shown(table: &Table) -> Vec<String> {
        table.rows.iter().flatten().map(Cell::shown).collect()
    }

    #[test]
    fn a_gpu_row_has_its_pods_and_dashes_for_unknown_values() {
        let listed = json!([
            {"uuid": "A", "state": "active", "held": true, "memoryUtilization": 40.0, "pods": ["ml/train-0"]},
            {"uuid": "B", "state": "no-reading", "pods": []},
        ]);
        let gpus: Vec<DeviceReport> = serde_json::from_value(listed).unwrap();
        let cells = shown(&Table::of("GPUs", GPUS, gpus));
        assert_eq!(cells[2..5], ["active", "ml/train-0", "40.0%"]);
        assert_eq!(cells[10..13], ["no reading", "–", "–"]);
    }

    #[test]
    fn the_free_gpus_of_a_node_are_unknown_where_one_holder_is() {
        let node = |devices: serde_json::Value| Row {
            item: serde_json::from_value(
                json!({"resource": "nodes", "name": "a", "deviceCount": 2, "devices": devices}),
            )
            .unwrap(),
            ..Row::default()
        };
        for (devices, told) in [
            (json!([{"held": true}, {"held": false}]), "1"),
            (json!([{"held": true}, {"held": true}]), "0"),
            (json!([{"held": false}, {}]), "–"),
            (json!([{"held": false}]), "–"),
        ] {
            assert_eq!(free(&node(devices.clone())).shown(), told, "{devices}");
        }
        assert_eq!(free(&Row::default()).shown(), "–");
    }

    #[test]
    fn memory_is_in_bytes_and_an_idle_time_may_be_longer() {
        let listed = json!({"name": "a", "memoryUsed": 20480.0, "idleSince": {"seconds": 290.4, "orLonger": true}});
        let row = Row {
            item: serde_json::from_value(listed).unwrap(),
            ..Row::default()
        };
        let table = Table::of("pods", OBJECTS, [row]);
        let cells = shown(&table);
        for told in ["20.0Gi", "4m50s+"] {
            assert!(cells.iter().any(|cell| cell == told), "{cells:?}");
        }
    }
}

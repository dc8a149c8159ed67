//! The columns of `top`: each is declared once, for the table, `--sort-by`, `--sum`,
//! `--help`, the page and JSON.

use gpu_metrics::dcgm::metrics::MEMORY_UTILIZATION;
use gpu_metrics::devices::{DeviceState, DevicesOf};

use crate::devices::idle_for;
use crate::document::cell::{Cell, Reference, Unit};
use crate::document::table::{ColumnOf, columns};

/// An object that holds, has or requests GPUs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) item: DevicesOf,
    /// The GPUs that a node offers to pods.
    pub(crate) allocatable: Option<f64>,
}

/// The columns that only nodes have.
pub(super) const NODES_ONLY: [&str; 2] = ["allocatable", "free"];

/// Why it is unknown how many GPUs a node offers.
pub(super) const UNKNOWN_OFFER: &str =
    "ALLOCATABLE: the Node is not found, or offers no whole GPUs and MIG instances";

/// The column that only pods have.
pub(super) const OF_PODS: &str = "workload";

columns! {
    pub(super) OBJECTS: Row;
    "namespace", "NAMESPACE", "namespace of the object" [] => namespace;
    "name", "NAME", "name of the object" [] => name;
    "workload", "WORKLOAD", "the workload of the pod" [wide()] => workload;
    "allocatable", "ALLOCATABLE", "GPUs and MIG instances that the node offers to pods"
        [unit(Unit::Count)] => |row| Cell::known(row.allocatable, Unit::Count, UNKNOWN_OFFER);
    "free", "FREE", "GPUs and MIG instances that no pod holds, at the newest instant"
        [unit(Unit::Count)] => free;
    "held", "HELD", "GPUs and MIG instances that the object's pods hold, each counted as one, mean over the window; 1.5: one all the time and one for half of it"
        [unit(Unit::Count)] => |row| known(row, "gpu_held_count", Unit::Count);
    "active", "ACTIVE", "held GPUs with a memory bandwidth utilisation above 0, mean over the window"
        [unit(Unit::Count)] => |row| known(row, "gpu_active_count", Unit::Count);
    "idle", "IDLE", "held GPUs that are not active, mean over the window"
        [unit(Unit::Count)] => |row| known(row, "gpu_idle_count", Unit::Count);
    "memoryUtilization", "MEM BW", "memory bandwidth utilisation of the active GPUs, mean over the window; not memory in use"
        [unit(Unit::Percent)] => |row| known(row, MEMORY_UTILIZATION, Unit::Percent);
    "memoryUtilizationNow", "NOW", "MEM BW % at the newest instant"
        [unit(Unit::Percent)] => |row| Cell::known(row.item.instants.last().copied().flatten(), Unit::Percent, reason(row));
    "gpuUtilization", "GPU", "GPU utilisation of the GPUs on which it is above 0, mean over the window"
        [unit(Unit::Percent), wide()] => |row| known(row, "gpu_utilization", Unit::Percent);
    "memoryUsed", "MEM USED", "framebuffer memory in use, sum of the GPUs, mean over the window"
        [unit(Unit::Mebibytes), wide()] => |row| known(row, "gpu_memory_used", Unit::Mebibytes);
    "power", "POWER", "power, sum of the GPUs, mean over the window; for nodes, of free GPUs too"
        [unit(Unit::Watts), wide()] => |row| known(row, "gpu_power_usage", Unit::Watts);
    "idleFor", "IDLE FOR", "time since one of the held GPUs was active; 0s: one is active; 5m+: five minutes or longer"
        [unit(Unit::Seconds)] => |row| idle_for(row.item.idle_since, reason(row));
    "ageSeconds", "SAMPLE AGE", "time since the newest sample"
        [unit(Unit::Seconds), wide()] => |row| Cell::known(row.item.age_seconds, Unit::Seconds, reason(row));
    "memoryUtilizationInstants", "WINDOW", "MEM BW % at each instant of the window, in eighths of 100; ·: unknown"
        [wide()] => |row| Cell::Instants { values: row.item.instants.clone(), unit: Unit::Percent };
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

fn namespace(row: &Row) -> Cell {
    match row.item.namespace.as_deref() {
        Some(name) => Cell::object(name, Reference::new("namespaces", None, name)),
        None => Cell::text(""),
    }
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

fn workload(row: &Row) -> Cell {
    match row.item.workloads.last().and_then(|it| it.split_once('/')) {
        Some((resource, name)) => {
            let of = Reference::new(resource, row.item.namespace.as_deref(), name);
            Cell::object(format!("{resource}/{name}"), of)
        }
        None => Cell::absent("no workload of it is known"),
    }
}

fn free(row: &Row) -> Cell {
    let devices = &row.item.devices;
    let is_whole = !devices.is_empty() && row.item.device_count == devices.len();
    let states = devices.iter().map(|device| device.now().state);
    let is_known = is_whole && states.clone().all(|it| it != DeviceState::NoReading);
    let free = states.filter(|it| *it == DeviceState::Free).count() as f64;
    let unknown = "the holders of some of them are unknown";
    let reason = row.item.no_value.as_deref().unwrap_or(unknown);
    Cell::known(is_known.then_some(free), Unit::Count, reason)
}

/// A value of an object; the server gives one reason for all that are unknown.
fn known(row: &Row, metric: &str, unit: Unit) -> Cell {
    Cell::known(row.item.values.get(metric).copied(), unit, reason(row))
}

fn reason(row: &Row) -> &str {
    row.item.no_value.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_free_gpus_of_a_node_are_unknown_where_one_holder_is() {
        let node = |devices: serde_json::Value| Row {
            item: serde_json::from_value(
                json!({"resource": "nodes", "name": "a", "deviceCount": 2, "devices": devices}),
            )
            .unwrap(),
            ..Row::default()
        };
        let device = |state: &&str| json!({"readings": [{"state": state, "counted": false}]});
        for (states, told) in [
            (&["active", "free"][..], "1"),
            (&["active", "idle"], "0"),
            (&["free", "missing"], "1"),
            (&["free", "no-reading"], "–"),
            (&["free"], "–"),
        ] {
            let devices = states.iter().map(device).collect();
            assert_eq!(free(&node(devices)).shown(), told, "{states:?}");
        }
        assert_eq!(free(&Row::default()).shown(), "–");
    }
}

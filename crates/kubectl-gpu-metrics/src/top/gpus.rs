//! Single GPUs, from the devices of the nodes.

use gpu_metrics::explain::HOLDERS_UNNAMED;

use crate::Failure;

use super::device::{COLUMNS, Gpu};
use super::fetch::Found;
use super::{Page, TopArgs};

/// The GPUs of nodes, as JSON and as cells. A name selects a GPU, by its UUID, or a node.
pub(super) fn of_nodes(mut found: Found, args: &TopArgs) -> Result<Page, Failure> {
    let mut gpus = found.gpus();
    let mut notes = found.notes;
    if let (None, None) = (&args.name, &args.selector) {
        notes.extend(of_no_node(found.device_count, gpus.len()));
    }
    if let Some(name) = &args.name {
        gpus.retain(|gpu| gpu.uuid == *name || gpu.node == *name);
        if gpus.is_empty() {
            let unread: String = notes.iter().map(|note| format!("; {note}")).collect();
            return Err(Failure::Failed(format!(
                "no GPU with the UUID {name}, and no node of that name with GPUs, is reported{unread}"
            )));
        }
    }
    let json = serde_json::to_string_pretty(&gpus)?;
    let mut cells = Vec::new();
    if !gpus.is_empty() {
        cells.push(COLUMNS.map(|(heading, _)| heading.to_owned()).to_vec());
        cells.extend(gpus.iter().map(Gpu::cells));
    }
    Ok(Page {
        json,
        cells,
        spare: &["MODEL", "HELD", "NODE", "IDLE FOR"],
        notes,
        failed: None,
    })
}

/// A note on GPUs that are not listed because no series names their node.
pub(crate) fn of_no_node(all: usize, listed: usize) -> Option<String> {
    let more = all.checked_sub(listed).filter(|more| *more > 0)?;
    Some(format!(
        "GPUs without a node in their series, which are not listed: {more}"
    ))
}

impl Found {
    /// Takes the GPUs out of the nodes, and adds a note if their holders are not named.
    pub(crate) fn gpus(&mut self) -> Vec<Gpu> {
        let mut gpus = Vec::new();
        for row in &mut self.rows {
            for mut gpu in row.devices.drain(..) {
                if gpu.shared_with > 0 {
                    self.notes.insert(HOLDERS_UNNAMED.to_owned());
                }
                gpu.node.clone_from(&row.name);
                gpus.push(gpu);
            }
        }
        gpus
    }
}

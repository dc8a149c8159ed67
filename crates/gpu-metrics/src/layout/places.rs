//! Devices that have had the same place behind an exporter.
//!
//! A driver that restarts may return with another UUID for the same index. Then only the
//! new series shows that the old one has ended.

use std::collections::HashMap;

use super::super::grid::RowId;
use super::super::inventory::Inventory;
use super::super::series::NodeName;
use super::super::targets::TargetId;
use super::{Layout, RowFacts, change};

/// Exporters' label for the index of a GPU on its node.
const INDEX: &str = "gpu";

/// A target, the index of a GPU there, the id of the MIG instance, and the node: one
/// `instance` may stand for all nodes.
type Place<'l> = (TargetId, &'l str, Option<&'l str>, &'l [NodeName]);

/// Above this many devices of a place, the label is not an index.
const MOST_OF_A_PLACE: usize = 64;

fn places(facts: &RowFacts) -> impl Iterator<Item = Place<'_>> {
    let row = &facts.row;
    let index = row.told.labels.get_ignore_case(INDEX);
    let index = index.filter(|index| !index.is_empty());
    let instance = row.device.instance.as_deref();
    let targets = row.targets.iter();
    targets.filter_map(move |target| Some((*target, index?, instance, &row.told.nodes[..])))
}

impl Layout {
    /// Finds pods that more devices name than they ask for: they have let go of some.
    pub(super) fn find_surplus(&mut self, inventory: &Inventory) {
        let pods = self
            .tables
            .iter()
            .find(|table| table.kind.resource.as_ref() == "pods");
        for object in pods.into_iter().flat_map(|table| &table.objects) {
            let namespace = object.namespace.as_deref().unwrap_or_default();
            let pod = inventory.pod(namespace, &object.name);
            let Some(pod) = pod.filter(|pod| pod.requests_gpu()) else {
                continue;
            };
            let gpus = if pod.uncounted { 0 } else { pod.gpus };
            let rank = |row: &RowId| self.ranks[row.0 as usize].device;
            let devices = object.members.chunk_by(|a, b| rank(a) == rank(b));
            if devices.count() > gpus.max(1) as usize {
                let set = |facts: &mut RowFacts| facts.more_than = Some(gpus);
                change(&mut self.facts, &object.members, set);
            }
        }
    }

    /// Whether two rows are of one device.
    pub(crate) fn is_one_device(&self, one: RowId, other: RowId) -> bool {
        self.rank(one).device == self.rank(other).device
    }

    /// Finds devices that share a place. Their readings tell which one came later.
    pub(super) fn find_rivals(&mut self) {
        // The first device of each place, and further ones.
        let mut first: HashMap<Place<'_>, u32> = HashMap::with_capacity(self.devices.len());
        let mut shared: HashMap<Place<'_>, Vec<u32>> = HashMap::new();
        for facts in self.facts.iter().flatten() {
            for place in places(facts) {
                let one = *first.entry(place).or_insert(facts.device);
                if one != facts.device {
                    let devices = shared.entry(place).or_insert_with(|| vec![one]);
                    if devices.len() <= MOST_OF_A_PLACE && !devices.contains(&facts.device) {
                        devices.push(facts.device);
                    }
                }
            }
        }
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        for devices in shared.values().filter(|it| it.len() <= MOST_OF_A_PLACE) {
            for one in devices {
                let others = devices.iter().filter(|other| *other != one);
                pairs.extend(others.map(|other| (*one, *other)));
            }
        }
        for (device, rival) in pairs {
            let rivals = self.rivals.entry(device).or_default();
            if !rivals.contains(&rival) {
                rivals.push(rival);
            }
        }
        for device in self.rivals.keys() {
            let rows = &self.devices[*device as usize];
            change(&mut self.facts, rows, |facts| facts.shares_place = true);
        }
    }
}

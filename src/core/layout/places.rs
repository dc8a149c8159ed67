//! Devices that have had one place behind an exporter, one after another.
//!
//! A driver that restarts may come back with another UUID for the same index.
//! Nothing ends the old line then but the new one.

use std::collections::HashMap;

use super::super::targets::TargetId;
use super::{Layout, RowFacts};

/// Exporters' label for the index of a GPU on its node.
const INDEX: &str = "gpu";

/// A target, the index of a GPU there, and the id of the MIG instance.
type Place<'l> = (TargetId, &'l str, Option<&'l str>);

fn places(facts: &RowFacts) -> impl Iterator<Item = Place<'_>> {
    let row = &facts.row;
    let index = row.labels.get_ignore_case(INDEX);
    let index = index.filter(|index| !index.is_empty());
    let instance = row.device.instance.as_deref();
    let targets = row.targets.iter();
    targets.filter_map(move |target| Some((*target, index?, instance)))
}

impl Layout {
    /// Finds devices that share a place. Who came after whom, the readings tell.
    pub(super) fn find_rivals(&mut self) {
        let mut first: HashMap<Place<'_>, &RowFacts> = HashMap::with_capacity(self.devices.len());
        let mut pairs: Vec<(u32, u32)> = Vec::new();
        for facts in self.facts.iter().flatten() {
            for place in places(facts) {
                let other = *first.entry(place).or_insert(facts);
                // One `instance` may stand for all nodes: these are not one place.
                if other.device != facts.device && other.row.nodes == facts.row.nodes {
                    pairs.extend([(other.device, facts.device), (facts.device, other.device)]);
                }
            }
        }
        for (device, rival) in pairs {
            let rivals = self.rivals.entry(device).or_default();
            if !rivals.contains(&rival) {
                rivals.push(rival);
            }
        }
        for device in self.rivals.keys() {
            for row in self.devices.get(*device as usize).into_iter().flatten() {
                if let Some(Some(facts)) = self.facts.get_mut(row.0 as usize) {
                    facts.shares_place = true;
                }
            }
        }
    }
}

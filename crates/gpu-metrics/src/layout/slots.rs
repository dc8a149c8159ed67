//! Devices that have had the same place behind an exporter.
//!
//! A driver that restarts may return with another UUID for the same index. Then only the
//! new series shows that the old one has ended.

use super::super::grid::RowId;
use super::super::series::NodeName;
use super::super::targets::TargetId;
use super::Layout;
use super::resolved::ResolvedRow;

/// A target, the index of a GPU there, the id of the MIG instance, and the node: one
/// `instance` may stand for all nodes.
type Slot<'l> = (TargetId, &'l str, Option<&'l str>, &'l [NodeName]);

/// Above this many devices of a place, the label is not an index.
const MOST_OF_A_PLACE: usize = 64;

fn slots<'a>(row: &ResolvedRow<'a>) -> impl Iterator<Item = Slot<'a>> {
    let (index, nodes) = (row.index, row.nodes);
    let instance = index.and_then(|_| row.row.device.instance.as_deref());
    let targets = row.targets.iter();
    targets.filter_map(move |target| Some((*target, index?, instance, nodes)))
}

impl Layout {
    /// Whether two rows are of one device.
    pub(crate) fn is_one_device(&self, one: RowId, other: RowId) -> bool {
        self.rank(one).device == self.rank(other).device
    }

    /// Finds devices that share a place. The times of their samples show which one is newer.
    pub(super) fn find_slot_peers(&mut self, rows: &[ResolvedRow<'_>]) {
        let places = |row| slots(row).map(|place| (place, self.rank(row.id).device));
        let mut all: Vec<(Slot<'_>, u32)> = rows.iter().flat_map(places).collect();
        // Rows of a target are mostly in the order of their places, so the sort is quick.
        all.sort();
        all.dedup();
        let places = all.chunk_by(|(one, _), (other, _)| one == other);
        for devices in places.filter(|it| (2..=MOST_OF_A_PLACE).contains(&it.len())) {
            for (_, one) in devices {
                let others = devices.iter().map(|(_, other)| *other);
                let slot_peers = self.slot_peers.entry(*one).or_default();
                slot_peers.extend(others.filter(|other| other != one));
            }
        }
        for (device, slot_peers) in &mut self.slot_peers {
            slot_peers.sort_unstable();
            slot_peers.dedup();
            let rows = self.devices.rows(*device);
            for row in rows {
                if let Some(Some(facts)) = self.facts.get_mut(row.0 as usize) {
                    facts.shares_slot = true;
                }
            }
        }
    }
}

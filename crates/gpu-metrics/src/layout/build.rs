//! Assigns rows to objects.

use std::sync::Arc;

use super::super::grid::RowId;
use super::super::inventory::Inventory;
use super::super::policy::MigWeight;
use super::super::store::DeviceRow;
use super::super::threads;
use super::claim::Claims;
use super::gather::Building;
use super::nodes::NodeNames;
use super::resolved::{Names, Sorted, in_order};
use super::{Attribution, Layout, Rank};
use apimachinery::time::Timestamp;

impl Layout {
    /// Assigns rows to objects. `newest` gives the time of a row's newest sample.
    pub(crate) fn build<'a>(
        rows: impl Iterator<Item = (RowId, &'a Arc<DeviceRow>)>,
        newest: impl Fn(RowId) -> Timestamp + Sync,
        inventory: Arc<Inventory>,
        mig_weight: MigWeight,
    ) -> Self {
        let node_names = NodeNames::of(&inventory);
        let names = Names::of(&inventory, &node_names);
        let rows: Vec<(RowId, &Arc<DeviceRow>)> = rows.collect();
        let (rows, pods) = names.resolve(&rows, newest);
        let sorted = in_order(&rows);
        let mut layout = Self::of_devices(&sorted);
        let claims = Claims::of(&rows, &sorted, &inventory);
        let facts = threads::map_rows(&rows, |row| {
            let Rank { device, board } = layout.rank(row.id);
            let is_followed = layout.board(device.saturating_add(1)) == Some(board);
            claims.facts(row, (device, is_followed), mig_weight)
        });
        let mut building = Building::new(&inventory, pods);
        // In the order of the rows, which is their order in memory.
        for (resolved, (facts, pod)) in rows.iter().zip(facts) {
            building.place(resolved, &facts, pod, &claims.exporters);
            if facts.attribution == Attribution::Held && resolved.newest < facts.started {
                layout.of_predecessors.insert(facts.id, facts.started);
            }
            let slot = facts.id.0 as usize;
            layout.facts[slot] = Some(facts);
        }
        building.sort_members(&layout.devices.order);
        layout.several_clusters = claims.several_clusters();
        layout.foreign_nodes = claims.foreign_nodes();
        layout.find_slot_peers(&rows);
        building.add_unseen(&layout);
        layout.cluster = std::mem::take(&mut building.cluster);
        layout.tables = building.finish();
        layout.inventory = inventory;
        layout
    }

    /// A layout with the ranks of the devices of `rows`, which are in the order of devices.
    fn of_devices(rows: &[Sorted<'_, '_>]) -> Self {
        let slots = rows.iter().map(|(_, row)| row.id.0 as usize + 1).max();
        let slots = slots.unwrap_or(0);
        let mut layout = Self {
            facts: vec![None; slots],
            ranks: vec![Rank::NONE; slots],
            ..Self::default()
        };
        let (devices, mut boards) = (&mut layout.devices, 0);
        devices.order = rows.iter().map(|(_, row)| row.id).collect();
        let mut before: Option<&Sorted<'_, '_>> = None;
        for (place, sorted) in (0..).zip(rows) {
            let (beginning, row) = sorted;
            let alike = before.filter(|before| before.0 == *beginning);
            let alike = alike.map(|(_, before)| &before.row.device);
            if alike.is_none_or(|device| device.uuid != row.row.device.uuid) {
                boards += 1;
            }
            if alike != Some(&row.row.device) {
                devices.starts.push(place);
            }
            layout.ranks[row.id.0 as usize] = Rank {
                device: u32::try_from(devices.starts.len() - 1).unwrap_or(u32::MAX),
                board: boards,
            };
            before = Some(sorted);
        }
        layout
    }
}

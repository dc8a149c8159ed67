//! Groups lines into devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{DeviceFacts, Layout, Named};
use crate::dcgm::schemes;
use crate::policy::MigWeight;
use crate::series::Device;

/// A line on its node.
type Placed<'a> = (Option<&'a Arc<str>>, &'a Device, &'a Named<'a>);

impl Layout {
    /// Groups lines into devices: a UUID on a node, and MIG instances of it. A line without a
    /// node joins the first device of its UUID.
    pub(super) fn find_devices(&mut self, lines: &[&Named<'_>], mig_weight: MigWeight) {
        let keyed = lines
            .iter()
            .map(|named| (beginning(&named.line.device), *named));
        let mut sorted: Vec<(u128, &Named<'_>)> = keyed.collect();
        sorted.sort_unstable_by(|one, other| {
            let uuids = || one.1.line.device.uuid.cmp(&other.1.line.device.uuid);
            one.0.cmp(&other.0).then_with(uuids)
        });
        let is_same_uuid = |one: &(u128, &Named<'_>), other: &(u128, &Named<'_>)| {
            one.1.line.device.uuid == other.1.line.device.uuid
        };
        for of_uuid in sorted.chunk_by(is_same_uuid) {
            let mut first: BTreeMap<&Device, &Arc<str>> = BTreeMap::new();
            for (_, named) in of_uuid {
                if let Some(home) = named.home() {
                    let known = first.entry(&named.line.device).or_insert(home);
                    *known = home.min(known);
                }
            }
            let placed = of_uuid.iter().map(|(_, named)| {
                let device = &named.line.device;
                let node = named.home().or_else(|| first.get(device).copied());
                (node, device, *named)
            });
            let mut placed: Vec<Placed<'_>> = placed.collect();
            placed.sort_unstable_by_key(|(node, device, named)| {
                (*node, *device, named.line.rank, named.row)
            });
            for of_board in placed.chunk_by(|one, other| one.0 == other.0) {
                self.add_board(of_board, mig_weight);
            }
        }
    }

    /// Adds a GPU, its MIG instances, or both.
    fn add_board(&mut self, lines: &[Placed<'_>], mig_weight: MigWeight) {
        let board = self.devices.len();
        for lines in lines.chunk_by(|one, other| one.1 == other.1) {
            let (node, device, named) = lines[0];
            let best = named.line.nodes.first();
            let best = best.filter(|it| it.rank < schemes::POD_RANK);
            let start = self.order.len();
            self.order.extend(lines.iter().map(|(.., named)| named.row));
            for (.., named) in lines {
                let place = u32::try_from(self.devices.len()).unwrap_or(u32::MAX);
                self.device_of[named.row.0 as usize] = place;
            }
            self.devices.push(DeviceFacts {
                device: device.clone(),
                node: node.or(best.map(|it| &it.name)).cloned(),
                board: u32::try_from(board).unwrap_or(u32::MAX),
                has_instances: false,
                weight: match mig_weight {
                    MigWeight::Equal => 1.0,
                    MigWeight::Slices => f64::from(device.slices()),
                },
                has_processes: lines.iter().any(|(.., named)| named.line.is_process),
                lines: start..self.order.len(),
                claims: 0..0,
            });
        }
        if let [whole, instances @ ..] = &mut self.devices[board..] {
            let is_divided = instances.iter().any(|it| it.device.is_mig());
            whole.has_instances = is_divided && !whole.device.is_mig();
        }
    }
}

/// The first 16 bytes of a device's UUID. Most devices differ in them, so that a comparison
/// mostly does not read the UUIDs.
fn beginning(device: &Device) -> u128 {
    let mut bytes = [0; 16];
    for (byte, of_name) in bytes.iter_mut().zip(device.uuid.bytes()) {
        *byte = of_name;
    }
    u128::from_be_bytes(bytes)
}

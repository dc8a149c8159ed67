//! Groups lines into devices.

use std::sync::Arc;

use super::{DeviceFacts, Layout, Named};
use crate::line::{Device, Line};

/// A line on its node.
type Placed<'a> = (Option<&'a Arc<str>>, &'a Device, &'a Named<'a>);

impl Layout {
    /// Groups lines into devices, in the order of their nodes and UUIDs: a UUID on a node, and
    /// MIG instances of it. A line without a node joins the first device of its UUID.
    pub(super) fn find_devices(&mut self, lines: &[&Named<'_>]) {
        let mut sorted = lines.to_vec();
        sorted.sort_by_cached_key(|named| {
            let uuid = &named.line.device.uuid;
            (beginning(uuid), Arc::clone(uuid))
        });
        let mut placed: Vec<Placed<'_>> = Vec::with_capacity(lines.len());
        for of_uuid in sorted.chunk_by(|one, other| uuid(one) == uuid(other)) {
            let homes = of_uuid
                .iter()
                .filter_map(|named| Some((&named.line.device, named.home()?)));
            let mut homes: Vec<_> = homes.collect();
            homes.sort_unstable();
            let first = |device: &Device| {
                let place = homes.partition_point(|(known, _)| *known < device);
                let first = homes.get(place).filter(|(known, _)| *known == device);
                first.map(|(_, home)| *home)
            };
            let start = placed.len();
            placed.extend(of_uuid.iter().map(|named| {
                let device = &named.line.device;
                (named.home().or_else(|| first(device)), device, *named)
            }));
            placed[start..].sort_unstable_by_key(|(node, device, named)| {
                (*node, *device, named.line.rank, named.row)
            });
        }
        let is_same =
            |one: &Placed<'_>, other: &Placed<'_>| one.0 == other.0 && uuid(one.2) == uuid(other.2);
        let boards = placed.chunk_by(is_same);
        let mut boards: Vec<_> = boards.map(|lines| (node_of(&lines[0]), lines)).collect();
        boards.sort_by_cached_key(|(node, _)| (node.map(|it| beginning(it)), *node));
        for (node, lines) in boards {
            self.add_board(node, lines);
        }
    }

    /// Adds a GPU, its MIG instances, or both.
    fn add_board(&mut self, node: Option<&Arc<str>>, lines: &[Placed<'_>]) {
        let board = self.devices.len();
        for lines in lines.chunk_by(|one, other| one.1 == other.1) {
            let device = lines[0].1;
            let start = self.order.len();
            self.order.extend(lines.iter().map(|(.., named)| named.row));
            for (.., named) in lines {
                let place = u32::try_from(self.devices.len()).unwrap_or(u32::MAX);
                self.device_of[named.row.0 as usize] = place;
            }
            self.devices.push(DeviceFacts {
                device: device.clone(),
                node: node.cloned(),
                board: u32::try_from(board).unwrap_or(u32::MAX),
                has_instances: false,
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

fn uuid<'a>(named: &Named<'a>) -> &'a Arc<str> {
    let line: &'a Arc<Line> = named.line;
    &line.device.uuid
}

/// The node of a line, otherwise the best name that the line has for it.
fn node_of<'a>((node, _, named): &Placed<'a>) -> Option<&'a Arc<str>> {
    let line: &'a Arc<Line> = named.line;
    node.or(line.nodes.first())
}

/// The first 16 bytes of a text. Most texts differ in them, so that a comparison mostly does
/// not read the texts.
fn beginning(text: &str) -> u128 {
    let mut bytes = [0; 16];
    for (byte, of_text) in bytes.iter_mut().zip(text.bytes()) {
        *byte = of_text;
    }
    u128::from_be_bytes(bytes)
}

//! The text of `/metrics` (`gpu_metrics::dcgm`, "Lines").

use std::fmt::Write as _;

use super::exporter::{self, Exporter};
use super::fleet::Fleet;
use super::overrides::{NONE, Overrides};
use super::profile::{is_whole_card, name};
use apimachinery::time::Timestamp;
use gpu_metrics::signal::SignalId;

impl Fleet {
    /// The exporter's answer at a time; `None` when it does not answer.
    #[must_use]
    pub fn exposition(&self, exporter: usize, at: Timestamp) -> Option<String> {
        self.exposition_under(exporter, at, &NONE)
    }

    pub(super) fn exposition_under(
        &self,
        index: usize,
        at: Timestamp,
        overrides: &Overrides,
    ) -> Option<String> {
        let exporter = self.exporters.get(index)?;
        if overrides.silent.contains(&index) {
            return None;
        }
        let (first, end) = self.machines.node_devices[exporter.node as usize];
        let mut out = String::with_capacity(64 * 1024);
        for &field in SignalId::BUILT_IN {
            if exporter.profile.prints(field) {
                let _ = writeln!(out, "# TYPE {} gauge", name(field));
                for number in first..end {
                    self.write_lines(exporter, field, number, at, overrides, &mut out);
                }
            }
        }
        Some(out)
    }

    /// Whether a device has any lines: a card in MIG mode only if the exporter is
    /// configured to print it beside its instances.
    pub(super) fn is_printed(&self, number: usize, field: SignalId) -> bool {
        let device = &self.machines.devices[number];
        let in_mig_mode = device.mig.is_some() || device.parent;
        (!device.parent || self.machines.scenario.exporters.mig_parent_lines)
            && !(in_mig_mode && is_whole_card(field))
    }

    /// The lines of a field of a device.
    fn write_lines(
        &self,
        exporter: &Exporter,
        field: SignalId,
        number: usize,
        at: Timestamp,
        overrides: &Overrides,
        out: &mut String,
    ) {
        if !self.is_printed(number, field) {
            return;
        }
        let machines = &self.machines;
        let tick = machines.tick(exporter.node, exporter.visible(machines, at));
        let Some(value) = self.reading(number, field, tick, overrides) else {
            return;
        };
        let node = &machines.nodes[exporter.node as usize].name;
        let device = &machines.devices[number];
        let mut owners = Vec::new();
        self.owners(exporter, number, at, overrides, &mut owners);
        for owner in owners {
            let pairs = exporter::labels(exporter.profile, node, device, owner.as_ref());
            let pairs = pairs
                .iter()
                .map(|(label, text)| format!("{label}=\"{text}\""));
            let pairs = pairs.collect::<Vec<_>>().join(",");
            let _ = writeln!(out, "{}{{{pairs}}} {value}", name(field));
        }
    }
}

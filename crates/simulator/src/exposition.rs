//! The text of `/metrics` (`gpu_metrics::dcgm`, "Lines").

use std::fmt::Write as _;

use super::exporter::{self, Exporter};
use super::fleet::Fleet;
use super::overrides::{NONE, Overrides};
use super::profile::{Field, Profile};
use apimachinery::time::Timestamp;

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
        if exporter.is_silent(at) || overrides.silent.contains(&index) {
            return None;
        }
        let (first, end) = self.machines.node_devices[exporter.node as usize];
        let mut out = String::with_capacity(64 * 1024);
        for (field, name) in self.printed_fields(exporter.profile_at(&self.machines, at)) {
            let _ = writeln!(out, "# TYPE {name} gauge");
            for number in first..end {
                self.write_lines(exporter, (field, name), number, at, overrides, &mut out);
            }
        }
        Some(out)
    }

    /// The fields that an exporter prints, with their names.
    pub(super) fn printed_fields(
        &self,
        profile: Profile,
    ) -> impl Iterator<Item = (Field, &'static str)> + use<> {
        let renamed = self.machines.scenario.exporters.renamed_fields;
        let named = move |field| Some((field, profile.wire_name(field, renamed)?));
        Field::ALL.into_iter().filter_map(named)
    }

    /// Whether a device has any lines: a card in MIG mode only if the exporter is
    /// configured to print it beside its instances.
    pub(super) fn is_printed(&self, number: usize, field: Field) -> bool {
        let device = &self.machines.devices[number];
        let in_mig_mode = device.mig.is_some() || device.parent;
        (!device.parent || self.machines.scenario.exporters.mig_parent_lines)
            && !(in_mig_mode && field.is_whole_card())
    }

    /// The lines of a field of a device.
    fn write_lines(
        &self,
        exporter: &Exporter,
        (field, name): (Field, &str),
        number: usize,
        at: Timestamp,
        overrides: &Overrides,
        out: &mut String,
    ) {
        if !self.is_printed(number, field) {
            return;
        }
        let machines = &self.machines;
        let profile = exporter.profile_at(machines, at);
        let tick = machines.tick(exporter.node, exporter.visible(machines, at));
        let Some(value) = self.reading(number, field, tick, overrides) else {
            return;
        };
        let node = &machines.nodes[exporter.node as usize].name;
        let device = &machines.devices[number];
        let mut owners = Vec::new();
        self.owners(exporter, number, field, at, overrides, &mut owners);
        for owner in owners {
            let holder = owner.holder.as_ref();
            let pairs = exporter::labels(profile, node, device, holder, owner.part.is_some());
            let pairs = pairs
                .iter()
                .map(|(label, text)| format!("{label}=\"{text}\""));
            let pairs = pairs.collect::<Vec<_>>().join(",");
            let value = split(field, value, owner.part);
            let _ = writeln!(out, "{name}{{{pairs}}} {value}");
        }
    }
}

/// The part of a value that belongs to one process; a sentinel is not split.
pub(super) fn split(field: Field, value: f64, part: Option<f64>) -> f64 {
    match part {
        Some(part) if part < 1.0 && value < 1e9 && !field.is_float() => (value * part).round(),
        _ => value,
    }
}

//! The text of `/metrics` (docs/exporter.md, "Lines").

use std::fmt::Write as _;

use super::exporter::{self, Exporter};
use super::fleet::Fleet;
use super::overrides::{NONE, Overrides};
use super::profile::{Field, Profile};
use super::sampler::SENTINEL_INT;
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
        let profile = exporter.profile_at(&self.machines, at);
        let fields = self.printed_fields(profile);
        let (first, end) = self.machines.node_devices[exporter.node as usize];
        let mut out = String::with_capacity(64 * 1024);
        let lines = |field, number, out: &mut String| {
            self.write_lines(exporter, field, number, at, overrides, out);
        };
        if profile == Profile::V2_1 {
            // All headers first, then the samples device by device.
            for &field in &fields {
                write_head(field, &mut out);
            }
            for number in first..end {
                fields
                    .iter()
                    .for_each(|field| lines(*field, number, &mut out));
            }
            return Some(out);
        }
        for field in fields {
            let before = out.len();
            write_head(field, &mut out);
            let head = out.len();
            (first..end).for_each(|number| lines(field, number, &mut out));
            if out.len() == head {
                out.truncate(before);
            }
        }
        Some(out)
    }

    /// The fields that an exporter prints, with their names, in the order of its list of
    /// counters; versions that sort their output sort the fields by name.
    pub(super) fn printed_fields(&self, profile: Profile) -> Vec<(Field, &'static str)> {
        let renamed = self.machines.scenario.exporters.renamed_fields;
        let mut fields: Vec<_> = Field::ALL
            .into_iter()
            .filter_map(|field| Some((field, profile.wire_name(field, renamed)?)))
            .collect();
        if profile == Profile::V4_8_3 {
            fields.sort_unstable_by_key(|&(_, name)| name);
        }
        fields
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
            let _ = write!(out, "{name}{{");
            for (place, (label, text)) in pairs.iter().enumerate() {
                // 2.x puts a space after the first two commas.
                let comma = match place {
                    0 => "",
                    1 | 2 if profile == Profile::V2_1 => ", ",
                    _ => ",",
                };
                let _ = write!(out, "{comma}{label}=\"{text}\"");
            }
            out.push_str("} ");
            write_value(profile, field, split(field, value, owner.part), out);
            out.push('\n');
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

fn write_head((field, name): (Field, &str), out: &mut String) {
    let help = match field {
        Field::MemCopyUtil => "Memory utilization (in %).",
        Field::GpuUtil => "GPU utilization (in %).",
        Field::DramActive => {
            "Ratio of cycles the device memory interface is active sending or receiving data."
        }
        Field::GrEngineActive => "Ratio of time the graphics engine is active.",
        Field::FbUsed => "Framebuffer memory used (in MiB).",
        Field::FbFree => "Framebuffer memory free (in MiB).",
        Field::FbReserved => "Framebuffer memory reserved (in MiB).",
        Field::PowerUsage => "Power draw (in W).",
    };
    let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n");
}

fn write_value(profile: Profile, field: Field, value: f64, out: &mut String) {
    if value.is_nan() {
        out.push_str("NaN");
    } else if profile == Profile::V4_8_3 {
        write_go_shortest(value, out);
    } else if field.is_float() {
        let _ = write!(out, "{value:.6}");
    } else if value > 1e18 {
        let _ = write!(out, "{SENTINEL_INT}");
    } else {
        let _ = write!(out, "{value:.0}");
    }
}

/// Go's `strconv.FormatFloat(v, 'g', -1, 64)`: shortest digits; an exponent of
/// at least two digits below 1e-4 and from 1e6 on.
fn write_go_shortest(value: f64, out: &mut String) {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e6).contains(&magnitude) {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.abs());
    } else {
        let _ = write!(out, "{value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_go_prints_them() {
        // Output of Go 1.x with strconv.FormatFloat(v, 'g', -1, 64).
        for (value, text) in [
            (81_559.0, "81559"),
            (123_456.0, "123456"),
            (1_234_567.0, "1.234567e+06"),
            (999_999.5, "999999.5"),
            (1e6, "1e+06"),
            (9_223_372_036_854_775_794.0, "9.223372036854776e+18"),
            (140_737_488_355_330.0, "1.4073748835533e+14"),
            (0.0001, "0.0001"),
            (0.000_012_34, "1.234e-05"),
            (0.0, "0"),
        ] {
            let mut out = String::new();
            write_go_shortest(value, &mut out);
            assert_eq!(out, text);
        }
    }
}

//! The content of Prometheus: series with their samples.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use super::attribution::Owner;
use super::exporter::{self, Pairs};
use super::exposition::split;
use super::fleet::Fleet;
use super::hardware::SimulatedDevice;
use super::overrides::NONE;
use super::profile::{Field, Profile};
use super::scenario::LabelScheme;
use super::scrape::ScrapeTarget;
use apimachinery::time::Timestamp;

/// A series whose labels are borrowed from the fleet.
pub(super) struct Series<'a> {
    name: &'static str,
    /// `__name__` among them.
    pub(super) labels: Pairs<'a>,
    /// In the order of time.
    pub(super) samples: Vec<(Timestamp, f64)>,
}

/// Every name that a fleet may print, sorted.
pub(super) fn names() -> BTreeSet<&'static str> {
    let names = Profile::ALL.into_iter().flat_map(|profile| {
        let names =
            Field::ALL.map(|it| [false, true].map(|renamed| profile.wire_name(it, renamed)));
        names.into_iter().flatten().flatten()
    });
    names.collect()
}

/// Those of [`names`] that are asked for.
fn known(asked: &[&str]) -> BTreeSet<&'static str> {
    let mut known = names();
    known.retain(|name| asked.contains(name));
    known
}

/// The labels of a series as members of a JSON object.
fn labels(of: &Series<'_>) -> String {
    let mut out = String::with_capacity(512);
    for (place, (name, value)) in of.labels.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        let _ = write!(out, "{comma}\"{name}\":\"{value}\"");
    }
    out
}

/// An answer with series, each with its labels.
fn matrix(series: impl Iterator<Item = (String, Vec<(Timestamp, f64)>)>) -> String {
    let mut out = r#"{"status":"success","data":{"resultType":"matrix","result":["#.to_owned();
    for (place, (labels, samples)) in series.enumerate() {
        let comma = if place == 0 { "" } else { "," };
        let _ = write!(out, "{comma}{{\"metric\":{{{labels}}},\"values\":[");
        for (place, (at, value)) in samples.into_iter().enumerate() {
            out.push_str(if place == 0 { "[" } else { ",[" });
            push_time(at, &mut out);
            out.push_str(",\"");
            push_value(value, &mut out);
            out.push_str("\"]");
        }
        out.push_str("]}");
    }
    out.push_str("]}}");
    out
}

impl Fleet {
    /// Writes the samples of `[from, to]` as OpenMetrics text with times, for
    /// `promtool tsdb create-blocks-from openmetrics`.
    ///
    /// # Errors
    /// For errors of the writer.
    pub fn openmetrics(
        &self,
        from: Timestamp,
        to: Timestamp,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let mut family = "";
        let mut text = String::new();
        for raw in self.series(names(), from, to) {
            text.clear();
            if raw.name != family {
                family = raw.name;
                text.push_str(&format!("# TYPE {family} gauge\n"));
            }
            let mut head = format!("{family}{{");
            let labels = raw.labels.iter().filter(|(name, _)| name != "__name__");
            for (place, (name, value)) in labels.enumerate() {
                let comma = if place == 0 { "" } else { "," };
                let _ = write!(head, "{comma}{name}=\"{value}\"");
            }
            head.push_str("} ");
            for (at, value) in raw.samples {
                text.push_str(&head);
                push_value(value, &mut text);
                text.push(' ');
                push_time(at, &mut text);
                text.push('\n');
            }
            out.write_all(text.as_bytes())?;
        }
        out.write_all(b"# EOF\n")
    }

    /// The body of `/api/v1/query` for `{__name__=~"…"}[range]` at `at`, with both ends
    /// of the range included as in Prometheus 2.x.
    #[must_use]
    pub fn prometheus_json(&self, names: &[&str], at: Timestamp, range: Duration) -> String {
        let series = self.series(known(names), at - range, at);
        matrix(series.map(|raw| (labels(&raw), raw.samples)))
    }

    /// The body of `/api/v1/query_range` for `last_over_time({__name__=~"…"}[range])` at these
    /// times, of MIG instances or of whole GPUs.
    #[must_use]
    pub fn past_json(
        &self,
        names: &[&str],
        times: impl Iterator<Item = Timestamp>,
        range: Duration,
        of_instances: bool,
    ) -> String {
        let mut all: BTreeMap<String, Vec<(Timestamp, f64)>> = BTreeMap::new();
        for at in times {
            for raw in self.series(known(names), at - range, at) {
                let is_instance = raw.labels.iter().any(|(name, _)| name == "GPU_I_ID");
                if let Some((_, value)) = raw.samples.last().filter(|_| is_instance == of_instances)
                {
                    all.entry(labels(&raw)).or_default().push((at, *value));
                }
            }
        }
        matrix(all.into_iter())
    }

    /// All series of these names with at least one sample in `[from, to]`, name by name.
    ///
    /// Staleness markers are not among the samples: neither raw range
    /// selectors nor OpenMetrics text carry them.
    pub(super) fn series<'a>(
        &'a self,
        names: BTreeSet<&'static str>,
        from: Timestamp,
        to: Timestamp,
    ) -> impl Iterator<Item = Series<'a>> + use<'a> {
        names.into_iter().flat_map(move |name| {
            let fields = self.targets.iter();
            let fields = fields.filter_map(move |it| Some((it, self.field_of(name, it)?)));
            fields.flat_map(move |(target, field)| {
                let exporter = &self.exporters[target.exporter];
                let scrapes = target.scrapes(&self.machines, exporter, from, to);
                let scrapes: Vec<_> = scrapes.collect();
                let (first, end) = self.machines.node_devices[exporter.node as usize];
                (first..end)
                    .flat_map(move |number| self.series_of(target, number, field, name, &scrapes))
            })
        })
    }

    /// The field that a target's exporter prints under a name.
    fn field_of(&self, name: &str, target: &ScrapeTarget) -> Option<Field> {
        let exporter = &self.exporters[target.exporter];
        let upgrade = self.machines.scenario.exporters.upgrade;
        let profiles = [Some(exporter.profile), upgrade.map(|(_, profile)| profile)];
        let profiles = profiles.into_iter().flatten();
        let mut fields = profiles.flat_map(|profile| self.printed_fields(profile));
        fields.find_map(|(field, printed)| (printed == name).then_some(field))
    }

    /// The series of one field of one device in one target: one per owner and
    /// exporter version.
    fn series_of<'a>(
        &'a self,
        target: &'a ScrapeTarget,
        number: usize,
        field: Field,
        name: &'static str,
        scrapes: &[Timestamp],
    ) -> Vec<Series<'a>> {
        if !self.is_printed(number, field) {
            return Vec::new();
        }
        let exporter = &self.exporters[target.exporter];
        let mut collected = Collected {
            target,
            device: &self.machines.devices[number],
            node: &self.machines.nodes[exporter.node as usize].name,
            name,
            series: Vec::new(),
        };
        let renamed = self.machines.scenario.exporters.renamed_fields;
        let mut owners = Vec::new();
        let mut last = None;
        for &at in scrapes {
            let profile = exporter.profile_at(&self.machines, at);
            if profile.wire_name(field, renamed) != Some(name) {
                continue;
            }
            let visible = exporter.visible(&self.machines, at);
            let tick = self.machines.tick(exporter.node, visible);
            let value = match last {
                Some((read, value)) if read == tick => value,
                _ => self.reading(number, field, tick, &NONE),
            };
            last = Some((tick, value));
            let Some(value) = value else { continue };
            self.owners(exporter, number, field, at, &NONE, &mut owners);
            for owner in &owners {
                let value = target.rescaled(field, split(field, value, owner.part));
                collected.push(profile, owner, (at, value));
            }
        }
        let series = collected.series.into_iter();
        series.map(|(_, _, raw)| raw).collect()
    }
}

/// The series of one field of one device during collection.
struct Collected<'a> {
    target: &'a ScrapeTarget,
    device: &'a SimulatedDevice,
    node: &'a str,
    name: &'static str,
    series: Vec<(Profile, Owner<'a>, Series<'a>)>,
}

impl<'a> Collected<'a> {
    /// Adds a sample to its series; labels are built only for a new version and owner.
    fn push(&mut self, profile: Profile, owner: &Owner<'a>, sample: (Timestamp, f64)) {
        let mut known = self.series.iter_mut();
        let known = known.find(|(version, known, _)| *version == profile && known.is(owner));
        if let Some((_, _, raw)) = known {
            return raw.samples.push(sample);
        }
        let holder = owner.holder.as_ref();
        let is_process = owner.part.is_some();
        let exposed = exporter::labels(profile, self.node, self.device, holder, is_process);
        let labels = self.target.relabel(self.name, exposed);
        // Two versions may print the same labels.
        let mut same = self.series.iter_mut();
        if let Some((_, _, raw)) = same.find(|(_, _, raw)| raw.labels == labels) {
            return raw.samples.push(sample);
        }
        let raw = Series {
            name: self.name,
            labels,
            samples: vec![sample],
        };
        self.series.push((profile, *owner, raw));
    }
}

impl ScrapeTarget {
    fn rescaled(&self, field: Field, value: f64) -> f64 {
        match self.scheme {
            LabelScheme::RhoaiRatio if field.is_whole_card() => value / 100.0,
            _ => value,
        }
    }
}

fn push_time(at: Timestamp, out: &mut String) {
    let (secs, fraction) = (at.secs(), at.millis().rem_euclid(1000));
    let _ = match fraction {
        0 => write!(out, "{secs}"),
        _ => write!(out, "{secs}.{fraction:03}"),
    };
}

/// Shortest digits without an exponent, as in Prometheus' JSON.
fn push_value(value: f64, out: &mut String) {
    let _ = if value.fract() == 0.0 && value.abs() < 1e9 {
        write!(out, "{}", value as i64)
    } else {
        write!(out, "{value}")
    };
}

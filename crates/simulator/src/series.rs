//! The content of Prometheus: series with their samples.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

use super::exporter::{self, Pairs};
use super::fleet::Fleet;
use super::hardware::SimulatedDevice;
use super::orchestrator::Holder;
use super::overrides::NONE;
use super::profile::{Profile, is_whole_card, name};
use super::scenario::LabelScheme;
use super::scrape::ScrapeTarget;
use apimachinery::time::Timestamp;
use gpu_metrics::signal::SignalId;

/// A series whose labels are borrowed from the fleet.
pub(super) struct Series<'a> {
    name: &'static str,
    /// `__name__` among them.
    pub(super) labels: Pairs<'a>,
    /// In the order of time.
    pub(super) samples: Vec<(Timestamp, f64)>,
}

/// The fields with one of these names.
fn known(asked: &[&str]) -> impl Iterator<Item = SignalId> {
    let all = SignalId::BUILT_IN.iter().copied();
    all.filter(|field| asked.contains(&name(*field)))
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
        for raw in self.series(SignalId::BUILT_IN.iter().copied(), from, to) {
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

    /// All series of these fields with at least one sample in `[from, to]`, field by field.
    ///
    /// Staleness markers are not among the samples: neither raw range
    /// selectors nor OpenMetrics text carry them.
    pub(super) fn series<'a>(
        &'a self,
        fields: impl IntoIterator<Item = SignalId>,
        from: Timestamp,
        to: Timestamp,
    ) -> impl Iterator<Item = Series<'a>> {
        fields.into_iter().flat_map(move |field| {
            let targets = self.targets.iter();
            let targets =
                targets.filter(move |it| self.exporters[it.exporter].profile.prints(field));
            targets.flat_map(move |target| {
                let exporter = &self.exporters[target.exporter];
                let scrapes: Vec<_> = target.scrapes(&self.machines, from, to).collect();
                let (first, end) = self.machines.node_devices[exporter.node as usize];
                (first..end).flat_map(move |number| self.series_of(target, number, field, &scrapes))
            })
        })
    }

    /// The series of one field of one device in one target: one per owner.
    fn series_of<'a>(
        &'a self,
        target: &'a ScrapeTarget,
        number: usize,
        field: SignalId,
        scrapes: &[Timestamp],
    ) -> Vec<Series<'a>> {
        if !self.is_printed(number, field) {
            return Vec::new();
        }
        let exporter = &self.exporters[target.exporter];
        let mut collected = Collected {
            target,
            profile: exporter.profile,
            device: &self.machines.devices[number],
            node: &self.machines.nodes[exporter.node as usize].name,
            name: name(field),
            series: Vec::new(),
        };
        let mut owners = Vec::new();
        let mut last = None;
        for &at in scrapes {
            let visible = exporter.visible(&self.machines, at);
            let tick = self.machines.tick(exporter.node, visible);
            let value = match last {
                Some((read, value)) if read == tick => value,
                _ => self.reading(number, field, tick, &NONE),
            };
            last = Some((tick, value));
            let Some(value) = value else { continue };
            self.owners(exporter, number, at, &NONE, &mut owners);
            for owner in &owners {
                collected.push(owner.as_ref(), (at, target.rescaled(field, value)));
            }
        }
        let series = collected.series.into_iter();
        series.map(|(_, raw)| raw).collect()
    }
}

/// The series of one field of one device during collection.
struct Collected<'a> {
    target: &'a ScrapeTarget,
    profile: Profile,
    device: &'a SimulatedDevice,
    node: &'a str,
    name: &'static str,
    series: Vec<(Option<Holder<'a>>, Series<'a>)>,
}

impl<'a> Collected<'a> {
    /// Adds a sample to its series; labels are built only for a new owner. A pod created again
    /// under its name continues the series of the first.
    fn push(&mut self, owner: Option<&Holder<'a>>, sample: (Timestamp, f64)) {
        let mut known = self.series.iter_mut();
        if let Some((_, raw)) = known.find(|(known, _)| known.as_ref() == owner) {
            return raw.samples.push(sample);
        }
        let exposed = exporter::labels(self.profile, self.node, self.device, owner);
        let raw = Series {
            name: self.name,
            labels: self.target.relabel(self.name, exposed),
            samples: vec![sample],
        };
        self.series.push((owner.copied(), raw));
    }
}

impl ScrapeTarget {
    fn rescaled(&self, field: SignalId, value: f64) -> f64 {
        match self.scheme {
            LabelScheme::RhoaiRatio if is_whole_card(field) => value / 100.0,
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

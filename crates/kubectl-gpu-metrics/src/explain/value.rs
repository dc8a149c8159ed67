//! How a value was computed, as a document.

use gpu_metrics::dcgm::metrics;
use gpu_metrics::explain::{Explanation, Instant, Window};
use gpu_metrics::external::ExternalMetrics;
use gpu_metrics::policy::Measure;
use gpu_metrics::signal;

use crate::devices::{DEVICES, OF_LISTS, outcome, uuid};
use crate::document::cell::{Cell, Unit};
use crate::document::table::{Column, Table, columns};
use crate::document::{Document, Fact, Severity};

/// So many devices have a column in the table of instants; those of others are wide.
const IN_COLUMNS: usize = 8;

const AHEAD: &str = "The window ends ahead of now, because samples may be late; the newest reading \
                     counts until then.";

columns! {
    /// The columns of instants; those of devices follow.
    INSTANTS: Instant;
    "time", "TIME", "time of the instant" [] => |instant| Cell::text(&instant.time);
    "mean", "MEAN", "the object's number" [unit(Unit::Plain)]
        => |instant| Cell::known(instant.number, Unit::Plain, "too few devices reported");
    "reporting", "REPORTING", "devices that reported" [unit(Unit::Count)]
        => |instant| Cell::number(f64::from(instant.answering), Unit::Count);
    "inUse", "IN USE", "reporting devices that the metric covers" [unit(Unit::Count)]
        => |instant| Cell::number(f64::from(instant.counted), Unit::Count);
    "missing", "MISSING", "devices that should have reported and did not" [unit(Unit::Count)]
        => |instant| Cell::number(f64::from(instant.missing), Unit::Count);
}

/// The value, its window, its devices, what was left out, and the same in PromQL.
pub(crate) fn document(said: &Explanation) -> Document {
    let unit = unit(&said.metric);
    let mut document = Document::new(format!("{} of {}", said.metric, said.of));
    value(said, unit, &mut document);
    if let Some(window) = &said.window {
        document.facts(of_window(window, said));
    }
    instants(said, unit, &mut document);
    if !said.devices.is_empty() {
        document.heading("Devices");
        let devices = said.devices.iter().cloned();
        let mut table = Table::of("Devices of the value", DEVICES, devices);
        OF_LISTS.iter().for_each(|name| table.remove(name));
        document.table(table);
    }
    if !said.notes.is_empty() {
        document.heading("Notes");
        document.notes(said.notes.iter().cloned());
    }
    if let Some(promql) = &said.promql {
        document.heading(format!("The same in PromQL, at time {}", promql.time));
        document.code(&promql.query);
    }
    document
}

fn value(said: &Explanation, unit: Unit, document: &mut Document) {
    let Some(value) = &said.value else {
        let reason = said.no_value.as_deref().unwrap_or("there is no value");
        document.verdict(Severity::Error, reason);
        return;
    };
    let mut facts = vec![
        Fact::new("value", Cell::number(value.number, unit)),
        Fact::new("newest sample", Cell::text(&value.timestamp)),
        Fact::new("its age", Cell::number(value.age_seconds, Unit::Seconds)),
    ];
    if let Some(until) = &value.served_until {
        facts.push(Fact::new("served at least until", Cell::text(until)));
    }
    document.facts(facts);
}

/// The window of a value.
fn of_window(window: &Window, said: &Explanation) -> Vec<Fact> {
    let defined = said.instants.iter().filter(|it| it.number.is_some());
    let seconds = |label: &str, value| Fact::new(label, Cell::number(value, Unit::Seconds));
    vec![
        seconds("window", window.seconds),
        Fact::new("up to", Cell::text(&window.end)),
        seconds("step", window.step_seconds),
        seconds("the store is late by", window.lag_seconds),
        Fact::new(
            "instants with a number",
            Cell::text(format!("{} of {}", defined.count(), said.instants.len())),
        ),
    ]
}

fn instants(said: &Explanation, unit: Unit, document: &mut Document) {
    if said.instants.is_empty() {
        return;
    }
    let values = said.instants.iter().map(|it| it.number).collect();
    document.heading("The window");
    document.facts([Fact::new("its instants", Cell::Instants { values, unit })]);
    let instants = said.instants.iter().cloned();
    let mut table = Table::of("Each instant of the window", INSTANTS, instants);
    if let Some(column) = table.columns.iter_mut().find(|it| it.name == "mean") {
        column.unit = Some(unit);
    }
    for (place, device) in said.devices.iter().enumerate() {
        table.columns.push(Column {
            heading: end_of(&device.uuid).into(),
            name: uuid(device).into(),
            is_wide: place >= IN_COLUMNS,
            ..Column::new("", "", "")
        });
        for (place, row) in table.rows.iter_mut().enumerate() {
            let reading = device.readings.get(place);
            row.push(reading.map_or_else(|| Cell::absent(""), |it| Cell::text(outcome(it))));
        }
    }
    document.table(table);
    document.notes([AHEAD.to_owned()]);
}

/// The end of a UUID, which differs between devices.
fn end_of(uuid: &str) -> String {
    let letters: Vec<char> = uuid.chars().collect();
    letters[letters.len().saturating_sub(8)..].iter().collect()
}

/// The unit of a metric; metrics of rules have none that is known.
fn unit(metric: &str) -> Unit {
    let known = ExternalMetrics::new(&metrics::built_in());
    let metric = known.named(metric);
    metric.map_or(Unit::Plain, |it| of_measure(&it.spec.measure))
}

/// The unit of what a metric measures.
fn of_measure(measure: &Measure) -> Unit {
    match measure {
        Measure::HeldCount | Measure::ActiveCount | Measure::IdleCount => Unit::Count,
        Measure::OriginalAverage => Unit::Percent,
        Measure::Devices { value, .. } => match value.unit() {
            signal::Unit::Percent | signal::Unit::Ratio => Unit::Percent,
            signal::Unit::Mebibytes => Unit::Mebibytes,
            signal::Unit::Watts => Unit::Watts,
            signal::Unit::Plain => Unit::Plain,
        },
    }
}

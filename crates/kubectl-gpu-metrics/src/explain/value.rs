//! How a value was computed, as a document.

use apimachinery::time::Timestamp;
use gpu_metrics::dcgm::metrics;
use gpu_metrics::devices::DeviceReport;
use gpu_metrics::explain::{ExplainedReading, Explanation, Instant, ReadingOutcome, Window};
use gpu_metrics::external::ExternalMetrics;
use gpu_metrics::policy::{DeviceValue, Measure};

use crate::document::cell::{Cell, Object, Reference, Unit};
use crate::document::series::Series;
use crate::document::table::{Column, ColumnOf, Table, of};
use crate::document::{Document, Fact, Severity};

/// Up to this many devices have a column in the table of instants.
const IN_COLUMNS: usize = 8;

/// The columns of devices.
const DEVICES: &[ColumnOf<DeviceReport>] = &[
    of(
        Column::new("uuid", "UUID", "UUID, with the MIG instance"),
        |device| {
            Cell::text(match &device.instance {
                Some(instance) => format!("{} ({instance})", device.uuid),
                None => device.uuid.clone(),
            })
        },
    ),
    of(
        Column::new("node", "NODE", "its node").rank(2),
        |device| match &device.node {
            Some(name) => Cell::object(name, Reference::new("nodes", None, name)),
            None => Cell::absent("its series name no node"),
        },
    ),
    of(
        Column::new(
            "pods",
            "HELD BY",
            "the pods that hold it, as far as you may read them",
        ),
        pods,
    ),
    of(
        Column::new(
            "state",
            "STATE",
            "its reading at the last instant, and why there is none",
        ),
        state,
    ),
    of(
        Column::new("readings", "WINDOW", "its reading at each instant").rank(3),
        |device| {
            let values = device.readings.iter().map(|reading| reading.number);
            let (values, unit) = (values.collect(), Unit::Plain);
            Cell::Instants { values, unit }
        },
    ),
    of(
        Column::new(
            "idleSince",
            "IDLE SINCE",
            "since when it is held and not active",
        )
        .rank(5),
        |device| match &device.idle {
            Some(idle) if idle.or_longer => Cell::text(format!("{}, or longer", idle.since)),
            Some(idle) => Cell::text(&idle.since),
            None => Cell::absent(""),
        },
    ),
    of(
        Column::new("field", "FIELD", "the field of its readings").rank(4),
        |device| text(device.field.as_ref(), "no field of it is known"),
    ),
    of(
        Column::new("scrapeSeconds", "SCRAPED EVERY", "its scrape interval")
            .unit(Unit::Seconds)
            .rank(6),
        |device| Cell::number(device.scrape_seconds, Unit::Seconds),
    ),
    of(
        Column::new("freshSeconds", "VALID FOR", "how long a reading is valid")
            .unit(Unit::Seconds)
            .rank(8),
        |device| Cell::number(device.fresh_seconds, Unit::Seconds),
    ),
    of(
        Column::new(
            "ownerLabels",
            "PODS NAMED BY",
            "the labels that name the pod",
        )
        .rank(7),
        |device| text(device.owner_labels.as_ref(), "no label names a pod"),
    ),
    of(
        Column::new("model", "MODEL", "model that DCGM reports").rank(9),
        |device| text(device.model.as_ref(), "the exporter reports no model"),
    ),
];

/// The columns of instants; those of devices follow.
const INSTANTS: &[ColumnOf<Instant>] = &[
    of(
        Column::new("time", "TIME", "time of the instant"),
        |instant| Cell::text(&instant.time),
    ),
    of(
        Column::new("mean", "MEAN", "the object's number").unit(Unit::Plain),
        |instant| Cell::known(instant.number, Unit::Plain, "too few devices reported"),
    ),
    of(
        Column::new("reporting", "REPORTING", "devices that reported").unit(Unit::Count),
        |instant| Cell::number(f64::from(instant.answering), Unit::Count),
    ),
    of(
        Column::new(
            "inUse",
            "IN USE",
            "reporting devices that the metric covers",
        )
        .unit(Unit::Count),
        |instant| Cell::number(f64::from(instant.counted), Unit::Count),
    ),
    of(
        Column::new(
            "missing",
            "MISSING",
            "devices that should have reported and did not",
        )
        .unit(Unit::Count),
        |instant| Cell::number(f64::from(instant.missing), Unit::Count),
    ),
];

/// The value, its window, its devices, what was left out, and the same in PromQL.
pub(crate) fn document(said: &Explanation) -> Document {
    let unit = unit(&said.metric);
    let mut document = Document::new(format!("{} of {}", said.metric, said.of));
    document.text(&said.meaning);
    value(said, unit, &mut document);
    if let Some(window) = &said.window {
        document.facts(of_window(window, said.instants.len()));
    }
    instants(said, unit, &mut document);
    if !said.devices.is_empty() {
        document.heading("Devices");
        document.table(Table::of(
            "Devices of the value",
            DEVICES,
            said.devices.iter().cloned(),
        ));
    }
    if !said.notes.is_empty() {
        document.heading("Notes");
        document.notes(said.notes.iter().cloned());
    }
    if let Some(promql) = &said.promql {
        document.heading(format!("The same in PromQL, at time {}", promql.time));
        document.code(&promql.query);
        let left_out = promql.leaves_out.iter();
        document.notes(left_out.map(|it| format!("The query does not account for {it}.")));
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
pub(crate) fn of_window(window: &Window, instants: usize) -> Vec<Fact> {
    let seconds = |label: &str, value| Fact::new(label, Cell::number(value, Unit::Seconds));
    vec![
        seconds("window", window.seconds),
        Fact::new("up to", Cell::text(&window.end)),
        seconds("step", window.step_seconds),
        seconds("the store is late by", window.lag_seconds),
        Fact::new(
            "instants with a number",
            Cell::text(format!("{} of {instants}", window.defined)),
        ),
    ]
}

fn instants(said: &Explanation, unit: Unit, document: &mut Document) {
    let times = said
        .instants
        .iter()
        .map(|it| Timestamp::from_date(&it.time));
    let Some(times) = times
        .collect::<Option<Vec<_>>>()
        .filter(|it| !it.is_empty())
    else {
        return;
    };
    let values = said.instants.iter().map(|it| it.number).collect();
    document.heading("The window");
    document.series(Series::new(document.title.clone(), unit, times, values));
    let instants = said.instants.iter().cloned();
    let mut table = Table::of("Each instant of the window", INSTANTS, instants);
    if let Some(column) = table.columns.iter_mut().find(|it| it.name == "mean") {
        column.unit = Some(unit);
    }
    let shown = said
        .devices
        .iter()
        .filter(|_| said.devices.len() <= IN_COLUMNS);
    for device in shown {
        let heading: String = end_of(&device.uuid);
        let column = Column {
            heading: heading.into(),
            name: device.uuid.clone().into(),
            ..Column::new("", "", "").rank(1)
        };
        table.columns.push(column);
        for (place, row) in table.rows.iter_mut().enumerate() {
            let reading = device.readings.get(place);
            row.push(reading.map_or_else(|| Cell::absent(""), |it| Cell::text(outcome(it))));
        }
    }
    document.table(table);
}

/// The end of a UUID, which differs between devices.
fn end_of(uuid: &str) -> String {
    let letters: Vec<char> = uuid.chars().collect();
    letters[letters.len().saturating_sub(8)..].iter().collect()
}

fn pods(device: &DeviceReport) -> Cell {
    let last = device.readings.last();
    if last.and_then(|reading| reading.held) == Some(false) {
        return Cell::text("free: no pod");
    }
    let more = device.shared_with;
    match (device.pods.is_empty(), more) {
        (true, 0) => Cell::absent("no pod is known to hold it"),
        (true, _) => Cell::text(format!("pods that you may not read: {more}")),
        (false, _) => {
            let others = (more > 0).then(|| format!("{more} more"));
            let named = device.pods.iter().cloned().chain(others);
            Cell::Objects(named.map(|text| pod(&text)).collect())
        }
    }
}

/// A pod as the server names it: `ml/train-0`.
fn pod(text: &str) -> Object {
    let (namespace, name) = text.split_once('/').unwrap_or(("", ""));
    Object {
        text: text.to_owned(),
        of: Reference::new("pods", Some(namespace), name),
    }
}

fn state(device: &DeviceReport) -> Cell {
    if let Some(since) = &device.silent_since {
        return Cell::verdict(Severity::Error, format!("silent since {since}"));
    }
    if let Some(since) = &device.frozen_since {
        return Cell::verdict(
            Severity::Error,
            format!("its readings have not changed since {since}"),
        );
    }
    match device.readings.last() {
        Some(reading) => Cell::text(outcome(reading)),
        None => Cell::absent("it has no reading"),
    }
}

fn text(known: Option<&String>, reason: &str) -> Cell {
    known.map_or_else(|| Cell::absent(reason), Cell::text)
}

/// The reading of a device at an instant, in a word or two.
fn outcome(reading: &ExplainedReading) -> String {
    let number = reading.number.map(|number| Unit::Plain.digits(number));
    let word = match reading.state {
        ReadingOutcome::Counted if number.is_none() => "held",
        ReadingOutcome::Counted => "",
        ReadingOutcome::Idle => "idle",
        ReadingOutcome::Active => "active",
        ReadingOutcome::NotHeld => "free",
        ReadingOutcome::ActivityUnknown => "active?",
        ReadingOutcome::Outside => return "outside".to_owned(),
        ReadingOutcome::Missing => return "missing".to_owned(),
        ReadingOutcome::Lost => return "lost".to_owned(),
        ReadingOutcome::NoReading => return "none".to_owned(),
    };
    let parts = number.as_deref().into_iter().chain([word]);
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}

/// The unit of a metric; metrics of rules have none that is known.
pub(super) fn unit(metric: &str) -> Unit {
    let known = ExternalMetrics::new(metrics::built_in().into());
    known
        .named(metric)
        .map_or(Unit::Plain, |(_, spec, _)| of_measure(&spec.measure))
}

/// The unit of what a metric measures.
pub(super) fn of_measure(measure: &Measure) -> Unit {
    match measure {
        Measure::HeldCount | Measure::ActiveCount | Measure::IdleCount => Unit::Count,
        Measure::OriginalAverage => Unit::Percent,
        Measure::Devices { value, .. } => match value {
            DeviceValue::MemoryUtilization
            | DeviceValue::GpuUtilization
            | DeviceValue::MemoryUsedPercent => Unit::Percent,
            DeviceValue::MemoryUsed => Unit::Mebibytes,
            DeviceValue::PowerUsage => Unit::Watts,
            DeviceValue::Signal(_) => Unit::Plain,
        },
    }
}

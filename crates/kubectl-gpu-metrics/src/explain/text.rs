//! An explanation as text.

use gpu_metrics::explain::{ExplainedDevice, ExplainedReading, Explanation, ReadingOutcome};

use crate::table;

/// Up to this many devices are shown at each instant; of more, only the last reading.
const IN_COLUMNS: usize = 3;

pub(super) fn of(explanation: &Explanation) -> String {
    let mut lines = head(explanation);
    let mut section = |heading: String, texts: Vec<String>| {
        lines.extend([String::new(), heading]);
        lines.extend(texts.iter().map(|text| format!("  {text}")));
    };
    if !explanation.instants.is_empty() {
        section(
            "Instants:".to_owned(),
            table::lines(&rows(explanation, IN_COLUMNS)),
        );
    }
    for device in &explanation.devices {
        let mut about = about(device);
        if explanation.devices.len() > IN_COLUMNS {
            let last = device.readings.last();
            about.extend(last.map(|last| format!("at the last instant: {}", cell(last))));
        }
        section(named(device), about);
    }
    if !explanation.notes.is_empty() {
        section("Notes:".to_owned(), explanation.notes.clone());
    }
    if let Some(promql) = &explanation.promql {
        let mut query: Vec<String> = promql.query.lines().map(str::to_owned).collect();
        let left_out = promql.leaves_out.iter();
        query.extend(left_out.map(|it| format!("# does not account for {it}")));
        let heading = format!("The same in PromQL, at time {}:", promql.time);
        section(heading, query);
    }
    lines.join("\n")
}

fn head(explanation: &Explanation) -> Vec<String> {
    let value = match (&explanation.value, &explanation.no_value) {
        (Some(value), _) => {
            let [number, age] = [value.number, value.age_seconds].map(number);
            let until = value.served_until.as_ref();
            let until = until.map(|until| format!(", served at least until {until}"));
            let until = until.unwrap_or_default();
            let newest = &value.timestamp;
            format!("Value {number}, newest sample {newest} ({age} s old){until}")
        }
        (None, Some(reason)) => match reason.strip_prefix("no value ") {
            Some(of_what) => format!("No value {of_what}"),
            None => format!("No value: {reason}"),
        },
        (None, None) => "No value".to_owned(),
    };
    let mut lines = vec![
        format!("{} of {}", explanation.metric, explanation.of),
        format!("  {}", explanation.meaning),
        String::new(),
        value,
    ];
    lines.extend(window(explanation));
    lines
}

pub(crate) fn window(explanation: &Explanation) -> Vec<String> {
    let Some(window) = &explanation.window else {
        return Vec::new();
    };
    let [seconds, step, lag] = [window.seconds, window.step_seconds, window.lag_seconds];
    let [seconds, step, lag] = [seconds, step, lag].map(number);
    let (end, defined, all) = (&window.end, window.defined, explanation.instants.len());
    vec![
        format!("Window {seconds} s in steps of {step} s, up to {end}; the store is {lag} s late"),
        format!("{defined} of {all} instants have a number"),
    ]
}

/// The instants as rows, their heading first, with a column for each device where there
/// are at most `most`.
pub(crate) fn rows(explanation: &Explanation, most: usize) -> Vec<Vec<String>> {
    let in_columns = explanation.devices.len() <= most;
    let shown = explanation.devices.iter().filter(|_| in_columns);
    let shown: Vec<&ExplainedDevice> = shown.collect();
    let heading = ["INSTANT", "NUMBER", "ANSWERED", "COUNTED", "MISSING"];
    let mut heading = heading.map(str::to_owned).to_vec();
    heading.extend(shown.iter().map(|device| short(device)));
    let mut rows = vec![heading];
    for (place, instant) in explanation.instants.iter().enumerate() {
        let mut row = vec![
            clock(&instant.time),
            instant.number.map_or_else(|| "–".to_owned(), number),
            instant.answering.to_string(),
            instant.counted.to_string(),
            instant.missing.to_string(),
        ];
        let readings = shown.iter().map(|device| device.readings.get(place));
        row.extend(readings.map(|reading| reading.map_or_else(String::new, cell)));
        rows.push(row);
    }
    rows
}

pub(crate) fn named(device: &ExplainedDevice) -> String {
    let part = |before: &str, text: Option<&String>, after: &str| {
        text.map_or_else(String::new, |text| format!("{before}{text}{after}"))
    };
    let instance = part(" MIG ", device.instance.as_ref(), "");
    let model = part(" (", device.model.as_ref(), ")");
    let node = part(" on ", device.node.as_ref(), "");
    format!("{}{instance}{model}{node}", device.uuid)
}

/// The holder of a device, and how it is read: a sentence each.
pub(crate) fn about(device: &ExplainedDevice) -> Vec<String> {
    let last = device.readings.last();
    let mut told = vec![match last.and_then(|reading| reading.held) {
        Some(false) => "free: no pod holds it".to_owned(),
        _ => match holders(device) {
            Some(pods) => format!("held by {pods}"),
            None => "no pod is known to hold it".to_owned(),
        },
    }];
    if let Some(field) = &device.field {
        told.push(format!(
            "{field}, scraped every {} s, a reading is valid for {} s",
            number(device.scrape_seconds),
            number(device.fresh_seconds)
        ));
    }
    if let Some(labels) = &device.owner_labels {
        told.push(format!("its pod is named by {labels}"));
    }
    if let (Some(first), Some(newest)) = (&device.heard_since, &device.newest) {
        told.push(format!("reported since {first}, newest sample {newest}"));
    }
    if let Some(silent) = &device.silent_since {
        told.push(format!("silent since {silent}"));
    }
    if let Some(frozen) = &device.frozen_since {
        told.push(format!("its readings have not changed since {frozen}"));
    }
    if let Some(idle) = &device.idle {
        let longer = if idle.or_longer { ", or longer" } else { "" };
        told.push(format!("held and idle since {}{longer}", idle.since));
    }
    told
}

/// The pods that hold a device, and the number of those left out.
fn holders(device: &ExplainedDevice) -> Option<String> {
    let pods = device.pods.join(", ");
    let count = |others: usize, more: &str| match others {
        1 => format!("1 {more}pod"),
        others => format!("{others} {more}pods"),
    };
    match (device.pods.is_empty(), device.shared_with) {
        (true, 0) => None,
        (true, others) => Some(count(others, "")),
        (false, 0) => Some(pods),
        (false, others) => Some(format!("{pods} and {}", count(others, "more "))),
    }
}

/// The end of the UUID, which differs between devices.
fn short(device: &ExplainedDevice) -> String {
    let tail: Vec<char> = device.uuid.chars().rev().take(8).collect();
    tail.into_iter().rev().collect()
}

pub(crate) fn cell(reading: &ExplainedReading) -> String {
    let number = reading.number.map_or_else(String::new, number);
    match reading.state {
        ReadingOutcome::Counted if number.is_empty() => "held".to_owned(),
        ReadingOutcome::Counted => number,
        ReadingOutcome::Idle => format!("{number} idle"),
        ReadingOutcome::Active => format!("{number} active"),
        ReadingOutcome::NotHeld => format!("{number} free").trim_start().to_owned(),
        ReadingOutcome::ActivityUnknown => format!("{number} active?"),
        ReadingOutcome::Outside => "outside".to_owned(),
        ReadingOutcome::Missing => "missing".to_owned(),
        ReadingOutcome::Lost => "lost".to_owned(),
        ReadingOutcome::NoReading => "none".to_owned(),
    }
}

/// `13:05:15` of a time in RFC 3339.
pub(crate) fn clock(time: &str) -> String {
    let (_, clock) = time.split_once('T').unwrap_or(("", time));
    clock.trim_end_matches('Z').to_owned()
}

/// At most three digits after the point.
pub(crate) fn number(number: f64) -> String {
    let text = format!("{number:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}

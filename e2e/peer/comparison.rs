//! Compares two answers: one line for each difference.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::asking::Reply;

/// The differences of two answers: `place: theirs | ours`.
pub(super) fn differences(theirs: &Reply, ours: &Reply) -> Vec<String> {
    let mut found = Vec::new();
    if theirs.code == 404 && theirs.body.contains("\"paths\":") {
        found.push(format!(
            "a list of paths | {} {}",
            ours.code,
            excerpt(&ours.body)
        ));
    } else if theirs.code == ours.code {
        match (parsed(&theirs.body), parsed(&ours.body)) {
            (Some(theirs), Some(ours)) => compare("", &theirs, &ours, &mut found),
            _ if theirs.body.trim() == ours.body.trim() => {}
            _ => found.push(format!("body: {:?} | {:?}", theirs.body, ours.body)),
        }
    } else {
        let told = |reply: &Reply| format!("{} {}", reply.code, excerpt(&reply.body));
        found.push(format!("status: {} | {}", told(theirs), told(ours)));
    }
    found
}

fn parsed(body: &str) -> Option<Value> {
    serde_json::from_str(body)
        .ok()
        .filter(|value: &Value| value.is_object())
}

/// The message of an error, or the beginning of the body.
fn excerpt(body: &str) -> String {
    let document = parsed(body).unwrap_or_default();
    if let Some(items) = document["items"].as_array() {
        return format!("{} items", items.len());
    }
    let said = document["message"].as_str().unwrap_or(body).trim();
    format!("{:?}", said.chars().take(160).collect::<String>())
}

fn compare(place: &str, theirs: &Value, ours: &Value, found: &mut Vec<String>) {
    match (theirs, ours) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let place = format!("{place}.{key}");
                match (left.get(key), right.get(key)) {
                    (Some(left), Some(right)) => compare(&place, left, right, found),
                    (left, right) => {
                        found.push(format!("{place}: {} | {}", shown(left), shown(right)));
                    }
                }
            }
        }
        (Value::Array(left), Value::Array(right)) => arrays(place, left, right, found),
        (Value::String(left), Value::String(right))
            if (place.ends_with(".timestamp") || place.ends_with(".creationTimestamp"))
                && is_time(left)
                && is_time(right) => {}
        _ if theirs == ours => {}
        (Value::String(left), Value::String(right))
            if place == ".message" && right.starts_with(&format!("{left}: ")) =>
        {
            found.push(format!("{place} says more: {left:?} | {right:?}"));
        }
        (Value::String(left), Value::String(right))
            if place.ends_with(".value") && is_a_milli_apart(left, right) =>
        {
            found.push(format!("{place} is a milli apart: {left} | {right}"));
        }
        _ => found.push(format!(
            "{place}: {} | {}",
            shown(Some(theirs)),
            shown(Some(ours))
        )),
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "absent".to_owned(), Value::to_string)
}

/// Whether two quantities differ by a thousandth; only quantities in thousandths and
/// in thousands occur.
fn is_a_milli_apart(left: &str, right: &str) -> bool {
    let milli = |text: &str| -> Option<i64> {
        match (text.strip_suffix('m'), text.strip_suffix('k')) {
            (Some(milli), _) => milli.parse().ok(),
            (_, Some(thousands)) => Some(thousands.parse::<i64>().ok()? * 1_000_000),
            _ => Some(text.parse::<i64>().ok()? * 1000),
        }
    };
    let (Some(left), Some(right)) = (milli(left), milli(right)) else {
        return false;
    };
    left.abs_diff(right) == 1
}

/// `2026-01-02T03:04:05Z`.
fn is_time(text: &str) -> bool {
    text.len() == 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T'
}

/// Lists are compared by the subjects of their members, and then by their order.
fn arrays(place: &str, theirs: &[Value], ours: &[Value], found: &mut Vec<String>) {
    let (left, right) = (keys(theirs), keys(ours));
    for (key, member) in left.iter().zip(theirs) {
        let other = right
            .iter()
            .position(|other| other == key)
            .map(|at| &ours[at]);
        match other {
            Some(other) => compare(&format!("{place}[{key}]"), member, other, found),
            None => found.push(format!("{place}[{key}]: {member} | absent")),
        }
    }
    for (key, member) in right.iter().zip(ours) {
        if !left.contains(key) {
            found.push(format!("{place}[{key}]: absent | {member}"));
        }
    }
    let common = |these: &[String], those: &[String]| -> Vec<String> {
        these
            .iter()
            .filter(|key| those.contains(key))
            .cloned()
            .collect()
    };
    if common(&left, &right) != common(&right, &left) {
        found.push(format!("{place}: in another order"));
    }
}

/// The subjects of the members; equal ones are numbered.
fn keys(members: &[Value]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for (index, member) in members.iter().enumerate() {
        let text = |key: &str| member[key].as_str().map(str::to_owned);
        let object = &member["describedObject"];
        let key = if object.is_object() {
            let of = |key: &str| object[key].as_str().unwrap_or_default();
            format!("{}/{}", of("namespace"), of("name"))
        } else if member["metricName"].is_string() {
            // A server may leave out an empty map.
            let labels = member["metricLabels"]
                .as_object()
                .cloned()
                .unwrap_or_default();
            format!("{} {}", member["metricName"], Value::Object(labels))
        } else {
            let name = text("name").or(text("groupVersion"));
            let name = name.or(member.as_str().map(str::to_owned));
            name.unwrap_or_else(|| index.to_string())
        };
        let same = keys.iter().filter(|known| **known == key).count();
        keys.push(match same {
            0 => key,
            _ => format!("{key} {same}"),
        });
    }
    keys
}

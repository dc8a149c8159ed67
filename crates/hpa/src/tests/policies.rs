//! How fast replicas may change: the inputs and results of the controller's own tests
//! (`horizontal_test.go`), for rules, bounds and windows.

use super::super::behavior::{Behavior, ScalingRules, Select};
use super::super::policy::{Limit, limit};
use super::super::stabilise::{History, PastReplicas, stabilise};
use super::{Case, ago, cells, past, policies, rows};

/// Events in the middles of equal parts of two minutes.
fn spread(text: &str) -> Vec<PastReplicas> {
    let changes: Vec<i32> = text
        .split_whitespace()
        .map(|word| word.parse().unwrap())
        .collect();
    let part = 120.0 / changes.len().max(1) as f64;
    let event = |(index, replicas): (usize, &i32)| PastReplicas {
        replicas: *replicas,
        at: ago((120.0 - part * (index as f64 + 1.0) + part / 2.0) as u64),
    };
    changes.iter().enumerate().map(event).collect()
}

/// The numbers of `3 to 1 in 2-8`.
fn numbers(change: &str) -> [i32; 4] {
    let words = change
        .split([' ', '-'])
        .filter_map(|word| word.parse().ok());
    words.collect::<Vec<_>>().try_into().unwrap()
}

fn read(text: &str, mut rules: ScalingRules) -> ScalingRules {
    let (select, rest) = text.split_once(' ').unwrap_or(("", text));
    let (select, text) = match select {
        "Min" => (Select::Min, rest),
        "Disabled" => (Select::Disabled, rest),
        "Max" => (Select::Max, rest),
        _ => (Select::Max, text),
    };
    rules.select = select;
    if !text.is_empty() {
        rules.policies = policies(text);
    }
    rules
}

#[test]
fn every_row_is_limited_as_the_controller_limits_it() {
    for text in rows(include_str!("limits.txt")) {
        let [change, rules, added, removed, expected] = cells(text);
        let [current, desired, min, max] = numbers(change);
        let mut case = Case::new(current, (min, max), "pods 1", "");
        case.history = History {
            ups: spread(added),
            downs: spread(removed),
            ..History::default()
        };
        let Behavior { up, down } = Behavior::default();
        case.hpa.behavior = (rules != "-").then(|| Behavior {
            up: read(rules, up),
            down: read(rules, down),
        });
        let (replicas, limit) = limit(&case.situation(), desired, &mut Vec::new());
        // The reason of the controller's condition.
        let reason = limit.map_or("DesiredWithinRange", Limit::reason);
        assert_eq!(format!("{replicas} {reason}"), expected, "{text}");
    }
}

#[test]
fn every_row_is_stabilised_as_the_controller_stabilises_it() {
    for text in rows(include_str!("windows.txt")) {
        let [history, replicas, windows, expected] = cells(text);
        let pair = |text: &str| {
            let (left, right) = text.split_once(' ')?;
            Some((left.parse::<i32>().unwrap(), right.parse::<i32>().unwrap()))
        };
        let (current, desired) = pair(replicas).unwrap();
        let mut case = Case::new(current, (1, 1000), "pods 1", "");
        case.hpa.behavior = pair(windows).map(|(up, down)| {
            let mut behavior = Behavior::default();
            (behavior.up.window, behavior.down.window) = (Some(up), Some(down));
            behavior
        });
        case.history.recommendations = past(history);
        let stabilised = stabilise(&case.situation(), desired, &mut Vec::new());
        assert_eq!(stabilised.to_string(), expected, "{text}");
    }
}

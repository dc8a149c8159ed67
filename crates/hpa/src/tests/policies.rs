//! How fast replicas may change: the inputs and results of the controller's own tests
//! (`horizontal_test.go`), for rules, bounds and windows.

use super::super::behavior::{Behavior, ScalingRules, Select};
use super::super::policy::{Limit, limit};
use super::super::stabilise::{History, PastReplicas, stabilise};
use super::{Case, ago, cells, past, policies};

/// The limited number, and the reason of the controller's condition.
fn limited(case: &Case, to: i32) -> String {
    let (replicas, limit) = limit(&case.situation(), to, &mut Vec::new());
    let reason = limit.map_or("DesiredWithinRange", Limit::reason);
    format!("{replicas} {reason}")
}

fn case(current: i32, min: i32, max: i32) -> Case {
    Case::new(current, (min, max), "pods 1", "")
}

/// Current to desired in bounds | rules of the direction, the defaults when
/// empty | replicas added | removed, spread over the last two minutes | result
/// and reason.
const ROWS: &str = "
3 to 1 in 2-8 |  |  |  | 2 TooFewReplicas
20 to 1000 in 1-10 |  |  |  | 10 TooManyReplicas
100 to 1000 in 100-150 |  |  |  | 150 TooManyReplicas
3 to 1000 in 1-2000 | 1%/60 |  |  | 4 ScaleUpLimit
1000 to 3 in 3-2000 | 20/60 |  |  | 980 ScaleDownLimit
10 to 50 in 1-1000 |  |  |  | 20 ScaleUpLimit
10 to 500 in 1-1000 | 100/60 100%/60 |  |  | 110 ScaleUpLimit
10 to 50 in 1-1000 | 100/60 |  |  | 50 DesiredWithinRange
10 to 50 in 1-1000 | 30/60 |  |  | 40 ScaleUpLimit
100 to 2 in 1-1000 | 20/60 1%/60 |  |  | 80 ScaleDownLimit
10 to 0 in 1-1000 | 100/60 |  |  | 1 TooFewReplicas
10 to 2 in 5-1000 | 100%/60 |  |  | 5 TooFewReplicas
10 to 2 in 1-1000 | 5/60 |  |  | 5 ScaleDownLimit
10 to 2 in 5-1000 | 5/60 |  |  | 5 TooFewReplicas
10 to 5 in 1-1000 | 50%/60 |  |  | 5 DesiredWithinRange
100 to 500 in 1-200 | 300/60 | 1 5 9 |  | 200 TooManyReplicas
100 to 500 in 1-1000 | 5/120 | 1 5 9 |  | 100 ScaleUpLimit
100 to 500 in 1-1000 | 150/120 | 1 5 9 |  | 235 ScaleUpLimit
100 to 500 in 1-1000 | 200%/120 | 1 5 9 |  | 255 ScaleUpLimit
6 to 24 in 1-1000 | 300%/300 | 4 | 2 | 16 ScaleUpLimit
100 to 2 in 1-1000 | 5/120 |  | 1 5 9 | 100 ScaleDownLimit
100 to 0 in 1-1000 | 50%/120 |  | 2 4 6 | 56 ScaleDownLimit
100 to 0 in 1-1000 | 10%/120 |  | 10 10 10 | 100 ScaleDownLimit
1 to 9 in 1-1000 | Min 2/60 50%/60 |  |  | 2 ScaleUpLimit
5 to 1 in 1-1000 | Min 2/60 50%/60 |  |  | 3 ScaleDownLimit
5 to 1 in 1-1000 | Disabled 2/60 |  |  | 5 ScaleDownLimit
5 to 9 in 1-1000 | Disabled 2/60 |  |  | 5 ScaleUpLimit
5 to 9 in 1-8 | Max 2147483647/60 |  |  | 5 ScaleUpLimit
3 to 1 in 1-10 | 30%/60 |  |  | 2 ScaleDownLimit
4 to 4 in 6-10 |  |  |  | 4 DesiredWithinRange
";

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

#[test]
fn every_row_is_limited_as_the_controller_limits_it() {
    for text in ROWS.lines().filter(|line| !line.is_empty()) {
        let [change, rules, added, removed, expected] = cells(text);
        let [current, desired, min, max] = numbers(change);
        let mut case = case(current, min, max);
        case.history = History {
            ups: spread(added),
            downs: spread(removed),
            ..History::default()
        };
        let Behavior { up, down } = Behavior::default();
        case.hpa.behavior = Some(Behavior {
            up: read(rules, up),
            down: read(rules, down),
        });
        assert_eq!(limited(&case, desired), expected, "{text}");
    }
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
fn without_behavior_a_step_reaches_twice_the_replicas_or_four() {
    for row in [
        "5 to 7 in 3-8 | 7 DesiredWithinRange",
        "3 to 1 in 2-8 | 2 TooFewReplicas",
        "1 to 0 in 0-10 | 0 DesiredWithinRange",
        "20 to 1000 in 1-10 | 10 TooManyReplicas",
        "3 to 1000 in 1-2000 | 6 ScaleUpLimit",
        "1 to 9 in 1-100 | 4 ScaleUpLimit",
        "0 to 9 in 0-100 | 4 ScaleUpLimit",
        "2 to 9 in 1-4 | 4 TooManyReplicas",
        "3 to 9 in 1-6 | 6 TooManyReplicas",
    ] {
        let [change, expected] = cells(row);
        let [current, stabilised, min, max] = numbers(change);
        let case = case(current, min, max);
        assert_eq!(limited(&case, stabilised), expected, "{row}");
    }
}

#[test]
fn without_behavior_the_highest_of_five_minutes_stays() {
    for (history, proposed, replicas) in [
        ("", 5, 5),
        ("4@120 5@60", 3, 5),
        ("1@120 2@60", 3, 3),
        ("10@600 9@540", 3, 3),
        ("10@600 4@60 5@120 9@540", 3, 5),
        ("9@300", 3, 9),
        ("9@301", 3, 3),
    ] {
        let mut case = case(0, 0, 100);
        case.history.recommendations = past(history);
        let stabilised = stabilise(&case.situation(), proposed, &mut Vec::new());
        assert_eq!(stabilised, replicas, "{history}");
    }
}

/// History | current, desired | seconds of the windows up and down | result.
const WINDOWS: &str = "
                        | 100 5 | 0 0     | 5
4@120 5@60              | 100 3 | 0 180   | 5
4@120 5@60              | 1 7   | 300 0   | 4
1@120 2@60              | 100 3 | 300 0   | 3
4@120 5@60              | 1 3   | 0 300   | 3
10@600 9@540            | 100 3 | 0 0     | 3
10@600 9@540            | 1 100 | 0 0     | 100
10@600 4@60 5@120 9@540 | 100 3 | 0 180   | 5
10@6000 6@60 5@120 9@180 | 1 100 | 300 0  | 5
2@6000 3@180            | 2 1   | 300 300 | 2
2@6000 1@180            | 2 3   | 300 300 | 2
9@300                   | 9 3   | 0 300   | 3
9@299                   | 9 3   | 0 300   | 9
1@60                    | 2 3   | 0 0     | 3
";

#[test]
fn with_behavior_each_direction_has_its_window() {
    for text in WINDOWS.lines().filter(|line| !line.is_empty()) {
        let [history, replicas, windows, expected] = cells(text);
        let pair = |text: &str| {
            let (left, right) = text.split_once(' ').unwrap();
            (left.parse::<i32>().unwrap(), right.parse::<i32>().unwrap())
        };
        let ((current, desired), (up, down)) = (pair(replicas), pair(windows));
        let mut behavior = Behavior::default();
        (behavior.up.window, behavior.down.window) = (Some(up), Some(down));
        let mut case = case(current, 1, 1000);
        case.hpa.behavior = Some(behavior);
        case.history.recommendations = past(history);
        let stabilised = stabilise(&case.situation(), desired, &mut Vec::new());
        assert_eq!(stabilised.to_string(), expected, "{text}");
    }
}

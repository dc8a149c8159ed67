//! Each finding in data with its fault, and none in correct data.

use std::collections::BTreeSet;

use super::notation::{self, Case};
use super::polled::{self, Replica};
use super::scene::{Scene, at, policy};
use findings::Finding;
use findings::source::{self, PolledSource};
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::SignalId;
use gpu_metrics::snapshot::Snapshot;

const CASES: &str = include_str!("faults.txt");

/// Compares the findings with codes, each with parts of its text; `!` is before a part that it
/// does not have.
#[test]
fn each_case_has_its_findings() {
    let wrong = notation::cases(CASES)
        .flat_map(|(fact, lines)| notation::check((fact, &lines), &policy(50), unmet));
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn unmet(case: &Case<'_>, expected: &[&str]) -> Vec<String> {
    let found = found_in(&polled::once(case));
    let wanted = expected.iter().map(|it| it.split(' ').next().unwrap());
    let codes = codes(&found);
    if !wanted.eq(codes.iter().copied()) && (expected != ["none"] || !codes.is_empty()) {
        return vec![format!("{found:?}")];
    }
    let mut unmet = Vec::new();
    for (found, expected) in found.iter().zip(expected) {
        let told = format!("{}: {} {}", found.object, found.message, found.remedy);
        let (_, parts) = expected.split_once(' ').unwrap_or_default();
        for part in parts.split(" & ") {
            let (part, is_there) = match part.strip_prefix('!') {
                Some(part) => (part, false),
                None => (part, true),
            };
            if told.contains(part) != is_there {
                unmet.push(format!("{part}: {told}"));
            }
        }
    }
    unmet
}

fn found_in(snapshot: &Snapshot) -> Vec<Finding> {
    found_with(snapshot, 0)
}

fn found_with(snapshot: &Snapshot, skew_ms: i64) -> Vec<Finding> {
    let seen = PolledSource {
        snapshot,
        failing: &BTreeSet::new(),
        skew_ms,
    };
    source::check(seen, None).findings
}

fn codes(found: &[Finding]) -> Vec<&str> {
    found.iter().map(|it| &*it.code).collect()
}

/// The only finding of a code.
fn message<'f>(found: &'f [Finding], code: &str) -> &'f str {
    let of_code: Vec<&Finding> = found.iter().filter(|it| it.code == code).collect();
    assert_eq!(of_code.len(), 1, "{code}: {found:?}");
    &of_code[0].message
}

#[test]
fn gm301_about_one_field_replaces_gm401_about_it() {
    let labels = "UUID=A job=dcgm instance=iA Hostname=node-1 namespace=n pod=pA";
    let mut scene = Scene::new(policy(60)).cluster(&[("n/pA", None)]);
    scene = scene.signal(SignalId::POWER_USAGE, labels, &"300 301 ".repeat(13));
    scene = scene.mcu(labels, "40 40 40 40");
    scene.feed(SignalId::DRAM_ACTIVE, labels, &[]);
    let snapshot = scene.snapshot();
    let seen = PolledSource {
        snapshot: &snapshot,
        failing: &BTreeSet::from([SignalId::MEM_COPY_UTIL]),
        skew_ms: 0,
    };
    let how = ("server_error", "see the log");
    let trouble = source::unanswered("Prometheus", ["memory_copy_utilization"], at(0.0), how);
    let report = source::check(seen, Some(trouble));
    assert_eq!(codes(&report.findings), ["GM301"]);
    assert!(report.skipped.is_empty());
    let said = message(&report.findings, "GM301");
    assert!(
        said.starts_with("queries for memory_copy_utilization have failed since ")
            && said.ends_with(" (server_error); others are answered"),
        "{said}"
    );
}

/// Polls every five seconds series whose samples become visible after so many seconds.
fn polled(late: u32) -> Snapshot {
    let series = format!(" 0..6 G# p# job=dcgm instance=i#: S15 +1# late{late} 40");
    let lines = [" pods 0..6 each 6".to_owned(), series];
    let case = Case::read(Policy::default(), &lines, "");
    let mut replica = Replica::new(&case, 0.0);
    let polls = (0..60).map(|round| replica.poll(f64::from(round) * 5.0));
    polls.last().unwrap()
}

#[test]
fn gm302_is_about_a_store_that_is_late() {
    let snapshot = polled(0);
    assert_eq!(found_in(&snapshot), []);
    let snapshot = polled(45);
    let found = found_in(&snapshot);
    assert_eq!(codes(&found), ["GM302"]);
}

#[test]
fn gm303_is_about_the_clock_of_prometheus() {
    let labels = "UUID=A job=dcgm instance=iA Hostname=node-1 namespace=n pod=pA";
    let mut scene = Scene::new(policy(60)).mcu(labels, &"40 41 ".repeat(13));
    for (skew_ms, said) in [(4_000, "is 4s off"), (-65_000, "is 1m5s off")] {
        let snapshot = scene.snapshot();
        let found = found_with(&snapshot, skew_ms);
        assert!(message(&found, "GM303").contains(said), "{found:?}");
    }
}

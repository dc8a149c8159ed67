//! The number of instructions of the hot paths, counted by Valgrind. Unlike a time, the
//! number is the same on a busy machine.
//!
//! A test counts too, in its build profile, and compares with `instructions.txt`: a path
//! may have up to 5 % more or fewer than one of its numbers. It has two where the compiler
//! divides the crates in two ways, of which one inlines more.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::answer::{ENCODINGS, Served};
use super::fleet::{Bench, SCRAPE};
use super::poll::with_other_pods;
use super::row;

/// The hot paths, in the order in which [`child`] runs them.
const PATHS: [&str; 5] = [
    "poll",
    "snapshot",
    "snapshot-pods-changed",
    "list-json",
    "list-protobuf",
];

/// Each has eight GPUs.
const NODES: u32 = 40;

/// The largest relative difference from the recorded number.
const BOUND: f64 = 0.05;

const RECORDED: &str = include_str!("instructions.txt");

/// Counts all paths. Only a test compares the numbers, because the file is for its build profile.
pub(super) fn run(is_test: bool) {
    let recorded = recorded();
    let mut wrong = Vec::new();
    for (path, number) in PATHS.iter().zip(count()) {
        let what = format!("instructions: {path}");
        let millions = format!("{:.2} million", number as f64 / 1e6);
        row(&what, &format!("{} GPUs", NODES * 8), &millions, "");
        let ratios = recorded[path].iter().map(|known| number as f64 / known);
        let ratios: Vec<f64> = ratios.collect();
        if ratios.iter().all(|ratio| (ratio - 1.0).abs() > BOUND) {
            wrong.push(format!(
                "{path} {number}: {ratios:.3?} × the recorded number"
            ));
        }
    }
    assert!(
        wrong.is_empty() || !is_test,
        "hot paths have another number of instructions; if this is meant, write it into \
         benches/bench/instructions.txt: {wrong:#?}"
    );
}

fn recorded() -> BTreeMap<&'static str, Vec<f64>> {
    let lines = RECORDED.lines().filter(|line| !line.starts_with('#'));
    let entry = |line: &'static str| {
        let (path, numbers) = line.split_once(' ').expect("a path and its numbers");
        let numbers = numbers.split(' ').map(|it| it.parse().expect("a number"));
        (path, numbers.collect())
    };
    lines.map(entry).collect()
}

/// Runs the paths in a process under Valgrind, which counts only inside of [`counted`] and
/// writes a file at the end of each call. Callgrind 3.19 ignores the second of two options
/// with the same pattern.
fn count() -> [u64; PATHS.len()] {
    let folder = tempfile::tempdir().expect("a folder");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .args([
            "--toggle-collect=*instructions*counted*",
            "--dump-after=*counted*",
        ])
        .arg("--callgrind-out-file=counts")
        .arg(std::env::current_exe().expect("this program"))
        .arg("--instructions")
        .current_dir(folder.path())
        .output()
        .expect("valgrind is installed: make prerequisites");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    std::array::from_fn(|path| total(&folder.path().join(format!("counts.{}", path + 1))))
}

/// The total of a file in Callgrind's format.
fn total(file: &Path) -> u64 {
    let text = std::fs::read_to_string(file).expect("Callgrind's file");
    let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
    total
        .and_then(|number| number.parse().ok())
        .expect("a total")
}

/// The process under Valgrind.
pub(super) fn child() {
    let mut bench = Bench::of(Served::scenario(NODES));
    // The second round after a start reads more, because no lateness is measured yet.
    for _ in 0..2 {
        bench.round();
        bench.now = bench.now + SCRAPE;
    }
    let bodies = bench.specs.iter().map(|spec| (spec.id, bench.body(spec)));
    let bodies: Vec<_> = bodies.collect();
    // Each series was seen before, and has one new sample.
    let samples = counted(|| {
        let taken = bodies.iter().map(|(id, body)| bench.take(*id, body).1);
        taken.sum::<u64>()
    });
    assert!(samples >= u64::from(NODES) * 8);
    let inventory = bench.inventory();
    bench.pipeline.publish(&inventory, bench.now);
    counted(|| bench.pipeline.publish(&inventory, bench.now));
    let other = with_other_pods(&inventory, 0);
    let snapshot = counted(|| bench.pipeline.publish(&other, bench.now));
    let served = Served::new(snapshot, bench.now);
    for (_, accept) in ENCODINGS {
        let parts = served.request(accept, "?labelSelector=tier%20notin%20(none)");
        served.ask(&parts);
        let response = counted(|| served.ask(&parts));
        assert_eq!(response.status(), 200);
    }
}

/// A call of this function is counted.
#[inline(never)]
fn counted<T>(run: impl FnOnce() -> T) -> T {
    std::hint::black_box(run())
}

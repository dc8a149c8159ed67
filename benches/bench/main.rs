//! Benchmarks that check their answers and print a table.
//!
//! `make bench` runs all of it. Times are the best of several runs on one
//! thread; on a small machine only ratios within one run are comparable.

// A benchmark that cannot continue has failed, and its panic names the place.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod answer;
mod backtest;
mod fleet;
mod instructions;
mod narrow;
mod poll;
mod resident;

use std::time::{Duration, Instant};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Memory and instructions are measured in a separate process.
    for argument in &arguments {
        if let Some(gpus) = argument.strip_prefix("--resident=") {
            return resident::child(gpus.parse().expect("a number of GPUs"));
        }
        if argument == "--instructions" {
            return instructions::child();
        }
    }
    let names = arguments.iter().filter(|it| !it.starts_with('-'));
    let names: Vec<&String> = names.collect();
    // Tests only check the answers: `cargo bench` passes a flag to measure.
    let is_test = !arguments.iter().any(|argument| argument == "--bench");
    let most = if is_test { 10_000 } else { u32::MAX };
    println!("| what | size | result | budget |\n|---|---|---|---|");
    let parts: [(&str, &dyn Fn()); 6] = [
        ("poll", &|| poll::run(most)),
        ("answer", &answer::run),
        ("narrow", &narrow::run),
        ("instructions", &|| instructions::run(is_test)),
        ("resident", &|| resident::run(most)),
        ("backtest", &backtest::run),
    ];
    for (name, run) in parts {
        if names.is_empty() || names.iter().any(|part| name.contains(part.as_str())) {
            run();
        }
    }
}

/// One row of the table.
fn row(what: &str, size: &str, result: &str, budget: &str) {
    println!("| {what} | {size} | {result} | {budget} |");
}

/// A runtime on this thread.
fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().build().expect("a runtime")
}

/// The shortest of `runs` runs.
fn best_of<T>(runs: u32, mut run: impl FnMut() -> T) -> (Duration, T) {
    let timed = |run: &mut dyn FnMut() -> T| {
        let start = Instant::now();
        let outcome = run();
        (start.elapsed(), outcome)
    };
    let mut best = timed(&mut run);
    for _ in 1..runs {
        let again = timed(&mut run);
        if again.0 < best.0 {
            best = again;
        }
    }
    best
}

/// Milliseconds with three significant digits.
fn ms(duration: Duration) -> String {
    let ms = duration.as_secs_f64() * 1e3;
    match ms {
        ms if ms < 1.0 => format!("{ms:.3} ms"),
        ms if ms < 100.0 => format!("{ms:.1} ms"),
        ms => format!("{ms:.0} ms"),
    }
}

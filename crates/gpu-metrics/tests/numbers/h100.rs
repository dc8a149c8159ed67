//! Readings of a real GPU: an NVIDIA H100 80GB HBM3 with driver 580, read with nvidia-smi
//! every second on 2026-11-27.
//!
//! A process takes 20 GiB and multiplies matrices for 30 s, and then for half of the next
//! 20 s. It takes 40 GiB more and rests for 30 s, frees them, and ends.

use std::time::Duration;

use super::answers::{Answers, close};
use super::scene::{Scene, at, policy, sample};
use apimachinery::time::Timestamp;
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::SignalId;

/// MiB, percent, watts, and percent of the profiling fields engine and DRAM activity,
/// which have gaps.
const READINGS: &str = include_str!("h100.csv");
const LABELS: &str = "UUID=A namespace=n pod=p";
/// The card's whole memory in MiB.
const MEMORY: f64 = 81_559.0;
const WINDOW: u64 = 60;
const STEP: u64 = 5;

/// The readings of a column at whole seconds.
fn column(name: &str) -> Vec<(u64, f64)> {
    let mut lines = READINGS.lines();
    let column = lines.next().unwrap().split(',').position(|it| it == name);
    let reading = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let value = fields[column.unwrap()].parse().unwrap();
        (fields[0].parse().unwrap(), value)
    };
    lines.map(reading).collect()
}

fn time(secs: u64) -> Timestamp {
    at(secs as f64)
}

/// What a poll at `end` has read.
fn scene(end: u64) -> Scene {
    let step = Duration::from_secs(STEP);
    let mut scene = Scene::new(Policy {
        scrape_interval: Some(step),
        step,
        ..policy(WINDOW)
    });
    for (signal, name) in [
        (SignalId::MEM_COPY_UTIL, "memory"),
        (SignalId::GPU_UTIL, "gpu"),
        (SignalId::FB_USED, "used"),
        (SignalId::FB_FREE, "free"),
        (SignalId::FB_RESERVED, "reserved"),
        (SignalId::POWER_USAGE, "watts"),
    ] {
        let mut scraped = column(name);
        scraped.retain(|(secs, _)| secs % STEP == 0 && *secs <= end);
        let samples = scraped
            .iter()
            .map(|(secs, value)| sample(*secs as f64, *value));
        scene.feed(signal, LABELS, &samples.collect::<Vec<_>>());
    }
    scene
}

/// The mean of a column over the instants of the window of a poll at `end`, which ends
/// 15 s later (docs/numbers.md, "Rules").
fn mean(name: &str, end: u64) -> f64 {
    let column = column(name);
    let last = end + 15;
    let instants = (last - WINDOW + STEP..=last).step_by(STEP as usize);
    let values: Vec<f64> = instants
        .map(|instant| instant.min(end))
        .map(|scrape| column.iter().find(|(secs, _)| *secs == scrape).unwrap().1)
        .collect();
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn values_of_a_real_h100_are_means_of_its_readings() {
    for end in (60..=120).step_by(10) {
        let answers = Answers::new(scene(end).snapshot_at(time(end)));
        for (metric, name) in [
            ("gpu_memory_utilization", "memory"),
            ("gpu_utilization", "gpu"),
            ("gpu_memory_used", "used"),
            ("gpu_power_usage", "watts"),
        ] {
            let value = answers.ask("pods n/p", metric);
            close(value.map(|it| it.value), mean(name, end));
        }
        // Used, free and reserved are rounded to MiB one by one.
        let percent = answers.ask("pods n/p", "gpu_memory_used_percent").unwrap();
        let expected = 100.0 * mean("used", end) / MEMORY;
        assert!(
            (percent.value - expected).abs() < 0.01,
            "{percent:?} is not {expected}"
        );
    }
}

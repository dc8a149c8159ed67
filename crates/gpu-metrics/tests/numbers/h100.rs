//! Readings of a real GPU: an NVIDIA H100 80GB HBM3 with driver 580, read with nvidia-smi
//! every second on 2026-11-27.
//!
//! A process takes 20 GiB and multiplies matrices for 30 s, and then for half of the next
//! 20 s. It takes 40 GiB more and rests for 30 s, frees them, and ends.

use std::collections::BTreeMap;
use std::time::Duration;

use super::answers::Answers;
use super::scene::{Scene, at, policy, sample};
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::SignalId;

/// MiB, percent, watts, and percent of the profiling fields engine and DRAM activity,
/// which have gaps.
const READINGS: &str = include_str!("h100.csv");
/// The card's whole memory in MiB.
const MEMORY: f64 = 81_559.0;
const WINDOW: u64 = 60;
const STEP: u64 = 5;

/// The readings of a column at scrapes.
fn column(name: &str) -> BTreeMap<u64, f64> {
    let mut lines = READINGS.lines();
    let column = lines.next().unwrap().split(',').position(|it| it == name);
    let readings = lines.map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let value = fields[column.unwrap()].parse().unwrap();
        (fields[0].parse().unwrap(), value)
    });
    readings.filter(|(secs, _)| secs % STEP == 0).collect()
}

/// The mean of a column over the instants of the window of a poll at `end`, which ends
/// 15 s later (docs/numbers.md, "Rules").
fn mean(name: &str, end: u64) -> f64 {
    let (column, last) = (column(name), end + 15);
    let instants = (last - WINDOW + STEP..=last).step_by(STEP as usize);
    let values: Vec<f64> = instants.map(|it| column[&it.min(end)]).collect();
    values.iter().sum::<f64>() / values.len() as f64
}

#[test]
fn values_of_a_real_h100_are_means_of_its_readings() {
    let step = Duration::from_secs(STEP);
    for end in (60..=120).step_by(10) {
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
            let (column, end) = (column(name), end);
            let samples = column
                .range(..=end)
                .map(|(secs, value)| sample(*secs as f64, *value));
            scene.feed(
                signal,
                "UUID=A namespace=n pod=p",
                &samples.collect::<Vec<_>>(),
            );
        }
        let answers = Answers::new(scene.snapshot_at(at(end as f64)));
        // Used, free and reserved are rounded to MiB one by one.
        for (metric, expected, error) in [
            ("gpu_memory_utilization", mean("memory", end), 1e-9),
            ("gpu_utilization", mean("gpu", end), 1e-9),
            ("gpu_memory_used", mean("used", end), 1e-9),
            ("gpu_power_usage", mean("watts", end), 1e-9),
            (
                "gpu_memory_used_percent",
                100.0 * mean("used", end) / MEMORY,
                0.01,
            ),
        ] {
            let value = answers.of("pods n/p", metric);
            let is_near = value.is_some_and(|value| (value - expected).abs() < error);
            assert!(is_near, "{metric} at {end}: {value:?} is not {expected}");
        }
    }
}

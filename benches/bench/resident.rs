//! Resident memory of a warm server, in a separate process.

use std::process::Command;
use std::sync::Arc;

use gpu_metrics_apiserver::provider::gpu::GpuProvider;

use super::fleet::{Bench, SCRAPE};
use super::row;

/// Fleets of `most` GPUs at most.
pub(super) fn run(most: u32) {
    for (gpus, budget) in [(1_000, "≤ 64 MiB"), (100_000, "≤ 1 GiB")] {
        if gpus > most {
            continue;
        }
        let this = std::env::current_exe().expect("this program");
        let output = Command::new(this)
            .arg(format!("--resident={gpus}"))
            .output()
            .expect("a child");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let numbers: Vec<u64> = text
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let [resident, peak, pods, fleet] = numbers[..] else {
            panic!("no figures: {text}")
        };
        let result = format!("{resident} MiB, simulated fleet {fleet} MiB (peak {peak} MiB)");
        row(
            "resident memory, warm",
            &format!("{gpus} GPUs, {pods} pods"),
            &result,
            budget,
        );
    }
}

/// Fills a pipeline for its whole window, publishes, and prints its size.
///
/// The simulator makes the answers in the same process. Each answer is freed before the
/// next, as a client reuses its buffer; the batch keeps the last one. The peak includes
/// one answer, and all figures include the simulated fleet, which is printed last.
pub(super) fn child(gpus: u32) {
    let mut bench = Bench::new(gpus);
    let fleet = status("VmRSS:");
    bench.round();
    let inventory = bench.inventory();
    let provider = GpuProvider::new(&gpu_metrics::dcgm::metrics::built_in());
    let mut pods = 0;
    for _ in 0..4 {
        bench.now = bench.now + SCRAPE;
        bench.round();
        let snapshot = bench.pipeline.publish(&inventory, bench.now);
        pods = snapshot
            .layout
            .table("pods")
            .map_or(0, |(_, table)| table.objects.len());
        provider.publish(Arc::new(snapshot));
    }
    assert!(pods > gpus as usize / 8);
    let (resident, peak) = (status("VmRSS:"), status("VmHWM:"));
    println!("{resident} {peak} {pods} {fleet}");
}

/// A line of `/proc/self/status`, in MiB.
fn status(key: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.expect("a number") / 1024
}

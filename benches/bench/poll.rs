//! Decode and apply one poll; compute and publish a snapshot.

use std::sync::Arc;
use std::time::{Duration, Instant};

use findings::source::{self, PolledSource};
use gpu_metrics::inventory::Inventory;

use super::fleet::{Bench, SCRAPE};
use super::{best_of, ms, row};

/// Fleets of `most` GPUs at most.
pub(super) fn run(most: u32) {
    for gpus in [1_000, 10_000, 100_000] {
        if gpus <= most {
            one_size(gpus);
        }
    }
}

fn one_size(gpus: u32) {
    let mut bench = Bench::new(gpus);
    start(&mut bench, gpus);
    let mut fastest: Option<(Duration, usize, usize)> = None;
    for _ in 0..4 {
        bench.now = bench.now + SCRAPE;
        let bodies: Vec<_> = bench
            .specs
            .iter()
            .map(|spec| (spec.id, bench.body(spec)))
            .collect();
        let bytes: usize = bodies.iter().map(|(_, body)| body.len()).sum();
        let start = Instant::now();
        let taken: Vec<(usize, u64)> = bodies
            .iter()
            .map(|(id, body)| bench.take(*id, body))
            .collect();
        let elapsed = start.elapsed();
        // Once a minute a poll reads further back: the fastest one does not.
        bench.pipeline.end_round();
        let series: usize = taken.iter().map(|(series, _)| series).sum();
        let (mcu_series, mcu_new) = taken[0];
        assert!(mcu_series >= gpus as usize, "every GPU was read");
        assert_eq!(mcu_new, mcu_series as u64, "one new sample a series");
        if fastest.is_none_or(|(fastest, ..)| elapsed < fastest) {
            fastest = Some((elapsed, series, bytes));
        }
    }
    let (elapsed, series, bytes) = fastest.expect("it ran");
    let rate = bytes as f64 / 1e6 / elapsed.as_secs_f64();
    let size = format!("{gpus} GPUs, {series} series, {:.0} MB", bytes as f64 / 1e6);
    let budget = if gpus == 100_000 {
        "≤ 1 core-second"
    } else {
        ""
    };
    row(
        "decode and apply one poll, all fields",
        &size,
        &format!("{} ({rate:.0} MB/s)", ms(elapsed)),
        budget,
    );
    publish(&mut bench, gpus);
}

/// The queries of a replica at its start, and its first values.
fn start(bench: &mut Bench, gpus: u32) {
    let (mut elapsed, mut bytes) = (Duration::ZERO, 0);
    for spec in bench.specs.clone() {
        let body = bench.body(&spec);
        bytes += body.len();
        let begun = Instant::now();
        let (series, _) = bench.take(spec.id, &body);
        elapsed += begun.elapsed();
        assert!(series > 0, "{:?} was read", spec.id);
    }
    bench.pipeline.end_round();
    let inventory = bench.inventory();
    let (first, snapshot) = best_of(1, || bench.pipeline.publish(&inventory, bench.now));
    assert!(!snapshot.layout.tables.is_empty(), "there are values");
    let size = format!("{gpus} GPUs, {:.0} MB", bytes as f64 / 1e6);
    row(
        "start: decode and apply 20 minutes of all fields",
        &size,
        &ms(elapsed),
        "",
    );
    row("start: the first snapshot", &size, &ms(first), "");
}

fn publish(bench: &mut Bench, gpus: u32) {
    let inventory = bench.inventory();
    let first = bench.pipeline.publish(&inventory, bench.now);
    let (warm, snapshot) = best_of(3, || bench.pipeline.publish(&inventory, bench.now));
    let values = |snapshot: &gpu_metrics::snapshot::Snapshot| {
        let tables = &snapshot.layout.tables;
        let kinds = (0..tables.len()).flat_map(|kind| snapshot.values(kind, 0));
        kinds.filter(|value| value.is_some()).count()
    };
    assert_eq!(values(&first), values(&snapshot), "the same values");
    let others: Vec<_> = (0..3).map(|run| with_other_pods(&inventory, run)).collect();
    let mut others = others.iter().cycle();
    let (changed, _) = best_of(3, || {
        let other = others.next().expect("it repeats");
        bench.pipeline.publish(other, bench.now)
    });
    let pods = snapshot
        .layout
        .table("pods")
        .map_or(0, |(_, table)| table.objects.len());
    assert!(pods > gpus as usize / 8, "pods have values");
    let size = format!(
        "{gpus} GPUs, {pods} pods, {} metrics",
        snapshot.metrics.len()
    );
    row("compute and publish a snapshot", &size, &ms(warm), "");
    row("the same after pods changed", &size, &ms(changed), "");
    let seen = PolledSource {
        snapshot: &snapshot,
        failing: &std::collections::BTreeSet::new(),
        skew_ms: 0,
    };
    let (judged, report) = best_of(3, || source::check(seen, None));
    assert!(report.looked, "the data were judged");
    row("judge the data", &size, &ms(judged), "");
}

/// An inventory in which some pods, 100 at most, are replaced by others.
pub(super) fn with_other_pods(inventory: &Inventory, run: usize) -> Arc<Inventory> {
    let mut other = inventory.clone();
    let every = other.pods.len().div_ceil(100).max(10);
    for pod in other.pods.iter_mut().skip(run).step_by(every) {
        pod.name = format!("{}-{run}", pod.name).into();
    }
    other
        .pods
        .sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    Arc::new(other)
}

//! Metrics of the process, read from `/proc/self` at each scrape. Without `/proc` they are
//! omitted.

use procfs::process::{LimitValue, Process, Stat, Status};

use super::Metrics;
use super::catalog::{
    PROCESS_CPU, PROCESS_FDS, PROCESS_MAX_FDS, PROCESS_MEMORY, PROCESS_START, PROCESS_THREADS,
    PROCESS_VIRTUAL, Spec,
};

type ReadFigure = fn() -> Option<f64>;

pub(super) fn show(metrics: &Metrics) {
    let figures: [(&Spec, ReadFigure); 6] = [
        (&PROCESS_CPU, || {
            let stat = stat()?;
            Some(seconds(stat.utime + stat.stime))
        }),
        (&PROCESS_MEMORY, || kibibytes(status()?.vmrss)),
        (&PROCESS_VIRTUAL, || kibibytes(status()?.vmsize)),
        (&PROCESS_THREADS, || Some(stat()?.num_threads as f64)),
        (&PROCESS_FDS, open_files),
        (&PROCESS_MAX_FDS, max_files),
    ];
    for (spec, figure) in figures {
        metrics.read(spec, &[], figure);
    }
    let started = started();
    metrics.read(&PROCESS_START, &[], move || started);
}

fn this() -> Option<Process> {
    Process::myself().ok()
}

fn stat() -> Option<Stat> {
    this()?.stat().ok()
}

fn status() -> Option<Status> {
    this()?.status().ok()
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / procfs::ticks_per_second() as f64
}

fn kibibytes(number: Option<u64>) -> Option<f64> {
    number.map(|number| (number * 1024) as f64)
}

/// The start time. It is read only once, because setting the clock moves the boot time.
fn started() -> Option<f64> {
    let boot = procfs::boot_time_secs().ok()?;
    Some(boot as f64 + seconds(stat()?.starttime))
}

fn open_files() -> Option<f64> {
    // Counting opens one descriptor itself.
    let count = this()?.fd_count().ok()?;
    Some(count.saturating_sub(1) as f64)
}

/// `None`: there is no limit.
fn max_files() -> Option<f64> {
    match this()?.limits().ok()?.max_open_files.soft_limit {
        LimitValue::Value(limit) => Some(limit as f64),
        LimitValue::Unlimited => None,
    }
}

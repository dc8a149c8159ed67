//! The process' own metrics, read from `/proc/self` at a scrape (`proc_pid_stat(5)`,
//! `proc_pid_status(5)`). Without `/proc` they are left out.

use std::fs;

use super::catalog::{
    PROCESS_CPU, PROCESS_FDS, PROCESS_MAX_FDS, PROCESS_MEMORY, PROCESS_START, PROCESS_THREADS,
    PROCESS_VIRTUAL, Spec,
};
use super::readings::Readings;

/// Ticks a second of the times in `/proc`: `USER_HZ`, which is 100 on every supported
/// architecture.
const TICKS: f64 = 100.0;

/// Reads one value.
type Figure = fn() -> Option<f64>;

/// Registers the process' metrics.
pub(super) fn show(readings: &Readings) {
    let figures: [(&Spec, Figure); 6] = [
        (&PROCESS_CPU, || cpu_seconds(&read("self/stat")?)),
        (&PROCESS_MEMORY, || {
            kilobytes(&read("self/status")?, "VmRSS:")
        }),
        (&PROCESS_VIRTUAL, || {
            kilobytes(&read("self/status")?, "VmSize:")
        }),
        (&PROCESS_THREADS, || field(&read("self/stat")?, 20)),
        (&PROCESS_FDS, open_files),
        (&PROCESS_MAX_FDS, || max_files(&read("self/limits")?)),
    ];
    for (spec, figure) in figures {
        readings.insert(spec, &[], Box::new(figure));
    }
    readings.show(&PROCESS_START, &[], started());
}

fn read(name: &str) -> Option<String> {
    fs::read_to_string(format!("/proc/{name}")).ok()
}

/// Read once: the time of the boot moves when the clock is set.
fn started() -> Option<f64> {
    Some(boot_time(&read("stat")?)? + field(&read("self/stat")?, 22)? / TICKS)
}

/// A field of `stat`, counted from one as in the manual page. The second is the command
/// in parentheses, which may hold any character.
fn field(stat: &str, number: usize) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace()
        .nth(number.checked_sub(3)?)?
        .parse()
        .ok()
}

fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((field(stat, 14)? + field(stat, 15)?) / TICKS)
}

fn kilobytes(status: &str, name: &str) -> Option<f64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    let number: f64 = rest.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(number * 1024.0)
}

fn boot_time(system: &str) -> Option<f64> {
    let line = system.lines().find_map(|line| line.strip_prefix("btime "));
    line?.trim().parse().ok()
}

fn open_files() -> Option<f64> {
    // Reading the directory takes a descriptor.
    let count = fs::read_dir("/proc/self/fd").ok()?.count();
    Some(count.saturating_sub(1) as f64)
}

fn max_files(limits: &str) -> Option<f64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_spaces_and_parentheses_moves_no_field() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 12345 1000 10";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(field(stat, 20), Some(9.0));
        assert_eq!(field(stat, 22), Some(12345.0));
        assert_eq!(field("broken", 20), None);
        assert_eq!(field(stat, 99), None);
    }

    #[test]
    fn sizes_and_limits_are_read() {
        let status = "Name:\tx\nVmSize:\t  2048 kB\nVmRSS:\t 12 kB\n";
        assert_eq!(kilobytes(status, "VmRSS:"), Some(12_288.0));
        assert_eq!(kilobytes(status, "VmSwap:"), None);
        let limits = "Limit   Soft   Hard   Units\nMax open files   1024   4096   files\n";
        assert_eq!(max_files(limits), Some(1024.0));
        assert_eq!(max_files("Max open files unlimited unlimited files"), None);
        assert_eq!(boot_time("cpu 1 2\nbtime 1700000000\n"), Some(1.7e9));
    }

    #[test]
    fn this_process_has_all_figures() {
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        assert!(cpu_seconds(&stat).is_some());
        assert!(kilobytes(&status, "VmRSS:").unwrap() > 0.0);
        assert!(field(&stat, 20).unwrap() >= 1.0);
        assert!(open_files().unwrap() >= 3.0);
        assert!(started().unwrap() > 1.6e9);
    }
}

//! What a process has used.

use std::time::Duration;

/// The kernel's clock ticks a second (`USER_HZ`, 100 on all of Linux'
/// architectures that matter here).
const TICK: Duration = Duration::from_millis(10);

/// Processor time of a process and its children so far, in user and kernel
/// mode.
pub(super) fn cpu(id: u32) -> Duration {
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    let children = children.unwrap_or_default();
    let children = children.split_whitespace().map(|id| id.parse().unwrap());
    own(id) + children.map(own).sum::<Duration>()
}

fn own(id: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    // Behind the name, which may hold spaces, in parentheses: field 3 and on.
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    let ticks = |field: usize| -> u32 {
        let field = rest.split(' ').nth(field - 3);
        field.unwrap().parse().unwrap()
    };
    TICK * (ticks(14) + ticks(15))
}

/// The most memory that a process has held (VmHWM), in MiB.
pub(super) fn peak_mib(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.unwrap().parse::<u64>().unwrap() >> 10
}

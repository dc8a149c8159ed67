//! Resources used by a process.

use std::time::Duration;

use crate::program::memory_kib;

/// The kernel's clock ticks per second (`USER_HZ`, 100 on all relevant Linux
/// architectures).
const TICK: Duration = Duration::from_millis(10);

/// CPU time of a process and its children so far, in user and kernel mode.
pub(super) fn cpu(id: u32) -> Duration {
    let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
    let children = children.unwrap_or_default();
    let children = children.split_whitespace().map(|id| id.parse().unwrap());
    own(id) + children.map(own).sum::<Duration>()
}

fn own(id: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    // Fields 3 and on follow the name, which is in parentheses and may contain
    // spaces.
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    let ticks = |field: usize| -> u32 {
        let field = rest.split(' ').nth(field - 3);
        field.unwrap().parse().unwrap()
    };
    TICK * (ticks(14) + ticks(15))
}

/// The peak memory of a process, in MiB.
pub(super) fn peak_mib(id: u32) -> u64 {
    memory_kib(id, "VmHWM:") >> 10
}

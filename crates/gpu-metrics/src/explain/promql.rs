//! The PromQL that computes a group's number (docs/numbers.md, "The same number in
//! PromQL").

use std::collections::BTreeSet;
use std::time::Duration;

use crate::dcgm::schemes::{OWNERS, OwnerLabels};
use crate::policy::{DeviceValue, Measure, Over, Reducer};
use crate::reasons::{DeviceReasons, Reasons};
use crate::signal::{SignalId, Unit};
use crate::snapshot::Snapshot;
use apimachinery::duration::format_duration;
use apimachinery::promql::{any_of, equals};

use super::{Promql, Question, Selected, field, seconds};

/// What no query can express.
const LEFT_OUT: &str = "devices that should have answered, failed scrapes, which end a series at once, pods \
                        that were replaced, prometheus.matchers of the configuration, and samples that were \
                        written after this answer";

/// The most names in a query.
const MOST_NAMES: usize = 64;

/// The query, or why there is none: a short query computes the same number if there are no
/// MIG instances and no shares of processes, one scheme of owner labels, and one field.
pub(super) fn same(
    question: &Question<'_>,
    reasons: &Reasons,
    snapshot: &Snapshot,
) -> Result<Promql, &'static str> {
    let layout = &snapshot.layout;
    let devices = || reasons.devices.iter();
    let facts = |of: &DeviceReasons| &layout.devices[of.device as usize];
    let lines = |of: &DeviceReasons| {
        let rows = layout.lines_of(of.device).iter();
        rows.filter_map(|row| layout.lines[row.0 as usize].as_ref())
    };
    let owners = devices()
        .flat_map(lines)
        .filter_map(|line| line.owner.as_ref());
    let owners: BTreeSet<&OwnerLabels> = owners.map(|owner| owner.by).collect();
    let mut odd = devices().map(facts);
    if odd.any(|it| it.device.instance.is_some() || it.has_instances || it.has_processes)
        || owners.len() > 1
    {
        return Err(
            "its devices have MIG instances, parts of processes or several ways of naming pods",
        );
    }
    if question.is_narrowed {
        return Err("the metric selector narrows its devices by their labels");
    }
    if reasons.has_several_ends {
        return Err("its devices have sources of different lateness");
    }
    let signals: BTreeSet<SignalId> = devices().filter_map(|device| device.signal).collect();
    if signals.len() > 1 {
        return Err("its devices are read from different fields");
    }
    let fresh_ms = devices()
        .filter_map(|device| Some(device.times?.fresh_ms))
        .max();
    let fresh_ms = fresh_ms.ok_or("no device contributes to it")?;
    let matchers = matchers(question, reasons, snapshot, owners.first().copied())
        .ok_or("it would have to list too many names")?;
    let matchers = match matchers.is_empty() {
        true => String::new(),
        false => format!("{{{}}}", matchers.join(",")),
    };
    let fresh = |signal: SignalId| fresh(signal, &matchers, fresh_ms);
    let number = number(question.measure, signals.first().copied(), fresh)
        .ok_or("it is not read from one known field")?;
    let step = Duration::from_millis(snapshot.frame.step_ms.unsigned_abs());
    // Prometheus 2 includes the left end of a range, so it is a millisecond shorter.
    let (range, step) = (reasons.window_ms - 1, format_duration(step));
    Ok(Promql {
        query: format!("avg_over_time((\n  {number}\n)[{range}ms:{step}])"),
        time: reasons.end.to_string(),
        leaves_out: Some(leaves_out(snapshot)),
    })
}

/// The group's number at an instant; `fresh` gives the readings of a field.
fn number(
    measure: &Measure,
    read: Option<SignalId>,
    fresh: impl Fn(SignalId) -> Option<String>,
) -> Option<String> {
    // One reading for each device: the largest.
    let devices = |signal: SignalId| {
        let fresh = fresh(signal)?;
        Some(format!("max by (UUID, GPU_I_ID) (\n    {fresh})"))
    };
    let shown = read.unwrap_or(SignalId::MEM_COPY_UTIL);
    Some(match measure {
        Measure::HeldCount => format!("count({})", devices(shown)?),
        Measure::ActiveCount => counted(&devices(shown)?, "> 0"),
        Measure::IdleCount => counted(&devices(shown)?, "== 0"),
        Measure::Devices {
            value: DeviceValue::MemoryUsedPercent,
            ..
        } => {
            let sum = |signal| Some(format!("sum({})", devices(signal)?));
            let (used, free) = (sum(SignalId::FB_USED)?, sum(SignalId::FB_FREE)?);
            let reserved = sum(SignalId::FB_RESERVED)?;
            format!("100 * {used}\n  / ({used} + {free}\n     + ({reserved} or vector(0)))")
        }
        Measure::Devices { reducer, over, .. } => {
            reduced(reducer, *over == Over::Active, &devices(read?)?)
        }
        Measure::OriginalAverage => return None,
    })
}

fn leaves_out(snapshot: &Snapshot) -> String {
    if !snapshot.policy.active.is_empty() {
        return "the configured gpu.active: the query treats a device as active if its own value is above 0".to_owned();
    }
    LEFT_OUT.to_owned()
}

fn counted(devices: &str, condition: &str) -> String {
    format!("count({devices} {condition})\n  or max({devices}) * 0")
}

fn reduced(reducer: &Reducer, active: bool, devices: &str) -> String {
    let name = match reducer {
        Reducer::Mean => "avg(",
        Reducer::Sum => "sum(",
        Reducer::Max => "max(",
    };
    match active {
        true => format!("{name}{devices} > 0)\n  or max({devices}) * 0"),
        false => format!("{name}{devices})"),
    }
}

/// The readings of a signal that count: valid and fresh.
fn fresh(signal: SignalId, matchers: &str, fresh_ms: i64) -> Option<String> {
    let series = format!("{}{matchers}", field(signal)?);
    let in_range = match signal.unit() {
        Unit::Percent => format!("{series} >= 0 <= 100"),
        Unit::Ratio => {
            format!("100 * clamp_max({series} >= 0 <= 1.2, 1)")
        }
        Unit::Watts => format!("{series} >= 0 < 1e6"),
        // `Plain` does not occur: `field` returns no names of configured signals.
        Unit::Mebibytes | Unit::Plain => format!("{series} >= 0 < 1e8"),
    };
    let fresh = seconds(fresh_ms);
    Some(format!(
        "({in_range}) and (timestamp({series}) > time() - {fresh})"
    ))
}

/// `exported_namespace="ml"`, `exported_pod=~"a|b"`; `None`: there are too many names.
fn matchers(
    question: &Question<'_>,
    reasons: &Reasons,
    snapshot: &Snapshot,
    by: Option<&OwnerLabels>,
) -> Option<Vec<String>> {
    let of_held = matches!(
        question.measure,
        Measure::HeldCount | Measure::ActiveCount | Measure::IdleCount
    );
    let layout = &snapshot.layout;
    let by = by.unwrap_or(&OWNERS[0]);
    let (namespace_label, pod_label) = (by.namespace, by.pod);
    let of_namespace = |namespace: &str| equals(namespace_label, namespace);
    let mut matchers = match question.selected {
        Selected::All => Vec::new(),
        Selected::Namespace(namespace) => vec![of_namespace(namespace)],
        Selected::Pod(namespace, pod) => {
            vec![of_namespace(namespace), equals(pod_label, pod)]
        }
        Selected::PodsOf(namespace) => {
            let members = reasons.devices.iter().flat_map(|device| &device.members);
            let claims = members.filter_map(|member| member.claim);
            let pods = claims.map(|claim| layout.claims[claim as usize].pod);
            let pods = few(pods.map(|pod| layout.pods[pod as usize].pod.name.to_string()))?;
            vec![of_namespace(namespace), format!("{pod_label}=~{pods}")]
        }
        Selected::Devices => {
            let is_held = |device: u32| !layout.claims_of(device).is_empty();
            let devices = reasons.devices.iter().map(|it| it.device);
            let devices = devices.filter(|device| !of_held || is_held(*device));
            let uuid = |device: u32| layout.devices[device as usize].device.uuid.to_string();
            vec![format!("UUID=~{}", few(devices.map(uuid))?)]
        }
    };
    if of_held && matches!(question.selected, Selected::All | Selected::Devices) {
        matchers.push(format!("{pod_label}!=\"\""));
    }
    Some(matchers)
}

/// [`any_of`] for names, if they are few enough for a query.
fn few(names: impl Iterator<Item = String>) -> Option<String> {
    let names: BTreeSet<String> = names.collect();
    (names.len() <= MOST_NAMES).then(|| any_of(&names))
}

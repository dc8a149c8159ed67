//! The PromQL that computes an object's number in the common case (docs/numbers.md, "The
//! same number in PromQL").

use std::collections::BTreeSet;
use std::time::Duration;

use crate::counts::Counts;
use crate::dcgm::schemes::{OWNERS, OwnerLabels};
use crate::grid::{RowId, instant_time};
use crate::line::Line;
use crate::outcome::devices_of;
use crate::policy::{DeviceValue, Reducer};
use crate::reading::Inputs;
use crate::signal::{SignalId, Unit};
use crate::snapshot::Snapshot;
use crate::window::window_ms;
use apimachinery::duration::format_duration;
use apimachinery::promql::{any_of, equals};
use apimachinery::time::millis;

use super::of_object::MOST_DEVICES;
use super::{Promql, Question, seconds};

/// The query for the window up to an instant; `None`: no short one computes the number.
pub(super) fn same(question: &Question<'_>, snapshot: &Snapshot, last: i64) -> Option<Promql> {
    let (layout, policy) = (&snapshot.layout, &snapshot.policy);
    let devices = devices_of(question.object).map(|members| members[0].device);
    let devices: Vec<u32> = devices.collect();
    let line = |row: &RowId| layout.lines[row.0 as usize].as_deref();
    // Exporters may split a field by process.
    let is_part = |line: &Line| {
        let mut names = ["vgpu", "pod_uid"].iter();
        names.all(|name| line.labels.get_ignore_case(name).is_some())
    };
    let is_odd = |device: &u32| {
        let of = &layout.devices[*device as usize];
        let mut lines = layout.lines_of(*device).iter().filter_map(line);
        of.device.instance.is_some() || of.has_instances || lines.any(is_part)
    };
    if question.is_narrowed || devices.iter().any(is_odd) {
        return None;
    }
    let all = devices.iter().copied();
    let behind = only(all.clone().map(|it| snapshot.holdings.behind(it)))?;
    let fresh_ms = only(all.clone().map(|it| Some(snapshot.times(it)?.fresh_ms)))??;
    let shown = Inputs::of(question.measure).shown_by().next()?;
    let signal = only(all.map(|it| snapshot.signal_of(it, shown)))?;
    let rows = devices.iter().flat_map(|it| layout.lines_of(*it));
    let owners = rows.filter_map(|row| line(row)?.claim.owner.as_ref());
    let owners: BTreeSet<&OwnerLabels> = owners.map(|owner| owner.by).collect();
    let counts = Counts::of(*question.measure);
    if owners.len() > 1 || shown == DeviceValue::MemoryUsedPercent {
        return None;
    }
    let by = owners.first().copied().unwrap_or(&OWNERS[0]);
    let matchers = matchers(question, snapshot, by)?.join(",");
    let series = format!("{}{{{matchers}}}", signal.series_name()?);
    let gpus = gpus(signal, &series, fresh_ms);
    let number = number(counts, &gpus);
    let step = Duration::from_millis(snapshot.frame.step_ms.unsigned_abs());
    // Prometheus 2 includes the left end of a range, so it is a millisecond shorter.
    let range = window_ms(policy, question.window.map(millis)) - 1;
    Some(Promql {
        query: format!(
            "avg_over_time((\n  {number}\n)[{range}ms:{}])",
            format_duration(step)
        ),
        time: instant_time(last - behind, snapshot.frame.step_ms).to_string(),
    })
}

/// The item, if all are equal.
fn only<T: PartialEq>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.all(|it| it == first).then_some(first)
}

/// The valid and fresh readings of a signal, one for each device: the largest.
fn gpus(signal: SignalId, series: &str, fresh_ms: i64) -> String {
    let valid = match signal.unit() {
        Unit::Percent => format!("{series} >= 0 <= 100"),
        Unit::Ratio => format!("100 * clamp_max({series} >= 0 <= 1.2, 1)"),
        Unit::Watts => format!("{series} >= 0 < 1e6"),
        Unit::Mebibytes | Unit::Plain => format!("{series} >= 0 < 1e8"),
    };
    let fresh = seconds(fresh_ms);
    format!("max by (UUID) (\n    ({valid}) and (timestamp({series}) > time() - {fresh}))")
}

/// The object's number at an instant.
fn number(counts: Counts, gpus: &str) -> String {
    let name = match counts.reducer {
        _ if counts.of_held => "count",
        Reducer::Mean => "avg",
        Reducer::Sum => "sum",
        Reducer::Max => "max",
    };
    match counts.active {
        Some(true) => format!("{name}({gpus} > 0)\n  or max({gpus}) * 0"),
        Some(false) => format!("{name}({gpus} == 0)\n  or max({gpus}) * 0"),
        None => format!("{name}({gpus})"),
    }
}

/// `exported_namespace="ml"`, `exported_pod=~"a|b"`.
fn matchers(question: &Question<'_>, snapshot: &Snapshot, by: &OwnerLabels) -> Option<Vec<String>> {
    let (object, layout) = (question.object, &snapshot.layout);
    let has_few = object.members.len() <= MOST_DEVICES;
    let mut matchers = Vec::new();
    match &object.namespace {
        Some(namespace) if has_few => {
            let claims = object.members.iter().filter_map(|member| member.claim);
            let pods = claims.map(|claim| layout.claims[claim as usize].pod as usize);
            let pods: BTreeSet<&str> = pods.map(|pod| &*layout.pods[pod].pod.name).collect();
            matchers.push(equals(by.namespace, namespace));
            matchers.push(format!("{}=~{}", by.pod, any_of(pods)));
        }
        None if !object.is_place => matchers.push(equals(by.namespace, &object.name)),
        None if object.name.is_empty() => {}
        None if has_few => {
            let devices = object.members.iter().map(|it| it.device as usize);
            let uuids = devices.map(|device| &layout.devices[device].device.uuid);
            matchers.push(format!("UUID=~{}", any_of(uuids)));
        }
        _ => return None,
    }
    if object.is_place && Counts::of(*question.measure).of_held {
        matchers.push(format!("{}!=\"\"", by.pod));
    }
    Some(matchers)
}

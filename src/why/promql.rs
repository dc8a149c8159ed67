//! The PromQL that gives a group's number (docs/numbers.md, "The same number in
//! PromQL").

use std::collections::BTreeSet;

use crate::core::aggregate::Reasons;
use crate::core::policy::{Activity, DeviceValue, Formula, Measure, Over, Reducer};
use crate::core::promql::{quote, quote_regex};
use crate::core::series::Scheme;
use crate::core::signal::SignalId;
use crate::core::snapshot::Snapshot;

use super::Promql;
use super::of_group::{Question, field};

/// What no query can say.
const LEFT_OUT: &str = "devices that should have answered, pods that were replaced, and samples that were written \
                        after this answer";

/// More names than this are not written into a query.
const MOST_NAMES: usize = 64;

/// How the series of a group are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selected<'a> {
    /// One pod of a namespace.
    Pod(&'a str, &'a str),
    /// The pods of a namespace that are the group's.
    PodsOf(&'a str),
    /// All pods of a namespace.
    Namespace(&'a str),
    /// The group's devices.
    Devices,
    /// Everything.
    All,
}

impl<'a> Selected<'a> {
    /// The namespace that was asked in: pods of others are never named.
    pub(super) const fn namespace(self) -> Option<&'a str> {
        match self {
            Self::Pod(namespace, _) | Self::PodsOf(namespace) | Self::Namespace(namespace) => {
                Some(namespace)
            }
            Self::Devices | Self::All => None,
        }
    }
}

/// The query, if it can be written.
pub(super) fn same(
    question: &Question<'_>,
    reasons: &Reasons<'_>,
    snapshot: &Snapshot,
) -> Option<Promql> {
    if !is_plain(reasons) {
        return None;
    }
    let first = reasons.devices.first()?;
    let matchers = matchers(question.selected, is_of_held(question.measure), reasons)?;
    let hold_ms = reasons
        .devices
        .iter()
        .map(|device| device.intervals_ms[2])
        .max()?;
    let fresh = |signal: SignalId| fresh(signal, &matchers, hold_ms);
    let number = match question.measure {
        Measure::OriginalAverage => return None,
        Measure::HeldCount => format!("count({})", each(&fresh(SignalId::MEM_COPY_UTIL)?)),
        Measure::ActiveCount => counted(&each(&fresh(shown(first.signal))?), "> 0"),
        Measure::IdleCount => counted(&each(&fresh(shown(first.signal))?), "== 0"),
        Measure::Devices {
            value: DeviceValue::MemoryUsedPercent,
            ..
        } => {
            let sum = |signal| Some(format!("sum({})", each(&fresh(signal)?)));
            let used = sum(SignalId::FB_USED)?;
            let (free, reserved) = (sum(SignalId::FB_FREE)?, sum(SignalId::FB_RESERVED)?);
            format!("100 * {used}\n  / ({used} + {free}\n     + ({reserved} or vector(0)))")
        }
        Measure::Devices { reducer, over, .. } => {
            let devices = each(&fresh(first.signal?)?);
            reduced(reducer, *over == Over::Active, &devices)
        }
    };
    let step_ms = snapshot.frame().step_ms();
    let range = reasons.instants.len() as i64 * step_ms - 1;
    let last = reasons.instants.last()?.at;
    Some(Promql {
        query: over_window(question, &number, range, step_ms),
        time: last.to_string(),
        leaves_out: leaves_out(question, snapshot),
    })
}

/// Whether a short query says the same: no MIG instances, no parts of processes,
/// one way of naming pods.
fn is_plain(reasons: &Reasons<'_>) -> bool {
    let rows = || reasons.devices.iter().flat_map(|device| &device.rows);
    let held = || rows().filter(|facts| facts.standing.was_held());
    let scheme = held().next().and_then(|facts| facts.row.scheme);
    let odd = rows().any(|facts| facts.is_mig || facts.has_instances || facts.row.per_process);
    !odd && held().all(|facts| facts.row.scheme == scheme)
}

fn over_window(question: &Question<'_>, number: &str, range_ms: i64, step_ms: i64) -> String {
    let is_mean = matches!(
        question.measure,
        Measure::Devices {
            reducer: Reducer::Mean,
            ..
        }
    );
    if is_mean && question.formula == Formula::ActiveInstants {
        // Without the second half of `or` an instant without active devices is none.
        let active = number.split("\n  or ").next().unwrap_or(number);
        return format!("avg_over_time((\n  {active}\n)[{range_ms}ms:{step_ms}ms])");
    }
    format!("avg_over_time((\n  {number}\n)[{range_ms}ms:{step_ms}ms])")
}

fn leaves_out(question: &Question<'_>, snapshot: &Snapshot) -> Option<String> {
    let formula = matches!(question.formula, Formula::SampleWeighted | Formula::Plain)
        && matches!(
            question.measure,
            Measure::Devices {
                reducer: Reducer::Mean,
                over: Over::Active,
                ..
            }
        );
    if formula {
        return Some(format!(
            "the formula {}: the query gives mean-of-instants",
            question.formula.name()
        ));
    }
    if snapshot.policy().activity != Activity::OwnValueAboveZero {
        return Some("gpu.active as it is set: the query takes a device for active when its own value is above 0".to_owned());
    }
    Some(LEFT_OUT.to_owned())
}

fn shown(signal: Option<SignalId>) -> SignalId {
    signal.unwrap_or(SignalId::MEM_COPY_UTIL)
}

/// Each device once.
fn each(fresh: &str) -> String {
    format!("max by (UUID, GPU_I_ID) (\n    {fresh})")
}

fn counted(devices: &str, condition: &str) -> String {
    format!("count({devices} {condition})\n  or max({devices}) * 0")
}

fn reduced(reducer: &Reducer, active: bool, devices: &str) -> String {
    let name = match reducer {
        Reducer::Mean => "avg(".to_owned(),
        Reducer::Sum => "sum(".to_owned(),
        Reducer::Max => "max(".to_owned(),
        Reducer::Min => "min(".to_owned(),
        Reducer::Quantile(q) => format!("quantile({q}, "),
    };
    match active {
        true => format!("{name}{devices} > 0)\n  or max({devices}) * 0"),
        false => format!("{name}{devices})"),
    }
}

/// The readings of a signal that count: in range and fresh.
fn fresh(signal: SignalId, matchers: &str, hold_ms: i64) -> Option<String> {
    let series = format!("{}{matchers}", field(signal)?);
    let in_range = match signal {
        SignalId::MEM_COPY_UTIL | SignalId::GPU_UTIL => format!("{series} >= 0 <= 100"),
        SignalId::DRAM_ACTIVE | SignalId::GR_ENGINE_ACTIVE => {
            format!("100 * clamp_max({series} >= 0 <= 1.2, 1)")
        }
        SignalId::POWER_USAGE => format!("{series} >= 0 < 1e6"),
        _ => format!("{series} >= 0 < 1e8"),
    };
    let hold = hold_ms as f64 / 1000.0;
    Some(format!(
        "({in_range}) and (timestamp({series}) > time() - {hold})"
    ))
}

/// Whether a measure is about devices that pods hold.
const fn is_of_held(measure: &Measure) -> bool {
    match measure {
        Measure::HeldCount | Measure::ActiveCount | Measure::IdleCount => true,
        Measure::Devices { over, .. } => matches!(over, Over::Held),
        Measure::OriginalAverage => false,
    }
}

/// `{exported_namespace="ml",exported_pod=~"a|b"}`.
fn matchers(selected: Selected<'_>, of_held: bool, reasons: &Reasons<'_>) -> Option<String> {
    let rows = || reasons.devices.iter().flat_map(|device| &device.rows);
    let mut held = rows().filter(|facts| facts.standing.was_held());
    let scheme = held.find_map(|facts| facts.row.scheme);
    let (namespace_label, pod_label) = labels(scheme.unwrap_or(Scheme::Exported));
    let of_namespace = |namespace: &str| format!("{namespace_label}={}", quote(namespace));
    let held = of_held.then(|| format!("{pod_label}!=\"\""));
    let mut matchers = match selected {
        Selected::All => Vec::new(),
        Selected::Namespace(namespace) => vec![of_namespace(namespace)],
        Selected::Pod(namespace, pod) => {
            vec![
                of_namespace(namespace),
                format!("{pod_label}={}", quote(pod)),
            ]
        }
        Selected::PodsOf(namespace) => {
            let owners = rows().filter_map(|facts| facts.row.owner.as_ref());
            let pods = any_of(owners.map(|owner| owner.pod.to_string()))?;
            vec![of_namespace(namespace), format!("{pod_label}=~{pods}")]
        }
        Selected::Devices => {
            let rows = rows().filter(|facts| !of_held || facts.standing.was_held());
            let devices = any_of(rows.map(|facts| facts.row.device.uuid.to_string()))?;
            vec![format!("UUID=~{devices}")]
        }
    };
    if matches!(selected, Selected::All | Selected::Devices) {
        matchers.extend(held);
    }
    let matchers = matchers.join(",");
    Some(match matchers.is_empty() {
        true => matchers,
        false => format!("{{{matchers}}}"),
    })
}

fn any_of(names: impl Iterator<Item = String>) -> Option<String> {
    let names: BTreeSet<String> = names.map(|name| quote_regex(&name)).collect();
    let few = names.len() <= MOST_NAMES;
    let joined = names.into_iter().collect::<Vec<_>>().join("|");
    few.then(|| quote(&joined))
}

/// The labels of a scheme that name namespace and pod.
const fn labels(scheme: Scheme) -> (&'static str, &'static str) {
    match scheme {
        Scheme::Exported => ("exported_namespace", "exported_pod"),
        Scheme::Legacy => ("pod_namespace", "pod_name"),
        Scheme::Mixed => ("exported_namespace", "pod"),
        Scheme::Bare => ("namespace", "pod"),
    }
}

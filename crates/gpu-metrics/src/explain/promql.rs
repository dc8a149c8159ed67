//! The PromQL that computes a group's number (docs/numbers.md, "The same number in
//! PromQL").

use std::collections::BTreeSet;
use std::time::Duration;

use crate::aggregate::Reasons;
use crate::grid::instant_time;
use crate::policy::{Activity, DeviceValue, Formula, Measure, Over, Reducer};
use crate::series::Scheme;
use crate::signal::{SignalId, Unit};
use crate::snapshot::Snapshot;
use apimachinery::duration::format_duration;
use apimachinery::promql::{any_of, equals};

use super::question::{Question, Selected, field};
use super::{Promql, seconds};

/// What no query can express.
const LEFT_OUT: &str = "devices that should have answered, failed scrapes, which end a series at once, pods \
                        that were replaced, prometheus.matchers of the configuration, and samples that were \
                        written after this answer";

/// Why there is no query.
const NOT_SHORT: &str =
    "its devices have MIG instances, parts of processes or several ways of naming pods";
const TOO_MANY: &str = "it would have to list too many names";
const NARROWED: &str = "the metric selector restricts its devices by labels";
const MIXED: &str = "its devices are read from different fields";
const NO_DEVICE: &str = "no device contributes to it";
const NOT_BUILT_IN: &str = "the name of its field is not known here";
const ORIGINAL: &str = "see docs/numbers.md, \"The original's number\"";

/// The most names in a query.
const MOST_NAMES: usize = 64;

impl<'a> Selected<'a> {
    /// The namespace of the request: pods of other namespaces are never named.
    pub(super) const fn namespace(self) -> Option<&'a str> {
        match self {
            Self::Pod(namespace, _) | Self::PodsOf(namespace) | Self::Namespace(namespace) => {
                Some(namespace)
            }
            Self::Devices | Self::All => None,
        }
    }
}

/// The query, or why there is none.
pub(super) fn same(
    question: &Question<'_>,
    reasons: &Reasons<'_>,
    snapshot: &Snapshot,
) -> Result<Promql, &'static str> {
    if question.has_labels {
        return Err(NARROWED);
    }
    if !is_plain(reasons) {
        return Err(NOT_SHORT);
    }
    let signals = reasons.devices.iter().filter_map(|device| device.signal);
    let signals: BTreeSet<SignalId> = signals.collect();
    if signals.len() > 1 {
        return Err(MIXED);
    }
    if reasons.devices.is_empty() {
        return Err(NO_DEVICE);
    }
    let matchers = matchers(question, reasons)?;
    let fresh_ms = reasons.devices.iter().map(|device| device.fresh_ms);
    let fresh_ms = fresh_ms.max().unwrap_or_default();
    let fresh = |signal: SignalId| fresh(signal, &matchers, fresh_ms);
    let number = number(question.measure, signals.first().copied(), fresh)?;
    let step_ms = snapshot.frame().step_ms();
    let last = instant_time(reasons.span.last, step_ms);
    Ok(Promql {
        query: over_window(question, &number, (reasons.span.window_ms, step_ms)),
        time: last.to_string(),
        leaves_out: leaves_out(question, snapshot),
    })
}

/// The group's number at an instant; `fresh` gives the readings of a field.
fn number(
    measure: &Measure,
    read: Option<SignalId>,
    fresh: impl Fn(SignalId) -> Option<String>,
) -> Result<String, &'static str> {
    let devices = |signal: SignalId| Some(each(&fresh(signal)?));
    let shown = read.unwrap_or(SignalId::MEM_COPY_UTIL);
    let number = match measure {
        Measure::OriginalAverage => return Err(ORIGINAL),
        Measure::HeldCount => devices(shown).map(|it| format!("count({it})")),
        Measure::ActiveCount => devices(shown).map(|it| counted(&it, "> 0")),
        Measure::IdleCount => devices(shown).map(|it| counted(&it, "== 0")),
        Measure::Devices {
            value: DeviceValue::MemoryUsedPercent,
            ..
        } => share(|signal| Some(format!("sum({})", devices(signal)?))),
        Measure::Devices { reducer, over, .. } => read
            .and_then(devices)
            .map(|it| reduced(reducer, *over == Over::Active, &it)),
    };
    number.ok_or(NOT_BUILT_IN)
}

/// The share of the framebuffer that is in use, percent.
fn share(sum: impl Fn(SignalId) -> Option<String>) -> Option<String> {
    let used = sum(SignalId::FB_USED)?;
    let (free, reserved) = (sum(SignalId::FB_FREE)?, sum(SignalId::FB_RESERVED)?);
    Some(format!(
        "100 * {used}\n  / ({used} + {free}\n     + ({reserved} or vector(0)))"
    ))
}

/// Whether a short query computes the same number: there are no MIG instances, no shares
/// of processes, and one scheme of owner labels.
fn is_plain(reasons: &Reasons<'_>) -> bool {
    let rows = || reasons.devices.iter().flat_map(|device| &device.rows);
    let held = || rows().filter(|facts| facts.attribution.was_held());
    let scheme = held().next().and_then(|facts| facts.row.label_facts.scheme);
    let odd = rows()
        .any(|facts| facts.is_mig || facts.has_instances || facts.row.label_facts.per_process);
    !odd && held().all(|facts| facts.row.label_facts.scheme == scheme)
}

/// The mean over the window. Prometheus 2 includes the left end of a range, so the range
/// is a millisecond shorter.
fn over_window(question: &Question<'_>, number: &str, (window_ms, step_ms): (i64, i64)) -> String {
    let is_mean = matches!(
        question.measure,
        Measure::Devices {
            reducer: Reducer::Mean,
            ..
        }
    );
    let without_idle = is_mean && question.formula == Formula::ActiveInstants;
    // Without the second half of `or`, an instant without active devices is undefined.
    let number = match number.split_once("\n  or ") {
        Some((active, _)) if without_idle => active,
        _ => number,
    };
    let step = Duration::from_millis(step_ms.unsigned_abs());
    let (range, step) = (window_ms - 1, format_duration(step));
    format!("avg_over_time((\n  {number}\n)[{range}ms:{step}])")
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
        return Some("the configured gpu.active: the query treats a device as active if its own value is above 0".to_owned());
    }
    Some(LEFT_OUT.to_owned())
}

/// One reading for each device: the largest.
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

/// Whether a measure covers devices that pods hold.
const fn is_of_held(measure: &Measure) -> bool {
    match measure {
        Measure::HeldCount | Measure::ActiveCount | Measure::IdleCount => true,
        Measure::Devices { over, .. } => matches!(over, Over::Held),
        Measure::OriginalAverage => false,
    }
}

/// `{exported_namespace="ml",exported_pod=~"a|b",modelName="H100"}`.
fn matchers(question: &Question<'_>, reasons: &Reasons<'_>) -> Result<String, &'static str> {
    let of_held = is_of_held(question.measure);
    let rows = || reasons.devices.iter().flat_map(|device| &device.rows);
    let mut held = rows().filter(|facts| facts.attribution.was_held());
    let scheme = held.find_map(|facts| facts.row.label_facts.scheme);
    let (namespace_label, pod_label) = labels(scheme.unwrap_or(Scheme::Exported));
    let of_namespace = |namespace: &str| equals(namespace_label, namespace);
    let mut matchers = match question.selected {
        Selected::All => Vec::new(),
        Selected::Namespace(namespace) => vec![of_namespace(namespace)],
        Selected::Pod(namespace, pod) => {
            vec![of_namespace(namespace), equals(pod_label, pod)]
        }
        Selected::PodsOf(namespace) => {
            let owners = rows().filter_map(|facts| facts.row.owner.as_ref());
            let pods = few(owners.map(|owner| owner.pod.to_string()))?;
            vec![of_namespace(namespace), format!("{pod_label}=~{pods}")]
        }
        Selected::Devices => {
            let rows = rows().filter(|facts| !of_held || facts.attribution.was_held());
            let devices = few(rows.map(|facts| facts.row.device.uuid.to_string()))?;
            vec![format!("UUID=~{devices}")]
        }
    };
    if of_held && matches!(question.selected, Selected::All | Selected::Devices) {
        matchers.push(format!("{pod_label}!=\"\""));
    }
    let matchers = matchers.join(",");
    Ok(match matchers.is_empty() {
        true => matchers,
        false => format!("{{{matchers}}}"),
    })
}

/// [`any_of`] for names, if they are few enough for a query.
fn few(names: impl Iterator<Item = String>) -> Result<String, &'static str> {
    let names: BTreeSet<String> = names.collect();
    match names.len() <= MOST_NAMES {
        true => Ok(any_of(&names)),
        false => Err(TOO_MANY),
    }
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

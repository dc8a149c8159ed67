//! The instants of a value, and whether a query can compute the value.

use std::collections::BTreeSet;
use std::time::Duration;

use apimachinery::time::Timestamp;
use gpu_metrics::aggregate::{Outcome, ReadingOutcome, Reasons};
use gpu_metrics::layout::{Attribution, Object, RowFacts};
use gpu_metrics::policy::{DeviceValue, Formula, Measure, MetricSpec, Over, Reducer};
use gpu_metrics::signal::SignalId;
use gpu_metrics::snapshot::Snapshot;

/// A device as a query names it: UUID and MIG instance.
pub(super) type Named = (String, String);

/// The facts about a group that decide whether a query can compute its number.
pub(super) struct PromqlScope {
    /// The last instant of its window, as a number on the grid.
    pub(super) last: i64,
    pub(super) instants: i64,
    pub(super) window_ms: i64,
    /// Its devices.
    pub(super) devices: BTreeSet<Named>,
    /// Whether no device has a reading in the window.
    pub(super) is_silent: bool,
    /// Whether no query can compute its number.
    pub(super) is_not_computable: bool,
}

impl PromqlScope {
    /// `None` if the group's targets have no samples. `fresh_ms` is the F of the query.
    pub(super) fn new(
        snapshot: &Snapshot,
        group: &Object,
        (metric, formula, window): (&MetricSpec, Formula, Duration),
        fresh_ms: i64,
    ) -> Option<Self> {
        let measure = shown(&metric.measure);
        let reasons = snapshot.reasons(group, &measure, Some(formula), Some(window))?;
        let rows = || reasons.devices.iter().flat_map(|device| &device.rows);
        let named = |row: &&RowFacts| {
            let instance = row.row.device.instance.as_deref();
            (
                row.row.device.uuid.to_string(),
                instance.unwrap_or_default().to_owned(),
            )
        };
        Some(Self {
            last: reasons.span.last,
            instants: reasons.span.last - reasons.span.first + 1,
            window_ms: reasons.span.window_ms,
            devices: rows().map(named).collect(),
            is_silent: reasons.instants.iter().all(|it| it.answering == 0),
            is_not_computable: misses(&metric.measure, &reasons)
                || is_in_parts(&metric.measure, &reasons)
                || reasons.devices.iter().any(|it| it.fresh_ms != fresh_ms)
                || rows().any(|row| is_replaced(snapshot, row))
                || is_count(&metric.measure) && rows().any(|row| has_lost_labels(snapshot, row)),
        })
    }
}

/// The same devices with a measure that has reasons; the original's measure has none.
fn shown(measure: &Measure) -> Measure {
    match measure {
        Measure::OriginalAverage => Measure::Devices {
            value: DeviceValue::Signal(SignalId::MEM_COPY_UTIL),
            reducer: Reducer::Mean,
            over: Over::All,
        },
        other => *other,
    }
}

const fn is_used_percent(measure: &Measure) -> bool {
    matches!(
        measure,
        Measure::Devices {
            value: DeviceValue::MemoryUsedPercent,
            ..
        }
    )
}

/// Whether missing devices change the number. A query treats the reserved part of a
/// framebuffer as 0 if there is no current reading.
fn misses(measure: &Measure, reasons: &Reasons<'_>) -> bool {
    let mut answered = reasons.instants.iter().filter(|it| it.answering > 0);
    let mut outcomes = reasons.devices.iter().flat_map(|device| &device.outcomes);
    let is_silent = |(state, _): &Outcome| {
        matches!(
            state,
            ReadingOutcome::Missing | ReadingOutcome::Lost | ReadingOutcome::NoReading
        )
    };
    match measure {
        Measure::OriginalAverage => false,
        Measure::HeldCount => answered.any(|it| it.missing > 0),
        percent if is_used_percent(percent) && outcomes.any(is_silent) => true,
        _ => answered.any(|it| it.number.is_none()),
    }
}

/// Whether the value adds up parts that exporters print for each process.
fn is_in_parts(measure: &Measure, reasons: &Reasons<'_>) -> bool {
    let Measure::Devices { value, .. } = measure else {
        return false;
    };
    let is_split = matches!(
        value,
        DeviceValue::GpuUtilization | DeviceValue::MemoryUsed | DeviceValue::MemoryUsedPercent
    );
    is_split
        && reasons.devices.iter().any(|device| {
            let several = device.rows.len() > 1 || is_used_percent(measure);
            several
                && device
                    .rows
                    .iter()
                    .any(|row| row.row.label_facts.per_process)
        })
}

/// Whether a new device replaced the device of a row: a query counts both.
fn is_replaced(snapshot: &Snapshot, row: &RowFacts) -> bool {
    let layout = snapshot.layout();
    let heard = |device: u32| {
        let rows = layout.device_rows(device).iter();
        rows.filter_map(|row| snapshot.frame().sample_times(*row))
    };
    let newest = heard(row.device).map(|heard| heard.newest).max();
    let mut slot_peers = layout.slot_peers_of(row.device).iter();
    slot_peers.any(|rival| heard(*rival).map(|heard| heard.first).min() > newest)
}

const fn is_count(measure: &Measure) -> bool {
    matches!(
        measure,
        Measure::HeldCount | Measure::ActiveCount | Measure::IdleCount
    )
}

/// Whether a row's device was reported without a pod while a live pod held it. The server
/// counts it as held, but a query depends on the labels.
fn has_lost_labels(snapshot: &Snapshot, row: &RowFacts) -> bool {
    let layout = snapshot.layout();
    let rows = layout.device_rows(row.device).iter();
    let facts = rows.filter_map(|row| layout.fact(*row));
    let of = |attribution: Attribution| {
        facts
            .clone()
            .filter(move |it| it.attribution == attribution)
    };
    let heard = |facts: &RowFacts| snapshot.frame().sample_times(facts.id);
    let bare = of(Attribution::Unheld).filter_map(|it| Some(heard(it)?.newest));
    let held = of(Attribution::Held).filter(|it| !it.row.label_facts.per_process);
    let held = held.filter_map(|it| Some(heard(it)?.first.max(it.started)));
    held.min().is_some_and(|since| bare.max() >= Some(since))
}

/// Whether there are readings of deleted pods.
pub(super) fn some_went(snapshot: &Snapshot) -> bool {
    let first = |row: &RowFacts| {
        let heard = snapshot.frame().sample_times(row.id);
        heard.map_or(Timestamp::MAX, |heard| heard.first)
    };
    let mut rows = snapshot.layout().facts().flatten();
    rows.any(|row| row.attribution == Attribution::Gone || first(row) < row.started)
}

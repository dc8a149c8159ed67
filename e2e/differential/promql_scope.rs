//! The instants of a value, and whether a query can compute the value.

use std::collections::BTreeSet;
use std::time::Duration;

use apimachinery::time::{Timestamp, millis};
use gpu_metrics::explain::{Explanation, Instant, Question};
use gpu_metrics::grid::RowId;
use gpu_metrics::layout::{Claim, Object};
use gpu_metrics::line::Line;
use gpu_metrics::policy::{DeviceValue, Measure, MetricSpec, Over, Reducer};
use gpu_metrics::signal::SignalId;
use gpu_metrics::snapshot::Snapshot;

use super::stage::AHEAD;

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
    /// `None` if the group has no devices. `fresh_ms` is the F of the query.
    pub(super) fn new(
        snapshot: &Snapshot,
        group: &Object,
        (metric, window): (&MetricSpec, Duration),
        fresh_ms: i64,
    ) -> Option<Self> {
        let measure = shown(&metric.measure);
        let explanation = snapshot.explain(&Question {
            object: group,
            measure: &measure,
            window: Some(window),
            is_narrowed: false,
            names_pods: false,
            now: snapshot.frame.now,
        });
        let of = explanation.window.as_ref()?;
        let end = Timestamp::from_date(&of.end)?;
        let members = group.members.iter().map(|member| member.device);
        let members: BTreeSet<u32> = members.collect();
        let devices = || members.iter().copied();
        let named = |device: u32| {
            let of = &snapshot.layout.devices[device as usize].device;
            let instance = of.instance.as_deref().unwrap_or_default();
            (of.uuid.to_string(), instance.to_owned())
        };
        let since = end - window - Duration::from_millis(fresh_ms.unsigned_abs());
        let by_labels = !group.is_place || is_count(&metric.measure);
        let is_node = group.is_place && !group.name.is_empty();
        let all = || (0..).take(snapshot.layout.devices.len());
        Some(Self {
            last: end.millis() / snapshot.frame.step_ms,
            instants: i64::try_from(explanation.instants.len()).unwrap(),
            window_ms: (of.seconds * 1000.0) as i64,
            devices: devices().map(named).collect(),
            is_silent: explanation.instants.iter().all(|it| it.answering == 0),
            is_not_computable: misses(&metric.measure, &explanation)
                || has_several_ends(snapshot, devices(), since)
                || devices().any(|it| snapshot.times(it).is_none_or(|it| it.fresh_ms != fresh_ms))
                || devices().any(|it| has_several_readings(snapshot, it, since))
                || is_node && all().any(|it| names_a_successor(snapshot, it, since))
                || by_labels && devices().any(|it| has_changed(snapshot, it, since)),
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
fn misses(measure: &Measure, explanation: &Explanation) -> bool {
    let mut instants = explanation.instants.iter();
    let mut answered = instants.clone().filter(|it| it.answering > 0);
    let is_silent = |it: &Instant| (it.answering as usize) < explanation.device_count;
    match measure {
        Measure::OriginalAverage => false,
        Measure::HeldCount => answered.any(|it| it.missing > 0),
        percent if is_used_percent(percent) && instants.any(is_silent) => true,
        _ => answered.any(|it| it.number.is_none()),
    }
}

const fn is_count(measure: &Measure) -> bool {
    matches!(
        measure,
        Measure::HeldCount | Measure::ActiveCount | Measure::IdleCount
    )
}

/// Whether series since a time name a field of a device in several ways, of which the server
/// reads the first.
fn has_several_readings(snapshot: &Snapshot, device: u32, since: Timestamp) -> bool {
    let rows = recent_rows(snapshot, device, since);
    let ranks = rows.map(|row| snapshot.frame.times[row.0 as usize].rank);
    ranks.collect::<BTreeSet<_>>().len() > 1
}

/// Whether series since a time have sources whose windows end at different times.
fn has_several_ends(
    snapshot: &Snapshot,
    devices: impl Iterator<Item = u32>,
    since: Timestamp,
) -> bool {
    let frame = &snapshot.frame;
    let end_of = |row: &RowId| {
        let source = frame.times[row.0 as usize].source;
        let lag_ms = frame.sources.all()[usize::from(source.0)].lag_ms;
        let end_ms = frame.now.millis() - lag_ms + millis(AHEAD);
        end_ms.div_euclid(frame.step_ms)
    };
    let rows = devices.flat_map(|device| recent_rows(snapshot, device, since));
    rows.map(end_of).collect::<BTreeSet<_>>().len() > 1
}

/// Whether series since a time name no node and a pod that started after their first
/// samples: a query does not know the node of the earlier pod of the same name.
fn names_a_successor(snapshot: &Snapshot, device: u32, since: Timestamp) -> bool {
    let (layout, frame) = (&snapshot.layout, &snapshot.frame);
    let mut rows = recent_rows(snapshot, device, since);
    rows.any(|row| {
        let line = layout.lines[row.0 as usize].as_ref();
        let line = line.filter(|line| !line.names_node);
        let owner = line.and_then(|line| line.claim.owner.as_ref());
        let pod = owner.and_then(|it| layout.inventory.pod(&it.namespace, &it.pod));
        let started = pod.and_then(|pod| pod.started);
        started.is_some_and(|started| frame.times[row.0 as usize].first < started)
    })
}

/// Whether the holder of a device is another one than all its series since a time name: a
/// query depends on the labels of each reading.
fn has_changed(snapshot: &Snapshot, device: u32, since: Timestamp) -> bool {
    let layout = &snapshot.layout;
    let owner = |line: &Line| {
        let owner = line.claim.owner.as_ref()?;
        Some((owner.namespace.clone(), owner.pod.clone()))
    };
    let lines = recent_rows(snapshot, device, since);
    let lines = lines.filter_map(|row| layout.lines[row.0 as usize].as_deref());
    let named: BTreeSet<_> = lines.map(owner).collect();
    let is_recent = |claim: &Claim| {
        let mut rows = claim.lines.iter();
        rows.any(|row| snapshot.frame.times[row.0 as usize].newest >= since)
    };
    let claims = layout.claims_of(device);
    let mut claims = claims.map(|claim| &layout.claims[claim as usize]);
    let is_other = claims.any(|claim| {
        let pod = &layout.pods[claim.pod as usize];
        let holds_fewer = pod
            .requested
            .is_some_and(|it| pod.claims.len() > it as usize);
        pod.is_live != is_recent(claim) || (pod.is_live && holds_fewer)
    });
    named.len() > 1 || is_other
}

fn recent_rows(snapshot: &Snapshot, device: u32, since: Timestamp) -> impl Iterator<Item = &RowId> {
    let rows = snapshot.layout.lines_of(device).iter();
    rows.filter(move |row| snapshot.frame.times[row.0 as usize].newest >= since)
}

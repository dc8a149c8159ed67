//! Turns the evaluator's reasons into an explanation.

use crate::metric::Value;
use crate::policy::{DeviceValue, Measure, Over, Reducer};
use crate::reasons::Reasons;
use crate::signal::SignalId;
use crate::snapshot::Snapshot;
use apimachinery::time::Timestamp;

use super::device::describe;
use super::promql;
use super::{
    ExplainedValue, Explanation, Question, ReadingOutcome, Selected, Window, field, seconds,
};

/// The most devices listed; further ones are counted.
const MOST_DEVICES: usize = 256;

impl Explanation {
    /// Explains the value of a group. `value` is the served value, `no_value` the message
    /// where there is none.
    #[must_use]
    pub fn of_group(
        question: &Question<'_>,
        snapshot: &Snapshot,
        reasons: Option<&Reasons>,
        (value, no_value): (Option<Value>, Option<String>),
    ) -> Self {
        let mut explanation = Self {
            metric: question.metric.to_owned(),
            of: question.of.to_owned(),
            meaning: meaning(question.measure),
            value: value.map(|value| ExplainedValue::of(&value, question.now)),
            no_value,
            ..Self::default()
        };
        let Some(reasons) = reasons else {
            return explanation;
        };
        explanation.window = Some(window(reasons, snapshot));
        explanation.instants.clone_from(&reasons.instants);
        let named = question.selected != Selected::All;
        let shown = reasons
            .devices
            .iter()
            .take(if named { MOST_DEVICES } else { 0 });
        explanation.device_count = reasons.devices.len();
        explanation.devices = shown
            .map(|device| describe(question, snapshot, device))
            .collect();
        explanation.notes = notes(reasons, named);
        match promql::same(question, reasons, snapshot) {
            Ok(query) => explanation.promql = Some(query),
            Err(why) => explanation
                .notes
                .push(format!("no PromQL is shown for this number: {why}")),
        }
        explanation
    }
}

impl ExplainedValue {
    /// A value as it is served at `now`.
    #[must_use]
    pub fn of(value: &Value, now: Timestamp) -> Self {
        let until = Some(value.fresh_until).filter(|until| *until < Timestamp::MAX);
        Self {
            number: value.value,
            timestamp: value.at.date(),
            age_seconds: seconds(now.millis() - value.at.millis()),
            served_until: until.map(Timestamp::date),
            window_seconds: value.window_secs,
        }
    }
}

fn window(reasons: &Reasons, snapshot: &Snapshot) -> Window {
    let numbers = reasons.instants.iter().filter(|it| it.number.is_some());
    Window {
        seconds: seconds(reasons.window_ms),
        step_seconds: seconds(snapshot.frame.step_ms),
        end: reasons.end.date(),
        lag_seconds: seconds(reasons.lag_ms),
        defined: u32::try_from(numbers.count()).unwrap_or(u32::MAX),
    }
}

/// What was left out, and why.
fn notes(reasons: &Reasons, named: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let devices = reasons.devices.len();
    let at_end = |wanted: ReadingOutcome| {
        let last = reasons.devices.iter();
        let last = last.filter_map(|device| device.readings.last());
        last.filter(|it| it.state == wanted).count()
    };
    let times = reasons.devices.iter().filter_map(|device| device.times);
    let frozen = times.filter(|times| times.frozen_since.is_some());
    for (count, what) in [
        (
            at_end(ReadingOutcome::Missing),
            "should have a reading but have none: sums and counts of active and idle GPUs have no value if more than a tenth is missing, and means if more than half is missing or the missing ones may change the mean by more than a tenth",
        ),
        (
            at_end(ReadingOutcome::ActivityUnknown),
            "have readings, but not of the field that decides whether they are active",
        ),
        (
            frozen.count(),
            "have readings that do not change: they are treated as unknown",
        ),
    ] {
        if count > 0 {
            notes.push(format!("{count} of {devices} devices {what}"));
        }
    }
    if !named && devices > 0 {
        notes.push(format!(
            "devices counted and not listed: {devices}, because their pods are in other namespaces too"
        ));
    } else if devices > MOST_DEVICES {
        notes.push(format!(
            "more devices counted and not listed: {}",
            devices - MOST_DEVICES
        ));
    }
    if reasons.unseen > 0 {
        notes.push(format!(
            "{} GPUs that pods request are named by no series: check dcgm-exporter on the nodes of these pods",
            reasons.unseen
        ));
    }
    if reasons.has_several_ends {
        notes.push("the devices have sources of different lateness: the window of each ends at its own time".to_owned());
    }
    notes
}

/// The fields that a metric is read from. The field after a slash is for MIG instances,
/// and for whole GPUs that do not report the field in percent.
#[must_use]
pub fn fields_of(measure: &Measure) -> String {
    let (memory, gpu) = (DeviceValue::MemoryUtilization, DeviceValue::GpuUtilization);
    let named = |value: DeviceValue| {
        let (own, profiled) = value.signals();
        let fields = [Some(own), profiled].into_iter().flatten();
        fields.filter_map(field).collect::<Vec<_>>().join(" / ")
    };
    let signals = |all: &[SignalId]| all.iter().map(|it| DeviceValue::Signal(*it)).collect();
    let values: Vec<DeviceValue> = match measure {
        Measure::Devices { value, .. } if *value == DeviceValue::MemoryUsedPercent => {
            signals(&[SignalId::FB_USED, SignalId::FB_FREE, SignalId::FB_RESERVED])
        }
        Measure::Devices { value, .. } => vec![*value],
        Measure::HeldCount => vec![memory, gpu, DeviceValue::MemoryUsed],
        Measure::ActiveCount | Measure::IdleCount | Measure::OriginalAverage => vec![memory],
    };
    values.into_iter().map(named).collect::<Vec<_>>().join(", ")
}

/// The meaning of a number, in a sentence.
#[must_use]
pub fn meaning(measure: &Measure) -> String {
    let count_of = |what: &str| format!("how many {what}, averaged over the window");
    let (value, reducer, over) = match measure {
        Measure::HeldCount => return count_of("GPUs are held by pods"),
        Measure::ActiveCount => return count_of("of the GPUs held are active"),
        Measure::IdleCount => return count_of("of the GPUs held are idle"),
        Measure::OriginalAverage => {
            return "the number of the original exporter: memory utilisation of all active GPUs of the cluster, averaged every 5 s".to_owned();
        }
        Measure::Devices {
            value,
            reducer,
            over,
        } => (value, reducer, over),
    };
    let value = match value {
        DeviceValue::MemoryUtilization => {
            "memory utilisation (percent of time the memory was read or written)".to_owned()
        }
        DeviceValue::GpuUtilization => "GPU utilisation (percent of time a kernel ran)".to_owned(),
        DeviceValue::MemoryUsed => "framebuffer in use (MiB)".to_owned(),
        DeviceValue::MemoryUsedPercent => {
            "framebuffer in use (percent of used, free and reserved; weighted by their sum)"
                .to_owned()
        }
        DeviceValue::PowerUsage => "power (watts)".to_owned(),
        DeviceValue::Signal(id) => field(*id).unwrap_or_else(|| "a configured field".to_owned()),
    };
    let reducer = match reducer {
        Reducer::Mean => "mean",
        Reducer::Sum => "sum",
        Reducer::Max => "largest",
    };
    let over = match over {
        Over::Active => "the active GPUs",
        Over::All => "all GPUs that answer",
    };
    format!(
        "{reducer} of {value} over {over}; first over the devices at each instant, then over the instants of the window"
    )
}

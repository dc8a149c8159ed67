//! The columns of GPUs and MIG instances, in lists and in explanations.

use gpu_metrics::devices::{DeviceReport, DeviceState, ExplainedReading, IdleTime};
use gpu_metrics::line::Device;

use crate::document::Severity;
use crate::document::cell::{Cell, Object, Reference, Unit};
use crate::document::table::columns;

/// The resource of references to GPUs and MIG instances.
pub(super) const GPUS: &str = "gpus";

/// The columns that only a list fills.
pub(super) const OF_LISTS: [&str; 2] = ["memoryUtilization", "idleFor"];

columns! {
    pub(super) DEVICES: DeviceReport;
    "node", "NODE", "node of the GPU" [] => |gpu| node(gpu);
    "uuid", "UUID", "UUID, with the MIG instance" [] => |gpu| {
        Cell::object(uuid(gpu), Reference::new(GPUS, None, &uuid(gpu)))
    };
    "state", "STATE", "what it does at the newest instant; free: no pod holds it"
        [] => state;
    "pods", "POD", "the pods that hold it, as far as you may read them" [] => pods;
    "memoryUtilization", "MEM BW", "memory bandwidth utilisation at the newest instant; not memory in use"
        [unit(Unit::Percent)] => |gpu| Cell::known(gpu.now().number, Unit::Percent, reason(gpu));
    "idleFor", "IDLE FOR", "time since it was active"
        [unit(Unit::Seconds)] => |gpu| idle_for(gpu.idle_since, reason(gpu));
    "model", "MODEL", "model that DCGM reports"
        [wide()] => |gpu| text(gpu.model.as_ref(), "the exporter reports no model");
    "field", "FIELD", "the field of its readings"
        [wide()] => |gpu| text(gpu.field.as_ref(), "no field of it is known");
    "ownerLabels", "PODS NAMED BY", "the labels that name the pod"
        [wide()] => |gpu| text(gpu.owner_labels.as_ref(), "no label names a pod");
    "scrapeSeconds", "SCRAPED EVERY", "its scrape interval"
        [unit(Unit::Seconds), wide()] => |gpu| Cell::number(gpu.scrape_seconds, Unit::Seconds);
    "freshSeconds", "VALID FOR", "how long a reading is valid"
        [unit(Unit::Seconds), wide()] => |gpu| Cell::number(gpu.fresh_seconds, Unit::Seconds);
}

fn node(gpu: &DeviceReport) -> Cell {
    match &gpu.node {
        Some(name) => Cell::object(name, Reference::new("nodes", None, name)),
        None => Cell::absent("its series name no node"),
    }
}

/// The name of a GPU or MIG instance, which differs between them.
pub(super) fn uuid(gpu: &DeviceReport) -> String {
    match &gpu.instance {
        Some(instance) => format!("{} ({instance})", gpu.uuid),
        None => gpu.uuid.clone(),
    }
}

fn state(gpu: &DeviceReport) -> Cell {
    match &gpu.cause {
        Some(cause) => Cell::verdict(Severity::Error, cause),
        None => Cell::text(word(gpu.now().state)),
    }
}

fn pods(gpu: &DeviceReport) -> Cell {
    match &*gpu.pods {
        _ if gpu.now().state == DeviceState::Free => Cell::text("none"),
        [] if gpu.shared_with > 0 => Cell::absent("you may not read the pods that hold it"),
        [] => Cell::absent("no pod is known to hold it"),
        pods => Cell::Objects(pods.iter().map(|it| pod(it)).collect()),
    }
}

/// Whether a device has this name.
pub(super) fn is_named(device: &Device, name: &str) -> bool {
    let (uuid, instance) = name.split_once(" (").unwrap_or((name, ""));
    *device.uuid == *uuid
        && match &device.instance {
            Some(id) => instance.ends_with(&format!("id {id})")),
            None => instance.is_empty(),
        }
}

/// A GPU with what it does at the newest instant.
pub(super) fn named(gpu: &DeviceReport) -> Object {
    let (uuid, state) = (uuid(gpu), state(gpu).shown());
    let percent = gpu.now().number.map(|it| Unit::Percent.shown(it));
    let text = format!(
        "{uuid}: {state} {} {}",
        percent.unwrap_or_default(),
        gpu.pods.join(", ")
    );
    Object {
        text,
        of: Reference::new(GPUS, None, &uuid),
    }
}

/// A pod as the server names it: `ml/train-0`.
fn pod(text: &str) -> Object {
    let (namespace, name) = text.split_once('/').unwrap_or(("", text));
    Object {
        text: text.to_owned(),
        of: Reference::new("pods", Some(namespace), name),
    }
}

/// How long something has been idle.
pub(super) fn idle_for(idle: Option<IdleTime>, reason: &str) -> Cell {
    match idle {
        Some(idle) if idle.or_longer => Cell::at_least(idle.seconds, Unit::Seconds),
        idle => Cell::known(idle.map(|it| it.seconds), Unit::Seconds, reason),
    }
}

/// The reading of a device at an instant, in a word or two.
pub(super) fn outcome(reading: &ExplainedReading) -> String {
    let word = word(reading.state);
    match reading.number.map(|number| Unit::Plain.digits(number)) {
        None => word.to_owned(),
        Some(number) if reading.counted => number,
        Some(number) => format!("{number} {word}"),
    }
}

const fn word(state: DeviceState) -> &'static str {
    match state {
        DeviceState::Active => "active",
        DeviceState::Idle => "idle",
        DeviceState::Held => "held",
        DeviceState::Free => "free",
        DeviceState::Missing => "missing",
        DeviceState::NoReading => "none",
    }
}

/// A text that is reported, or why it is not.
pub(super) fn text(known: Option<&String>, reason: &str) -> Cell {
    known.map_or_else(|| Cell::absent(reason), Cell::text)
}

fn reason(gpu: &DeviceReport) -> &str {
    gpu.cause.as_deref().unwrap_or_default()
}

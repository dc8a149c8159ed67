//! Describes a device of a group.

use std::collections::BTreeSet;

use crate::aggregate::{DeviceReasons, Outcome, Span};
use crate::grid::instant_time;
use crate::layout::{Attribution, Object, RowFacts};
use crate::policy::Measure;
use crate::series::{MODEL_LABELS, Owner};
use crate::snapshot::Snapshot;
use apimachinery::time::Timestamp;

use super::question::{Question, field};
use super::{ExplainedDevice, ExplainedReading, seconds};

/// Describes a device, limited to what the user may see.
pub(super) fn describe(
    question: &Question<'_>,
    snapshot: &Snapshot,
    of: (&Object, &Span),
    device: &DeviceReasons<'_>,
) -> ExplainedDevice {
    let (measure, layout) = (question.measure, snapshot.layout());
    let (target, fresh_ms) = (device.target, device.fresh_ms);
    let frozen_since = target.and_then(|target| target.frozen_since);
    let is_silent = target.is_some_and(|target| target.silent) && frozen_since.is_none();
    let until = |facts: &RowFacts| {
        let heard = snapshot.frame().sample_times(facts.id);
        heard.map_or(0, |heard| heard.newest.millis() + fresh_ms)
    };
    let rows = device.rows.iter().copied();
    let Some(newest) = rows.clone().max_by_key(|facts| until(facts)) else {
        return ExplainedDevice::default();
    };
    // Holders from before the window are left out, except the last holder of a silent
    // device. Only pods in the namespace of the request may be named to the reader.
    let begin = instant_time(of.1.first, snapshot.frame().step_ms());
    let begin = begin.millis().min(until(newest) - 1);
    let rows = rows.filter(|facts| until(facts) > begin);
    let owners = rows.filter_map(|facts| facts.row.owner.as_ref());
    let asked = question.selected.namespace();
    let named = owners.filter(|owner| asked == Some(&owner.namespace));
    let pods: BTreeSet<String> = named.map(pod).collect();
    // A holder whose newest sample is F or more before this one is no longer current. Pods
    // outside the group hold the device too.
    let latest = until(newest) - fresh_ms;
    let rows = layout.facts_of(layout.device_rows(newest.device));
    let held = rows.filter(|it| it.attribution == Attribution::Held && until(it) > latest);
    let owners = held.filter_map(|facts| facts.row.owner.as_ref());
    let holders: BTreeSet<String> = owners.map(pod).collect();
    let newest_sample = device.heard.map(|heard| heard.newest.date());
    let (gpu, label_facts) = (&newest.row.device, &newest.row.label_facts);
    let mut models = MODEL_LABELS
        .iter()
        .filter_map(|name| label_facts.labels.get(name));
    ExplainedDevice {
        uuid: gpu.uuid.to_string(),
        instance: gpu.instance.as_ref().map(|id| match &gpu.profile {
            Some(profile) => format!("{profile}, id {id}"),
            None => format!("id {id}"),
        }),
        model: models.next().map(str::to_owned),
        node: newest.node.as_deref().map(str::to_owned),
        shared_with: holders.difference(&pods).count(),
        holders,
        pods: pods.into_iter().collect(),
        // Any field's sample shows whether a device is held.
        field: device
            .signal
            .filter(|_| *measure != Measure::HeldCount)
            .and_then(field),
        owner_labels: label_facts.scheme.map(|it| it.describe().to_owned()),
        scrape_seconds: seconds(target.map_or(0, |target| target.scrape_ms)),
        fresh_seconds: seconds(fresh_ms),
        heard_since: device.heard.map(|heard| heard.first.date()),
        silent_since: newest_sample.clone().filter(|_| is_silent),
        newest: newest_sample,
        frozen_since: frozen_since.map(Timestamp::date),
        idle: snapshot.idle(device, of, measure),
        readings: device
            .outcomes
            .iter()
            .map(|outcome| reading(outcome, measure))
            .collect(),
    }
}

/// `ml/train-0`.
fn pod(owner: &Owner) -> String {
    format!("{}/{}", owner.namespace, owner.pod)
}

fn reading((state, seen): &Outcome, measure: &Measure) -> ExplainedReading {
    let shown = seen.filter(|_| *measure != Measure::HeldCount);
    ExplainedReading {
        number: shown.map(|seen| seen.value),
        sampled: seen.map(|seen| seen.at.date()),
        held: seen.map(|seen| seen.held),
        state: *state,
    }
}

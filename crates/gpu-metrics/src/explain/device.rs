//! Describes a device of a group.

use std::collections::BTreeSet;

use crate::aggregate::{DeviceReasons, Outcome, Span};
use crate::grid::instant_time;
use crate::layout::{Attribution, Layout, Object, RowFacts};
use crate::policy::Measure;
use crate::series::{MODEL_LABELS, Owner};
use crate::snapshot::Snapshot;
use apimachinery::time::Timestamp;

use super::question::{Question, Selected, field};
use super::{ExplainedDevice, ExplainedReading, seconds};

/// Describes a device, limited to what the user may see.
pub(super) fn describe(
    question: &Question<'_>,
    snapshot: &Snapshot,
    of: (&Object, &Span),
    device: &DeviceReasons<'_>,
) -> ExplainedDevice {
    let (measure, selected) = (question.measure, question.selected);
    let layout = snapshot.layout();
    let (target, fresh_ms) = (device.target, device.fresh_ms);
    let frozen_since = target.and_then(|target| target.frozen_since);
    let is_silent = target.is_some_and(|target| target.silent) && frozen_since.is_none();
    let until = |facts: &&RowFacts| {
        let heard = snapshot.frame().sample_times(facts.id);
        heard.map_or(0, |heard| heard.newest.millis() + fresh_ms)
    };
    let newest = device.rows.iter().copied().max_by_key(until);
    let row = newest.map(|facts| &facts.row);
    // Holders from before the window are left out, except the last holder of a silent
    // device.
    let begin = instant_time(of.1.first, snapshot.frame().step_ms()).millis();
    let begin = newest.map_or(begin, |newest| begin.min(until(&newest) - 1));
    let rows = device.rows.iter().filter(|facts| until(facts) > begin);
    let pods = named(rows.filter_map(|facts| facts.row.owner.as_ref()), selected);
    // A holder whose newest sample is F or more before this one is no longer current.
    let latest = newest.map_or(0, |newest| until(&newest) - fresh_ms);
    let holders = holders(device, layout, |facts| until(&facts) > latest);
    let newest_sample = device.heard.map(|heard| heard.newest.date());
    ExplainedDevice {
        uuid: row
            .map(|row| row.device.uuid.to_string())
            .unwrap_or_default(),
        instance: row.and_then(|row| {
            let id = row.device.instance.as_ref()?;
            Some(match &row.device.profile {
                Some(profile) => format!("{profile}, id {id}"),
                None => format!("id {id}"),
            })
        }),
        model: row.and_then(|row| {
            let labels = &row.label_facts.labels;
            let mut model = MODEL_LABELS.iter().filter_map(|name| labels.get(name));
            model.next().map(str::to_owned)
        }),
        node: newest.and_then(|facts| facts.node.as_deref().map(str::to_owned)),
        shared_with: holders.difference(&pods).count(),
        holders,
        pods: pods.into_iter().collect(),
        // Any field's sample shows whether a device is held.
        field: device
            .signal
            .filter(|_| *measure != Measure::HeldCount)
            .and_then(field),
        owner_labels: row.and_then(|row| Some(row.label_facts.scheme?.describe().to_owned())),
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

/// The pods that may be named to the reader: those in the namespace of the request.
fn named<'a>(owners: impl Iterator<Item = &'a Owner>, selected: Selected<'_>) -> BTreeSet<String> {
    let asked = selected.namespace();
    let named = owners.filter(|owner| asked == Some(&owner.namespace));
    named.map(pod).collect()
}

/// The current holders of the device, including those outside the group.
fn holders(
    device: &DeviceReasons<'_>,
    layout: &Layout,
    is_current: impl Fn(&RowFacts) -> bool,
) -> BTreeSet<String> {
    let rank = device.rows.first().map(|facts| facts.device);
    let rows = rank.map_or(&[][..], |rank| layout.device_rows(rank));
    let held = rows.iter().filter_map(|row| {
        let facts = layout.fact(*row);
        facts.filter(|facts| facts.attribution == Attribution::Held && is_current(facts))
    });
    held.filter_map(|facts| facts.row.owner.as_ref().map(pod))
        .collect()
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

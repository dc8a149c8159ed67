//! Describes a device of an object.

use std::collections::BTreeSet;

use crate::devices::DeviceReport;
use crate::layout::ClaimId;
use crate::policy::Measure;
use crate::reasons::DeviceReasons;
use crate::series::MODEL_LABELS;
use crate::snapshot::Snapshot;
use apimachinery::time::Timestamp;

use super::{Question, field, seconds};

/// Describes a device, limited to what the user may see.
pub(super) fn describe(
    question: &Question<'_>,
    snapshot: &Snapshot,
    of: &DeviceReasons,
) -> DeviceReport {
    let (measure, layout) = (question.measure, &snapshot.layout);
    let facts = &layout.devices[of.device as usize];
    let newest = snapshot.newest_line(of.device);
    let pod = |claim: ClaimId| {
        let pod = &layout.pods[layout.claims[claim as usize].pod as usize].pod;
        (pod, format!("{}/{}", pod.namespace, pod.name))
    };
    // Only pods in the namespace of the request may be named to the reader.
    let asked = question.selected.namespace();
    let claims = of.members.iter().filter_map(|member| member.claim);
    let held = claims
        .filter(|claim| snapshot.holds(*claim, of.device))
        .map(pod);
    let named = held.filter(|(pod, _)| asked == Some(&*pod.namespace));
    let pods: BTreeSet<String> = named.map(|(_, name)| name).collect();
    let claims = layout.claims_of(of.device);
    let holders = claims.filter(|claim| snapshot.is_current(*claim, of.device));
    let holders: BTreeSet<String> = holders.map(|claim| pod(claim).1).collect();
    let mut models = MODEL_LABELS.iter();
    let model = models.find_map(|name| newest?.labels.get_ignore_case(name));
    let times = of.times;
    let is_silent = times.is_some_and(|it| it.is_silent && it.frozen_since.is_none());
    let newest_sample = times.map(|it| it.newest.date());
    DeviceReport {
        uuid: facts.device.uuid.to_string(),
        instance: facts
            .device
            .instance
            .as_ref()
            .map(|id| match &facts.device.profile {
                Some(profile) => format!("{profile}, id {id}"),
                None => format!("id {id}"),
            }),
        model: model.map(str::to_owned),
        node: facts.node.as_deref().map(str::to_owned),
        shared_with: holders.difference(&pods).count(),
        holders,
        pods: pods.into_iter().collect(),
        // Any field's sample shows whether a device is held.
        field: of
            .signal
            .filter(|_| *measure != Measure::HeldCount)
            .and_then(field),
        owner_labels: newest
            .and_then(|line| line.owner.as_ref())
            .map(|owner| owner.by.describe()),
        scrape_seconds: seconds(times.map_or(0, |it| it.scrape_ms)),
        fresh_seconds: seconds(times.map_or(0, |it| it.fresh_ms)),
        heard_since: times.map(|it| it.first.date()),
        silent_since: newest_sample.clone().filter(|_| is_silent),
        newest: newest_sample,
        frozen_since: times.and_then(|it| it.frozen_since).map(Timestamp::date),
        idle: of.idle.clone(),
        readings: of.readings.clone(),
        ..DeviceReport::default()
    }
}

//! Findings about GPUs without samples.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::super::Finding;
use super::super::codes::GM408;
use super::super::names::listed;
use super::{EXPORTERS, PolledSource, place};

/// Held GPUs without samples: exporters without any, and single GPUs of others.
pub(super) fn check(seen: PolledSource<'_>) -> Option<Finding> {
    let devices = &seen.snapshot.layout.devices;
    let exporter = |device: u32| {
        let place = place(seen.snapshot.newest_line(device)?);
        Some((place, devices[device as usize].node.as_deref()))
    };
    let heard: HashSet<_> = seen.devices().filter_map(|(it, _)| exporter(it)).collect();
    let mut places: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let is_silent = |device: &u32| {
        let times = seen.snapshot.times(*device);
        times.is_none_or(|times| times.is_silent)
    };
    let held = (0..).take(devices.len());
    let held = held.filter(|device| seen.snapshot.is_held(*device));
    for device in held.filter(is_silent) {
        let Some((place, node)) = exporter(device) else {
            continue;
        };
        let on = node.filter(|node| *node != place);
        let on = on.map_or_else(String::new, |node| format!(" on {node}"));
        let gpus = places.entry(format!("{place}{on}")).or_default();
        if heard.contains(&(place, node)) {
            gpus.insert(&devices[device as usize].device.uuid);
        }
    }
    let said = places.iter().map(|(place, gpus)| match gpus.is_empty() {
        true => place.clone(),
        false => format!("{} of {place}", listed(gpus)),
    });
    let message = format!(
        "there are no samples of GPUs that pods hold ({}): these pods have no values",
        listed(said)
    );
    (!places.is_empty()).then(|| Finding::new(&GM408, EXPORTERS, message))
}

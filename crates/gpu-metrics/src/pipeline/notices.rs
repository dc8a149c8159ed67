//! Log messages: how exporters are scraped and their series read.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::aggregate::window_ms;
use crate::policy::Policy;
use crate::series::Scheme;
use crate::signal::SignalId;
use crate::store::Store;
use crate::targets::JobId;
use crate::unit::Scale;
use apimachinery::duration::format_duration;
use apimachinery::time::millis;

/// The messages logged.
#[derive(Debug, Default)]
pub(super) struct Notices(BTreeSet<String>);

impl Notices {
    /// The messages that are new since the last call.
    pub(super) fn take(&mut self, store: &Store, policy: &Policy) -> Vec<String> {
        let mut all: BTreeSet<String> = jobs(store).collect();
        all.extend(changed_units(store));
        if !all.is_empty() {
            all.insert(windows(store, policy));
        }
        let new = all.difference(&self.0).cloned().collect();
        self.0 = all;
        new
    }
}

/// A message for each job: its scrape intervals, the commonest first, and how its labels
/// and values are read. A job has none before its scrape interval is known.
fn jobs(store: &Store) -> impl Iterator<Item = String> {
    let mut intervals: BTreeMap<JobId, BTreeSet<i64>> = BTreeMap::new();
    for (job, scrape_ms) in store.targets().known_intervals() {
        intervals.entry(job).or_default().insert(scrape_ms);
    }
    intervals.into_iter().filter_map(|(id, intervals)| {
        let job = store.jobs().get(usize::from(id))?;
        let (least, most) = (text(*intervals.first()?), text(*intervals.last()?));
        let every = if least == most {
            least
        } else {
            format!("{least} to {most}")
        };
        let schemes = store.schemes(usize::from(id)).into_iter();
        let schemes: Vec<&str> = schemes.map(Scheme::describe).collect();
        let owners = if schemes.is_empty() {
            "no series names a pod".to_owned()
        } else {
            format!("owners are read from {}", schemes.join(", "))
        };
        let scale = store.targets().scale_of_job(id, SignalId::MEM_COPY_UTIL);
        let unit = match scale {
            Some(Scale::Ratio) => "0 to 1",
            Some(Scale::Percent) | None => "0 to 100",
        };
        Some(format!(
            "job {:?}: exporters are scraped every {every}; utilisation runs from {unit}; {owners}",
            job.name
        ))
    })
}

/// A message for each exporter whose utilisation changed its unit.
fn changed_units(store: &Store) -> impl Iterator<Item = String> {
    store
        .targets()
        .scale_changes()
        .map(|(id, _, scale, at)| {
            let exporter = store.targets().instance(id).unwrap_or("?");
            let unit = match scale {
                Scale::Percent => "0 to 100",
                Scale::Ratio => "0 to 1",
            };
            let at = at.whole_second().date();
            format!("exporter {exporter:?}: utilisation runs from {unit} since {at}: earlier readings in another unit are treated as unknown")
        })
}

/// The step and the window in force, and whether a configured one is too short.
fn windows(store: &Store, policy: &Policy) -> String {
    let slowest_ms = store.targets().known_intervals().map(|(_, s_ms)| s_ms);
    let window_ms = window_ms(policy, None, slowest_ms.max().unwrap_or(0));
    let mut notice = format!(
        "values are averaged over instants every {}, in a window of {}",
        text(store.step_ms()),
        text(window_ms)
    );
    if let Some(set) = policy.window.filter(|set| millis(*set) < window_ms) {
        notice.push_str(&format!(
            ": gpu.window is {}, which holds fewer than four scrapes of this data",
            format_duration(set)
        ));
    }
    notice
}

fn text(ms: i64) -> String {
    format_duration(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
}

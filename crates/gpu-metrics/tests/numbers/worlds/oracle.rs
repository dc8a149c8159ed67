//! Applies rules 4 to 11 of docs/numbers.md to all that a store has shown a replica. It shares no
//! code with the program. Times are in milliseconds, instants are numbered.

use std::collections::BTreeMap;
use std::ops::Range;

use super::lines::{Line, Lines};
use super::{Group, Values};
use crate::notation::{Case, FleetPod};

const STEP: i64 = 5_000;

/// Number of instants of a window, and how far it ends ahead.
const WINDOW: i64 = 12;
const AHEAD: i64 = 15_000;

/// The last instant of the window of a source that has reached a time.
fn end(now: i64) -> i64 {
    (now + AHEAD).div_euclid(STEP)
}

/// A pod that series name at a device.
struct Claim<'a> {
    pod: &'a str,
    /// Instants from the first sample to the end of the pod.
    holds: Range<i64>,
    /// Whether the pod lives.
    is_current: bool,
}

/// A device at the end of a window.
struct Device<'a> {
    node: &'a str,
    /// How many instants its quickest source is behind.
    behind: i64,
    claims: Vec<Claim<'a>>,
    /// Time and value at each instant of the window, the latest first.
    readings: Vec<Option<(i64, f64)>>,
    last: Option<f64>,
}

/// What a poll shows.
pub(super) struct Seen<'a> {
    now: i64,
    devices: Vec<Device<'a>>,
    /// Live pods, and when they started.
    pods: Vec<(&'a FleetPod, i64)>,
}

impl<'a> Seen<'a> {
    /// `lines` have been measured at the last answered poll of a replica that started at a time.
    pub(super) fn at(case: &'a Case<'_>, lines: &Lines<'a>, start: i64, now: i64) -> Self {
        let lives = |pod: &FleetPod| {
            let [start, end] = [pod.lives.start, pod.lives.end].map(|it| (it * 1000.0) as i64);
            start..if end <= now { end } else { i64::MAX / 2 }
        };
        // The first instant that is not before a time.
        let instant = |at: i64| -(-at).div_euclid(STEP);
        let behind = |lag: i64| end(now) - end(now - lag);
        let mut found: BTreeMap<(&str, &str), Vec<&Line<'_>>> = BTreeMap::new();
        for line in lines.all.iter().filter(|line| !line.samples.is_empty()) {
            let of_device = found.entry((line.node, line.uuid));
            of_device.or_default().push(line);
        }
        let devices = found.into_iter().map(|((node, _), lines)| {
            let named = case.fleet.iter().filter_map(|pod| {
                let own = lines.iter().filter(|it| it.pod == Some(&*pod.name));
                let newest = own.clone().map(|it| it.newest()).max()?;
                let (first, lives) = (own.clone().map(|it| it.first()).min()?, lives(pod));
                // Samples from before the pod are those of an earlier one of its name. The
                // replica does not know a pod that had ended at its start.
                let last = newest + own.map(|it| it.scrape).max()?;
                let end = match lives.end {
                    _ if newest < lives.start => last,
                    end if end <= start => last.min(start),
                    end => end,
                };
                Some(Claim {
                    pod: &pod.name,
                    holds: instant(first)..instant(end),
                    is_current: lives.contains(&now.min(newest)) && lives.end > now,
                })
            });
            let at = |place: i64| {
                let readings = lines.iter().filter_map(|line| {
                    let time = (end(now) - place - behind(line.lag)) * STEP;
                    let newest = line.newest_before(time)?;
                    (time - newest.0 < line.fresh).then_some(newest)
                });
                readings.max_by(|one, other| one.partial_cmp(other).unwrap())
            };
            let newest = |line: &&Line<'_>| line.newest_before(end(now) * STEP);
            let last = lines.iter().filter_map(newest);
            Device {
                node,
                behind: lines.iter().map(|it| behind(it.lag)).min().unwrap(),
                claims: named.collect(),
                readings: (0..WINDOW).map(at).collect(),
                last: last.max_by_key(|it| it.0).map(|it| it.1),
            }
        });
        let pods = case.fleet.iter().map(|pod| (pod, lives(pod)));
        let live = pods.filter(|(_, lives)| lives.contains(&now));
        Self {
            now,
            devices: devices.collect(),
            pods: live.map(|(pod, lives)| (pod, lives.start)).collect(),
        }
    }

    pub(super) fn values(&self, group: Group<'_>) -> Values {
        let counts: Vec<Count> = (0..WINDOW).map(|it| self.count(group, it)).collect();
        let numbers: [fn(&Count) -> Option<f64>; 3] = [Count::mean, Count::sum, Count::held];
        numbers.map(|number| {
            let numbers: Vec<Option<f64>> = counts.iter().map(number).collect();
            let last = numbers.iter().position(Option::is_some)? as i64;
            let until = (end(self.now) - last) * STEP + 30_000 - AHEAD;
            let defined: Vec<f64> = numbers.into_iter().flatten().collect();
            let mean = defined.iter().sum::<f64>() / defined.len() as f64;
            (until > self.now).then_some((mean, until))
        })
    }

    /// The GPUs of a group at an instant, by its place in the window.
    fn count(&self, group: Group<'_>, place: i64) -> Count {
        let mut count = Count::default();
        let instant = end(self.now) - place;
        let is_of = |name: &str| !matches!(group, Group::Pod(pod) if pod != name);
        let pods = self.pods.iter().filter(|(pod, _)| match group {
            Group::Node(node) => pod.node == node,
            _ => is_of(&pod.name),
        });
        let since = match group {
            Group::Pod(_) => pods.clone().next().map_or(i64::MAX, |(_, since)| *since),
            _ => i64::MIN,
        };
        for device in &self.devices {
            let own = instant - device.behind;
            let is_there = |it: &&Claim<'_>| is_of(it.pod) && it.holds.contains(&own);
            let holders = || device.claims.iter().filter(is_there);
            let is_held = holders().next().is_some();
            let is_ours = match group {
                Group::Cluster => true,
                Group::Node(node) => device.node == node,
                _ => is_held,
            };
            let reading = device.readings[place as usize].filter(|(at, _)| *at >= since);
            match reading {
                Some((_, value)) if is_ours => {
                    count.readings.push(value);
                    count.held += usize::from(is_held);
                }
                None if is_ours && holders().any(|it| it.is_current) => {
                    count.missing.push(device.last);
                }
                _ => {}
            }
        }
        for (pod, since) in pods {
            let unseen = self.unseen(pod, *since, instant);
            count.missing.resize(count.missing.len() + unseen, None);
        }
        count
    }

    /// The GPUs that a live pod requests and does not hold.
    fn unseen(&self, pod: &FleetPod, since: i64, instant: i64) -> usize {
        let claims = self.devices.iter().flat_map(|device| {
            let own = device.claims.iter().filter(|it| it.pod == pod.name);
            own.map(|claim| (device.behind, claim))
        });
        if instant * STEP < since + 60_000 {
            return 0;
        }
        let held = claims.filter(|(behind, it)| it.holds.contains(&(instant - behind)));
        (pod.gpus as usize).saturating_sub(held.count())
    }
}

/// The GPUs of a group at an instant.
#[derive(Default)]
struct Count {
    readings: Vec<f64>,
    held: usize,
    /// The last readings of missing ones.
    missing: Vec<Option<f64>>,
}

impl Count {
    /// Whether there is a reading, and at most this share is missing.
    fn has(&self, share: f64) -> bool {
        let (count, missing) = (self.readings.len() as f64, self.missing.len() as f64);
        count > 0.0 && missing <= share * (count + missing) + 1e-9
    }

    fn mean(&self) -> Option<f64> {
        let mean = |with: &[Option<f64>]| {
            let all = self.readings.iter().chain(with.iter().flatten());
            let active: Vec<f64> = all.filter(|it| **it > 0.0).copied().collect();
            active.iter().sum::<f64>() / active.len().max(1) as f64
        };
        let (own, whole) = (mean(&[]), mean(&self.missing));
        let is_near = (whole - own).abs() <= (0.1 * own).max(2.0) + 1e-9;
        (self.has(0.5) && is_near).then_some(own)
    }

    fn sum(&self) -> Option<f64> {
        let largest = self.readings.iter().copied().fold(0.0, f64::max);
        let missing = self.missing.iter().map(|it| it.unwrap_or(largest));
        let (sum, missing): (f64, f64) = (self.readings.iter().sum(), missing.sum());
        let is_small = missing <= 0.1 * (sum + missing) + 1e-9;
        (self.has(0.1) && is_small).then_some(sum)
    }

    fn held(&self) -> Option<f64> {
        let count = (self.held + self.missing.len()) as f64;
        (!self.readings.is_empty()).then_some(count)
    }
}

//! Applies the rules of docs/numbers.md to a store's whole content: the windows of
//! groups, and the readings of their devices at an instant.
//!
//! Where a rule leaves room (a median of two, whole seconds), both bounds are kept.

use std::collections::BTreeMap;

use super::build::Built;
use super::content::{Point, Series, Store, ms};
use super::times::{Between, Times, between};
use super::world::World;

/// The distance of instants in milliseconds; time zero is one.
pub(super) const STEP: i64 = 5_000;

/// How far the window's end is ahead of a source's newest sample.
pub(super) const AHEAD: i64 = 15_000;

/// A series is forgotten this long after its last sample.
const FORGOTTEN: i64 = 1_200_000;

/// A reading unchanged for this long is invalid.
const FROZEN: i64 = 600_000;

/// How long a device's readings are uncertain after its percentages end, in seconds:
/// another field is queried within a minute, and windows contain the gap for longer.
const ANOTHER_FIELD: f64 = 150.0;

/// Object of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Pod(usize),
    Workload(&'static str),
    /// All pods, which are in one namespace.
    Namespace,
    /// All GPUs, held or not.
    Cluster,
}

/// A bound of a measured time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bound {
    Low,
    High,
}

/// The last instant of a window that reaches up to a time, in milliseconds.
fn end(now: i64) -> i64 {
    (now + AHEAD).div_euclid(STEP) * STEP
}

/// Has access to all samples.
#[derive(Debug)]
pub(super) struct Oracle<'a> {
    pub(super) world: &'a World,
    pub(super) built: &'a Built,
    pub(super) times: Times,
    store: &'a Store,
    of_device: Vec<Vec<&'a Series>>,
}

/// A device of a group at an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attribution {
    /// The value of the last reading.
    pub(super) value: Between<f64>,
    /// It certainly has a reading.
    pub(super) surely: bool,
    /// It may have a reading.
    pub(super) perhaps: bool,
    /// A living pod holds it.
    pub(super) held: bool,
    /// Without a reading it is missing: a living pod holds it, and its driver never loses it.
    pub(super) awaited: bool,
    /// The same, but its series are forgotten: its last reading is unknown.
    pub(super) forgotten: bool,
}

/// The reading of one series of a device at an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) at: i64,
    pub(super) value: f64,
    pub(super) surely: bool,
    perhaps: bool,
}

impl<'a> Oracle<'a> {
    pub(super) fn new(world: &'a World, built: &'a Built, store: &'a Store) -> Self {
        let mut of_device = vec![Vec::new(); built.devices.len()];
        for series in &store.series {
            of_device[series.device].push(series);
        }
        Self {
            world,
            built,
            times: Times::new(built, store),
            store,
            of_device,
        }
    }

    /// Whether a reading with this pod counts for the group.
    pub(super) fn has(&self, group: Group, pod: Option<usize>) -> bool {
        match (group, pod) {
            (Group::Cluster, _) => true,
            (_, None) => false,
            (Group::Pod(one), Some(pod)) => one == pod,
            (Group::Workload(name), Some(pod)) => self.built.pods[pod].workload == name,
            (Group::Namespace, Some(_)) => true,
        }
    }

    /// The targets with readings of a group, and the time of the last one.
    pub(super) fn targets_of(&self, group: Group, now: f64) -> BTreeMap<usize, i64> {
        let mut targets = BTreeMap::new();
        let ours = self.store.series.iter();
        for series in ours.filter(|series| self.has(group, series.pod)) {
            if let Some(newest) = series.arrived(ms(now)).last() {
                let known = targets.entry(series.target).or_insert(newest.at);
                *known = newest.at.max(*known);
            }
        }
        targets.retain(|target, _| self.times.of(*target).is_known());
        targets
    }

    /// The last instant of all windows for a source without lateness, and their length.
    pub(super) fn window(&self, now: f64) -> (i64, i64) {
        let set = ms(self.world.window.map_or(60.0, |secs| secs as f64));
        (end(ms(now)), set)
    }

    /// How far the windows of a target's source are behind those of a source without
    /// lateness.
    pub(super) fn behind(&self, target: usize, now: f64, bound: Bound) -> i64 {
        let lag = self.times.of(target).lag;
        let lag = match bound {
            Bound::Low => lag.low,
            Bound::High => lag.high,
        };
        end(ms(now)) - end(ms(now) - lag)
    }

    /// Every device of a group at an instant, by the readings so far.
    pub(super) fn standings(
        &self,
        group: Group,
        instant: i64,
        times: (f64, f64),
    ) -> Vec<Attribution> {
        let devices = 0..self.built.devices.len();
        let all = devices.filter_map(|device| self.attribution((group, device), instant, times));
        all.collect()
    }

    /// A device at an instant, whichever lateness of its sources is measured.
    fn attribution(
        &self,
        of: (Group, usize),
        instant: i64,
        times: (f64, f64),
    ) -> Option<Attribution> {
        let low = self.attribution_at(of, instant, times, Bound::Low);
        let high = self.attribution_at(of, instant, times, Bound::High);
        let (Some(low), Some(high)) = (low, high) else {
            return low.or(high);
        };
        Some(Attribution {
            value: between(
                low.value.low.min(high.value.low),
                low.value.high.max(high.value.high),
            ),
            surely: low.surely && high.surely,
            perhaps: low.perhaps || high.perhaps,
            held: low.held || high.held,
            awaited: low.awaited && high.awaited,
            forgotten: low.forgotten || high.forgotten,
        })
    }

    fn attribution_at(
        &self,
        (group, device): (Group, usize),
        instant: i64,
        (now, read): (f64, f64),
        bound: Bound,
    ) -> Option<Attribution> {
        let series = self.of_device[device].iter();
        if !series.clone().any(|series| self.has(group, series.pod)) {
            return None;
        }
        let (mut ours, mut others, mut unnamed) = (Vec::new(), Vec::new(), Vec::new());
        let (mut held, mut latest) = (false, Vec::new());
        for series in series {
            let instant = instant - self.behind(series.target, now, bound);
            let Some(mut candidate) = self.candidate(group, series, instant, read) else {
                continue;
            };
            if !self.has(group, series.pod) {
                match series.pod {
                    Some(_) => others.push(candidate),
                    None => unnamed.push(candidate),
                }
                continue;
            }
            let lives = |at: f64| {
                let pod = series.pod.map(|pod| &self.built.pods[pod]);
                pod.is_none_or(|pod| pod.lives.contains(&at))
            };
            candidate.surely &= lives(now.min(instant as f64 / 1000.0));
            candidate.surely &= !self.is_changing(device, now);
            held |= series.pod.is_some() && lives(now);
            ours.push(candidate);
            latest.extend(self.last(group, series, i64::MAX, read));
        }
        let of = &self.built.devices[device];
        // Frozen readings beside it hid readings of another exporter.
        let targets = of.targets.iter().map(|target| &self.built.targets[*target]);
        let frozen = targets.flat_map(|target| &target.frozen);
        if frozen.into_iter().any(|during| during.start < now) {
            ours.iter_mut().for_each(|one| one.surely = false);
        }
        // While its pod lives, a device without pod labels stays the pod's.
        match held {
            true => ours.append(&mut unnamed),
            false => others.append(&mut unnamed),
        }
        if !of.shared {
            hand_over(&mut ours, &others);
        }
        // A missing device counts with its last reading, at the instant or now.
        let last = ours.iter().max_by_key(|one| one.at)?.value;
        let latest = latest.iter().max_by_key(|point| point.at)?.value;
        let certain = ours.iter().filter(|one| one.surely).map(|one| one.at).max();
        let may = ours
            .iter()
            .filter(|one| one.perhaps && Some(one.at) >= certain);
        let mut values: Vec<f64> = may.map(|one| one.value).collect();
        let perhaps = !values.is_empty();
        if !perhaps {
            values = vec![last, latest];
        }
        let newest = ours.iter().map(|one| one.at).max().unwrap_or(i64::MIN);
        let forgotten = !perhaps && newest < ms(read) - FORGOTTEN + 60_000;
        Some(Attribution {
            forgotten: forgotten && held && of.lost.is_empty(),
            value: between(
                values.iter().copied().fold(f64::INFINITY, f64::min),
                values.iter().copied().fold(0.0, f64::max),
            ),
            surely: certain.is_some(),
            perhaps,
            held,
            awaited: held && of.lost.is_empty() && !forgotten,
        })
    }

    /// Whether the percentages of a device ended recently, or one of its several exporters
    /// was recently found to be frozen: its readings hid some of the others' readings.
    pub(super) fn is_changing(&self, device: usize, now: f64) -> bool {
        let of = &self.built.devices[device];
        let recently = |from: f64| (from..from + ANOTHER_FIELD).contains(&now);
        let found = |target: &usize| {
            let least = FROZEN.max(4 * self.times.of(*target).scrape.low) as f64 / 1000.0;
            let frozen = self.built.targets[*target].frozen.iter();
            frozen.map(move |during| during.start + least)
        };
        of.profiled.is_some_and(recently)
            || (of.targets.len() > 1 && of.targets.iter().flat_map(found).any(recently))
    }

    /// The samples of a series up to an instant.
    fn until(series: &'a Series, instant: i64, read: f64) -> &'a [Point] {
        let points = series.arrived(ms(read));
        &points[..points.partition_point(|point| point.at <= instant)]
    }

    /// The samples of a series from its pod's start up to an instant.
    pub(super) fn of_its_pod(&self, series: &'a Series, instant: i64, read: f64) -> &'a [Point] {
        let points = Self::until(series, instant, read);
        let start = series.pod.map(|pod| ms(self.built.pods[pod].lives.start));
        &points[points.partition_point(|point| Some(point.at) < start)..]
    }

    /// The samples of a series that count for a group. A clock that is behind gives times
    /// before the pod's start: such samples count for all groups but the pod itself.
    fn of_group(&self, group: Group, series: &'a Series, instant: i64, read: f64) -> &'a [Point] {
        match group {
            Group::Pod(_) => self.of_its_pod(series, instant, read),
            Group::Workload(_) | Group::Namespace | Group::Cluster => {
                Self::until(series, instant, read)
            }
        }
    }

    fn last(&self, group: Group, series: &'a Series, instant: i64, read: f64) -> Option<Point> {
        let points = self.of_group(group, series, instant, read).iter();
        points.copied().rfind(|point| !point.value.is_nan())
    }

    /// The last reading of a series at an instant, and whether it still counts.
    pub(super) fn candidate(
        &self,
        group: Group,
        series: &'a Series,
        instant: i64,
        read: f64,
    ) -> Option<Candidate> {
        let last = self.last(group, series, instant, read)?;
        let points = self.of_group(group, series, instant, read);
        let ended = points.last().is_some_and(|point| point.value.is_nan());
        let (suspect, frozen) = self.stands_still(series, last, read);
        let fresh = self.times.of(series.target).fresh;
        // With several targets of a device, the longest F may apply.
        let targets = self.built.devices[series.device].targets.iter();
        let longest = targets.map(|target| self.times.of(*target).fresh.high);
        let longest = longest.fold(fresh.high, i64::max);
        let age = instant - last.at;
        Some(Candidate {
            at: last.at,
            value: last.value,
            surely: !ended && !suspect && age < fresh.low,
            perhaps: !ended && !frozen && age < longest,
        })
    }

    /// Whether a reading may be, and certainly is, frozen for too long.
    fn stands_still(&self, series: &Series, of: Point, read: f64) -> (bool, bool) {
        if !self.world.has("frozen") {
            return (false, false);
        }
        let all = series.arrived(ms(read));
        let same = |point: &&Point| point.read == of.read;
        let first = all.iter().find(same).map_or(of.at, |point| point.at);
        let last = all.iter().rfind(same).map_or(of.at, |point| point.at);
        let target = self.times.of(series.target);
        let room = 2 * target.fresh.high;
        let longest = FROZEN.max(4 * target.scrape.high) + room + 60_000;
        let goes_on = all.last().is_some_and(|newest| newest.at == last);
        (
            last - first > FROZEN - room,
            goes_on && last - first > longest,
        )
    }

    /// The series of a device that name a pod, and those that name others.
    pub(super) fn series(&self, device: usize, pod: usize) -> (Vec<&'a Series>, Vec<&'a Series>) {
        let all = self.of_device[device].iter();
        all.partition(|series| series.pod == Some(pod))
    }
}

/// Ends readings of a device that has a newer reading with another pod.
fn hand_over(ours: &mut [Candidate], others: &[Candidate]) {
    let newest = |which: fn(&&Candidate) -> bool| {
        let others = others.iter().filter(which);
        others.map(|other| other.at).max()
    };
    let (certain, possible) = (newest(|other| other.surely), newest(|other| other.perhaps));
    for one in ours {
        one.perhaps &= Some(one.at) >= certain;
        one.surely &= one.perhaps && Some(one.at) > possible;
    }
}

//! Applies the rules of docs/numbers.md to a store's whole content: the readings of a group's
//! devices at an instant. Times are in milliseconds.

use super::store::{Point, Series, Store, ms, profiled};
use super::times::{FORGOTTEN, Heard, Times};
use super::world::World;

/// The distance of instants; time zero is one.
pub(super) const STEP: i64 = 5_000;

/// How far the window's end is ahead of a source's newest sample.
pub(super) const AHEAD: i64 = 15_000;

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

/// The lower and upper bound of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Bounds {
    pub(super) const NOTHING: Self = Self {
        low: f64::INFINITY,
        high: f64::NEG_INFINITY,
    };

    const fn of(value: f64) -> Self {
        Self {
            low: value,
            high: value,
        }
    }

    pub(super) fn join(self, other: Self) -> Self {
        Self {
            low: self.low.min(other.low),
            high: self.high.max(other.high),
        }
    }
}

/// Has access to all samples.
#[derive(Debug)]
pub(super) struct Oracle<'a> {
    pub(super) world: &'a World,
    store: &'a Store,
    /// The series of each device, by their places in the store.
    of_device: Vec<Vec<usize>>,
    pub(super) times: Times<'a>,
}

/// A device of a group at an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    /// The value of the last reading.
    pub(super) value: Bounds,
    /// It certainly has a reading.
    pub(super) surely: bool,
    /// It may have a reading.
    pub(super) perhaps: bool,
    /// A living pod holds it.
    pub(super) held: bool,
    /// The same, but its series are forgotten: its last reading is unknown.
    pub(super) forgotten: bool,
}

impl Standing {
    /// Without a reading it is missing.
    pub(super) fn awaited(&self) -> bool {
        self.held && !self.forgotten
    }
}

/// The reading of one series of a device at an instant.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    at: i64,
    value: f64,
    surely: bool,
    perhaps: bool,
    /// Whether its pod lives at the instant.
    lives: bool,
}

impl<'a> Oracle<'a> {
    pub(super) fn new(world: &'a World, store: &'a Store) -> Self {
        let mut of_device = vec![Vec::new(); world.devices.len()];
        for (place, series) in store.series.iter().enumerate() {
            of_device[series.device].push(place);
        }
        Self {
            world,
            store,
            of_device,
            times: Times::new(world, store),
        }
    }

    /// Whether a reading with this pod counts for the group.
    pub(super) fn has(&self, group: Group, pod: Option<usize>) -> bool {
        match (group, pod) {
            (Group::Cluster, _) => true,
            (_, None) => false,
            (Group::Pod(one), Some(pod)) => one == pod,
            (Group::Workload(name), Some(pod)) => self.world.pods[pod].workload == name,
            (Group::Namespace, Some(_)) => true,
        }
    }

    /// The longest S and F of a group, in seconds.
    pub(super) fn slowest(&self, group: Group, now: f64) -> (f64, f64) {
        let all = self.times.heard.iter().zip(&self.store.series);
        let all = all.filter(|(heard, series)| {
            let is_read = heard.newest.is_some() && !series.arrived(ms(now)).is_empty();
            is_read && self.has(group, series.pod)
        });
        let secs = |of: i64| of as f64 / 1000.0;
        all.fold((0.0, 0.0), |(scrape, fresh), (heard, _)| {
            (secs(heard.scrape).max(scrape), secs(heard.fresh).max(fresh))
        })
    }

    /// Every device of a group at an instant of a source without lateness, but not after
    /// `latest`, by the readings so far.
    pub(super) fn standings(
        &self,
        group: Group,
        (instant, latest): (i64, i64),
        times: (f64, f64),
    ) -> Vec<Standing> {
        let devices = 0..self.of_device.len();
        let all = devices.filter_map(|it| self.standing((group, it), (instant, latest), times));
        all.collect()
    }

    fn standing(
        &self,
        (group, device): (Group, usize),
        (instant, latest): (i64, i64),
        (now, read): (f64, f64),
    ) -> Option<Standing> {
        let places = self.of_device[device].iter();
        let series = places.map(|place| (&self.store.series[*place], &self.times.heard[*place]));
        if !series.clone().any(|(it, _)| self.has(group, it.pod)) {
            return None;
        }
        let is_changing = self.is_changing(device, now);
        let own = |heard: &Heard| {
            let own = instant - end(ms(now)) + end(ms(now) - heard.lag);
            own.min(latest)
        };
        // Of several sources the quickest shows when a pod begins and ends.
        let quickest = series.clone().map(|(_, heard)| own(heard)).max()?;
        let (mut ours, mut others, mut unnamed) = (Vec::new(), Vec::new(), Vec::new());
        let (mut held, mut keeps) = (false, false);
        for (series, heard) in series.clone() {
            let lives = series.pod.map(|pod| &self.world.pods[pod].lives);
            let lives_at = |at: f64| lives.is_none_or(|lives| lives.contains(&at.min(now)));
            let lives_then = [own(heard), quickest]
                .iter()
                .all(|at| lives_at(*at as f64 / 1000.0));
            let is_ours = self.has(group, series.pod);
            if is_ours && series.pod.is_some() && lives_then && !keeps {
                keeps = !self.of_group(group, series, quickest, read).is_empty();
            }
            let Some(mut candidate) = self.candidate((group, series), heard, own(heard), read)
            else {
                continue;
            };
            if is_ours {
                candidate.surely &= !is_changing && lives_then;
                candidate.lives = lives_then;
                held |= series.pod.is_some() && lives_at(now);
                ours.push(candidate);
            } else if series.pod.is_some() {
                others.push(candidate);
            } else {
                unnamed.push(candidate);
            }
        }
        // While its pod lives, a device without pod labels stays the pod's.
        match held || keeps {
            true => ours.append(&mut unnamed),
            false => others.append(&mut unnamed),
        }
        if !self.world.devices[device].shared {
            hand_over(&mut ours, &others);
        }
        let last = ours.iter().max_by_key(|one| one.at)?;
        let certain = ours.iter().filter(|one| one.surely).map(|one| one.at).max();
        let may = |one: &&Candidate| one.perhaps && Some(one.at) >= certain;
        let may = ours.iter().filter(may).map(|one| Bounds::of(one.value));
        let known = may.reduce(Bounds::join);
        // A missing device counts with its last reading, at the instant or now.
        let newest = || {
            let ours = series.clone().filter(|(it, _)| self.has(group, it.pod));
            let all = ours.filter_map(|(it, _)| self.last(group, it, i64::MAX, read));
            let newest = all.max_by_key(|it| it.at).map_or(last.value, |it| it.value);
            Bounds::of(newest).join(Bounds::of(last.value))
        };
        let forgotten = known.is_none() && last.at < ms(read) - FORGOTTEN + 60_000;
        Some(Standing {
            value: known.unwrap_or_else(newest),
            surely: certain.is_some(),
            perhaps: known.is_some(),
            held,
            forgotten: held && forgotten,
        })
    }

    /// Whether a series had named a pod as the holder of a device by an instant.
    pub(super) fn is_seen(&self, device: usize, pod: usize, (instant, read): (i64, f64)) -> bool {
        let series = self.of_device[device]
            .iter()
            .map(|it| &self.store.series[*it]);
        let mut series = series.filter(|series| series.pod == Some(pod));
        series.any(|it| !self.of_group(Group::Pod(pod), it, instant, read).is_empty())
    }

    /// Whether the percentages of a device ended recently, or one of its several exporters
    /// stands still: its readings hide some of the others' readings.
    fn is_changing(&self, device: usize, now: f64) -> bool {
        let ended = profiled(self.world, device);
        let ended = ended.is_some_and(|from| (from..from + ANOTHER_FIELD).contains(&now));
        let targets = self.world.devices[device].targets.iter();
        let mut frozen = targets.flat_map(|target| self.world.on_target("frozen", *target));
        ended || frozen.any(|it| it.during.start < now)
    }

    /// The samples of a series that count for a group, up to an instant. A clock that is behind
    /// gives times before the pod's start: such samples count for all groups but the pod itself.
    pub(super) fn of_group(
        &self,
        group: Group,
        series: &'a Series,
        instant: i64,
        read: f64,
    ) -> &'a [Point] {
        let points = series.arrived(ms(read));
        let points = &points[..points.partition_point(|point| point.at <= instant)];
        let Group::Pod(pod) = group else {
            return points;
        };
        let start = ms(self.world.pods[pod].lives.start);
        &points[points.partition_point(|point| point.at < start)..]
    }

    fn last(&self, group: Group, series: &'a Series, instant: i64, read: f64) -> Option<&'a Point> {
        let mut points = self.of_group(group, series, instant, read).iter();
        points.rfind(|point| !point.value.is_nan())
    }

    /// The last reading of a series at an instant, and whether it still counts.
    fn candidate(
        &self,
        (group, series): (Group, &'a Series),
        heard: &Heard,
        instant: i64,
        read: f64,
    ) -> Option<Candidate> {
        let points = self.of_group(group, series, instant, read);
        let last = points.iter().rfind(|point| !point.value.is_nan())?;
        let ended = points.last().is_some_and(|point| point.value.is_nan());
        let (suspect, frozen) = self.stands_still(series, heard, last, read);
        let counts = !ended && instant - last.at < heard.fresh;
        Some(Candidate {
            at: last.at,
            value: last.value,
            surely: counts && !suspect,
            perhaps: counts && !frozen,
            lives: false,
        })
    }

    /// Whether a reading may be, and certainly is, frozen for too long.
    fn stands_still(&self, series: &Series, heard: &Heard, of: &Point, read: f64) -> (bool, bool) {
        if !self.world.has("frozen") {
            return (false, false);
        }
        let all = series.arrived(ms(read));
        let same = |point: &&Point| point.read == of.read;
        let first = all.iter().find(same).map_or(of.at, |point| point.at);
        let last = all.iter().rfind(same).map_or(of.at, |point| point.at);
        let room = 30_000;
        let still = last - first - FROZEN.max(4 * heard.scrape);
        (still > -room, still > room)
    }
}

/// The last instant of a window that reaches up to a time.
pub(super) fn end(now: i64) -> i64 {
    (now + AHEAD).div_euclid(STEP) * STEP
}

/// Ends readings of a device that has a newer reading with another pod.
fn hand_over(ours: &mut [Candidate], others: &[Candidate]) {
    let newest = |which: fn(&&Candidate) -> bool| {
        let others = others.iter().filter(which);
        others.map(|other| other.at).max()
    };
    let (certain, possible) = (newest(|other| other.surely), newest(|other| other.perhaps));
    for one in ours {
        one.perhaps &= one.lives || Some(one.at) >= certain;
        one.surely &= one.perhaps && Some(one.at) > possible;
    }
}

//! What can be known of a world at a time, from the store's whole content:
//! whether a value must be there, and until when it may.

use std::cell::RefCell;

use super::FOREVER;
use super::build::{Built, Target};
use super::content::{Point, Series, Store, ms};
use super::reference::Bounds;
use super::world::World;

/// No lag or distance counts for more, seconds.
pub(super) const MOST_USUAL: f64 = 120.0;

/// How old a pod without samples is before it is missed in the table.
const UNSEEN: f64 = 15.0;

/// Whose value it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Pod(usize),
    Workload(&'static str),
    /// All pods: they are of one namespace.
    Namespace,
    /// All GPUs, held or not.
    Cluster,
}

/// How much is asked of a value's presence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rigour {
    /// As the table counts it: what the data of the moment allow.
    Table,
    /// What must be there by the rules: no benefit of lags that just changed.
    Promise,
}

/// Sees everything.
#[derive(Debug)]
pub(super) struct Oracle<'a> {
    pub(super) world: &'a World,
    pub(super) built: &'a Built,
    pub(super) store: &'a Store,
    /// The series of each device.
    pub(super) of_device: Vec<Vec<usize>>,
    /// The bounds of this poll: several names are asked for the same pods.
    pub(super) known: RefCell<Vec<(Question, [Bounds; 3])>>,
    /// The least lag of late of each source, and for when.
    least_lags: RefCell<Vec<(&'static str, f64, f64)>>,
    /// What depends on the world alone, seconds.
    latest_clock: f64,
    pub(super) longest_fresh: f64,
    pub(super) slowest: f64,
}

/// A group, the times of asking and of the last read, and whether the group has
/// been there for longer than its window.
pub(super) type Question = (Group, (f64, f64), bool);

impl<'a> Oracle<'a> {
    pub(super) fn new(world: &'a World, built: &'a Built, store: &'a Store) -> Self {
        let mut of_device = vec![Vec::new(); built.devices.len()];
        for (place, series) in store.series.iter().enumerate() {
            of_device[series.device].push(place);
        }
        Self {
            world,
            built,
            store,
            of_device,
            known: RefCell::default(),
            least_lags: RefCell::default(),
            latest_clock: built.targets.iter().map(Target::late).fold(0.0, f64::max)
                + world.lag_jitter(),
            longest_fresh: built.targets.iter().map(Target::fresh).fold(0.0, f64::max),
            slowest: world.slowest(),
        }
    }

    /// Whether a reading that names this pod is the group's.
    pub(super) fn has(&self, group: Group, pod: Option<usize>) -> bool {
        match (group, pod) {
            (Group::Cluster, _) => true,
            (_, None) => false,
            (Group::Pod(one), Some(pod)) => one == pod,
            (Group::Workload(name), Some(pod)) => self.built.pods[pod].workload == name,
            (Group::Namespace, Some(_)) => true,
        }
    }

    /// The window when it is longest, seconds.
    pub(super) fn longest_window(&self) -> f64 {
        let set = self.world.window.map_or(60.0, |secs| secs as f64);
        set.max(4.0 * self.slowest) + MOST_USUAL.min(self.latest_clock())
    }

    /// The window when it is shortest, seconds.
    pub(super) fn shortest_window(&self) -> f64 {
        self.world.window.map_or(60.0, |secs| secs as f64)
    }

    /// The most that data are late, as far as it counts, seconds.
    pub(super) fn longest_lag(&self) -> f64 {
        MOST_USUAL.min(self.world.longest_lag() + self.latest_clock()) + self.world.poll()
    }

    pub(super) fn latest_clock(&self) -> f64 {
        self.latest_clock
    }

    /// How long an instant can hold a reading, seconds.
    pub(super) fn longest_hold(&self) -> f64 {
        2.0 * self.longest_fresh + self.usual_distance()
    }

    /// The most that a target usually is behind the horizon, seconds.
    pub(super) fn usual_distance(&self) -> f64 {
        MOST_USUAL.min(self.latest_clock() + self.slowest + self.world.poll())
    }

    /// Whether a value of a group must be there.
    pub(super) fn must(&self, group: Group, now: f64, read: f64, rigour: Rigour) -> bool {
        let (mut expected, mut answering) = (0, 0);
        let pods = self.built.pods.iter().enumerate();
        for (number, pod) in pods.filter(|(_, pod)| pod.lives.contains(&now)) {
            if !self.has(group, Some(number)) {
                continue;
            }
            for device in &pod.devices {
                let seen = self
                    .lines(*device, number)
                    .any(|series| !series.arrived(ms(read)).is_empty());
                let awaited = rigour == Rigour::Promise || now - pod.lives.start > UNSEEN;
                expected += usize::from(seen || awaited);
                answering +=
                    usize::from(seen && self.is_fresh((*device, number), now, read, rigour));
            }
        }
        let enough = match (group, rigour) {
            (Group::Pod(_), _) | (_, Rigour::Promise) => answering == expected,
            (_, Rigour::Table) => {
                answering as f64 >= 0.95 * f64::from(u32::try_from(expected).unwrap())
            }
        };
        expected > 0 && enough
    }

    /// What all jobs say of a device in the hands of a pod.
    pub(super) fn lines(&self, device: usize, pod: usize) -> impl Iterator<Item = &Series> {
        self.of_device[device]
            .iter()
            .map(|place| &self.store.series[*place])
            .filter(move |series| series.pod == Some(pod))
    }

    /// Whether a device has been read twice, and just now.
    fn is_fresh(&self, (device, pod): (usize, usize), now: f64, read: f64, rigour: Rigour) -> bool {
        self.lines(device, pod).any(|series| {
            let target = &self.built.targets[series.target];
            let points = series.arrived(ms(read));
            let [before @ .., earlier, newest] = points else {
                return false;
            };
            if is_unknown(target, newest.at) {
                return false;
            }
            let another = before.last().is_some_and(|point| point.read != newest.read);
            let handed_over = |other: &Series| {
                other.target == series.target
                    && other.pod != series.pod
                    && !self.built.devices[device].shared
                    && other
                        .arrived(ms(read))
                        .last()
                        .is_some_and(|point| point.at > newest.at)
            };
            let others = self.of_device[device]
                .iter()
                .map(|place| &self.store.series[*place]);
            !newest.value.is_nan()
                && !earlier.value.is_nan()
                && (earlier.read != newest.read || another)
                && newest.at - earlier.at <= ms(2.5 * target.scrape)
                && ms(now) - newest.at <= ms(target.fresh() + self.allowance(target, now, rigour))
                && !others.into_iter().any(handed_over)
                && (rigour == Rigour::Table
                    || (self.is_steady(target, now)
                        && self.is_led(target, now)
                        && self.has_two((device, pod), points, (now, read))))
        })
    }

    /// Whether somebody else's samples still move the horizon of a target's
    /// source: of three heard lately it takes two, so that the only one left
    /// waits for the others to be given up.
    fn is_led(&self, target: &Target, now: f64) -> bool {
        let count = |at: f64| {
            let answers = |other: &&Target| other.lives.contains(&at) && !other.is_silent(at);
            self.of_source(target).filter(answers).count()
        };
        count(now) >= 2 || count(now - 3.0 * target.fresh()) < 3
    }

    /// Whether no clock of its source was set of late, nor did its readings do
    /// anything odd: a few clocks that are set at once move the horizon, and what
    /// is usual for the others has to be learned again.
    fn is_steady(&self, target: &Target, now: f64) -> bool {
        let stepped = |at: f64| (now - 600.0..=now).contains(&at);
        let clock = |(during, _): &(std::ops::Range<f64>, f64)| {
            stepped(during.start) || stepped(during.end)
        };
        let mut clocks = self.of_source(target).flat_map(|other| &other.clocks);
        !clocks.any(clock) && !target.frozen.iter().any(|during| during.start < now)
    }

    /// Whether two readings certainly lie in the window: they are a step apart,
    /// or else may share an instant, and the window ends up to a step later
    /// than now. It is that of the quickest target of the device that is heard.
    fn has_two(&self, of: (usize, usize), points: &[Point], (now, read): (f64, f64)) -> bool {
        let targets = self.lines(of.0, of.1).filter_map(|series| {
            let newest = series.arrived(ms(read)).last()?;
            let waited = self.longest_hold() + self.longest_lag();
            let target = &self.built.targets[series.target];
            (ms(now) - newest.at <= ms(waited)).then_some(target)
        });
        let targets: Vec<&Target> = targets.collect();
        let late = targets
            .iter()
            .map(|target| self.least_lag(target.source, now));
        let late = late.fold(0.0, f64::max);
        let cadences = targets.iter().map(|target| target.scrape.max(target.renew));
        let own = self
            .shortest_window()
            .max(4.0 * cadences.fold(FOREVER, f64::min));
        self.world.cadences().map(|step| step.max(5.0)).all(|step| {
            let since = ms(now - late + step - own.max(4.0 * step));
            let oldest = points.iter().find(|point| point.at > since);
            let apart = |(oldest, newest): (&Point, &Point)| newest.at - oldest.at >= ms(step);
            oldest.zip(points.last()).is_some_and(apart)
        })
    }

    /// By how much a sample may be older than fresh. Clocks that are ahead make a
    /// source look less late than it is.
    fn allowance(&self, target: &Target, now: f64, rigour: Rigour) -> f64 {
        let late = (-target.clock(now)).max(0.0);
        // The horizon that a target is usually behind may itself be a scrape old.
        let behind = (late - target.scrape).max(0.0);
        match rigour {
            Rigour::Table => late + self.world.lag(target.source, now) + self.world.lag_jitter(),
            Rigour::Promise => {
                let of_source = self.of_source(target);
                let ahead = of_source.map(|other| other.clock(now)).fold(0.0, f64::max);
                behind.min(MOST_USUAL) + (self.least_lag(target.source, now) - ahead).max(0.0)
            }
        }
    }

    /// All targets of a target's source.
    fn of_source(&self, target: &Target) -> impl Iterator<Item = &Target> {
        let key = (target.source, target.job);
        let targets = self.built.targets.iter();
        targets.filter(move |other| (other.source, other.job) == key)
    }

    /// The least lag of a source in the last five minutes, seconds.
    fn least_lag(&self, source: &'static str, now: f64) -> f64 {
        let mut known = self.least_lags.borrow_mut();
        known.retain(|(_, at, _)| *at == now);
        if let Some((_, _, lag)) = known.iter().find(|(of, _, _)| *of == source) {
            return *lag;
        }
        let lags = (0..60).map(|i| self.world.lag(source, now - 5.0 * f64::from(i)));
        let lag = lags.fold(MOST_USUAL, f64::min);
        known.push((source, now, lag));
        lag
    }
}

/// Readings that stand still for so long are no readings, seconds.
pub(super) const FROZEN: f64 = 600.0;

/// Whether what a target says at a time may have stood still for too long.
pub(super) fn is_unknown(target: &Target, at: i64) -> bool {
    let since = |during: &std::ops::Range<f64>| during.start + FROZEN - 2.0 * target.fresh();
    let mut frozen = target.frozen.iter();
    frozen.any(|during| (ms(since(during))..ms(during.end)).contains(&at))
}

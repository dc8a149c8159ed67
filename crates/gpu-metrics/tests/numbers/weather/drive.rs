//! Runs a world: two replicas poll and are queried, and the oracle checks the values.

use std::collections::BTreeSet;

use super::oracle::{Bounds, Group, Oracle};
use super::replica::{METRICS, NAMESPACE, Replica, signals};
use super::store::Store;
use super::world::World;

/// The start of the first replica, long before the first check.
const START: f64 = -400.0;

/// How far back a starting replica reads, in seconds.
const READ_BACK: f64 = 1200.0;

/// Values that differ by less than this share of a bound are equal.
const SAME: f64 = 0.005;

/// Replicas whose values differ by more than this share disagree.
const APART: f64 = 0.05;

/// Replicas may disagree for targets with at least this scrape interval, in seconds.
const SLOW: f64 = 59.0;

/// The least share of the time with a value, where one can be known.
const PRESENT: f64 = 0.999;

/// The most broken promises that are kept.
const MOST_BROKEN: usize = 20;

/// How often a value was served that can be known.
#[derive(Default)]
struct Presence {
    served: u32,
    of: u32,
    /// The first absence.
    first: Option<String>,
}

/// An object that has the values of a group.
struct Asked {
    group: Group,
    resource: &'static str,
    name: String,
    /// Whether its values could be known at the last poll: the server sees later changes of
    /// pods at the next.
    known: bool,
    /// The number of consecutive polls at which the replicas disagreed, by metric.
    apart: [u32; METRICS.len()],
}

/// All objects that are queried in a world, pods first.
fn asked(world: &World) -> Vec<Asked> {
    let ask = |group, resource, name: &str| Asked {
        group,
        resource,
        name: name.to_owned(),
        known: false,
        apart: Default::default(),
    };
    let pods = world.pods.iter().enumerate();
    let mut all: Vec<Asked> = pods
        .map(|(number, pod)| ask(Group::Pod(number), "pods", &pod.name))
        .collect();
    let workloads: BTreeSet<&str> = world.pods.iter().map(|pod| pod.workload).collect();
    let workloads = workloads.into_iter();
    all.extend(workloads.map(|name| ask(Group::Workload(name), "deployments.apps", name)));
    all.push(ask(Group::Namespace, "namespaces", NAMESPACE));
    all.push(ask(Group::Cluster, "cluster", ""));
    all
}

/// Runs a world to its end, and returns the broken promises, each with its time.
pub(super) fn run(world: &World) -> Vec<String> {
    let store = Store::new(world);
    let signals = signals(world).len();
    let mut run = Run {
        oracle: Oracle::new(world, &store),
        polled: START,
        presence: Default::default(),
        broken: Vec::new(),
    };
    let mut all = asked(world);
    let mut first = Replica::new(world, START);
    let mut second: Option<Replica> = None;
    let mut now = START;
    while now < world.secs {
        // Served values are oldest just before a poll.
        run.look_at_all(&mut all, (&first, None), now);
        first.poll(world, &store, now);
        run.polled = now;
        if (0..signals).any(|signal| !world.refuses(signal, now)) {
            run.oracle.times.hear(now);
        }
        if now >= world.restart {
            let second = second.get_or_insert_with(|| Replica::new(world, now));
            second.poll(world, &store, now);
        }
        let ready = second.as_ref().filter(|second| second.ready);
        run.look_at_all(&mut all, (&first, ready), now);
        now += world.poll;
    }
    for Presence { served, of, first } in run.presence {
        if f64::from(served) < PRESENT * f64::from(of) {
            let first = first.unwrap_or_default();
            run.broken.push(format!(
                "{served} of {of} values are served; first absent: {first}"
            ));
        }
    }
    run.broken
}

struct Run<'a> {
    oracle: Oracle<'a>,
    /// The time of the last poll.
    polled: f64,
    /// Of pods, of sums of Deployments, and of all others.
    presence: [Presence; 3],
    broken: Vec<String>,
}

impl Run<'_> {
    fn look_at_all(&mut self, all: &mut [Asked], replicas: (&Replica, Option<&Replica>), now: f64) {
        let pods = &self.oracle.world.pods;
        let lives = |group| match group {
            Group::Pod(pod) => pods[pod].lives.contains(&now),
            _ => true,
        };
        if let Some(read) = replicas.0.read.filter(|_| now > 0.0) {
            for asked in all.iter_mut().filter(|asked| lives(asked.group)) {
                self.look(asked, replicas, (now, read));
            }
        }
    }

    /// Checks one object at one poll.
    fn look(
        &mut self,
        asked: &mut Asked,
        (first, second): (&Replica, Option<&Replica>),
        (now, read): (f64, f64),
    ) {
        let group = asked.group;
        let known = self.oracle.is_known(group, now, read);
        let before = std::mem::replace(&mut asked.known, known);
        let may = self.oracle.may_be_served(group, now, read);
        // A GPU is held as long as any signal reports it.
        let half_read = now - read > self.oracle.world.poll;
        // Between polls values do not change, but only age.
        let truth = (read >= now).then(|| self.oracle.truth(group, now, read));
        let count = if matches!(group, Group::Pod(_)) {
            1
        } else {
            METRICS.len()
        };
        for metric in 0..count {
            let of = |it: &Replica| it.value(asked.resource, &asked.name, METRICS[metric], now);
            let value = of(first);
            if known && (before || self.polled == now) {
                self.presence(asked, metric, value, now);
            }
            if value.is_some() && !may[metric] && (metric < 2 || !half_read) {
                self.breaks(asked, metric, now, "is overdue");
            }
            match (value, &truth) {
                (Some(_), Some(None)) => self.breaks(asked, metric, now, "has a value of nothing"),
                (Some(value), Some(Some(bounds))) => {
                    self.truth((asked, metric), value, bounds[metric], now);
                }
                _ => {}
            }
            if let Some(other) = second.map(of) {
                self.agreement(asked, metric, (value, other), now);
            }
        }
    }

    fn breaks(&mut self, asked: &Asked, metric: usize, now: f64, what: &str) {
        if self.broken.len() < MOST_BROKEN {
            let (metric, Asked { resource, name, .. }) = (METRICS[metric], asked);
            let broken = format!("{now:.0} s: {metric} of {resource} {name} {what}");
            self.broken.push(broken);
        }
    }

    /// Checks that a value is served if it can be known.
    fn presence(&mut self, asked: &Asked, metric: usize, value: Option<f64>, now: f64) {
        let presence = match (asked.resource, metric) {
            ("pods", _) => &mut self.presence[0],
            ("deployments.apps", 1) => &mut self.presence[1],
            _ => &mut self.presence[2],
        };
        presence.of += 1;
        presence.served += u32::from(value.is_some());
        if value.is_none() {
            let absent = || format!("{} {} at {now:.0} s", asked.resource, asked.name);
            presence.first.get_or_insert_with(absent);
        }
    }

    /// Checks that a value is within its bounds. GPUs of a world are never idle, so unknown is
    /// never zero.
    fn truth(&mut self, (asked, metric): (&Asked, usize), value: f64, bounds: Bounds, now: f64) {
        let same = SAME * bounds.high;
        let unknown = value == 0.0 && metric < 2;
        if unknown || value < bounds.low - same || value > bounds.high + same {
            let what = format!("is {value:.2}, not within {bounds:?}");
            self.breaks(asked, metric, now, &what);
        }
    }

    /// Checks that two replicas do not disagree at two consecutive polls.
    fn agreement(
        &mut self,
        asked: &mut Asked,
        metric: usize,
        (one, other): (Option<f64>, Option<f64>),
        now: f64,
    ) {
        let alone = one.is_some() != other.is_some();
        let apart = one.zip(other).map_or(0.0, |(one, other)| {
            (one - other).abs() / one.abs().max(other.abs()).max(SAME)
        });
        let run = &mut asked.apart[metric];
        *run = if apart > APART || alone { *run + 1 } else { 0 };
        if *run > 1 && self.must_agree(asked.group, now) {
            let what = format!("differs between replicas: {one:?}, {other:?}");
            self.breaks(asked, metric, now, &what);
        }
    }

    /// Whether the replicas have had time to agree, and no target or store was silent. A
    /// replica that starts during a long silence does not read the samples before it.
    fn must_agree(&self, group: Group, now: f64) -> bool {
        let world = self.oracle.world;
        let mut silent = world.all("silent").chain(world.all("down"));
        let until = world.restart - READ_BACK;
        if silent.any(|it| it.during.start < until && it.during.end > world.restart) {
            return false;
        }
        let (scrape, fresh) = self.oracle.slowest(group, now);
        // It does not know when pods ended before.
        let window = world.window.unwrap_or(60) as f64;
        let mut unknown = world.pods.iter().enumerate().filter(|(pod, of)| {
            let since_start = world.restart - of.lives.end;
            (0.0..2.0 * (window + fresh)).contains(&since_start)
                && self.oracle.has(group, Some(*pod))
        });
        if unknown.next().is_some() && now < world.restart + window + fresh {
            return false;
        }
        let settled = now >= world.restart + 2.0 * scrape && scrape < SLOW;
        let outage =
            |during: std::ops::Range<f64>| (during.start..during.end + 2.0 * fresh).contains(&now);
        settled && !world.outages().any(outage)
    }
}

//! Runs a world: two replicas poll and are queried, and the oracle checks the values.

use std::collections::BTreeSet;

use super::build::Built;
use super::cluster::NAMESPACE;
use super::content::Store;
use super::oracle::{Group, Oracle};
use super::replica::{METRICS, Replica};
use super::times::Between;
use super::world::World;

/// The start of the first replica, long before the first check.
const START: f64 = -400.0;

/// How far back a starting replica reads, in seconds.
const READ_BACK: f64 = 1200.0;

/// Values that differ by less than this share of a bound are equal: S is in whole
/// seconds.
const SAME: f64 = 0.005;

/// Replicas whose values differ by more than this share disagree.
const APART: f64 = 0.05;

/// Replicas may disagree for targets with at least this scrape interval, in seconds.
const SLOW: f64 = 59.0;

/// The least share of the time with a value, where one can be known.
const PRESENT: f64 = 0.999;

/// How often a value was served that can be known.
#[derive(Default)]
struct Presence {
    served: u32,
    of: u32,
    /// The first absence.
    first: Option<String>,
}

/// The most broken promises that are kept.
const MOST_BROKEN: usize = 20;

/// Objects that have the values of one group.
struct Asked {
    group: Group,
    objects: Vec<Object>,
}

struct Object {
    resource: &'static str,
    name: String,
    /// The number of consecutive polls at which the replicas disagreed, by metric.
    apart: [u32; METRICS.len()],
}

/// All objects that are queried in a world, pods first.
fn asked(built: &Built) -> Vec<Asked> {
    let ask = |group, resources: &[&'static str], name: &str| Asked {
        group,
        objects: resources
            .iter()
            .map(|resource| Object {
                resource,
                name: name.to_owned(),
                apart: Default::default(),
            })
            .collect(),
    };
    let pods = built.pods.iter().enumerate();
    let mut all: Vec<Asked> = pods
        .map(|(number, pod)| ask(Group::Pod(number), &["pods"], &pod.name))
        .collect();
    let workloads: BTreeSet<&'static str> = built.pods.iter().map(|pod| pod.workload).collect();
    for name in workloads {
        all.push(ask(Group::Workload(name), &["deployments.apps"], name));
    }
    all.push(ask(Group::Namespace, &["namespaces"], NAMESPACE));
    all.push(ask(Group::Cluster, &["cluster"], ""));
    all
}

/// Runs a world to its end, and returns the broken promises, each with its time.
pub(super) fn run(world: &World) -> Vec<String> {
    let built = Built::new(world);
    let store = Store::new(world, &built);
    let mut run = Run {
        oracle: Oracle::new(world, &built, &store),
        presence: Default::default(),
        broken: Vec::new(),
    };
    let mut all = asked(&built);
    let mut first = Replica::new(world, &built, START);
    let mut second: Option<Replica> = None;
    let mut now = START;
    while now < world.secs {
        // Served values are oldest just before a poll.
        run.look_at_all(&mut all, (&first, None), now);
        first.poll(world, &built, &store, now);
        if (0..2).any(|signal| !world.refuses(signal, now)) {
            run.oracle.times.read(&built, now);
        }
        if now >= world.restart {
            second
                .get_or_insert_with(|| Replica::new(world, &built, now))
                .poll(world, &built, &store, now);
        }
        let ready = second.as_ref().filter(|second| second.ready);
        run.look_at_all(&mut all, (&first, ready), now);
        now += world.poll();
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
    /// Of pods, of sums of Deployments, and of all others.
    presence: [Presence; 3],
    broken: Vec<String>,
}

impl Run<'_> {
    fn look_at_all(&mut self, all: &mut [Asked], replicas: (&Replica, Option<&Replica>), now: f64) {
        if let Some(read) = replicas.0.read.filter(|_| now > 0.0) {
            for asked in all {
                self.look(asked, replicas, (now, read));
            }
        }
    }

    /// Checks the objects of one group at one poll.
    fn look(
        &mut self,
        asked: &mut Asked,
        (first, second): (&Replica, Option<&Replica>),
        (now, read): (f64, f64),
    ) {
        let group = asked.group;
        let of_pod = match group {
            Group::Pod(pod) if !self.oracle.built.pods[pod].lives.contains(&now) => return,
            Group::Pod(_) => true,
            _ => false,
        };
        let metrics = if of_pod { &METRICS[..1] } else { &METRICS[..] };
        let known = self.oracle.is_known(group, now, read);
        let may = self.oracle.may_be_served(group, now, read);
        // A GPU is held as long as any signal reports it.
        let half_read = now - read > self.oracle.world.poll();
        // Between polls values do not change, but only age.
        let truth = (read >= now).then(|| self.oracle.truth(group, now, read));
        for object in &mut asked.objects {
            let of = |replica: &Replica, metric| {
                replica.value(object.resource, &object.name, metric, now)
            };
            let values: Vec<Option<f64>> = metrics.iter().map(|metric| of(first, metric)).collect();
            let others = second.map(|second| metrics.iter().map(|metric| of(second, metric)));
            let others: Option<Vec<Option<f64>>> = others.map(Iterator::collect);
            for (metric, value) in values.iter().enumerate() {
                if known {
                    self.presence(object, metric, *value, now);
                }
                if value.is_some() && !may[metric] && (metric < 2 || !half_read) {
                    self.breaks(object, metric, now, "is overdue");
                }
                if let (Some(value), Some(truth)) = (value, &truth) {
                    self.truth(object, metric, *value, truth.map(|of| of[metric]), now);
                }
                if let Some(others) = &others {
                    self.agreement((group, object), metric, (*value, others[metric]), now);
                }
            }
        }
    }

    fn breaks(&mut self, object: &Object, metric: usize, now: f64, what: &str) {
        if self.broken.len() < MOST_BROKEN {
            let (metric, Object { resource, name, .. }) = (METRICS[metric], object);
            let broken = format!("{now:.0} s: {metric} of {resource} {name} {what}");
            self.broken.push(broken);
        }
    }

    /// Checks that a value is served if it can be known.
    fn presence(&mut self, object: &Object, metric: usize, value: Option<f64>, now: f64) {
        let presence = match (object.resource, metric) {
            ("pods", _) => &mut self.presence[0],
            ("deployments.apps", 1) => &mut self.presence[1],
            _ => &mut self.presence[2],
        };
        presence.of += 1;
        presence.served += u32::from(value.is_some());
        if value.is_none() {
            let absent = || format!("{} {} at {now:.0} s", object.resource, object.name);
            presence.first.get_or_insert_with(absent);
        }
    }

    /// Checks that a served value is within its bounds, and that unknown is never
    /// zero.
    fn truth(
        &mut self,
        object: &Object,
        metric: usize,
        value: f64,
        truth: Option<Between<f64>>,
        now: f64,
    ) {
        let Some(bounds) = truth else {
            return self.breaks(object, metric, now, "has a value of nothing");
        };
        // GPUs of a world are never idle.
        let unknown = value == 0.0 && metric < 2;
        let same = SAME * bounds.high;
        if unknown || value < bounds.low - same || value > bounds.high + same {
            let what = format!("is {value:.2}, not within {bounds:?}");
            self.breaks(object, metric, now, &what);
        }
    }

    /// Checks that two replicas do not disagree at two consecutive polls.
    fn agreement(
        &mut self,
        (group, object): (Group, &mut Object),
        metric: usize,
        (one, other): (Option<f64>, Option<f64>),
        now: f64,
    ) {
        let alone = one.is_some() != other.is_some();
        let apart = one.zip(other).map_or(0.0, |(one, other)| {
            (one - other).abs() / one.abs().max(other.abs()).max(SAME)
        });
        let run = &mut object.apart[metric];
        *run = if apart > APART || alone { *run + 1 } else { 0 };
        if *run > 1 && self.must_agree(group, now) {
            let what = format!("differs between replicas: {one:?}, {other:?}");
            self.breaks(object, metric, now, &what);
        }
    }

    /// Whether the replicas have had time to agree, and no target or store was silent. A
    /// replica that starts during a long silence does not read the samples before it.
    fn must_agree(&self, group: Group, now: f64) -> bool {
        let world = self.oracle.world;
        let mut silent = self.oracle.built.targets.iter().flat_map(|it| &it.silent);
        if silent.any(|it| it.start < world.restart - READ_BACK && it.end > world.restart) {
            return false;
        }
        let (scrape, fresh) = self.oracle.slowest(group, now);
        let settled = now >= world.restart + 2.0 * scrape && scrape < SLOW;
        let outage =
            |during: std::ops::Range<f64>| (during.start..during.end + 2.0 * fresh).contains(&now);
        settled && !world.outages().any(outage)
    }
}

//! Runs a world: two replicas poll and are asked, the oracle judges.

use std::collections::BTreeSet;

use super::build::Built;
use super::cluster::NAMESPACE;
use super::content::Store;
use super::figures::Figures;
use super::oracle::{Group, Oracle, Rigour};
use super::replica::{METRICS, Replica};
use super::world::World;

/// When the first replica starts: long before anything is looked at.
const START: f64 = -400.0;

/// Below this, two values are the same.
const SAME: f64 = 1e-6;

/// Something that is asked for.
struct Asked {
    group: Group,
    resource: &'static str,
    name: String,
    /// Since when everything it needs has been there without a break, by
    /// metric.
    well_since: Option<f64>,
    /// Whether a value was missing since the event.
    was_absent: bool,
}

/// Everything that is asked for in a world, the pods first.
fn asked(built: &Built) -> Vec<Asked> {
    let ask = |group, resource, name: &str| Asked {
        group,
        resource,
        name: name.to_owned(),
        well_since: None,
        was_absent: false,
    };
    let pods = built.pods.iter().enumerate();
    let mut all: Vec<Asked> = pods
        .map(|(number, pod)| ask(Group::Pod(number), "pods", &pod.name))
        .collect();
    let workloads: BTreeSet<&'static str> = built.pods.iter().map(|pod| pod.workload).collect();
    for name in workloads {
        all.push(ask(Group::Workload(name), "deployments.apps", name));
        all.push(ask(Group::Workload(name), "services", name));
    }
    all.push(ask(Group::Namespace, "namespaces", NAMESPACE));
    all.push(ask(Group::Cluster, "cluster", ""));
    all
}

/// Runs a world to its end.
pub(super) fn run(world: &World) -> Figures {
    let built = Built::new(world);
    let store = Store::new(world, &built);
    let mut run = Run {
        oracle: Oracle::new(world, &built, &store),
        figures: Figures {
            name: world.name,
            ..Figures::default()
        },
    };
    let mut all = asked(&built);
    let mut first = Replica::new(world, &built, START);
    let mut second: Option<Replica> = None;
    let mut now = START;
    while now < world.secs {
        // Just before a poll, what is served is oldest.
        if now > 0.0
            && let Some(read) = first.read
        {
            for asked in &mut all {
                run.look(asked, (&first, None), now, read);
            }
        }
        first.poll(world, &built, &store, now);
        if now >= world.restart {
            second
                .get_or_insert_with(|| Replica::new(world, &built, now))
                .poll(world, &built, &store, now);
        }
        if now > 0.0
            && let Some(read) = first.read
        {
            let ready = second.as_ref().filter(|second| second.ready);
            for asked in &mut all {
                run.look(asked, (&first, ready), now, read);
            }
        }
        now += world.poll();
    }
    run.figures
}

struct Run<'a> {
    oracle: Oracle<'a>,
    figures: Figures,
}

impl Run<'_> {
    /// Looks at one object at one poll.
    fn look(
        &mut self,
        asked: &mut Asked,
        (first, second): (&Replica, Option<&Replica>),
        now: f64,
        read: f64,
    ) {
        if let Group::Pod(pod) = asked.group
            && !self.oracle.built.pods[pod].lives.contains(&now)
        {
            return;
        }
        let metrics = if asked.resource == "pods" {
            &METRICS[..1]
        } else {
            &METRICS[..]
        };
        let values: Vec<Option<f64>> = metrics
            .iter()
            .map(|metric| first.value(asked.resource, &asked.name, metric, now))
            .collect();
        self.presence(asked, &values, now, read);
        self.end(asked, &values, now, read);
        // Between polls nothing becomes another: only older.
        if read >= now {
            self.truth(asked, &values, now, read);
        }
        if let Some(second) = second {
            for (metric, value) in metrics.iter().zip(&values) {
                let other = second.value(asked.resource, &asked.name, metric, now);
                self.agreement(asked, (*value, other), (now, read));
            }
        }
    }

    /// A value that can be known is there.
    fn presence(&mut self, asked: &mut Asked, values: &[Option<f64>], now: f64, read: f64) {
        let must = |rigour| self.oracle.must(asked.group, now, read, rigour);
        let figures = &mut self.figures;
        if must(Rigour::Table) {
            for (place, value) in values.iter().enumerate() {
                let share = match (asked.resource, place) {
                    ("pods", _) => &mut figures.pods,
                    ("deployments.apps", 1) => &mut figures.sums,
                    _ => &mut figures.others,
                };
                share.count(value.is_some());
            }
        }
        asked.well_since = match asked.well_since {
            _ if !must(Rigour::Promise) => None,
            None => Some(now),
            since => since,
        };
        if self.is_well(asked, now) && values.iter().any(Option::is_none) {
            self.figures.breaks(|| {
                format!(
                    "{now:.0} s: {} {} is missing: {values:?}",
                    asked.resource, asked.name
                )
            });
        }
    }

    /// Whether all has been there for longer than any window reaches.
    fn is_well(&self, asked: &Asked, now: f64) -> bool {
        let settling = self.oracle.longest_window() + self.oracle.longest_hold();
        let since = asked.well_since;
        since.is_some_and(|since| now - since > settling)
    }

    /// Nothing older than promised is served.
    fn end(&mut self, asked: &mut Asked, values: &[Option<f64>], now: f64, read: f64) {
        for (place, value) in values.iter().take(2).enumerate() {
            let share = if place == 0 { 0.5 } else { 0.1 };
            if value.is_none() {
                continue;
            }
            let until = self.oracle.may_until(asked.group, now, read, share);
            if now > until {
                let over = now - until;
                self.figures.overdue = self.figures.overdue.max(over);
                self.figures.breaks(|| {
                    format!(
                        "{now:.0} s: {} {} is {over:.0} s overdue",
                        asked.resource, asked.name
                    )
                });
            }
        }
        let Some(event) = &self.oracle.world.event else {
            return;
        };
        let absent = match (asked.resource, asked.group) {
            ("pods", Group::Pod(pod)) if self.is_hit(pod, event.start) => {
                (&mut self.figures.pods_absent, values[0])
            }
            ("deployments.apps", _) => (&mut self.figures.sums_absent, values[1]),
            _ => return,
        };
        if event.contains(&now) {
            asked.was_absent |= absent.1.is_none();
            if !asked.was_absent {
                let secs = now - event.start;
                *absent.0 = Some(absent.0.unwrap_or(0.0).max(secs));
            }
        }
    }

    /// Whether all that a pod has falls silent with the event.
    fn is_hit(&self, pod: usize, at: f64) -> bool {
        let built = self.oracle.built;
        let targets = built.pods[pod]
            .devices
            .iter()
            .flat_map(|device| &built.devices[*device].targets);
        let mut targets = targets.map(|target| &built.targets[*target]);
        targets.all(|target| target.is_silent(at + 1.0))
    }

    /// A value that is there is right.
    fn truth(&mut self, asked: &Asked, values: &[Option<f64>], now: f64, read: f64) {
        if values.iter().all(Option::is_none) {
            return;
        }
        let Some(reference) =
            self.oracle
                .reference(asked.group, (now, read), self.is_well(asked, now))
        else {
            self.figures
                .breaks(|| format!("{now:.0} s: {} has a value of nothing", asked.name));
            return;
        };
        for (place, (value, bounds)) in values.iter().zip(reference.0).enumerate() {
            let Some(value) = value else { continue };
            let low = if bounds.low > 0.0 {
                value / bounds.low
            } else {
                f64::INFINITY
            };
            let high = value / bounds.high;
            let least = if place == 0 { 1.0 } else { 0.9 };
            let ratio = match place {
                0 => &mut self.figures.mean,
                1 => &mut self.figures.sum,
                _ => &mut self.figures.count,
            };
            ratio.take(low, high);
            if low < least - SAME || high > 1.0 + SAME {
                let metric = METRICS[place];
                self.figures.breaks(|| {
                    format!(
                        "{now:.0} s: {metric} of {} {} is {value:.2}, not within {bounds:?}",
                        asked.resource, asked.name
                    )
                });
            }
        }
    }

    /// Two replicas that have read the same samples say the same.
    fn agreement(
        &mut self,
        asked: &Asked,
        (one, other): (Option<f64>, Option<f64>),
        (now, read): (f64, f64),
    ) {
        let figures = &mut self.figures;
        figures.lonely.count(one.is_some() != other.is_some());
        let apart = one.zip(other).map_or(0.0, |(one, other)| {
            (one - other).abs() / one.abs().max(other.abs()).max(SAME)
        });
        figures.apart.count(apart > SAME);
        figures.farthest = figures.farthest.max(apart);
        let lonely = one.is_some() != other.is_some();
        let differ = apart > SAME || lonely && self.oracle.knows_habits(asked.group, now, read);
        if differ && self.oracle.must_agree(asked.group, now, read) {
            figures.breaks(|| {
                format!(
                    "{now:.0} s: replicas differ on {} {}: {one:?}, {other:?}",
                    asked.resource, asked.name
                )
            });
        }
    }
}

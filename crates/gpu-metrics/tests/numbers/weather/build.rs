//! Builds targets, devices and pods from a description.

use std::ops::Range;

use super::FOREVER;
use super::world::{Fleet, Naming, Weather, World};
use simulator::random::Noise;

/// A random generator.
#[derive(Debug)]
pub(super) struct Dice(Noise, u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(Noise::new(seed), 0)
    }

    pub(super) const fn next(&mut self) -> Noise {
        self.1 += 1;
        self.0.at(self.1)
    }

    pub(super) const fn between(&mut self, low: f64, high: f64) -> f64 {
        self.next().between(low, high)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.next().below(bound as u64) as usize
    }
}

/// A scraped exporter.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) job: &'static str,
    pub(super) source: &'static str,
    pub(super) node: String,
    pub(super) scrape: f64,
    pub(super) renew: f64,
    pub(super) phase: f64,
    pub(super) renew_phase: f64,
    pub(super) second: Option<f64>,
    pub(super) jitter: f64,
    pub(super) naming: Naming,
    pub(super) lives: Range<f64>,
    /// Times of wrong clocks, and their errors.
    pub(super) clocks: Vec<(Range<f64>, f64)>,
    pub(super) silent: Vec<Range<f64>>,
    pub(super) frozen: Vec<Range<f64>>,
    /// Times without pods in the series.
    pub(super) unlabelled: Vec<Range<f64>>,
}

impl Target {
    /// The error of its clock.
    pub(super) fn clock(&self, at: f64) -> f64 {
        let now = |(during, _): &&(Range<f64>, f64)| during.contains(&at);
        self.clocks.iter().find(now).map_or(0.0, |(_, secs)| *secs)
    }

    /// Whether its exporter is silent.
    pub(super) fn is_silent(&self, at: f64) -> bool {
        within(&self.silent, at)
    }
}

/// Whether a time is within one of the ranges.
pub(super) fn within(ranges: &[Range<f64>], at: f64) -> bool {
    ranges.iter().any(|range| range.contains(&at))
}

/// A GPU.
#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) uuid: String,
    pub(super) gpu: usize,
    /// The targets of its exporter: one for each job.
    pub(super) targets: Vec<usize>,
    pub(super) percent: f64,
    pub(super) swing_phase: f64,
    pub(super) lost: Vec<Range<f64>>,
    /// If it has the profiling field, the end of its percentages.
    pub(super) profiled: Option<f64>,
    /// The pods that its series name, and when.
    pub(super) holds: Vec<(Range<f64>, usize)>,
    /// Whether several pods hold it at the same time.
    pub(super) shared: bool,
}

/// A pod that holds GPUs.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) name: String,
    pub(super) workload: &'static str,
    pub(super) node: String,
    pub(super) lives: Range<f64>,
    pub(super) devices: Vec<usize>,
}

/// Everything in a world.
#[derive(Clone, Debug, Default)]
pub(super) struct Built {
    pub(super) targets: Vec<Target>,
    pub(super) devices: Vec<Device>,
    pub(super) pods: Vec<Pod>,
    /// Time and load of a change of every GPU's load.
    pub(super) jump: Option<(f64, f64)>,
}

impl Built {
    /// Builds a world.
    pub(super) fn new(world: &World) -> Self {
        let mut built = Self::default();
        let mut dice = Dice::new(world.seed);
        for fleet in &world.fleets {
            built.join(fleet, -FOREVER, 0.0, &(0.0..0.0), &mut dice);
        }
        // Initial state comes before changes to it.
        let (initial, later): (Vec<&Weather>, Vec<&Weather>) =
            world.weather.iter().partition(|it| it.what == "shared");
        for weather in initial.into_iter().chain(later) {
            built.add(weather, &mut dice);
        }
        for weather in &world.weather {
            built.afflict(weather);
        }
        built
    }

    fn join(&mut self, fleet: &Fleet, at: f64, every: f64, unseen: &Range<f64>, dice: &mut Dice) {
        for place in 0..fleet.targets {
            let target = self.targets.len();
            self.targets.push(Target {
                job: fleet.job,
                source: fleet.source,
                node: format!("node-{target}"),
                scrape: fleet.scrape,
                renew: fleet.renew,
                phase: fleet
                    .phase
                    .unwrap_or_else(|| dice.between(0.0, fleet.scrape)),
                renew_phase: dice.between(0.0, fleet.renew),
                second: fleet.second,
                jitter: fleet.jitter,
                naming: fleet.naming,
                lives: -FOREVER..FOREVER,
                clocks: Vec::new(),
                silent: Vec::new(),
                frozen: Vec::new(),
                unlabelled: Vec::new(),
            });
            for gpu in 0..fleet.gpus {
                self.devices.push(Device {
                    uuid: format!("GPU-{}", self.devices.len()),
                    gpu,
                    targets: vec![target],
                    percent: dice.between(40.0, 60.0),
                    swing_phase: dice.between(0.0, 6.0),
                    lost: Vec::new(),
                    profiled: None,
                    holds: Vec::new(),
                    shared: false,
                });
            }
            let start = at + place as f64 * every;
            self.start(fleet.workload, target, start, unseen, dice);
        }
    }

    /// Starts a pod that takes all GPUs of a target.
    fn start(
        &mut self,
        workload: &'static str,
        target: usize,
        at: f64,
        unseen: &Range<f64>,
        dice: &mut Dice,
    ) {
        let Some((node, end)) = self
            .targets
            .get(target)
            .map(|of| (of.node.clone(), of.lives.end))
        else {
            return;
        };
        // No pod starts on a removed node, or outlives its node.
        if at >= end {
            return;
        }
        let pod = self.pods.len();
        let seen = at + dice.between(unseen.start, unseen.end);
        // The former holder of the GPUs is gone by then.
        for before in 0..pod {
            let of_target = |device: &usize| self.devices[*device].targets[0] == target;
            if at > -FOREVER && self.pods[before].devices.iter().any(of_target) {
                self.end(before, at, 0.0);
            }
        }
        let mut devices = Vec::new();
        for (index, device) in self.devices.iter_mut().enumerate() {
            if device.targets.first() == Some(&target) {
                device.holds.push((seen..end, pod));
                devices.push(index);
            }
        }
        self.pods.push(Pod {
            name: format!("{workload}-6d4cf56db6-{}", dice.next().suffix(5)),
            workload,
            node,
            lives: at..end,
            devices,
        });
    }

    /// Adds or removes pods and nodes, in the order of the list.
    fn add(&mut self, weather: &Weather, dice: &mut Dice) {
        let (at, every, of) = (weather.number, weather.every, weather.of.clone());
        match weather.what {
            "join" => {
                let fleet = weather.fleet.as_ref();
                fleet
                    .into_iter()
                    .for_each(|fleet| self.join(fleet, at, every, &weather.late, dice));
            }
            "start" => {
                for (place, target) in of.enumerate() {
                    let at = at + place as f64 * every;
                    self.start(weather.name, target, at, &weather.late, dice);
                }
            }
            "shared" => {
                for target in of {
                    for _ in 1..weather.number as usize {
                        self.start("w", target, -FOREVER, &(0.0..0.0), dice);
                    }
                    for device in &mut self.devices {
                        device.shared |= device.targets.first() == Some(&target);
                    }
                }
            }
            "job" => self.scrape_again(dice, |target| {
                (target.job, target.scrape) = (weather.name, weather.number);
            }),
            "pair" => self.scrape_again(dice, |target| target.source = "b"),
            "end" => {
                for (place, pod) in of.enumerate() {
                    self.end(pod, at + place as f64 * every, weather.late.start);
                }
            }
            "leave" => {
                for target in self.exporters(&of) {
                    target.lives.end = at;
                }
                let nodes = each(&mut self.targets, &of).map(|target| target.node.clone());
                let nodes: Vec<String> = nodes.collect();
                for pod in 0..self.pods.len() {
                    if nodes.contains(&self.pods[pod].node) {
                        self.end(pod, at, 0.0);
                    }
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, pod: usize, at: f64, labels_late: f64) {
        let Some(one) = self.pods.get_mut(pod) else {
            return;
        };
        one.lives.end = at.min(one.lives.end);
        for device in &one.devices {
            for (during, of) in &mut self.devices[*device].holds {
                if *of == pod {
                    during.end = during.end.min(at + labels_late);
                }
            }
        }
    }

    /// Adds a second target for every exporter, changed by `differs`.
    fn scrape_again(&mut self, dice: &mut Dice, differs: impl Fn(&mut Target)) {
        for first in 0..self.targets.len() {
            let mut again = self.targets[first].clone();
            differs(&mut again);
            again.phase = dice.between(0.0, again.scrape);
            let number = self.targets.len();
            self.targets.push(again);
            for device in &mut self.devices {
                if device.targets.contains(&first) {
                    device.targets.push(number);
                }
            }
        }
    }

    /// The targets with these numbers, and those of other jobs on their nodes.
    fn exporters(&mut self, targets: &Range<usize>) -> impl Iterator<Item = &mut Target> {
        let nodes: Vec<String> = each(&mut self.targets, targets)
            .map(|target| target.node.clone())
            .collect();
        let among = move |target: &&mut Target| nodes.contains(&target.node);
        self.targets.iter_mut().filter(among)
    }

    /// Applies events to the existing exporters and pods.
    fn afflict(&mut self, weather: &Weather) {
        let Weather {
            of, during, number, ..
        } = weather;
        let during = || during.clone();
        match weather.what {
            "silent" => self.exporters(of).for_each(|it| it.silent.push(during())),
            "frozen" if weather.name == "*" => {
                self.exporters(of).for_each(|it| it.frozen.push(during()));
            }
            "frozen" => {
                let of_job = self.targets.iter_mut().filter(|it| it.job == weather.name);
                of_job.for_each(|it| it.frozen.push(during()));
            }
            "unlabelled" => self
                .exporters(of)
                .for_each(|it| it.unlabelled.push(during())),
            "down" => self
                .targets
                .iter_mut()
                .for_each(|it| it.silent.push(during())),
            "clock" => {
                each(&mut self.targets, of).for_each(|it| it.clocks.push((during(), *number)));
            }
            "profiled" => each(&mut self.devices, of).for_each(|it| it.profiled = Some(*number)),
            "gpus-lost" => each(&mut self.devices, of).for_each(|it| it.lost.push(during())),
            "load" => each(&mut self.devices, of).for_each(|it| it.percent = *number),
            "jump" => self.jump = Some((during().start, *number)),
            _ => {}
        }
    }
}

/// The existing elements in a range.
fn each<'a, T>(all: &'a mut [T], range: &Range<usize>) -> impl Iterator<Item = &'a mut T> {
    let end = range.end.min(all.len());
    all[range.start.min(end)..end].iter_mut()
}

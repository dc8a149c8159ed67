//! A world: exporters, GPUs and pods over time, and what befalls them.

use std::ops::Range;

use super::random::Dice;

/// A time after every world.
pub(super) const FOREVER: f64 = 1e9;

/// An event, or a condition that lasts.
#[derive(Clone, Debug)]
pub(super) struct Weather {
    pub(super) what: &'static str,
    /// A job, a source or a workload; `*` is any.
    pub(super) name: &'static str,
    /// Targets, pods or devices.
    pub(super) of: Range<usize>,
    pub(super) during: Range<f64>,
    /// Seconds, a share, or whatever the word says.
    pub(super) number: f64,
    pub(super) every: f64,
    /// How late labels are, in seconds.
    pub(super) late: Range<f64>,
}

impl Weather {
    /// The times at which it happens, up to a time.
    fn times(&self, until: f64) -> impl Iterator<Item = Range<f64>> {
        let Range { start, end } = self.during;
        let is_repeated = self.every > 0.0 && end < FOREVER;
        let every = if is_repeated { self.every } else { FOREVER };
        let starts = (0..).map(move |place| start + f64::from(place) * every);
        let starts = starts.take_while(move |at| *at <= until || *at == start);
        starts.map(move |at| at..at + end - start)
    }

    fn is_at(&self, at: f64) -> bool {
        self.times(at).any(|during| during.contains(&at))
    }
}

/// A scraped exporter.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) job: &'static str,
    /// The Prometheus that scrapes it, as an external label.
    pub(super) source: &'static str,
    pub(super) node: String,
    /// The first target of its node: other jobs have more of them.
    pub(super) first: usize,
    /// The scrape interval, in seconds.
    pub(super) scrape: f64,
    /// How often the exporter reads its GPUs, in seconds.
    pub(super) renew: f64,
    /// When in its interval it is scraped; NaN in a fleet: at random.
    pub(super) phase: f64,
    pub(super) renew_phase: f64,
    /// A second scraper writes the same series this many seconds later.
    pub(super) second: Option<f64>,
    /// Jitter of scrape times, in seconds.
    pub(super) jitter: f64,
    /// More labels of its series, with `#` in place of the node.
    pub(super) labels: &'static str,
    pub(super) lives: Range<f64>,
}

/// Exporters of one kind, with the pods on their GPUs.
pub(super) struct Fleet {
    /// The Deployment of the pods.
    pub(super) workload: &'static str,
    pub(super) targets: usize,
    /// GPUs for each target.
    pub(super) gpus: usize,
    pub(super) like: Target,
}

#[derive(Clone, Debug)]
pub(super) struct Device {
    pub(super) uuid: String,
    pub(super) gpu: usize,
    /// The targets of its exporter: one for each job.
    pub(super) targets: Vec<usize>,
    pub(super) percent: f64,
    pub(super) swing_phase: f64,
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

#[derive(Debug, Default)]
pub(super) struct World {
    pub(super) name: &'static str,
    /// The seed of all random choices.
    pub(super) seed: u64,
    /// Its duration, in seconds.
    pub(super) secs: f64,
    /// The time between polls: as set, or else as the server chooses.
    pub(super) poll: f64,
    /// `gpu.window`, in seconds.
    pub(super) window: Option<u64>,
    /// How much the load of each GPU varies, as a share of it.
    pub(super) swing: f64,
    /// The start of the second replica.
    pub(super) restart: f64,
    pub(super) weather: Vec<Weather>,
    pub(super) targets: Vec<Target>,
    pub(super) devices: Vec<Device>,
    pub(super) pods: Vec<Pod>,
}

impl World {
    /// Creates what the fleets describe, and changes it by the weather.
    pub(super) fn build(&mut self, fleets: &[Fleet], joining: &[Fleet]) {
        let dice = &mut Dice::new(self.seed);
        for fleet in fleets {
            self.join(fleet, (-FOREVER, 0.0), &(0.0..0.0), dice);
        }
        let (mut joining, weather) = (joining.iter(), self.weather.clone());
        // Initial state comes before changes to it.
        let is_initial = |it: &&Weather| it.what == "shared";
        let later = weather.iter().filter(|it| !is_initial(it));
        for it in weather.iter().filter(is_initial).chain(later) {
            let pace = (it.number, it.every);
            match it.what {
                "join" => self.join(joining.next().unwrap(), pace, &it.late, dice),
                _ => self.change(it, dice),
            }
        }
    }

    fn join(
        &mut self,
        fleet: &Fleet,
        (at, every): (f64, f64),
        unseen: &Range<f64>,
        dice: &mut Dice,
    ) {
        for place in 0..fleet.targets {
            let (target, like) = (self.targets.len(), &fleet.like);
            self.targets.push(Target {
                node: format!("node-{target}"),
                first: target,
                phase: match like.phase.is_nan() {
                    true => dice.between(0.0, like.scrape),
                    false => like.phase,
                },
                renew_phase: dice.between(0.0, like.renew),
                ..like.clone()
            });
            for gpu in 0..fleet.gpus {
                self.devices.push(Device {
                    uuid: format!("GPU-{}", self.devices.len()),
                    gpu,
                    targets: vec![target],
                    percent: dice.between(40.0, 60.0),
                    swing_phase: dice.between(0.0, 6.0),
                    holds: Vec::new(),
                    shared: false,
                });
            }
            let start = at + place as f64 * every;
            self.start((fleet.workload, target), start, unseen, dice);
        }
    }

    /// Starts a pod that takes all GPUs of a target.
    fn start(
        &mut self,
        (workload, target): (&'static str, usize),
        at: f64,
        unseen: &Range<f64>,
        dice: &mut Dice,
    ) {
        let Some(Target { node, lives, .. }) = self.targets.get(target).cloned() else {
            return;
        };
        // No pod starts on a removed node, or outlives its node.
        if at >= lives.end {
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
            if device.targets[0] == target {
                device.holds.push((seen..lives.end, pod));
                devices.push(index);
            }
        }
        self.pods.push(Pod {
            name: format!("{workload}-6d4cf56db6-{}", dice.next().suffix(5)),
            workload,
            node,
            lives: at..lives.end,
            devices,
        });
    }

    /// Adds or removes pods and nodes, in the order of the list.
    fn change(&mut self, it: &Weather, dice: &mut Dice) {
        let at = |place: usize| it.number + place as f64 * it.every;
        match it.what {
            "start" => {
                for (place, target) in it.of.clone().enumerate() {
                    self.start((it.name, target), at(place), &it.late, dice);
                }
            }
            "shared" => {
                for target in it.of.clone() {
                    for _ in 1..it.number as usize {
                        self.start(("w", target), -FOREVER, &(0.0..0.0), dice);
                    }
                    for device in &mut self.devices {
                        device.shared |= device.targets[0] == target;
                    }
                }
            }
            "job" => self.scrape_again(dice, |target| {
                (target.job, target.scrape) = (it.name, it.number);
            }),
            "pair" => self.scrape_again(dice, |target| {
                target.source = if target.source == "a" { "b" } else { "a" };
            }),
            "end" => {
                for (place, pod) in it.of.clone().enumerate() {
                    self.end(pod, at(place), it.late.start);
                }
            }
            "leave" => {
                let left = self
                    .targets
                    .iter_mut()
                    .filter(|of| it.of.contains(&of.first));
                left.for_each(|target| target.lives.end = it.number);
                for pod in 0..self.pods.len() {
                    let target = self.devices[self.pods[pod].devices[0]].targets[0];
                    if it.of.contains(&target) {
                        self.end(pod, it.number, 0.0);
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

    /// The weather of a kind on a target.
    pub(super) fn on_target(
        &self,
        what: &'static str,
        number: usize,
    ) -> impl Iterator<Item = &Weather> {
        let target = &self.targets[number];
        self.all(what).filter(move |it| match what {
            "down" => true,
            "frozen" if it.name != "*" => it.name == target.job,
            "clock" => it.of.contains(&number),
            _ => it.of.contains(&target.first),
        })
    }

    /// The weather of a kind on a device.
    pub(super) fn on_device(
        &self,
        what: &'static str,
        device: usize,
    ) -> impl Iterator<Item = &Weather> {
        self.all(what).filter(move |it| it.of.contains(&device))
    }

    /// The weather of a kind.
    pub(super) fn all(&self, what: &'static str) -> impl Iterator<Item = &Weather> {
        self.weather.iter().filter(move |it| it.what == what)
    }

    pub(super) fn has(&self, what: &'static str) -> bool {
        self.all(what).next().is_some()
    }

    /// The largest number of a kind of weather that lasts; 0 without it.
    pub(super) fn most(&self, what: &'static str) -> f64 {
        self.all(what).map(|it| it.number).fold(0.0, f64::max)
    }

    /// The lag of a source at a time, without jitter and stalls.
    pub(super) fn lag(&self, source: &str, at: f64) -> f64 {
        let of = self.all("lag");
        let of = of.filter(|it| [source, "*"].contains(&it.name) && it.is_at(at));
        of.map(|it| it.number).last().unwrap_or(0.5)
    }

    /// When a sample of a source that arrives at a time becomes visible.
    pub(super) fn visible(&self, source: &str, at: f64) -> f64 {
        let stalls = self.all("stall").filter(|it| it.name == source);
        let stall = within(stalls, at);
        let during = stall.and_then(|it| it.times(at).last());
        during.map_or(at, |during| during.end)
    }

    /// Whether a query for the signal at this index fails.
    pub(super) fn refuses(&self, place: usize, at: f64) -> bool {
        let mut of = self.weather.iter().filter(|it| it.is_at(at));
        of.any(|it| {
            let is_of = it.name == "all" || it.number == place as f64;
            it.what == "down" || (it.what == "refused" && is_of)
        })
    }

    /// The times of outages, delays and clock changes.
    pub(super) fn outages(&self) -> impl Iterator<Item = Range<f64>> {
        let late = self.weather.iter().filter_map(|it| {
            let Range { start, end } = it.during;
            let is_step = start > -FOREVER || end < FOREVER;
            let silent = |target: &Target| it.of.contains(&target.first);
            let late = match it.what {
                "down" | "refused" => 0.0,
                "stall" => self.lag(it.name, end),
                "lag" if is_step => it.number,
                "clock" if is_step => 0.0,
                "silent" if self.targets.iter().all(silent) => 0.0,
                _ => return None,
            };
            Some((it, late))
        });
        late.flat_map(|(it, late)| {
            let times = it.times(self.secs);
            times.map(move |during| during.start..during.end + late)
        })
    }
}

/// The first weather at a time.
pub(super) fn within<'a>(
    mut all: impl Iterator<Item = &'a Weather>,
    at: f64,
) -> Option<&'a Weather> {
    all.find(|it| it.is_at(at))
}

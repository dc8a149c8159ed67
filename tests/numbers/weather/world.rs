//! What a world is made of: a description in plain data, so that it can be
//! printed, shrunk and built again.

use std::ops::Range;

use super::FOREVER;

/// Exporters of one kind with the pods on their GPUs: one target a node, one
/// pod a target that holds all of its GPUs.
#[derive(Clone, Debug)]
pub(super) struct Fleet {
    /// The Deployment that owns the pods.
    pub(super) workload: &'static str,
    /// The scrape job.
    pub(super) job: &'static str,
    /// The Prometheus that scrapes it, an external label.
    pub(super) source: &'static str,
    /// How many targets.
    pub(super) targets: usize,
    /// GPUs of each.
    pub(super) gpus: usize,
    /// Scrape interval, seconds.
    pub(super) scrape: f64,
    /// How often the exporter reads its GPUs, seconds.
    pub(super) renew: f64,
    /// A second scraper writes the same series this much later, seconds.
    pub(super) second: Option<f64>,
    /// When in its interval a target is scraped; `None`: anywhere.
    pub(super) phase: Option<f64>,
    /// How unsteady the times of scrapes are, seconds.
    pub(super) jitter: f64,
    /// What its series say of the target.
    pub(super) naming: Naming,
}

/// What tells the series of one target from those of another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Naming {
    /// `instance` and the node.
    #[default]
    Full,
    /// All have one `instance` (federation, agents); the node stays.
    OneInstance,
    /// `instance` was dropped; the node stays.
    NodeOnly,
    /// Neither `instance` nor the node.
    Nothing,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            workload: "w",
            job: "dcgm",
            source: "a",
            targets: 10,
            gpus: 1,
            scrape: 15.0,
            renew: 15.0,
            second: None,
            phase: None,
            jitter: 0.05,
            naming: Naming::Full,
        }
    }
}

/// One thing that happens, or is the case all the time. Targets, pods and
/// devices are numbered in the order in which they are made: those of fleets
/// first. Numbers that do not exist have no effect.
#[derive(Clone, Debug)]
pub(super) enum Weather {
    /// A source shows samples this much late while it lasts.
    Lag {
        source: &'static str,
        during: Range<f64>,
        secs: f64,
    },
    /// Samples are late by up to this much more, each by another.
    LagJitter { secs: f64 },
    /// Nothing of a source becomes visible until the end.
    Stall {
        source: &'static str,
        during: Range<f64>,
    },
    /// This share of scrapes fails.
    Lost { share: f64 },
    /// A scrape that fails leaves a sample that is no number (the store's
    /// answer for a stale marker).
    Markers,
    /// Exporters do not answer.
    Silent {
        targets: Range<usize>,
        during: Range<f64>,
    },
    /// Exporters answer with the readings of the beginning.
    Frozen {
        targets: Range<usize>,
        during: Range<f64>,
    },
    /// The exporters that one job scrapes answer with the readings of the
    /// beginning; those of other jobs on the same GPUs go on.
    FrozenJob {
        job: &'static str,
        during: Range<f64>,
    },
    /// Exporters go on without the labels of pods.
    Unlabelled {
        targets: Range<usize>,
        during: Range<f64>,
    },
    /// GPUs have the profiling field all the time, and percents until then.
    Profiled { devices: Range<usize>, until: f64 },
    /// Prometheus is away: no scrape, no answer.
    Down { during: Range<f64> },
    /// Queries fail; those of one signal (by its place among the polled) or all.
    Refused {
        signal: Option<usize>,
        during: Range<f64>,
    },
    /// The samples of targets are stamped with clocks that are wrong.
    Clock {
        targets: Range<usize>,
        during: Range<f64>,
        secs: f64,
    },
    /// The driver loses GPUs; the others of the target go on.
    DeviceLost {
        devices: Range<usize>,
        during: Range<f64>,
    },
    /// GPUs are this busy, percent.
    Load { devices: Range<usize>, percent: f64 },
    /// From then on every GPU is this busy, percent.
    Jump { at: f64, percent: f64 },
    /// Pods end, one after another; their labels stay on the series a while.
    Ends {
        pods: Range<usize>,
        at: f64,
        every: f64,
        labels_late: f64,
    },
    /// Targets go for good, with their nodes and pods.
    Leaves { targets: Range<usize>, at: f64 },
    /// Pods start on the GPUs of targets, one after another; their series
    /// show them after `unseen` seconds (somewhere in the range).
    Starts {
        workload: &'static str,
        targets: Range<usize>,
        at: f64,
        every: f64,
        unseen: Range<f64>,
    },
    /// New nodes with a pod each, one after another.
    Joins {
        fleet: Fleet,
        at: f64,
        every: f64,
        unseen: Range<f64>,
    },
    /// Another job scrapes the same exporters.
    SecondJob { job: &'static str, scrape: f64 },
    /// Another Prometheus, `b`, scrapes the same exporters for the same jobs.
    Ha,
    /// So many pods of a workload share each GPU of targets, from the start.
    Shared { targets: Range<usize>, pods: usize },
}

/// A world.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// Its name.
    pub(super) name: &'static str,
    /// What chance decides, it decides by this.
    pub(super) seed: u64,
    /// How long it lasts, seconds.
    pub(super) secs: f64,
    /// The poll interval, seconds; `None`: as the engine chooses.
    pub(super) poll: Option<f64>,
    /// `gpu.window`, seconds.
    pub(super) window: Option<u64>,
    /// How much the load of each GPU goes up and down, a share of it.
    pub(super) swing: f64,
    /// When the second replica starts.
    pub(super) restart: f64,
    /// From when to when the time to absence is taken.
    pub(super) event: Option<Range<f64>>,
    /// The fleets that are there at the beginning.
    pub(super) fleets: Vec<Fleet>,
    /// What happens.
    pub(super) weather: Vec<Weather>,
}

impl World {
    /// Forty quiet minutes.
    pub(super) fn new(name: &'static str, fleets: Vec<Fleet>, weather: Vec<Weather>) -> Self {
        Self {
            name,
            seed: 1,
            secs: 2400.0,
            poll: None,
            window: None,
            swing: 0.0,
            restart: 1200.0,
            event: None,
            fleets,
            weather,
        }
    }

    /// The same, with the time to absence taken from an event.
    pub(super) fn during(self, event: Range<f64>) -> Self {
        let event = Some(event);
        Self { event, ..self }
    }

    /// The same with `gpu.window` set.
    pub(super) fn windowed(self, secs: u64) -> Self {
        let window = Some(secs);
        Self { window, ..self }
    }

    /// The lag of a source at a time, as if by law: without jitter and stalls.
    pub(super) fn lag(&self, source: &str, at: f64) -> f64 {
        let of = |weather: &Weather| match weather {
            Weather::Lag {
                source: of,
                during,
                secs,
            } if (*of == source || *of == "*") && during.contains(&at) => Some(*secs),
            _ => None,
        };
        self.weather
            .iter()
            .filter_map(of)
            .next_back()
            .unwrap_or(0.5)
    }

    /// By how much samples may be later than the lag.
    pub(super) fn lag_jitter(&self) -> f64 {
        let of = |weather: &Weather| match weather {
            Weather::LagJitter { secs } => Some(*secs),
            _ => None,
        };
        self.weather.iter().filter_map(of).fold(0.0, f64::max)
    }

    /// When something was away, or late, or set its clock, and when that is over.
    pub(super) fn outages(&self) -> impl Iterator<Item = Range<f64>> {
        let steps = |during: &Range<f64>| during.start > -FOREVER || during.end < FOREVER;
        let exporters: usize = self.fleets.iter().map(|fleet| fleet.targets).sum();
        self.weather
            .iter()
            .filter_map(move |weather| match weather {
                Weather::Down { during } | Weather::Refused { during, .. } => Some(during.clone()),
                Weather::Stall { source, during } => {
                    Some(during.start..during.end + self.lag(source, during.end))
                }
                Weather::Lag { during, secs, .. } if steps(during) => {
                    Some(during.start..during.end + secs)
                }
                Weather::Clock { during, .. } if steps(during) => Some(during.clone()),
                Weather::Silent { targets, during } if targets.len() >= exporters => {
                    Some(during.clone())
                }
                _ => None,
            })
    }

    /// Whether a query for the signal at that place fails.
    pub(super) fn refuses(&self, place: usize, at: f64) -> bool {
        self.weather.iter().any(|weather| match weather {
            Weather::Refused { signal, during } => {
                signal.is_none_or(|signal| signal == place) && during.contains(&at)
            }
            Weather::Down { during } => during.contains(&at),
            _ => false,
        })
    }

    /// Whether the signals that tell a frozen exporter are needed.
    pub(super) fn has_frozen(&self) -> bool {
        let frozen = |weather: &Weather| {
            matches!(weather, Weather::Frozen { .. } | Weather::FrozenJob { .. })
        };
        self.weather.iter().any(frozen)
    }

    /// Whether the profiling field is needed.
    pub(super) fn has_profiled(&self) -> bool {
        let profiled = |weather: &Weather| matches!(weather, Weather::Profiled { .. });
        self.weather.iter().any(profiled)
    }

    /// The quickest scrape interval, seconds.
    pub(super) fn quickest(&self) -> f64 {
        let scrapes = self.fleets.iter().map(|fleet| fleet.scrape);
        scrapes.fold(FOREVER, f64::min)
    }

    /// The time between polls: as set, else as the engine takes it.
    pub(super) fn poll(&self) -> f64 {
        self.poll
            .unwrap_or_else(|| (self.quickest() / 3.0).clamp(1.0, 5.0))
    }
}

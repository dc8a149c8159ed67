//! The description of a world: plain data that can be printed, shrunk and built
//! again.

use std::ops::Range;

use super::FOREVER;

/// Exporters of one kind, with the pods on their GPUs: one target for each node, and
/// one pod for each target, which holds all of its GPUs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fleet {
    /// The Deployment of the pods.
    pub(super) workload: &'static str,
    /// The scrape job.
    pub(super) job: &'static str,
    /// The Prometheus that scrapes it, as an external label.
    pub(super) source: &'static str,
    pub(super) targets: usize,
    /// GPUs for each target.
    pub(super) gpus: usize,
    /// The scrape interval, in seconds.
    pub(super) scrape: f64,
    /// How often the exporter reads its GPUs, in seconds.
    pub(super) renew: f64,
    /// A second scraper writes the same series this many seconds later.
    pub(super) second: Option<f64>,
    /// When in its interval a target is scraped; `None`: at random.
    pub(super) phase: Option<f64>,
    /// Jitter of scrape times, in seconds.
    pub(super) jitter: f64,
    /// Labels of the target on its series.
    pub(super) naming: Naming,
}

/// The labels that distinguish the series of targets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Naming {
    /// `instance` and the node.
    #[default]
    Full,
    /// All have one `instance` (federation, agents); the node label remains.
    OneInstance,
    /// `instance` was dropped; the node label remains.
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

/// An event, or a condition that lasts. Targets, pods and devices are numbered in the
/// order in which they are created, those of fleets first. Numbers that do not exist
/// have no effect.
#[derive(Clone, Debug)]
pub(super) enum Weather {
    /// During this time, samples of a source become visible `secs` late.
    Lag {
        source: &'static str,
        during: Range<f64>,
        secs: f64,
    },
    /// Samples are late by a further random time up to this.
    LagJitter { secs: f64 },
    /// No sample of a source becomes visible until the end.
    Stall {
        source: &'static str,
        during: Range<f64>,
    },
    /// This share of scrapes fails.
    Lost { share: f64 },
    /// A failed scrape leaves a sample that is not a number (the store's answer for a
    /// staleness marker).
    Markers,
    /// Exporters are silent.
    Silent {
        targets: Range<usize>,
        during: Range<f64>,
    },
    /// Exporters repeat their readings from the beginning of this time.
    Frozen {
        targets: Range<usize>,
        during: Range<f64>,
    },
    /// The exporters of one job repeat their readings from the beginning of this time; those
    /// of other jobs on the same GPUs continue.
    FrozenJob {
        job: &'static str,
        during: Range<f64>,
    },
    /// Exporters continue without pod labels.
    Unlabelled {
        targets: Range<usize>,
        during: Range<f64>,
    },
    /// GPUs have the profiling field all the time, and percentages until `until`.
    Profiled { devices: Range<usize>, until: f64 },
    /// Prometheus is down: no scrapes, no answers.
    Down { during: Range<f64> },
    /// Queries of one signal (by its index among the polled ones) or of all fail.
    Refused {
        signal: Option<usize>,
        during: Range<f64>,
    },
    /// The samples of targets have timestamps of wrong clocks.
    Clock {
        targets: Range<usize>,
        during: Range<f64>,
        secs: f64,
    },
    /// The driver loses GPUs; the target's others continue.
    DeviceLost {
        devices: Range<usize>,
        during: Range<f64>,
    },
    /// The load of GPUs, in percent.
    Load { devices: Range<usize>, percent: f64 },
    /// From then on every GPU has this load, in percent.
    Jump { at: f64, percent: f64 },
    /// Pods end one after another; their labels stay on the series for some time.
    Ends {
        pods: Range<usize>,
        at: f64,
        every: f64,
        labels_late: f64,
    },
    /// Targets are removed with their nodes and pods.
    Leaves { targets: Range<usize>, at: f64 },
    /// Pods start on the GPUs of targets, one after another. Their series name them
    /// after `unseen` seconds (at random in the range).
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
    /// This many pods of a workload share each GPU of targets from the start.
    Shared { targets: Range<usize>, pods: usize },
}

#[derive(Clone, Debug)]
pub(super) struct World {
    pub(super) name: &'static str,
    /// The seed of all random choices.
    pub(super) seed: u64,
    /// Its duration, in seconds.
    pub(super) secs: f64,
    /// The poll interval, in seconds; `None`: as the server chooses.
    pub(super) poll: Option<f64>,
    /// `gpu.window`, in seconds.
    pub(super) window: Option<u64>,
    /// How much the load of each GPU varies, as a share of it.
    pub(super) swing: f64,
    /// The start of the second replica.
    pub(super) restart: f64,
    /// The fleets that are there at the beginning.
    pub(super) fleets: Vec<Fleet>,
    /// Its conditions and events.
    pub(super) weather: Vec<Weather>,
}

impl World {
    /// Forty minutes without events.
    pub(super) fn new(name: &'static str, fleets: Vec<Fleet>, weather: Vec<Weather>) -> Self {
        Self {
            name,
            seed: 1,
            secs: 2400.0,
            poll: None,
            window: None,
            swing: 0.0,
            restart: 1200.0,
            fleets,
            weather,
        }
    }

    /// The lag of a source at a time, without jitter and stalls.
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

    /// How much later than the lag samples may be.
    pub(super) fn lag_jitter(&self) -> f64 {
        let of = |weather: &Weather| match weather {
            Weather::LagJitter { secs } => Some(*secs),
            _ => None,
        };
        self.weather.iter().filter_map(of).fold(0.0, f64::max)
    }

    /// The times of outages, delays and clock changes.
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

    /// Whether a query for the signal at this index fails.
    pub(super) fn refuses(&self, place: usize, at: f64) -> bool {
        self.weather.iter().any(|weather| match weather {
            Weather::Refused { signal, during } => {
                signal.is_none_or(|signal| signal == place) && during.contains(&at)
            }
            Weather::Down { during } => during.contains(&at),
            _ => false,
        })
    }

    /// Whether the signals that reveal a frozen exporter are needed.
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

    /// The shortest scrape interval, in seconds.
    pub(super) fn quickest(&self) -> f64 {
        let scrapes = self.fleets.iter().map(|fleet| fleet.scrape);
        scrapes.fold(FOREVER, f64::min)
    }

    /// The time between polls: as set, or else as the server chooses.
    pub(super) fn poll(&self) -> f64 {
        self.poll
            .unwrap_or_else(|| (self.quickest() / 3.0).clamp(1.0, 5.0))
    }
}

//! Reads a world from a row of text: `name | fleets | settings and weather`.
//!
//! A fleet begins with its exporters: `6 S60 I30 G4 b` are six, scraped every 60 s, with
//! readings every 30 s and four GPUs each, in Prometheus `b`; `J0.5` is the jitter of scrapes,
//! `+3` a second scraper 3 s later. Each has a node, and a pod that holds all its GPUs. Times
//! are in seconds: `900..` is from 900 on, `100..145/300` is repeated every 300, and `1000/40`
//! begins at 1000 and goes on every 40. A
//! world lasts 40 minutes unless `secs` says otherwise, and the second replica starts in the
//! middle. `drawn SEED RESTART` is a random world of twenty minutes that broke a promise.
//!
//! Targets, pods and devices are numbered in the order in which they are created, those of
//! fleets first: `#0..5`. Numbers that do not exist have no effect.
//!
//! | weather | what happens |
//! |---|---|
//! | `lag 30 b 200..400` | samples (of a source) become visible so late |
//! | `jitter 5` | samples are late by a further random time up to this |
//! | `stall a 900..1080` | no sample of a source becomes visible until the end |
//! | `drop 0.03` | this share of scrapes fails |
//! | `generous` | the store returns more than the requested range |
//! | `markers` | a failed scrape leaves a sample that is not a number |
//! | `silent #0..5 900..` | exporters are silent |
//! | `frozen #0..1 900..`, `frozen JOB 900..` | exporters repeat their readings; those of a job |
//! | `unlabelled #0..1 900..` | exporters continue without pod labels |
//! | `profiled #0..8 900` | GPUs have the profiling field, and percentages until then |
//! | `down 330..530` | Prometheus is down: no scrapes, no answers |
//! | `refused 0 900..960` | queries of a polled signal, or `all`, fail |
//! | `clock #0..1 40 500..` | timestamps are of a wrong clock |
//! | `gpus-lost #0..1 900..` | the driver loses GPUs; the target's others continue |
//! | `load #0..4 90` | the load of GPUs, in percent |
//! | `jump 90 700..` | from then on every GPU has this load |
//! | `end #6..10 1180/30 ~70..70` | pods end; their labels stay for some time |
//! | `leave #0..1 700` | targets are removed with their nodes and pods |
//! | `start w #0..5 800/30 ~10..30` | pods start on the GPUs of targets, whose series name them after a time |
//! | `join 2 S60 1502/1 ~5..15` | new nodes with a pod each |
//! | `job NAME 60` | another job scrapes the same exporters |
//! | `pair` | the other Prometheus scrapes them for the same jobs |
//! | `shared #0..5 3` | so many pods share each GPU of targets |

use std::ops::Range;

use super::world::{FOREVER, Fleet, Target, Weather, World};
use crate::notation::number;

/// Labels of a target, and those without an `instance` of its own.
const FULL: &str = r##","Hostname":"#","instance":"#:9400","namespace":"gpu","pod":"dcgm-exporter-#","container":"exporter""##;
const ONE_INSTANCE: &str = r##","Hostname":"#","instance":"prometheus:9090""##;
const NODE_ONLY: &str = r##","Hostname":"#""##;

impl World {
    pub(super) fn read(row: &'static str) -> Self {
        let mut cells = row.split('|').map(str::trim);
        let mut next = || cells.next().unwrap_or_else(|| panic!("{row}"));
        let mut world = Self {
            name: next(),
            seed: 1,
            secs: 2400.0,
            restart: 1200.0,
            ..Self::default()
        };
        let fleets = next().split(", ").map(|text| Fleet::read(&words(text)));
        let fleets: Vec<Fleet> = fleets.collect();
        let quickest = fleets.iter().map(|fleet| fleet.like.scrape);
        world.poll = (quickest.fold(FOREVER, f64::min) / 3.0).clamp(1.0, 5.0);
        let mut joining = Vec::new();
        let weather = &mut world.weather;
        for item in next().split("; ").map(words) {
            match item[..] {
                [] => {}
                ["swing"] => world.swing = 0.3,
                ["swing", share] => world.swing = number(share),
                ["secs", secs] => (world.secs, world.restart) = (number(secs), number(secs) / 2.0),
                ["restart", at] => world.restart = number(at),
                ["window", secs] => world.window = Some(number(secs) as u64),
                ["poll", secs] => world.poll = number(secs),
                ["drawn", seed, restart] => {
                    (world.seed, world.secs) = (number(seed) as u64, 1200.0);
                    world.restart = number(restart);
                }
                ["join", ..] => {
                    let pace = item.iter().position(|word| word.contains('/')).unwrap();
                    joining.push(Fleet::read(&item[1..pace]));
                    weather.push(Weather::read(&[&["join"], &item[pace..]].concat()));
                }
                ref words => weather.push(Weather::read(words)),
            }
        }
        world.build(&fleets, &joining);
        world
    }
}

impl Fleet {
    fn read(words: &[&'static str]) -> Self {
        let mut fleet = Self {
            workload: "w",
            targets: number(words[0]) as usize,
            gpus: 1,
            like: Target {
                job: "dcgm",
                source: "a",
                node: String::new(),
                first: 0,
                scrape: 15.0,
                renew: 15.0,
                phase: f64::NAN,
                renew_phase: 0.0,
                second: None,
                jitter: 0.05,
                labels: FULL,
                lives: -FOREVER..FOREVER,
            },
        };
        let like = &mut fleet.like;
        for word in &words[1..] {
            match (*word, word.split_at(1)) {
                ("b", _) => like.source = "b",
                ("v", _) => fleet.workload = "v",
                ("slow", _) => like.job = "slow",
                // Scrapes shortly before and after an instant.
                ("edge", _) => (like.phase, like.jitter) = (-0.1, 0.2),
                ("OneInstance", _) => like.labels = ONE_INSTANCE,
                ("NodeOnly", _) => like.labels = NODE_ONLY,
                ("Nothing", _) => like.labels = "",
                (_, ("S", secs)) => (like.scrape, like.renew) = (number(secs), number(secs)),
                (_, ("I", secs)) => like.renew = number(secs),
                (_, ("J", secs)) => like.jitter = number(secs),
                (_, ("G", gpus)) => fleet.gpus = number(gpus) as usize,
                (_, ("+", secs)) => like.second = Some(number(secs)),
                _ => panic!("{words:?}"),
            }
        }
        fleet
    }
}

impl Weather {
    fn read(words: &[&'static str]) -> Self {
        let mut it = Self {
            what: words[0],
            name: "*",
            of: 0..0,
            during: -FOREVER..FOREVER,
            number: 0.0,
            every: 0.0,
            late: 0.0..0.0,
        };
        for word in &words[1..] {
            if let Some(of) = word.strip_prefix('#') {
                it.of = span(of).start as usize..span(of).end as usize;
            } else if let Some(late) = word.strip_prefix('~') {
                it.late = span(late);
            } else if let Some((during, every)) = word.split_once('/') {
                it.every = number(every);
                match during.contains("..") {
                    true => it.during = span(during),
                    false => it.number = number(during),
                }
            } else if word.contains("..") {
                it.during = span(word);
            } else {
                match word.parse() {
                    Ok(number) => it.number = number,
                    Err(_) => it.name = word,
                }
            }
        }
        it
    }
}

fn words(text: &'static str) -> Vec<&'static str> {
    text.split_whitespace().collect()
}

/// `900..1200`, `900..` or `..`, in seconds.
fn span(text: &str) -> Range<f64> {
    let (start, end) = text.split_once("..").unwrap();
    let or = |text: &str, default| match text {
        "" => default,
        _ => number(text),
    };
    or(start, -FOREVER)..or(end, FOREVER)
}

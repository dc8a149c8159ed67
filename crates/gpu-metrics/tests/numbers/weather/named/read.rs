//! Reads the tables of worlds.
//!
//! A fleet begins with its exporters: `6 S60 I30 G4 b` are six, scraped every 60 s, with
//! readings every 30 s and four GPUs each, in Prometheus `b`. Times are in seconds: `900..`
//! is from 900 on. A world lasts 40 minutes unless `secs` says otherwise, and the second
//! replica starts in the middle. `drawn SEED RESTART` is a random world of twenty minutes that
//! broke a promise.

use std::ops::Range;

use super::super::FOREVER;
use super::super::world::{Fleet, Naming, Weather, World};

pub(super) fn worlds(table: &'static str) -> impl Iterator<Item = World> {
    table.lines().filter(|row| !row.is_empty()).map(world)
}

fn world(row: &'static str) -> World {
    let mut cells = row.split('|').map(str::trim);
    let mut next = || cells.next().unwrap_or_else(|| panic!("{row}"));
    let (name, fleets, items) = (next(), next(), next());
    let fleets = fleets.split(", ").map(|text| fleet(&words(text)));
    let mut world = World::new(name, fleets.collect(), Vec::new());
    for item in items.split("; ").filter(|item| !item.is_empty()) {
        match words(item)[..] {
            ["swing"] => world.swing = 0.3,
            ["secs", secs] => (world.secs, world.restart) = (number(secs), number(secs) / 2.0),
            ["restart", at] => world.restart = number(at),
            ["window", secs] => world.window = Some(number(secs) as u64),
            ["poll", secs] => world.poll = Some(number(secs)),
            ["drawn", seed, restart] => {
                (world.seed, world.secs) = (number(seed) as u64, 1200.0);
                world.restart = number(restart);
            }
            ["spikes"] => world.weather.extend((-15..24).map(spike)),
            ["stalls"] => world.weather.extend((0..20).map(stall)),
            ref words => world.weather.push(weather(words)),
        }
    }
    world
}

/// In every fourth period of a hundred seconds the store has a large lag.
fn spike(hundred: i32) -> Weather {
    let from = f64::from(hundred) * 100.0;
    Weather::Lag {
        source: "*",
        during: from..from + 100.0,
        secs: if hundred % 4 == 0 { 30.0 } else { 2.0 },
    }
}

/// Every five minutes the store stalls.
fn stall(place: i32) -> Weather {
    let start = 100.0 + 300.0 * f64::from(place);
    Weather::Stall {
        source: "a",
        during: start..start + 45.0,
    }
}

fn fleet(words: &[&'static str]) -> Fleet {
    let mut fleet = Fleet {
        targets: number(words[0]) as usize,
        ..Fleet::default()
    };
    for word in &words[1..] {
        match (*word, word.split_at(1)) {
            ("b", _) => fleet.source = "b",
            ("v", _) => fleet.workload = "v",
            ("slow", _) => fleet.job = "slow",
            // Scrapes shortly before and after an instant.
            ("edge", _) => (fleet.phase, fleet.jitter) = (Some(-0.1), 0.2),
            ("OneInstance", _) => fleet.naming = Naming::OneInstance,
            ("NodeOnly", _) => fleet.naming = Naming::NodeOnly,
            ("Nothing", _) => fleet.naming = Naming::Nothing,
            (_, ("S", secs)) => (fleet.scrape, fleet.renew) = (number(secs), number(secs)),
            (_, ("I", secs)) => fleet.renew = number(secs),
            (_, ("G", gpus)) => fleet.gpus = number(gpus) as usize,
            (_, ("+", secs)) => fleet.second = Some(number(secs)),
            _ => panic!("{words:?}"),
        }
    }
    fleet
}

fn weather(words: &[&'static str]) -> Weather {
    let lag = |source, secs, during| Weather::Lag {
        source,
        during,
        secs: number(secs),
    };
    match *words {
        ["lag", secs] => lag("*", secs, span("..")),
        ["lag", secs, "of", source] => lag(source, secs, span("..")),
        ["lag", secs, during] => lag("*", secs, span(during)),
        ["jitter", secs] => Weather::LagJitter { secs: number(secs) },
        ["stall", source, during] => Weather::Stall {
            source,
            during: span(during),
        },
        ["drop", share] => Weather::Lost {
            share: number(share),
        },
        ["markers"] => Weather::Markers,
        ["down", during] => Weather::Down {
            during: span(during),
        },
        ["refused", signal, during] => Weather::Refused {
            signal: signal.parse().ok(),
            during: span(during),
        },
        ["pair"] => Weather::Ha,
        ["job", job, scrape] => Weather::SecondJob {
            job,
            scrape: number(scrape),
        },
        ["frozen", job, during] if !job.contains("..") => Weather::FrozenJob {
            job,
            during: span(during),
        },
        ["jump", percent, "at", at] => Weather::Jump {
            at: number(at),
            percent: number(percent),
        },
        ["join", ref of @ .., pace, "unseen", unseen] => Weather::Joins {
            fleet: fleet(of),
            at: times(pace).0,
            every: times(pace).1,
            unseen: span(unseen),
        },
        ["start", workload, targets, pace, "unseen", unseen] => Weather::Starts {
            workload,
            targets: places(targets),
            at: times(pace).0,
            every: times(pace).1,
            unseen: span(unseen),
        },
        [what, of, ref more @ ..] => of_some(what, places(of), more),
        _ => panic!("{words:?}"),
    }
}

/// Weather of some targets, devices or pods.
fn of_some(what: &str, of: Range<usize>, more: &[&str]) -> Weather {
    let ends = |pace, labels_late| Weather::Ends {
        pods: of.clone(),
        at: times(pace).0,
        every: times(pace).1,
        labels_late: number(labels_late),
    };
    let clock = |secs, during| Weather::Clock {
        targets: of.clone(),
        during: span(during),
        secs: number(secs),
    };
    match (what, more) {
        ("end", [pace]) => ends(pace, "0"),
        ("end", [pace, "labels", late]) => ends(pace, late),
        ("clock", [secs]) => clock(secs, ".."),
        ("clock", [secs, during]) => clock(secs, during),
        ("silent", [during]) => Weather::Silent {
            targets: of,
            during: span(during),
        },
        ("frozen", [during]) => Weather::Frozen {
            targets: of,
            during: span(during),
        },
        ("unlabelled", [during]) => Weather::Unlabelled {
            targets: of,
            during: span(during),
        },
        ("gpus-lost", [during]) => Weather::DeviceLost {
            devices: of,
            during: span(during),
        },
        ("profiled", [until]) => Weather::Profiled {
            devices: of,
            until: until.parse().unwrap_or(-FOREVER),
        },
        ("load", [percent]) => Weather::Load {
            devices: of,
            percent: number(percent),
        },
        ("leave", [at]) => Weather::Leaves {
            targets: of,
            at: number(at),
        },
        ("shared", [pods]) => Weather::Shared {
            targets: of,
            pods: number(pods) as usize,
        },
        _ => panic!("{what} {more:?}"),
    }
}

fn words(text: &'static str) -> Vec<&'static str> {
    text.split_whitespace().collect()
}

fn number(text: &str) -> f64 {
    text.parse().unwrap_or_else(|_| panic!("{text}"))
}

fn times(text: &str) -> (f64, f64) {
    let (at, every) = text.split_once('/').unwrap_or((text, "0"));
    (number(at), number(every))
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

fn places(text: &str) -> Range<usize> {
    let span = span(text);
    span.start as usize..span.end as usize
}

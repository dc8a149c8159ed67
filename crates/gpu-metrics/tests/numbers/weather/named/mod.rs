//! Named worlds, one for each trait of real clusters.

mod exporters;
mod pods;
mod stores;

use std::ops::Range;

use super::FOREVER;
use super::drive::run;
use super::world::{Fleet, Weather, World};

/// The whole time.
const ALWAYS: Range<f64> = -FOREVER..FOREVER;

#[test]
fn promises_hold_in_named_worlds() {
    let wanted = std::env::var("WEATHER").unwrap_or_default();
    let worlds = [stores::worlds(), exporters::worlds(), pods::worlds()];
    let mut broken = Vec::new();
    for world in worlds.concat() {
        if world.name.contains(&wanted) {
            let of_world = run(&world).into_iter();
            broken.extend(of_world.map(|what| format!("{}: {what}", world.name)));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// This many exporters with a GPU each, scraped every 15 s.
fn fleet(targets: usize) -> Fleet {
    every(15.0, targets)
}

/// The same with this interval of scrapes, and of the exporter's readings.
fn every(scrape: f64, targets: usize) -> Fleet {
    Fleet {
        targets,
        scrape,
        renew: scrape,
        ..Fleet::default()
    }
}

/// The fleet with readings at this interval.
fn renewed(renew: f64, fleet: Fleet) -> Fleet {
    Fleet { renew, ..fleet }
}

/// The fleet with this many GPUs for each exporter.
fn with_gpus(gpus: usize, fleet: Fleet) -> Fleet {
    Fleet { gpus, ..fleet }
}

/// The fleet in another Prometheus, `b`.
fn of_b(fleet: Fleet) -> Fleet {
    Fleet {
        source: "b",
        ..fleet
    }
}

/// Pods of another Deployment.
fn of_v(fleet: Fleet) -> Fleet {
    Fleet {
        workload: "v",
        ..fleet
    }
}

/// Ten exporters with weather.
fn ten(name: &'static str, weather: Vec<Weather>) -> World {
    World::new(name, vec![fleet(10)], weather)
}

/// The world with varying loads.
fn swinging(world: World) -> World {
    World {
        swing: 0.3,
        ..world
    }
}

/// Twenty minutes of a random world with this seed, which broke a promise; the second
/// replica starts at `restart`.
fn drawn(
    name: &'static str,
    (seed, restart): (u64, f64),
    fleets: Vec<Fleet>,
    weather: Vec<Weather>,
) -> World {
    World {
        seed,
        secs: 1200.0,
        restart,
        ..World::new(name, fleets, weather)
    }
}

fn lag(secs: f64) -> Weather {
    lag_during(secs, ALWAYS)
}

fn lag_during(secs: f64, during: Range<f64>) -> Weather {
    Weather::Lag {
        source: "*",
        during,
        secs,
    }
}

fn lag_of(source: &'static str, secs: f64) -> Weather {
    Weather::Lag {
        source,
        during: ALWAYS,
        secs,
    }
}

fn jitter(secs: f64) -> Weather {
    Weather::LagJitter { secs }
}

fn lost(share: f64) -> Weather {
    Weather::Lost { share }
}

fn stall(source: &'static str, during: Range<f64>) -> Weather {
    Weather::Stall { source, during }
}

fn down(during: Range<f64>) -> Weather {
    Weather::Down { during }
}

fn silent(targets: Range<usize>, during: Range<f64>) -> Weather {
    Weather::Silent { targets, during }
}

fn gpus_lost(devices: Range<usize>, during: Range<f64>) -> Weather {
    Weather::DeviceLost { devices, during }
}

fn load(devices: Range<usize>, percent: f64) -> Weather {
    Weather::Load { devices, percent }
}

fn second_job() -> Weather {
    Weather::SecondJob {
        job: "dcgm-slow",
        scrape: 60.0,
    }
}

fn ends(pods: Range<usize>, at: f64, every: f64) -> Weather {
    Weather::Ends {
        pods,
        at,
        every,
        labels_late: 0.0,
    }
}

fn starts(targets: Range<usize>, at: f64, every: f64, unseen: Range<f64>) -> Weather {
    Weather::Starts {
        workload: "w",
        targets,
        at,
        every,
        unseen,
    }
}

fn leaves(targets: usize, at: f64) -> Weather {
    let targets = 0..targets;
    Weather::Leaves { targets, at }
}

fn joins(fleet: Fleet, at: f64, every: f64, unseen: Range<f64>) -> Weather {
    Weather::Joins {
        fleet,
        at,
        every,
        unseen,
    }
}

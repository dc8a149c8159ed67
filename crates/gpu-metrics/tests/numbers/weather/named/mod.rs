//! Named worlds, one for each trait of real clusters.

mod aftermath;
mod cadences;
mod labels;
mod membership;
mod outages;
mod stores;
mod together;

use std::ops::Range;

use super::FOREVER;
use super::world::{Fleet, Weather, World};

/// The whole time.
const ALWAYS: Range<f64> = -FOREVER..FOREVER;

/// Every named world.
pub(super) fn all() -> Vec<World> {
    let mut all = stores::worlds();
    all.extend(outages::worlds());
    all.extend(membership::worlds());
    all.extend(together::worlds());
    all.extend(aftermath::worlds());
    all.extend(cadences::worlds());
    all.extend(labels::worlds());
    all
}

/// This many exporters with a GPU each, scraped every 15 s.
fn fleet(targets: usize) -> Fleet {
    Fleet {
        targets,
        ..Fleet::default()
    }
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

/// Scraped every minute, with readings every half minute.
fn minutely() -> Fleet {
    Fleet {
        scrape: 60.0,
        renew: 30.0,
        ..Fleet::default()
    }
}

/// Ten exporters with weather.
fn ten(name: &'static str, weather: Vec<Weather>) -> World {
    World::new(name, vec![fleet(10)], weather)
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

fn jitter(secs: f64) -> Weather {
    Weather::LagJitter { secs }
}

fn silent(targets: Range<usize>, during: Range<f64>) -> Weather {
    Weather::Silent { targets, during }
}

fn clock(target: usize, secs: f64) -> Weather {
    Weather::Clock {
        targets: target..target + 1,
        during: ALWAYS,
        secs,
    }
}

fn ends(pods: Range<usize>, at: f64) -> Weather {
    Weather::Ends {
        pods,
        at,
        every: 0.0,
        labels_late: 0.0,
    }
}

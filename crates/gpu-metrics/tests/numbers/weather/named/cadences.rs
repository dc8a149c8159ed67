//! Scrape intervals from 1 s to 5 min, stores that stall, and pairs of Prometheus.

use std::ops::Range;

use super::super::world::{Fleet, Weather, World};
use super::{ALWAYS, every, jitter, lag, silent, ten};

pub(super) fn worlds() -> Vec<World> {
    let mut all = intervals();
    all.extend(stalls());
    all.extend(pairs());
    all.extend(silences());
    all.extend(scrapers());
    all
}

fn swinging(world: World) -> World {
    World {
        swing: 0.3,
        ..world
    }
}

/// Six exporters with these scrape and reading intervals, in a store of this lag.
fn six(name: &'static str, scrape: f64, renew: f64, late: Option<f64>) -> World {
    let fleet = Fleet {
        renew,
        ..every(scrape, 6)
    };
    let secs = match scrape {
        slow if slow >= 120.0 => 4800.0,
        quick if quick < 5.0 => 700.0,
        _ => 2400.0,
    };
    swinging(World {
        secs,
        restart: secs / 2.0,
        ..World::new(name, vec![fleet], late.map(lag).into_iter().collect())
    })
}

fn intervals() -> Vec<World> {
    vec![
        six("S1", 1.0, 1.0, None),
        six("S1 I30", 1.0, 30.0, None),
        six("S5 I60", 5.0, 60.0, None),
        six("S15 I30", 15.0, 30.0, None),
        six("S15 I60", 15.0, 60.0, None),
        six("S30", 30.0, 30.0, None),
        six("S30 I60", 30.0, 60.0, None),
        six("S60", 60.0, 60.0, None),
        six("S60 I1", 60.0, 1.0, None),
        six("S120", 120.0, 120.0, None),
        six("S300", 300.0, 300.0, None),
        six("S1 lag60", 1.0, 1.0, Some(60.0)),
        six("S5 lag30", 5.0, 5.0, Some(30.0)),
        six("S30 lag60", 30.0, 30.0, Some(60.0)),
        six("S60 lag30", 60.0, 60.0, Some(30.0)),
        six("S300 lag60", 300.0, 300.0, Some(60.0)),
    ]
}

/// A store that stalls repeatedly.
fn stalling(name: &'static str, late: f64, every: f64, long: f64) -> World {
    let stall = |place: i32| {
        let start = 100.0 + every * f64::from(place);
        Weather::Stall {
            source: "a",
            during: start..start + long,
        }
    };
    let weather = std::iter::once(lag(late)).chain((0..20).map(stall));
    swinging(ten(name, weather.collect()))
}

fn stalls() -> Vec<World> {
    vec![
        stalling("stall20 each 2m", 2.0, 120.0, 20.0),
        stalling("stall45 each 5m", 2.0, 300.0, 45.0),
        stalling("stall45 lag30", 30.0, 300.0, 45.0),
    ]
}

/// Two Prometheus that scrape the same exporters.
fn pairs() -> Vec<World> {
    let late = Weather::Lag {
        source: "b",
        during: ALWAYS,
        secs: 20.0,
    };
    let stall = Weather::Stall {
        source: "b",
        during: 900.0..1200.0,
    };
    let pair = |name, more: Vec<Weather>| {
        let weather = std::iter::once(Weather::Ha).chain(more);
        swinging(ten(name, weather.collect()))
    };
    vec![
        pair("pair", vec![]),
        pair("pair lag20", vec![late]),
        pair("pair, one stalls", vec![stall.clone()]),
        pair(
            "pair, one stalls, 2of10 silent",
            vec![stall, silent(0..2, 950.0..1150.0)],
        ),
    ]
}

/// Ten exporters, half of them silent.
fn half_silent(name: &'static str, scrape: f64, late: f64, during: Range<f64>) -> World {
    let weather = vec![lag(late), silent(0..5, during.clone())];
    swinging(World::new(name, vec![every(scrape, 10)], weather)).during(during)
}

fn silences() -> Vec<World> {
    let long = |world| World {
        secs: 3300.0,
        restart: 2700.0,
        event: None,
        ..world
    };
    let replaced = vec![
        silent(0..3, 900.0..1500.0),
        Weather::Ends {
            pods: 3..6,
            at: 950.0,
            every: 20.0,
            labels_late: 0.0,
        },
        Weather::Starts {
            workload: "w",
            targets: 3..6,
            at: 960.0,
            every: 20.0,
            unseen: 10.0..30.0,
        },
    ];
    let twice = vec![silent(0..2, 900.0..1250.0), silent(5..7, 1150.0..1400.0)];
    vec![
        half_silent("5of10 S5", 5.0, 2.0, 900.0..1500.0),
        half_silent("5of10 S60", 60.0, 2.0, 900.0..1500.0),
        half_silent("5of10 S15 lag60", 15.0, 60.0, 900.0..1500.0),
        half_silent("5of10 S1", 1.0, 0.5, 900.0..1500.0),
        long(half_silent(
            "5of10 40m, restart in it",
            15.0,
            0.5,
            600.0..3000.0,
        )),
        World {
            swing: 0.0,
            ..long(half_silent(
                "5of10 40m S60 lag30, restart in it",
                60.0,
                30.0,
                600.0..3000.0,
            ))
        },
        swinging(ten("2of10 twice, restart between", twice)),
        swinging(ten("silent, others replaced", replaced)),
    ]
}

fn scrapers() -> Vec<World> {
    let two = |scrape, second| Fleet {
        second: Some(second),
        ..every(scrape, 6)
    };
    let lost = || Weather::Lost { share: 0.03 };
    vec![
        World::new(
            "S5 lag5 jit10",
            vec![every(5.0, 10)],
            vec![lag(5.0), jitter(10.0)],
        ),
        swinging(ten(
            "lag30 jit20 drop3",
            vec![lag(30.0), jitter(20.0), lost()],
        )),
        swinging(World::new(
            "2scr S60 10 drop3",
            vec![two(60.0, 10.0)],
            vec![lost()],
        )),
        swinging(World::new("2scr S30 1", vec![two(30.0, 1.0)], vec![])),
    ]
}

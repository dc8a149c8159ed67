//! Late stores, scrape intervals, scrapers and clocks.

use super::super::world::{Fleet, Weather, World};
use super::{ALWAYS, clock, every, fleet, jitter, lag, lag_during, minutely, ten};

/// The poll interval of the server with more than 10,000 series scraped every 2 s, in
/// seconds.
const LARGE_FLEET_POLL: f64 = 2.0;

pub(super) fn worlds() -> Vec<World> {
    let mut all = lags();
    all.extend(cadences());
    all.extend(clocks());
    all
}

fn lags() -> Vec<World> {
    let stall = |during| Weather::Stall {
        source: "a",
        during,
    };
    // In every fourth period of a hundred seconds the store has a large lag.
    let spikes = |hundred: i32| {
        let from = f64::from(hundred) * 100.0;
        let secs = if hundred % 4 == 0 { 30.0 } else { 2.0 };
        lag_during(secs, from..from + 100.0)
    };
    let mut spiky: Vec<Weather> = (-15..24).map(spikes).collect();
    spiky.push(jitter(1.0));
    vec![
        ten("steady15", vec![]),
        World::new(
            "lag12 S5",
            vec![every(5.0, 10)],
            vec![lag(12.0), jitter(2.0)],
        ),
        ten("lag32 S15", vec![lag(32.0), jitter(3.0)]),
        ten("lag60 S15", vec![lag(60.0), jitter(3.0)]),
        ten("lag90 S15", vec![lag(90.0), jitter(3.0)]),
        ten(
            "lag 2/40/2",
            vec![lag(2.0), lag_during(40.0, 600.0..1500.0), jitter(1.0)],
        ),
        ten(
            "lag step@restart",
            vec![lag(2.0), lag_during(40.0, 600.0..1190.0), jitter(1.0)],
        ),
        ten("lag spikes", spiky),
        ten("jitter0-20", vec![lag(2.0), jitter(20.0)]),
        ten("jit0-45", vec![lag(2.0), jitter(45.0)]),
        ten("stall3m", vec![lag(2.0), stall(900.0..1080.0)]).during(900.0..1080.0),
        ten("stall@restart", vec![lag(2.0), stall(1100.0..1280.0)]).during(1100.0..1280.0),
        World {
            poll: Some(15.0),
            ..ten("poll=S large", vec![lag(2.0)])
        },
        // More than 10,000 series: the server polls less often.
        World {
            poll: Some(LARGE_FLEET_POLL),
            secs: 1200.0,
            restart: 600.0,
            ..World::new("S2 large", vec![every(2.0, 10)], vec![lag(1.0)])
        },
    ]
}

fn cadences() -> Vec<World> {
    let edge = |scrape, renew| Fleet {
        phase: Some(-0.1),
        jitter: 0.2,
        scrape,
        renew,
        ..Fleet::default()
    };
    let two = |scrape, second| Fleet {
        second: Some(second),
        ..every(scrape, 10)
    };
    let slow = |workload, targets| Fleet {
        workload,
        ..every(60.0, targets)
    };
    let quarter = |targets| Fleet {
        job: "slow",
        ..every(4.0, targets)
    };
    let half = Fleet {
        renew: 30.0,
        ..Fleet::default()
    };
    let lost = |share| vec![Weather::Lost { share }];
    vec![
        World::new("60s window1m", vec![minutely()], vec![]).windowed(60),
        World::new("60s win1m drop5", vec![minutely()], lost(0.03)).windowed(60),
        World::new("60s win1m edge", vec![edge(60.0, 60.0)], vec![]).windowed(60),
        World::new("60s drop5", vec![minutely()], lost(0.05)),
        World::new("15s edge", vec![edge(15.0, 15.0)], vec![]),
        World::new("S15 I30 drop5", vec![half], lost(0.05)),
        ten("drop5%", lost(0.05)),
        ten(
            "drop5% markers",
            vec![Weather::Lost { share: 0.05 }, Weather::Markers],
        ),
        World::new("2scr 2s S15", vec![two(15.0, 2.0)], vec![]),
        World::new("2scr 3/27", vec![two(30.0, 3.0)], vec![]),
        World::new("mixed15/60", vec![fleet(5), slow("w", 3)], vec![]),
        World::new("mixed 15<60", vec![fleet(3), slow("v", 6)], vec![]),
        World::new("mixed 15<60 w", vec![fleet(5), slow("w", 9)], vec![]),
        World {
            secs: 600.0,
            restart: 300.0,
            ..World::new("mixed 1<4", vec![every(1.0, 5), quarter(9)], vec![lag(0.2)])
        },
        World::new(
            "mixed flip",
            vec![fleet(5), slow("v", 5)],
            vec![Weather::Leaves {
                targets: 0..1,
                at: 700.0,
            }],
        ),
        World::new(
            "hysteresis",
            vec![fleet(12), slow("v", 11)],
            vec![Weather::Leaves {
                targets: 0..2,
                at: 700.0,
            }],
        ),
        World::new(
            "new slow 1of5",
            vec![fleet(4)],
            vec![Weather::Joins {
                fleet: slow("w", 1),
                at: 985.0,
                every: 0.0,
                unseen: 10.0..10.0,
            }],
        ),
    ]
}

fn clocks() -> Vec<World> {
    let both = vec![clock(0, 40.0), clock(1, -40.0)];
    let late = Fleet {
        source: "b",
        ..fleet(5)
    };
    let of_b = Weather::Lag {
        source: "b",
        during: ALWAYS,
        secs: 45.0,
    };
    vec![
        World::new("2src 2/45", vec![fleet(5), late], vec![lag(2.0), of_b]),
        ten("clk+-40", both.clone()),
        ten(
            "clk+-40 lag32",
            both.into_iter().chain([lag(32.0)]).collect(),
        ),
        ten("clk-60", vec![clock(1, -60.0)]),
        World::new("clk-60 n20", vec![fleet(20)], vec![clock(1, -60.0)]),
        ten("clk-200", vec![clock(0, -200.0)]),
        ten(
            "2 bad ahead lag32",
            vec![clock(0, 40.0), clock(1, 40.0), lag(32.0)],
        ),
        ten(
            "clock steps",
            vec![Weather::Clock {
                targets: 0..3,
                during: 800.0..1400.0,
                secs: -30.0,
            }],
        ),
    ]
}

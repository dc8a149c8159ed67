//! Late stores, scrape intervals, scrapers and clocks.

use super::super::world::{Fleet, Weather, World};
use super::{
    ALWAYS, FOREVER, down, drawn, every, fleet, gpus_lost, jitter, joins, lag, lag_during, lag_of,
    leaves, lost, of_b, of_v, renewed, silent, stall, swinging, ten,
};

pub(super) fn worlds() -> Vec<World> {
    [lags(), intervals(), mixed(), stalls(), clocks()].concat()
}

fn lags() -> Vec<World> {
    // In every fourth period of a hundred seconds the store has a large lag.
    let spikes = |hundred: i32| {
        let from = f64::from(hundred) * 100.0;
        let secs = if hundred % 4 == 0 { 30.0 } else { 2.0 };
        lag_during(secs, from..from + 100.0)
    };
    let spikes = (-15..24).map(spikes).chain([jitter(1.0)]);
    let step = |end| vec![lag(2.0), lag_during(40.0, 600.0..end), jitter(1.0)];
    vec![
        swinging(ten("steady15", vec![])),
        ten("lag32 S15", vec![lag(32.0), jitter(3.0)]),
        ten("lag60 S15", vec![lag(60.0), jitter(3.0)]),
        ten("lag90 S15", vec![lag(90.0), jitter(3.0)]),
        ten("lag 2/40/2", step(1500.0)),
        ten("lag step@restart", step(1190.0)),
        ten("lag spikes", spikes.collect()),
        ten("jit0-45", vec![lag(2.0), jitter(45.0)]),
        swinging(ten(
            "lag30 jit20 drop3",
            vec![lag(30.0), jitter(20.0), lost(0.03)],
        )),
        World::new(
            "2src 2/45",
            vec![fleet(5), of_b(fleet(5))],
            vec![lag(2.0), lag_of("b", 45.0)],
        ),
        ten("drop5% markers", vec![lost(0.05), Weather::Markers]),
    ]
}

/// Six exporters with these scrape and reading intervals.
fn six(name: &'static str, scrape: f64, renew: f64, weather: Vec<Weather>) -> World {
    let secs = match scrape {
        slow if slow >= 120.0 => 4800.0,
        quick if quick < 5.0 => 700.0,
        _ => 2400.0,
    };
    swinging(World {
        secs,
        restart: secs / 2.0,
        ..World::new(name, vec![renewed(renew, every(scrape, 6))], weather)
    })
}

fn intervals() -> Vec<World> {
    let twice = |name, scrape, second, weather| {
        let fleet = Fleet {
            second: Some(second),
            ..every(scrape, 6)
        };
        World::new(name, vec![fleet], weather)
    };
    // Scrapes shortly before and after an instant.
    let edge = |name, scrape, window| World {
        window,
        ..World::new(
            name,
            vec![Fleet {
                phase: Some(-0.1),
                jitter: 0.2,
                ..every(scrape, 10)
            }],
            vec![],
        )
    };
    vec![
        edge("15s edge", 15.0, None),
        edge("60s win1m edge", 60.0, Some(60)),
        six("S1 lag60", 1.0, 1.0, vec![lag(60.0)]),
        six("S1 I30", 1.0, 30.0, vec![]),
        six("S5 I60", 5.0, 60.0, vec![]),
        six("S15 I60 drop5", 15.0, 60.0, vec![lost(0.05)]),
        six("S5 lag30", 5.0, 5.0, vec![lag(30.0)]),
        six("S30 lag60", 30.0, 30.0, vec![lag(60.0)]),
        six("S60", 60.0, 60.0, vec![]),
        six("S60 drop5", 60.0, 30.0, vec![lost(0.05)]),
        six("S120", 120.0, 120.0, vec![]),
        six("S300", 300.0, 300.0, vec![]),
        six("S300 lag60", 300.0, 300.0, vec![lag(60.0)]),
        World {
            window: Some(60),
            ..six("S60 window60 drop3", 60.0, 30.0, vec![lost(0.03)])
        },
        // More than 10,000 series: the server polls less often.
        World {
            poll: Some(2.0),
            ..six("S2 large", 2.0, 2.0, vec![lag(1.0)])
        },
        twice("2scr 2s S15", 15.0, 2.0, vec![]),
        twice("2scr 3/27", 30.0, 3.0, vec![]),
        swinging(twice("2scr S60 10 drop3", 60.0, 10.0, vec![lost(0.03)])),
    ]
}

/// Exporters with two scrape intervals.
fn mixed() -> Vec<World> {
    let quarter = Fleet {
        job: "slow",
        ..every(4.0, 9)
    };
    let slow = |targets| every(60.0, targets);
    let slow_one = joins(slow(1), 985.0, 0.0, 10.0..10.0);
    vec![
        World::new("mixed 15<60", vec![fleet(5), slow(9)], vec![]),
        World {
            secs: 600.0,
            restart: 300.0,
            ..World::new("mixed 1<4", vec![every(1.0, 5), quarter], vec![lag(0.2)])
        },
        World::new(
            "mixed flip",
            vec![fleet(5), of_v(slow(5))],
            vec![leaves(1, 700.0)],
        ),
        World::new("new slow 1of5", vec![fleet(4)], vec![slow_one]),
    ]
}

/// Stores that stall, and pairs of Prometheus that scrape the same exporters.
fn stalls() -> Vec<World> {
    let again = (0..20).map(|place| 100.0 + 300.0 * f64::from(place));
    let again = again.map(|start| stall("a", start..start + 45.0));
    let half_slow = renewed(30.0, fleet(3));
    vec![
        ten("stall3m", vec![lag(2.0), stall("a", 900.0..1080.0)]),
        ten("stall@restart", vec![lag(2.0), stall("a", 1100.0..1280.0)]),
        swinging(ten("stall45 lag30", again.chain([lag(30.0)]).collect())),
        swinging(ten("pair lag20", vec![Weather::Ha, lag_of("b", 20.0)])),
        swinging(ten(
            "pair, one stalls, 2of10 silent",
            vec![
                Weather::Ha,
                stall("b", 900.0..1200.0),
                silent(0..2, 950.0..1150.0),
            ],
        )),
        drawn(
            "one source 74s late, all stop",
            (1285, 600.0),
            vec![every(5.0, 1), of_b(every(5.0, 1))],
            vec![lag_of("a", 74.0), down(330.0..530.0)],
        ),
        drawn(
            "one source stalls, then all stop",
            (17554, 600.0),
            vec![every(30.0, 1), of_b(half_slow)],
            vec![down(439.0..739.0), stall("b", 201.0..501.0)],
        ),
    ]
}

fn clocks() -> Vec<World> {
    let clock = |target, secs| Weather::Clock {
        targets: target..target + 1,
        during: ALWAYS,
        secs,
    };
    vec![
        ten(
            "clk+-40 lag32",
            vec![clock(0, 40.0), clock(1, -40.0), lag(32.0)],
        ),
        ten(
            "2 bad ahead lag32",
            vec![clock(0, 40.0), clock(1, 40.0), lag(32.0)],
        ),
        ten("clk-60", vec![clock(1, -60.0)]),
        World::new("clk-60 n20", vec![fleet(20)], vec![clock(1, -60.0)]),
        ten("clk-200", vec![clock(0, -200.0)]),
        ten(
            "clock steps",
            vec![Weather::Clock {
                targets: 0..3,
                during: 800.0..1400.0,
                secs: -30.0,
            }],
        ),
        drawn(
            "1of3 clk+34 lag52",
            (91111, 600.0),
            vec![every(5.0, 3)],
            vec![lag(52.0), clock(0, 34.0)],
        ),
        drawn(
            "1of2 clk-49, the other lost",
            (78716, 600.0),
            vec![every(5.0, 2)],
            vec![clock(0, -49.0), gpus_lost(1..2, 624.0..FOREVER)],
        ),
    ]
}

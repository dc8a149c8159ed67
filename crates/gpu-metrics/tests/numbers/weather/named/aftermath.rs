//! States after an outage, or with two conditions at once. Each comes from a random world,
//! and tests a rule.

use std::ops::Range;

use super::super::FOREVER;
use super::super::world::{Fleet, Weather, World};
use super::{ALWAYS, every, fleet, silent};

pub(super) fn worlds() -> Vec<World> {
    let mut all = sources();
    all.extend(targets());
    all.extend(restarts());
    all.extend(clocks());
    all
}

fn down(during: Range<f64>) -> Weather {
    Weather::Down { during }
}

fn stall(source: &'static str, during: Range<f64>) -> Weather {
    Weather::Stall { source, during }
}

fn late(during: Range<f64>, secs: f64) -> Weather {
    Weather::Lag {
        source: "a",
        during,
        secs,
    }
}

/// Twenty minutes with this seed.
fn drawn(name: &'static str, seed: u64, fleets: Vec<Fleet>, weather: Vec<Weather>) -> World {
    World {
        seed,
        secs: 1200.0,
        restart: 600.0,
        ..World::new(name, fleets, weather)
    }
}

/// The fleet, scraped by another Prometheus.
fn of_b(fleet: &Fleet) -> Fleet {
    Fleet {
        source: "b",
        ..fleet.clone()
    }
}

fn sources() -> Vec<World> {
    let slow = every(30.0, 1);
    let slowly_read = Fleet {
        renew: 30.0,
        ..fleet(3)
    };
    let two = vec![every(5.0, 1), of_b(&every(5.0, 1))];
    vec![
        drawn(
            "back one by one, later than before",
            15046,
            vec![fleet(3)],
            vec![late(587.0..987.0, 42.0), down(331.0..631.0)],
        ),
        drawn(
            "one source stalls, then all stop",
            17554,
            vec![slow, of_b(&slowly_read)],
            vec![down(439.0..739.0), stall("b", 201.0..501.0)],
        ),
        drawn(
            "one source 74s late, all stop",
            1285,
            two,
            vec![late(ALWAYS, 74.0), down(330.0..530.0)],
        ),
    ]
}

fn targets() -> Vec<World> {
    vec![
        drawn(
            "two outages of 5m",
            16834,
            vec![fleet(1)],
            vec![down(762.0..1062.0), down(345.0..645.0)],
        ),
        drawn(
            "5of10 10m markers",
            1,
            vec![fleet(10)],
            vec![silent(0..5, 500.0..1100.0), Weather::Markers],
        ),
        World {
            restart: 450.0,
            ..drawn(
                "all GPUs away for 400s",
                74278,
                vec![fleet(5)],
                vec![Weather::DeviceLost {
                    devices: 0..5,
                    during: 511.0..911.0,
                }],
            )
        },
        drawn(
            "GPU lost in a stall",
            13686,
            vec![fleet(3)],
            vec![
                stall("a", 397.0..697.0),
                Weather::DeviceLost {
                    devices: 0..1,
                    during: 521.0..721.0,
                },
            ],
        ),
    ]
}

/// The second replica starts while no data can be read.
fn restarts() -> Vec<World> {
    let restart = |at, world| World {
        restart: at,
        ..world
    };
    vec![
        restart(
            367.0,
            drawn(
                "restart in an outage, two cadences",
                21433,
                vec![
                    every(5.0, 1),
                    Fleet {
                        gpus: 2,
                        ..fleet(1)
                    },
                ],
                vec![down(357.0..657.0)],
            ),
        ),
        restart(
            501.0,
            drawn(
                "restart after pods moved, two cadences",
                28157,
                vec![
                    fleet(6),
                    of_b(&Fleet {
                        gpus: 4,
                        ..every(60.0, 2)
                    }),
                ],
                vec![
                    late(ALWAYS, 79.0),
                    Weather::Starts {
                        workload: "w",
                        targets: 4..8,
                        at: 204.0,
                        every: 1.0,
                        unseen: 5.0..6.0,
                    },
                ],
            ),
        ),
        restart(
            723.0,
            drawn(
                "restart after pods ended and 5m down, I 2S",
                90830,
                vec![renewed(30.0, &fleet(1))],
                vec![
                    Weather::Ends {
                        pods: 0..1,
                        at: 246.0,
                        every: 1.0,
                        labels_late: 0.0,
                    },
                    down(358.0..658.0),
                ],
            ),
        ),
        restart(
            840.0,
            drawn(
                "restart after one was away for 400s, I 6S",
                81642,
                vec![fleet(7), renewed(30.0, &every(5.0, 1))],
                vec![silent(7..8, 258.0..658.0)],
            ),
        ),
        restart(
            371.0,
            drawn(
                "restart in 5m down, two jobs alike",
                78580,
                vec![Fleet {
                    gpus: 4,
                    ..every(60.0, 2)
                }],
                vec![
                    Weather::Lost { share: 0.05 },
                    Weather::SecondJob {
                        job: "dcgm-slow",
                        scrape: 60.0,
                    },
                    down(312.0..612.0),
                ],
            ),
        ),
    ]
}

/// The fleet with readings at this interval.
fn renewed(renew: f64, fleet: &Fleet) -> Fleet {
    Fleet {
        renew,
        ..fleet.clone()
    }
}

/// A few targets, one of them with another clock.
fn clocks() -> Vec<World> {
    let clock = |secs| Weather::Clock {
        targets: 0..1,
        during: ALWAYS,
        secs,
    };
    vec![
        drawn(
            "1of3 clk+34 lag52",
            91111,
            vec![every(5.0, 3)],
            vec![late(ALWAYS, 52.0), clock(34.0)],
        ),
        drawn(
            "1of2 clk-49, the other lost",
            78716,
            vec![every(5.0, 2)],
            vec![
                clock(-49.0),
                Weather::DeviceLost {
                    devices: 1..2,
                    during: 624.0..FOREVER,
                },
            ],
        ),
    ]
}

//! Several conditions at once: jobs that share exporters, pods that share GPUs.

use super::super::world::{Fleet, Weather, World};
use super::{FOREVER, ends, fleet, silent, ten};

fn second_job() -> Weather {
    Weather::SecondJob {
        job: "dcgm-slow",
        scrape: 60.0,
    }
}

fn again(targets: std::ops::Range<usize>, at: f64) -> Weather {
    Weather::Starts {
        workload: "w",
        targets,
        at,
        every: 30.0,
        unseen: 10.0..30.0,
    }
}

fn replaced(pods: std::ops::Range<usize>, at: f64) -> Weather {
    Weather::Ends {
        pods,
        at,
        every: 30.0,
        labels_late: 0.0,
    }
}

pub(super) fn worlds() -> Vec<World> {
    let four = |targets| Fleet {
        gpus: 4,
        ..fleet(targets)
    };
    let other = |targets| Fleet {
        workload: "v",
        ..fleet(targets)
    };
    let twice = Fleet {
        second: Some(2.0),
        ..fleet(2)
    };
    let frozen = Weather::Frozen {
        targets: 0..4,
        during: 478.0..FOREVER,
    };
    vec![
        World::new("2jobs", vec![fleet(5)], vec![second_job()]),
        World::new(
            "2jobs replaced",
            vec![fleet(5)],
            vec![replaced(0..5, 800.0), again(0..5, 800.0), second_job()],
        ),
        World::new(
            "2jobs replaced, prom restart",
            vec![fleet(5)],
            vec![
                replaced(0..5, 800.0),
                again(0..5, 800.0),
                second_job(),
                Weather::Down {
                    during: 1100.0..1160.0,
                },
            ],
        ),
        World::new(
            "2jobs slow alone",
            vec![fleet(5)],
            vec![second_job(), silent(0..0, 0.0..0.0), ends(4..5, 1000.0)],
        ),
        World {
            seed: 1377,
            secs: 1200.0,
            restart: 688.0,
            ..World::new("2jobs 2scr frozen", vec![twice], vec![second_job(), frozen])
        },
        World::new("4 GPUs a pod", vec![four(4)], vec![]),
        World::new(
            "4 GPUs a pod 1of4",
            vec![four(4)],
            vec![silent(0..1, 900.0..1200.0)],
        )
        .during(900.0..1200.0),
        World::new(
            "two workloads 1of2",
            vec![fleet(5), other(5)],
            vec![silent(0..5, 900.0..1200.0)],
        )
        .during(900.0..1200.0),
        World::new(
            "shared",
            vec![fleet(5)],
            vec![Weather::Shared {
                targets: 0..5,
                pods: 3,
            }],
        ),
        World::new(
            "shared 2of5 silent",
            vec![fleet(5)],
            vec![
                Weather::Shared {
                    targets: 0..5,
                    pods: 3,
                },
                silent(0..2, 900.0..1200.0),
            ],
        )
        .during(900.0..1200.0),
        World::new(
            "shared 2of5 gone silent",
            vec![fleet(5)],
            vec![
                Weather::Shared {
                    targets: 0..5,
                    pods: 3,
                },
                silent(0..2, 900.0..FOREVER),
            ],
        )
        .during(900.0..2400.0),
        World {
            swing: 0.3,
            ..ten("steady15 swing", vec![])
        },
        World {
            swing: 0.3,
            ..ten("5of10 5m swing", vec![silent(0..5, 900.0..1200.0)])
        }
        .during(900.0..1200.0),
    ]
}

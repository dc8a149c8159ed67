//! Pods and nodes that come and go, and pods that share GPUs.

use super::super::FOREVER;
use super::super::world::{Weather, World};
use super::{
    down, drawn, ends, every, fleet, joins, lag, leaves, of_b, of_v, renewed, second_job, silent,
    starts, swinging, ten, with_gpus,
};

pub(super) fn worlds() -> Vec<World> {
    [membership(), together()].concat()
}

fn membership() -> Vec<World> {
    vec![
        World::new("drain 29of30", vec![fleet(30)], vec![leaves(29, 900.0)]),
        ten("drain 1of10", vec![leaves(1, 1150.0)]),
        ten(
            "rolling",
            vec![
                joins(fleet(10), 1000.0, 40.0, 20.0..60.0),
                ends(0..10, 1060.0, 40.0),
            ],
        ),
        ten(
            "scale10-8-12",
            vec![
                ends(8..10, 1170.0, 0.0),
                starts(8..10, 1500.0, 1.0, 5.0..15.0),
                joins(fleet(2), 1502.0, 1.0, 5.0..15.0),
            ],
        ),
        ten(
            "10->6 labels late",
            vec![Weather::Ends {
                pods: 6..10,
                at: 1180.0,
                every: 0.0,
                labels_late: 70.0,
            }],
        ),
        World::new(
            "8->12 75s unseen",
            vec![fleet(8)],
            vec![joins(fleet(4), 1000.0, 1.0, 75.0..75.0)],
        ),
        ten(
            "handed over",
            vec![
                ends(0..5, 1000.0, 0.0),
                Weather::Starts {
                    workload: "v",
                    targets: 0..5,
                    at: 1000.0,
                    every: 0.0,
                    unseen: 10.0..30.0,
                },
            ],
        ),
        swinging(ten(
            "silent, others replaced",
            vec![
                silent(0..3, 900.0..1500.0),
                ends(3..6, 950.0, 20.0),
                starts(3..6, 960.0, 20.0, 10.0..30.0),
            ],
        )),
        drawn(
            "restart after pods moved, two cadences",
            (28157, 501.0),
            vec![fleet(6), of_b(with_gpus(4, every(60.0, 2)))],
            vec![lag(79.0), starts(4..8, 204.0, 1.0, 5.0..6.0)],
        ),
        drawn(
            "restart after pods ended and 5m down, I 2S",
            (90830, 723.0),
            vec![renewed(30.0, fleet(1))],
            vec![ends(0..1, 246.0, 1.0), down(358.0..658.0)],
        ),
    ]
}

/// Jobs that share exporters, and pods that share GPUs.
fn together() -> Vec<World> {
    let shared = |name, during| {
        let shared = Weather::Shared {
            targets: 0..5,
            pods: 3,
        };
        World::new(name, vec![fleet(5)], vec![shared, silent(0..2, during)])
    };
    vec![
        World::new(
            "2jobs replaced, prom restart",
            vec![fleet(5)],
            vec![
                ends(0..5, 800.0, 30.0),
                starts(0..5, 800.0, 30.0, 10.0..30.0),
                second_job(),
                down(1100.0..1160.0),
            ],
        ),
        World::new(
            "2jobs, a pod ends",
            vec![fleet(5)],
            vec![second_job(), ends(4..5, 1000.0, 0.0)],
        ),
        World::new(
            "4 GPUs a pod 1of4",
            vec![with_gpus(4, fleet(4))],
            vec![silent(0..1, 900.0..1200.0)],
        ),
        World::new(
            "two workloads 1of2",
            vec![fleet(5), of_v(fleet(5))],
            vec![silent(0..5, 900.0..1200.0)],
        ),
        shared("shared 2of5 silent", 900.0..1200.0),
        shared("shared 2of5 gone silent", 900.0..FOREVER),
    ]
}

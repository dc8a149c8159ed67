//! Pods and nodes that come and go.

use super::super::world::{Weather, World};
use super::{ends, fleet, ten};

fn leaves(count: usize, at: f64) -> Vec<Weather> {
    vec![Weather::Leaves {
        targets: 0..count,
        at,
    }]
}

fn joins(count: usize, at: f64, every: f64, unseen: std::ops::Range<f64>) -> Weather {
    Weather::Joins {
        fleet: fleet(count),
        at,
        every,
        unseen,
    }
}

fn starts(targets: std::ops::Range<usize>, at: f64, unseen: std::ops::Range<f64>) -> Weather {
    Weather::Starts {
        workload: "w",
        targets,
        at,
        every: 1.0,
        unseen,
    }
}

pub(super) fn worlds() -> Vec<World> {
    let down = |labels_late| Weather::Ends {
        pods: 6..10,
        at: 1180.0,
        every: 0.0,
        labels_late,
    };
    vec![
        World::new("drain 28of30", vec![fleet(30)], leaves(28, 900.0)),
        World::new("drain 29of30", vec![fleet(30)], leaves(29, 900.0)),
        ten("drain 1of10", leaves(1, 1150.0)),
        ten(
            "rolling",
            vec![
                joins(10, 1000.0, 40.0, 20.0..60.0),
                Weather::Ends {
                    pods: 0..10,
                    at: 1060.0,
                    every: 40.0,
                    labels_late: 0.0,
                },
            ],
        ),
        ten(
            "scale10-8-12",
            vec![
                ends(8..10, 1170.0),
                starts(8..10, 1500.0, 5.0..15.0),
                joins(2, 1502.0, 1.0, 5.0..15.0),
            ],
        ),
        ten("scale10-8", vec![ends(8..10, 900.0)]),
        ten("10->6 labels late", vec![down(70.0)]),
        World::new(
            "8->12 75s unseen",
            vec![fleet(8)],
            vec![joins(4, 1000.0, 1.0, 75.0..75.0)],
        ),
        ten(
            "handed over",
            vec![
                ends(0..5, 1000.0),
                Weather::Starts {
                    workload: "v",
                    targets: 0..5,
                    at: 1000.0,
                    every: 0.0,
                    unseen: 10.0..30.0,
                },
            ],
        ),
        World::new(
            "2jobs approx",
            vec![fleet(5)],
            vec![ends(0..1, 1150.0), starts(0..1, 1150.0, 25.0..25.0)],
        ),
    ]
}

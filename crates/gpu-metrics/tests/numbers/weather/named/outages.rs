//! Missing exporters, GPUs and Prometheus.

use super::super::FOREVER;
use super::super::world::{Fleet, Weather, World};
use super::{fleet, lag, silent, ten};

pub(super) fn worlds() -> Vec<World> {
    let mut all = exporters();
    all.extend(heavy());
    all.extend(others());
    all
}

/// A fleet of which some fall silent.
fn some(name: &'static str, of: usize, how_many: usize, during: std::ops::Range<f64>) -> World {
    let weather = vec![silent(0..how_many, during.clone())];
    World::new(name, vec![fleet(of)], weather).during(during)
}

fn exporters() -> Vec<World> {
    vec![
        some("5of10 5m", 10, 5, 900.0..1200.0),
        some("5of10 12m", 10, 5, 900.0..1620.0),
        some("5of10 4m", 10, 5, 900.0..1140.0),
        some("restart in 5of10", 10, 5, 1000.0..1400.0),
        some("restart5of10 4m", 10, 5, 1000.0..1240.0),
        some("1of4", 4, 1, 900.0..1200.0),
        some("23of25", 25, 23, 900.0..1200.0),
        some("all dead", 10, 10, 900.0..2400.0),
        World {
            weather: vec![lag(32.0), silent(0..10, 1170.0..2400.0)],
            ..some("all dead@restart", 10, 10, 1170.0..2400.0)
        },
        some("dead 100s before restart", 10, 10, 1100.0..2400.0),
        ten(
            "exporter restart45",
            vec![silent(0..1, 1160.0..1205.0), silent(3..4, 1160.0..1205.0)],
        ),
        ten(
            "exporter restart45 markers",
            vec![silent(0..4, 1160.0..1205.0), Weather::Markers],
        ),
        ten(
            "prom restart60",
            vec![Weather::Down {
                during: 1160.0..1220.0,
            }],
        ),
    ]
}

/// One device has a large part of the sum.
fn heavy() -> Vec<World> {
    let loads = |all: f64, first: f64| {
        vec![
            Weather::Load {
                devices: 0..10,
                percent: all,
            },
            Weather::Load {
                devices: 0..1,
                percent: first,
            },
            silent(0..1, 1000.0..1680.0),
        ]
    };
    vec![
        ten("big one silent", loads(20.0, 99.0)).during(1000.0..1680.0),
        ten("big% silent", loads(12.0, 90.0)).during(1000.0..1680.0),
    ]
}

fn others() -> Vec<World> {
    let eight = Fleet {
        targets: 1,
        gpus: 8,
        ..Fleet::default()
    };
    let refused = |signal, during| Weather::Refused { signal, during };
    vec![
        World::new(
            "gpu lost 1of8",
            vec![eight],
            vec![Weather::DeviceLost {
                devices: 0..1,
                during: 900.0..FOREVER,
            }],
        )
        .during(900.0..2400.0),
        ten(
            "frozen 1of10",
            vec![Weather::Frozen {
                targets: 0..1,
                during: 900.0..2400.0,
            }],
        ),
        ten(
            "frozen 5of10",
            vec![Weather::Frozen {
                targets: 0..5,
                during: 900.0..2400.0,
            }],
        )
        .during(900.0..2400.0),
        ten("refused 1 signal", vec![refused(Some(0), 900.0..960.0)]).during(900.0..960.0),
        ten(
            "refused other signal",
            vec![refused(Some(1), 900.0..1200.0)],
        ),
        ten("refused all", vec![refused(None, 900.0..1080.0)]).during(900.0..1080.0),
    ]
}

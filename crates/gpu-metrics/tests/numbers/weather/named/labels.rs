//! Labels and fields with less information than usual.

use super::super::world::{Fleet, Naming, Weather, World};
use super::{FOREVER, fleet, silent, ten};

pub(super) fn worlds() -> Vec<World> {
    let mut all = names();
    all.extend(deaths());
    all.extend(readings());
    all.extend(fields());
    all
}

/// 32 nodes with a GPU each, scraped at different seconds.
fn alike(name: &'static str, naming: Naming, scrape: f64) -> World {
    let fleet = Fleet {
        naming,
        scrape,
        renew: scrape,
        ..fleet(32)
    };
    World {
        secs: 1200.0,
        restart: 600.0,
        ..World::new(name, vec![fleet], vec![])
    }
}

fn names() -> Vec<World> {
    vec![
        alike("one instance, 32 nodes", Naming::OneInstance, 15.0),
        alike("no instance, 32 nodes S30", Naming::NodeOnly, 30.0),
        alike("no instance, no node, 32 nodes S30", Naming::Nothing, 30.0),
    ]
}

/// Three exporters of four GPUs each, one of which ends.
fn death(name: &'static str, naming: Naming) -> World {
    let fleet = Fleet {
        naming,
        gpus: 4,
        ..fleet(3)
    };
    let during = 900.0..1500.0;
    World::new(name, vec![fleet], vec![silent(0..1, during.clone())]).during(during)
}

fn deaths() -> Vec<World> {
    vec![
        death("one instance, 1of3 dead", Naming::OneInstance),
        death("no instance, 1of3 dead", Naming::NodeOnly),
        death("no instance, no node, 1of3 dead", Naming::Nothing),
    ]
}

/// Unusual readings of exporters that answer.
fn readings() -> Vec<World> {
    let four = Fleet {
        gpus: 4,
        ..fleet(3)
    };
    let load = |devices, percent| Weather::Load { devices, percent };
    let second = || Weather::SecondJob {
        job: "other",
        scrape: 15.0,
    };
    let frozen = |name, load: Weather| {
        let frozen = Weather::FrozenJob {
            job: "other",
            during: 600.0..FOREVER,
        };
        World::new(name, vec![fleet(5)], vec![second(), frozen, load])
    };
    vec![
        World::new(
            "4 busy of 8 dead",
            vec![fleet(8)],
            vec![
                load(0..4, 90.0),
                load(4..8, 10.0),
                silent(0..4, 900.0..1500.0),
            ],
        )
        .during(900.0..1500.0),
        World::new(
            "1of3 without pod labels",
            vec![four],
            vec![Weather::Unlabelled {
                targets: 0..1,
                during: 900.0..1500.0,
            }],
        ),
        World {
            swing: 0.3,
            ..frozen("frozen beside live", load(0..0, 0.0))
        },
        frozen(
            "frozen beside live, jump",
            Weather::Jump {
                at: 700.0,
                percent: 90.0,
            },
        ),
    ]
}

fn fields() -> Vec<World> {
    let profiled = |devices, until| Weather::Profiled { devices, until };
    let eight = |targets| Fleet {
        gpus: 8,
        ..fleet(targets)
    };
    vec![
        ten("percents vanish, ratios stay", vec![profiled(0..10, 900.0)]),
        World::new(
            "percents vanish of 1of3, ratios stay",
            vec![eight(3)],
            vec![profiled(0..8, 900.0)],
        ),
        World::new(
            "GPUs of both kinds on an exporter",
            vec![eight(2)],
            vec![profiled(0..4, -FOREVER)],
        ),
    ]
}

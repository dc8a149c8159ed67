//! Missing and frozen exporters, lost GPUs and labels, and a Prometheus that does not
//! answer.

use super::super::FOREVER;
use super::super::world::{Fleet, Naming, Weather, World};
use super::{
    down, drawn, every, fleet, gpus_lost, lag, lag_during, load, lost, renewed, second_job, silent,
    stall, swinging, ten, with_gpus,
};

pub(super) fn worlds() -> Vec<World> {
    [silences(), outages(), labels(), fields(), aftermath()].concat()
}

fn silences() -> Vec<World> {
    let half = |name, scrape, late, during| {
        let weather = vec![lag(late), silent(0..5, during)];
        swinging(World::new(name, vec![every(scrape, 10)], weather))
    };
    let some = |name, targets, dead| {
        let weather = vec![silent(0..dead, 900.0..1200.0)];
        World::new(name, vec![fleet(targets)], weather)
    };
    vec![
        half("5of10 12m", 15.0, 0.5, 900.0..1620.0),
        half("restart 5of10 4m", 15.0, 0.5, 1000.0..1240.0),
        half("5of10 S1", 1.0, 0.5, 900.0..1500.0),
        half("5of10 S60", 60.0, 2.0, 900.0..1500.0),
        half("5of10 S15 lag60", 15.0, 60.0, 900.0..1500.0),
        World {
            secs: 3300.0,
            restart: 2700.0,
            ..half("5of10 40m, restart in it", 15.0, 0.5, 600.0..3000.0)
        },
        World {
            secs: 3300.0,
            restart: 2700.0,
            swing: 0.0,
            ..half(
                "5of10 40m S60 lag30, restart in it",
                60.0,
                30.0,
                600.0..3000.0,
            )
        },
        swinging(ten(
            "2of10 twice, restart between",
            vec![silent(0..2, 900.0..1250.0), silent(5..7, 1150.0..1400.0)],
        )),
        drawn(
            "5of10 10m markers",
            (1, 600.0),
            vec![fleet(10)],
            vec![silent(0..5, 500.0..1100.0), Weather::Markers],
        ),
        some("1of4", 4, 1),
        some("23of25", 25, 23),
        ten(
            "all dead@restart",
            vec![lag(32.0), silent(0..10, 1170.0..2400.0)],
        ),
        ten(
            "dead 100s before restart",
            vec![silent(0..10, 1100.0..2400.0)],
        ),
        ten(
            "exporter restart45",
            vec![silent(0..1, 1160.0..1205.0), silent(3..4, 1160.0..1205.0)],
        ),
        ten(
            "exporter restart45 markers",
            vec![silent(0..4, 1160.0..1205.0), Weather::Markers],
        ),
        // One device has a large part of the sum.
        ten(
            "big one silent",
            vec![
                load(0..10, 12.0),
                load(0..1, 90.0),
                silent(0..1, 1000.0..1680.0),
            ],
        ),
        World::new(
            "4 busy of 8 dead",
            vec![fleet(8)],
            vec![
                load(0..4, 90.0),
                load(4..8, 10.0),
                silent(0..4, 900.0..1500.0),
            ],
        ),
    ]
}

fn outages() -> Vec<World> {
    let frozen = |targets, start| Weather::Frozen {
        targets,
        during: start..FOREVER,
    };
    let beside_live = |name, load| {
        let second = Weather::SecondJob {
            job: "other",
            scrape: 15.0,
        };
        let frozen = Weather::FrozenJob {
            job: "other",
            during: 600.0..FOREVER,
        };
        World::new(name, vec![fleet(5)], vec![second, frozen, load])
    };
    let jump = Weather::Jump {
        at: 700.0,
        percent: 90.0,
    };
    let refused = |name, signal, during| ten(name, vec![Weather::Refused { signal, during }]);
    let twice = Fleet {
        second: Some(2.0),
        ..fleet(2)
    };
    vec![
        ten("prom restart60", vec![down(1160.0..1220.0)]),
        World::new(
            "gpu lost 1of8",
            vec![with_gpus(8, fleet(1))],
            vec![gpus_lost(0..1, 900.0..FOREVER)],
        ),
        ten("frozen 1of10", vec![frozen(0..1, 900.0)]),
        ten("frozen 5of10", vec![frozen(0..5, 900.0)]),
        swinging(beside_live("frozen beside live", load(0..0, 0.0))),
        beside_live("frozen beside live, jump", jump),
        drawn(
            "2jobs 2scr frozen",
            (1377, 688.0),
            vec![twice],
            vec![second_job(), frozen(0..4, 478.0)],
        ),
        refused("refused 1 signal", Some(0), 900.0..960.0),
        refused("refused other signal", Some(1), 900.0..1200.0),
        refused("refused all", None, 900.0..1080.0),
    ]
}

/// Labels with less information than usual.
fn labels() -> Vec<World> {
    let alike = |name, naming, scrape| {
        let fleet = Fleet {
            naming,
            ..every(scrape, 32)
        };
        World {
            secs: 1200.0,
            restart: 600.0,
            ..World::new(name, vec![fleet], vec![])
        }
    };
    let four = |naming| Fleet {
        naming,
        ..with_gpus(4, fleet(3))
    };
    let death =
        |name, naming| World::new(name, vec![four(naming)], vec![silent(0..1, 900.0..1500.0)]);
    vec![
        alike("one instance, 32 nodes", Naming::OneInstance, 15.0),
        alike("no instance, 32 nodes S30", Naming::NodeOnly, 30.0),
        alike("no instance, no node, 32 nodes S30", Naming::Nothing, 30.0),
        death("one instance, 1of3 dead", Naming::OneInstance),
        death("no instance, 1of3 dead", Naming::NodeOnly),
        death("no instance, no node, 1of3 dead", Naming::Nothing),
        World::new(
            "1of3 without pod labels",
            vec![four(Naming::Full)],
            vec![Weather::Unlabelled {
                targets: 0..1,
                during: 900.0..1500.0,
            }],
        ),
    ]
}

/// Percentages that end while the profiling field stays.
fn fields() -> Vec<World> {
    let profiled = |devices, until| vec![Weather::Profiled { devices, until }];
    let eight = |targets| vec![with_gpus(8, fleet(targets))];
    let lasting = profiled(0..4, -FOREVER);
    vec![
        ten("percents vanish, ratios stay", profiled(0..10, 900.0)),
        World::new(
            "percents vanish of 1of3, ratios stay",
            eight(3),
            profiled(0..8, 900.0),
        ),
        World::new("GPUs of both kinds on an exporter", eight(2), lasting),
    ]
}

/// States after an outage.
fn aftermath() -> Vec<World> {
    vec![
        drawn(
            "back one by one, later than before",
            (15046, 600.0),
            vec![fleet(3)],
            vec![lag_during(42.0, 587.0..987.0), down(331.0..631.0)],
        ),
        drawn(
            "two outages of 5m",
            (16834, 600.0),
            vec![fleet(1)],
            vec![down(762.0..1062.0), down(345.0..645.0)],
        ),
        drawn(
            "all GPUs away for 400s",
            (74278, 450.0),
            vec![fleet(5)],
            vec![gpus_lost(0..5, 511.0..911.0)],
        ),
        drawn(
            "GPU lost in a stall",
            (13686, 600.0),
            vec![fleet(3)],
            vec![stall("a", 397.0..697.0), gpus_lost(0..1, 521.0..721.0)],
        ),
        drawn(
            "restart in an outage, two cadences",
            (21433, 367.0),
            vec![every(5.0, 1), with_gpus(2, fleet(1))],
            vec![down(357.0..657.0)],
        ),
        drawn(
            "restart after one was away for 400s, I 6S",
            (81642, 840.0),
            vec![fleet(7), renewed(30.0, every(5.0, 1))],
            vec![silent(7..8, 258.0..658.0)],
        ),
        drawn(
            "restart in 5m down, two jobs alike",
            (78580, 371.0),
            vec![with_gpus(4, every(60.0, 2))],
            vec![lost(0.05), second_job(), down(312.0..612.0)],
        ),
    ]
}

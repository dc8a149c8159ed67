//! Lateness, silence, names.

use std::sync::Arc;

use super::super::batch::{PrometheusId, Sample};
use super::super::series::{Device, LabelFacts, NodeName, SeriesInfo};
use super::super::signal::{SignalId, Unit};
use super::{Intervals, TargetId, Targets, View};
use apimachinery::time::Timestamp;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(1_000_000 + secs)
}

/// A series of an exporter.
pub(crate) fn series(instance: &str, node: Option<&str>, device: &str) -> SeriesInfo {
    let node = node.map(|name| NodeName {
        rank: 0,
        name: name.into(),
    });
    SeriesInfo {
        signal: SignalId::GPU_UTIL,
        unit: Unit::Percent,
        device: Device {
            uuid: device.into(),
            instance: None,
            profile: None,
        },
        owner: None,
        job: "dcgm".into(),
        prometheus: PrometheusId(0),
        source: "dcgm".into(),
        instance: instance.into(),
        label_facts: Arc::new(LabelFacts {
            nodes: node.into_iter().collect(),
            ..LabelFacts::default()
        }),
    }
}

/// Targets of one source that are scraped every 15 s.
struct Fleet {
    targets: Targets,
    ids: Vec<TargetId>,
}

impl Fleet {
    fn new(count: usize) -> Self {
        let mut targets = Targets::new(Intervals {
            scrape_ms: Some(15_000),
            fresh_ms: 30_000,
        });
        let register = |index| targets.register(&series(&format!("t{index}"), None, "GPU"));
        let ids = (0..count).map(register).collect();
        Self { targets, ids }
    }

    /// Reads these newest samples of each target at `now`.
    fn read(&mut self, newest: &[i64], now: i64) {
        for (id, secs) in self.ids.iter().zip(newest) {
            let sample = Sample {
                at: at(*secs),
                value: 1.0,
            };
            self.targets.take(*id, &[sample]);
        }
        self.targets.advance(PrometheusId(0), at(now));
    }

    fn view(&self, now: i64) -> View {
        self.targets.view(at(now))
    }

    fn lag(&self) -> i64 {
        self.view(0).sources[0].lag_ms / 1000
    }
}

#[test]
fn the_lag_is_the_median_of_the_middle_lateness_of_each_target() {
    let mut fleet = Fleet::new(3);
    fleet.read(&[0, 0, 0], 5);
    fleet.read(&[15, 15, 15], 17);
    assert_eq!(fleet.lag(), 2);
    // One late sample is chance; two of three are not.
    fleet.read(&[30, 30, 30], 52);
    assert_eq!(fleet.lag(), 2);
    fleet.read(&[45, 45, 45], 67);
    assert_eq!(fleet.lag(), 22);
}

/// Three of five targets end, and later the other two, which are a minute late.
#[test]
fn the_lag_stays_when_no_target_is_heard() {
    let mut fleet = Fleet::new(5);
    for round in 0..8 {
        let (now, ended) = (15 * round, 15 * round.min(3));
        fleet.read(&[ended - 2, ended - 2, ended - 2, now - 62, now - 60], now);
    }
    // The two were heard last.
    assert_eq!(fleet.lag(), 60);
    for now in [180, 240, 300] {
        fleet.read(&[], now);
        assert_eq!(fleet.lag(), 60, "at {now}");
    }
}

#[test]
fn before_lateness_is_measured_the_lag_is_the_lower_quartile_of_ages() {
    let mut fleet = Fleet::new(8);
    fleet.read(&[0, 1, 2, 3, 4, 5, 6, 7], 20);
    assert_eq!(fleet.lag(), 14);
}

#[test]
fn a_target_with_a_wrong_clock_has_its_lateness_added() {
    let mut fleet = Fleet::new(5);
    for round in 0..4 {
        let now = 15 * round;
        fleet.read(&[now - 2, now - 2, now - 2, now - 62, now - 9], now);
    }
    let view = fleet.view(45);
    let fresh: Vec<i64> = view.targets.iter().map(|it| it.fresh_ms / 1000).collect();
    assert_eq!(fresh, [45, 45, 45, 105, 45]);
    assert!(view.targets.iter().all(|target| !target.silent));
}

#[test]
fn a_target_is_silent_after_f_without_a_sample() {
    let mut fleet = Fleet::new(2);
    for round in 0..4 {
        fleet.read(&[15 * round, 15 * round], 15 * round + 2);
    }
    let is_silent = |now: i64| fleet.view(now).targets[0].silent;
    assert!(!is_silent(45 + 46));
    assert!(is_silent(45 + 47));
}

#[test]
fn targets_are_distinguished_by_instance_and_node() {
    let mut targets = Targets::default();
    let ids = [
        targets.register(&series("one", Some("n1"), "A")),
        targets.register(&series("one", Some("n1"), "B")),
        targets.register(&series("one", Some("n2"), "C")),
        targets.register(&series("two", Some("n1"), "A")),
    ];
    assert_eq!(ids[0], ids[1]);
    let different: std::collections::BTreeSet<TargetId> = ids.into_iter().collect();
    assert_eq!(different.len(), 3);
}

#[test]
fn devices_that_differ_three_times_in_a_row_are_targets_of_their_own() {
    let mut targets = Targets::default();
    let whole = targets.register(&series("", None, "A"));
    let same = targets.register(&series("", None, "B"));
    assert_eq!(whole, same);
    assert!(!targets.differ(whole, true) && !targets.differ(whole, true));
    assert!(!targets.differ(whole, false));
    assert!(!targets.differ(whole, true) && !targets.differ(whole, true));
    assert!(targets.differ(whole, true));
    let device = |uuid: &str| Device {
        uuid: Arc::from(uuid),
        instance: None,
        profile: None,
    };
    let a = targets.divide(whole, (&device("A"), at(0)), at(5));
    let b = targets.divide(whole, (&device("B"), at(3)), at(5));
    assert_ne!(a, b);
    // A later series of a device gets that device's target; another device gets a new one.
    assert_eq!(targets.register(&series("", None, "A")), a);
    let c = targets.register(&series("", None, "C"));
    assert!(c != a && c != b);
    assert_eq!(targets.instance(c), Some("C"));
    for (id, series) in [(a, 2), (b, 1), (c, 1)] {
        (0..series).for_each(|_| targets.release(id));
    }
    assert_eq!(targets.iter().count(), 0);
    assert!(targets.divided.is_empty());
}

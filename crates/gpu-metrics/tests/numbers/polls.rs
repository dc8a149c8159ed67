//! What a poll reads: ranges of queries, impossible samples, clocks that are set back, and a
//! switch between two stores.

use std::time::Duration;

use super::answers::{Answers, close};
use super::notation::Case;
use super::polled::{POLL, Replica};
use super::scene::{Scene, at, sample};
use gpu_metrics::batch::Sample;
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::SignalId;

const MCU: SignalId = SignalId::MEM_COPY_UTIL;
const MEAN: &str = "gpu_memory_utilization";
const SUM: &str = "gpu_memory_utilization_sum";
const POD: &str = "UUID=A job=dcgm namespace=n pod=p";

/// The lines of a case.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| format!(" {line}")).collect()
}

/// The example of docs/numbers.md; its values are in `cases`.
#[test]
fn an_explanation_has_the_end_of_the_window_and_the_lateness() {
    let lines = lines("pods 0..1 each 1\nA p0 job=d instance=i: S15 +3 40");
    let case = Case::read(Policy::default(), &lines, "");
    let mut replica = Replica::new(&case, 0.0);
    let snapshots = (0..=66).map(|place| replica.poll(place as f64 * POLL as f64));
    let answers = Answers::new(snapshots.last().unwrap());
    let window = answers.explain("pods n/p0", MEAN).unwrap().window.unwrap();
    assert_eq!(window.end, at(340.0).date());
    close(Some(window.lag_seconds), 2.0);
    assert_eq!(answers.snapshot.window(), Duration::from_secs(60));
}

/// A scene after the first read of a start.
fn started() -> Scene {
    let mut scene = Scene::new(Policy::default());
    let samples = (-79..=0).map(|place| sample(f64::from(place) * 15.0, 40.0));
    scene.feed_at(MCU, POD, &samples.collect::<Vec<_>>(), at(0.0));
    scene.snapshot_at(at(0.0));
    scene
}

#[test]
fn a_range_reaches_back_to_the_last_sample_and_at_most_as_far_as_a_start() {
    let range = |scene: &Scene, secs: f64| scene.pipeline.range(MCU, at(secs)).as_secs();
    let hour = Policy {
        max_window: Duration::from_secs(3600),
        ..Policy::default()
    };
    assert_eq!(range(&Scene::new(Policy::default()), 0.0), 1200);
    assert_eq!(range(&Scene::new(hour), 0.0), 3645);
    let scene = started();
    // Two minutes more, once a minute, because unknown targets may be late; and two, because no
    // lateness of this one is known.
    assert_eq!(range(&scene, 300.0), 585);
    assert_eq!(range(&scene, 9000.0), 1200);
}

#[test]
fn absurd_sample_times_move_no_window_and_change_no_interval_and_no_range() {
    let lines =
        lines("G0 a0 job=a instance=a0: S15 +1 10~80\nG1 a1 job=a instance=a1: S15 +1 10~80");
    let case = Case::read(Policy::default(), &lines, "");
    let run = |extra: bool| {
        let mut replica = Replica::new(&case, 0.0);
        let years = (-50..50).map(|year| f64::from(year) * 31_536_000.0);
        let absurd = years
            .chain([-16.0, -1.0, 5e9])
            .map(|secs| sample(secs, 40.0));
        let absurd: Vec<Sample> = absurd.collect();
        let ended = "UUID=Z gpu=0 job=z instance=z namespace=n pod=z";
        for labels in [&case.series[0].labels, ended]
            .into_iter()
            .filter(|_| extra)
        {
            replica.scene.feed_at(MCU, labels, &absurd, at(0.0));
        }
        let polls = (0..300).map(|place| {
            let now = (place * POLL) as f64;
            let answers = Answers::new(replica.poll(now));
            let values = ["pods n/a0", "cluster"].map(|of| answers.of(of, MEAN));
            let pipeline = &replica.scene.pipeline;
            (
                values,
                pipeline.store().shortest_scrape_ms(),
                pipeline.range(MCU, at(now)),
            )
        });
        polls.collect::<Vec<_>>()
    };
    // Equal once the extra samples are forgotten; until then the value is missing.
    assert_eq!(run(false)[260..], run(true)[260..]);
}

/// Values that show their time: each minute adds one percent.
#[test]
fn a_clock_set_back_by_less_than_two_minutes_stops_no_window() {
    let samples = (-40..40).map(|place| {
        let secs = f64::from(place) * 15.0 + 1.0;
        sample(secs, (secs / 60.0).max(0.0) + 10.0)
    });
    let samples: Vec<Sample> = samples.collect();
    let mut scene = Scene::new(Policy::default());
    for place in 0..120 {
        let truth = f64::from(place) * 5.0;
        let now = if truth < 300.0 { truth + 115.0 } else { truth };
        let known = samples.partition_point(|sample| sample.at <= at(truth));
        scene.feed_at(MCU, POD, &samples[..known], at(now));
        let value = Answers::new(scene.snapshot_at(at(now))).of("pods n/p", MEAN);
        // The mean of a minute that ended less than half a minute ago.
        let least = 10.0 + (truth - 90.0) / 60.0;
        assert!(truth < 330.0 || value > Some(least), "{value:?} at {truth}");
    }
}

/// After a clock was set back by years, memory must stay bounded and values must be
/// served again.
#[test]
fn a_clock_set_back_by_years_starts_over() {
    let mut scene = started();
    let then = |secs: f64| at(secs) - Duration::from_secs(10 * 365 * 86_400);
    let late = [0.0, 15.0, 30.0, 45.0].map(|secs| Sample {
        at: then(secs),
        value: 30.0,
    });
    scene.pipeline.start_over_if_set_back(then(46.0));
    assert!(!scene.pipeline.is_ready(then(46.0)));
    assert_eq!(scene.pipeline.store().series_len(), 0);
    scene.feed_at(MCU, POD, &late, then(46.0));
    let answers = Answers::new(scene.snapshot_at(then(46.0)));
    assert_eq!(answers.of("pods n/p", MEAN), Some(30.0));
}

/// Six GPUs at 10 to 60 in a store whose scrapes are `offset` seconds after another one's and
/// begin at `since`.
fn store(scrape: f64, offset: f64, since: f64) -> Vec<String> {
    let lines = (0..6).map(|gpu| {
        let phase = scrape * f64::from(gpu) / 7.0 + offset;
        let value = 10 * (gpu + 1);
        format!(" G{gpu} p{gpu} job=a instance=i{gpu}: S{scrape} +{phase} {value} {since}..")
    });
    lines.chain([" pods 0..6 each 6".to_owned()]).collect()
}

/// Of a pair of Prometheus servers that scrape at different times, one is asked at a time.
#[test]
fn a_switch_between_two_stores_changes_no_value() {
    for scrape in [1.0, 5.0, 15.0, 30.0] {
        let every = f64::clamp(scrape / 3.0, 1.0, 5.0);
        for share in [0.1, 0.4, 0.5, 0.9] {
            let texts = [
                store(scrape, 0.0, -2400.0),
                store(scrape, share * scrape, -2400.0),
                store(scrape, share * scrape, 10.0 * scrape),
            ];
            let [one, other, young] = texts
                .each_ref()
                .map(|it| Case::read(Policy::default(), it, ""));
            let known = (12.0 * scrape / every) as usize;
            for name in ["once", "back", "repeated", "restarted without its data"] {
                let mut replica = Replica::new(&one, 0.0);
                for place in 0..(60.0 * scrape / every) as usize {
                    replica.case = match name {
                        "once" if place >= 7 => &other,
                        "back" if place < 40 => &other,
                        "repeated" if place % 5 > 2 => &other,
                        "restarted without its data" if place >= known => &young,
                        _ => &one,
                    };
                    let answers = Answers::new(replica.poll(place as f64 * every));
                    let found = [
                        ("cluster", MEAN),
                        ("namespaces n", SUM),
                        ("namespaces n", "gpu_held_count"),
                    ]
                    .map(|(of, metric)| answers.of(of, metric));
                    let right = [Some(35.0), Some(210.0), Some(6.0)];
                    assert_eq!(found, right, "{name}, {scrape} s, {share}, poll {place}");
                }
            }
        }
    }
}

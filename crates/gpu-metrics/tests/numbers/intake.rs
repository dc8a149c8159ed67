//! What is counted of the samples of a poll, and what is known of the store afterwards.

use std::time::Duration;

use super::scene::{SENTINEL, Scene, at, key, policy, sample};
use gpu_metrics::batch::Batch;
use gpu_metrics::dcgm::{fields, metrics};
use gpu_metrics::pipeline::{Pipeline, Settings};
use gpu_metrics::policy::{DeviceValue, Measure, Policy};
use gpu_metrics::signal::SignalId;
use gpu_metrics::store::IntakeReport;

const MCU: SignalId = SignalId::MEM_COPY_UTIL;

/// A series of the poll at 0: its labels as JSON, and samples by time and value.
type Polled<'a> = (&'a str, &'a [(f64, f64)]);

fn take(scene: &mut Scene, series: &[Polled<'_>]) -> IntakeReport {
    let mut batch = Batch::new(MCU);
    for (labels, samples) in series {
        batch.begin_series(key(labels), labels);
        let samples = samples.iter().map(|(secs, value)| sample(*secs, *value));
        samples.for_each(|it| batch.push(it));
    }
    scene.pipeline.take(&batch, at(0.0))
}

/// Accepted, invalid, too old, from the future, series that name no device.
fn counts(report: IntakeReport) -> [u64; 5] {
    let IntakeReport {
        accepted, invalid, ..
    } = report;
    let (old, future) = (report.too_old, report.future);
    [accepted, invalid, old, future, report.unidentified]
}

#[test]
fn each_new_sample_is_counted_by_what_becomes_of_it() {
    const A: &str = r#"{"UUID":"A"}"#;
    let samples = |samples| [(A, samples)];
    for (series, counted) in [
        (
            samples(&[(-30.0, 1.0), (-15.0, 2.0), (0.0, 3.0)][..]),
            [3, 0, 0, 0, 0],
        ),
        (
            samples(&[(-15.0, SENTINEL), (0.0, f64::NAN)]),
            [0, 2, 0, 0, 0],
        ),
        (
            samples(&[(-15.0, -1.0), (-5.0, 100.0), (0.0, 100.5)]),
            [1, 2, 0, 0, 0],
        ),
        (
            samples(&[(-1201.0, 1.0), (-1200.0, 1.0), (0.0, 1.0)]),
            [1, 0, 2, 0, 0],
        ),
        (
            samples(&[(0.0, 1.0), (120.0, 1.0), (120.001, 1.0), (500.0, 1.0)]),
            [2, 0, 0, 2, 0],
        ),
        ([("{}", &[(0.0, 1.0)])], [0, 0, 0, 0, 1]),
        ([("no JSON", &[(0.0, 1.0)])], [0, 0, 0, 0, 1]),
    ] {
        let mut scene = Scene::new(Policy::default());
        let report = take(&mut scene, &series);
        assert_eq!(counts(report), counted, "{series:?}");
        let again = counts(take(&mut scene, &series));
        let [_, _, old, future, _] = counted;
        assert_eq!(again, [0, 0, old, future, 0], "again {series:?}");
    }
}

#[test]
fn series_are_counted_while_they_are_kept() {
    let mut scene = Scene::new(Policy {
        scrape_interval: None,
        ..policy(60)
    });
    let store = |scene: &Scene| {
        let store = scene.pipeline.store();
        (store.series_len(), store.shortest_scrape_ms())
    };
    assert_eq!(store(&scene), (0, None));
    // Some stores answer with the newest sample first.
    let every = |secs: f64| [0.0, -1.0, -2.0, -3.0, -4.0].map(|it| (it * secs, 1.0));
    let series: [Polled<'_>; 3] = [
        (r#"{"UUID":"A","job":"a"}"#, &every(60.0)),
        (r#"{"UUID":"B","job":"b"}"#, &every(10.0)),
        ("{}", &every(1.0)),
    ];
    take(&mut scene, &series);
    scene.snapshot_at(at(0.0));
    assert_eq!(store(&scene), (2, Some(10_000)));
    take(&mut scene, &[(r#"{"UUID":"C","job":"a"}"#, &every(60.0))]);
    let snapshot = scene.snapshot_at(at(0.0));
    assert_eq!(snapshot.layout.devices.len(), 3);
    assert!(snapshot.frame.is_answered(MCU) && !snapshot.frame.is_answered(SignalId::GPU_UTIL));
    // Twenty minutes after their last samples; the store is swept at each minute.
    scene.snapshot_at(at(1200.0));
    assert_eq!(store(&scene), (3, Some(10_000)));
    let snapshot = scene.snapshot_at(at(1260.0));
    assert_eq!(store(&scene), (0, None));
    assert_eq!(snapshot.layout.devices.len(), 0);
}

#[test]
fn profiling_fields_are_queried_where_instances_have_them_and_once_a_minute() {
    const DRAM: SignalId = SignalId::DRAM_ACTIVE;
    for (labels, is_needed) in [
        ("UUID=A", false),
        ("UUID=A GPU_I_ID=1 GPU_I_PROFILE=1g.10gb", true),
    ] {
        let mut scene = Scene::new(Policy::default());
        assert!(scene.pipeline.is_wanted(DRAM, at(0.0)));
        scene.feed_at(DRAM, labels, &[sample(0.0, 0.5)], at(0.0));
        scene.feed_at(MCU, "UUID=A", &[sample(0.0, 50.0)], at(0.0));
        assert_eq!(scene.pipeline.is_wanted(DRAM, at(59.999)), is_needed);
        assert!(scene.pipeline.is_wanted(DRAM, at(60.0)));
        assert!(scene.pipeline.is_wanted(MCU, at(1.0)));
    }
}

#[test]
fn a_start_is_ready_when_all_fields_were_answered_or_a_minute_later() {
    let ready = |scene: &Scene, secs: f64| scene.pipeline.is_ready(at(secs));
    let mut scene = Scene::new(Policy::default());
    assert!(ready(&scene, 0.0));
    scene.feed_at(MCU, "UUID=A", &[sample(0.0, 50.0)], at(0.0));
    assert!(!ready(&scene, 59.999));
    assert!(ready(&scene, 60.0));
    for field in fields::built_in().iter().map(|field| field.id) {
        assert!(!ready(&scene, 1.0), "{field:?}");
        scene.pipeline.answered(field, at(1.0));
    }
    assert!(ready(&scene, 1.0));
}

#[test]
fn a_profiling_field_of_a_metric_is_kept_for_whole_gpus() {
    const DRAM: SignalId = SignalId::DRAM_ACTIVE;
    let value = DeviceValue::Signal(DRAM);
    let mut metric = metrics::built_in().remove(0);
    metric.measure = match metric.measure {
        Measure::Devices { reducer, over, .. } => Measure::Devices {
            value,
            reducer,
            over,
        },
        other => other,
    };
    let mut pipeline = Pipeline::new(Settings {
        policy: Policy::default(),
        signals: fields::built_in(),
        metrics: vec![metric],
    });
    pipeline.answered(DRAM, at(0.0));
    assert!(pipeline.is_wanted(DRAM, at(1.0)));
}

#[test]
fn a_range_reaches_back_to_the_series_furthest_behind_that_may_still_send_samples() {
    for (behind, polled, range) in [
        (-45.0, 5.0, 10 + 45),
        // F and two minutes later nothing is awaited.
        (-160.0, 5.0, 10 + 160),
        (-161.0, 5.0, 10),
        (-161.0, 305.0, 310),
    ] {
        let mut scene = Scene::new(Policy::default());
        let scrapes = |last: f64| [15.0, 0.0].map(|before| sample(last - before, 40.0));
        // The second poll of a minute does not look for late samples.
        for now in [polled - 5.0, polled] {
            scene.feed_at(MCU, "UUID=A", &scrapes(0.0), at(now));
            scene.feed_at(MCU, "UUID=B", &scrapes(behind), at(now));
            scene.snapshot_at(at(now));
        }
        let found = scene.pipeline.range(MCU, at(polled + 5.0));
        // And F, and two minutes, because no lateness is known yet.
        assert_eq!(found.as_secs(), range + 45 + 120, "{behind} at {polled}");
    }
}

#[test]
fn series_are_kept_as_long_as_a_long_window_needs_them() {
    let mut scene = Scene::new(Policy {
        max_window: Duration::from_secs(3600),
        ..policy(60)
    });
    take(&mut scene, &[(r#"{"UUID":"A"}"#, &[(0.0, 1.0)])]);
    // The window, F, a step, the lateness that is possible, and two steps.
    for (secs, kept) in [(3600 + 45 + 15 + 120, 1), (3600 + 45 + 15 + 120 + 60, 0)] {
        scene.snapshot_at(at(f64::from(secs)));
        assert_eq!(scene.pipeline.store().series_len(), kept, "{secs}");
    }
}

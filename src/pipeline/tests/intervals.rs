//! Intervals that are read from the data: what moves the grid, what only
//! changes how long a reading is believed, and what does neither.

use std::time::Duration;

use super::scene::{Answers, SENTINEL, Scene, ZERO, at, close, json, key};
use crate::core::batch::{Batch, Sample};
use crate::core::policy::Policy;
use crate::core::signal::SignalId;
use crate::core::time::Timestamp;
use crate::dcgm::fields;
use crate::pipeline::Shown;

const MCU: SignalId = SignalId::MEM_COPY_UTIL;

/// Nothing is set: all intervals are detected.
fn detected() -> Scene {
    Scene::new(Policy {
        window: Some(Duration::from_secs(60)),
        ..Policy::default()
    })
}

/// Scrapes of an exporter that makes a new reading every `exporter` seconds.
fn scraped(from: i64, until: i64, scrape: i64, exporter: i64) -> Vec<Sample> {
    let times = (from..=until).filter(|secs| secs % scrape == 0);
    let sample = |secs: i64| Sample {
        at: at(secs as f64),
        value: (20 + secs.div_euclid(exporter) % 50) as f64,
    };
    times.map(sample).collect()
}

/// Answers every signal, the first with samples, as a round of polls does.
fn round(scene: &mut Scene, labels: &str, samples: &[Sample], now: i64) -> bool {
    scene.feed_at(MCU, labels, samples, at(now as f64));
    for spec in fields::built_in().iter().filter(|spec| spec.id != MCU) {
        let batch = Batch::new(spec.id, "".into());
        scene.pipeline.take(&batch, at(now as f64));
    }
    scene.pipeline.settle(at(now as f64), Shown::All).refill
}

const POD: &str = "UUID=A job=dcgm namespace=n pod=p";

/// A scene with five minutes of history taken in, as after a start.
fn started(scrape: i64, exporter: i64) -> Scene {
    let mut scene = detected();
    for _ in 0..3 {
        if !round(&mut scene, POD, &scraped(-300, 0, scrape, exporter), 0) {
            break;
        }
    }
    scene
}

/// Polls every five seconds, each a little over what is new.
fn polled(scene: &mut Scene, samples: &[Sample], from: i64, until: i64) -> u32 {
    let mut refills = 0;
    for now in (from..=until).step_by(5) {
        let range = scene.pipeline.range(MCU, at(now as f64));
        let seen =
            |sample: &&Sample| sample.at <= at(now as f64) && sample.at + range > at(now as f64);
        let part: Vec<Sample> = samples.iter().filter(seen).copied().collect();
        refills += u32::from(round(scene, POD, &part, now));
    }
    refills
}

fn scrape_and_exporter(scene: &Scene) -> (i64, i64) {
    let (.., timing) = scene.pipeline.store().targets().iter().next().unwrap();
    (timing.scrape_ms / 1000, timing.exporter_ms / 1000)
}

/// One answer with the same samples of many GPUs.
fn answer(scene: &mut Scene, signal: SignalId, gpus: usize, samples: &[Sample]) {
    let labels = |gpu| json(&format!("UUID={gpu} job=dcgm namespace=n pod=p{gpu}"));
    let texts: Vec<String> = (0..gpus).map(labels).collect();
    let mut batch = Batch::new(signal, texts.concat().into());
    let mut from = 0;
    for text in &texts {
        batch.begin_series(key(&format!("{signal:?}{text}")), from..from + text.len());
        samples.iter().for_each(|sample| batch.push(*sample));
        from += text.len();
    }
    scene.pipeline.take(&batch, at(0.0));
}

/// Many GPUs whose load a test, or a training step, moves at once.
#[test]
fn a_signal_that_stands_still_is_no_long_exporter_interval() {
    for gpus in [12, 500] {
        let mut scene = detected();
        let load = scraped(-300, 0, 1, 16);
        let power = scraped(-300, 0, 1, 1);
        loop {
            let mut refill = false;
            answer(&mut scene, MCU, gpus, &load);
            refill |= scene.pipeline.settle(at(0.0), Shown::Some).refill;
            if !refill {
                for spec in fields::built_in().iter().filter(|spec| spec.id != MCU) {
                    answer(&mut scene, spec.id, gpus, &power);
                }
                refill |= scene.pipeline.settle(at(0.0), Shown::All).refill;
            }
            if !refill {
                break;
            }
        }
        assert_eq!(scrape_and_exporter(&scene), (1, 1), "{gpus} GPUs");
    }
}

#[test]
fn one_look_at_history_shows_both_intervals() {
    for (scrape, exporter) in [(15, 15), (5, 30), (15, 30), (1, 1), (2, 10), (30, 30)] {
        let scene = started(scrape, exporter);
        assert_eq!(scrape_and_exporter(&scene), (scrape, exporter));
        assert_eq!(
            scene.pipeline.store().step_ms(),
            exporter.max(scrape) * 1000
        );
    }
}

#[test]
fn replicas_that_started_at_different_times_agree_on_the_intervals() {
    let mut early = started(5, 30);
    let samples = scraped(-300, 600, 5, 30);
    polled(&mut early, &samples, 5, 600);
    let mut late = detected();
    while round(&mut late, POD, &samples[120..], 600) {}
    assert_eq!(scrape_and_exporter(&early), scrape_and_exporter(&late));
    let of = |scene: &mut Scene| Answers::new(scene.snapshot_at(at(601.0))).flagship("pods n/p");
    assert_eq!(
        of(&mut early).map(f64::to_bits),
        of(&mut late).map(f64::to_bits)
    );
}

#[test]
fn a_lost_scrape_and_a_restart_of_prometheus_move_nothing() {
    let mut scene = started(15, 15);
    let lost = |sample: &Sample| {
        let secs = (sample.at.millis() - ZERO.millis()) / 1000;
        secs == 60 || (120..=180).contains(&secs)
    };
    let mut samples = scraped(-300, 600, 15, 15);
    samples.retain(|sample| !lost(sample));
    assert_eq!(polled(&mut scene, &samples, 5, 600), 0);
    assert_eq!(scrape_and_exporter(&scene), (15, 15));
}

#[test]
fn a_longer_scrape_interval_is_noticed_although_no_batch_holds_two_samples() {
    let mut scene = started(15, 15);
    let mut samples = scraped(-300, 0, 15, 15);
    samples.extend(scraped(60, 1800, 60, 60));
    let refills = polled(&mut scene, &samples, 5, 1800);
    assert_eq!(scrape_and_exporter(&scene), (60, 60));
    assert!((1..=2).contains(&refills), "{refills}");
}

#[test]
fn new_jobs_leave_the_windows_of_others_alone() {
    let mut scene = started(15, 15);
    round(&mut scene, "UUID=Z job=dcgm", &scraped(-300, 0, 15, 15), 0);
    let before = Answers::new(scene.snapshot_at(at(1.0))).flagship("pods n/p");
    for job in 0..20 {
        let labels = format!("UUID=J{job} job=other-{job} namespace=n pod=q{job}");
        let samples = scraped(-40, 0, 1 + job, 1 + job);
        assert!(!round(&mut scene, &labels, &samples, 1), "{job}");
    }
    let after = Answers::new(scene.snapshot_at(at(1.0))).flagship("pods n/p");
    assert!(before.is_some());
    assert_eq!(before, after);
}

#[test]
fn jobs_that_ended_are_forgotten() {
    let mut scene = started(15, 15);
    for job in 0..300 {
        let now = i64::from(job) * 700;
        let labels = format!("UUID=J job=run-{job}");
        round(&mut scene, &labels, &scraped(now - 60, now, 15, 15), now);
        scene.snapshot_at(at((now + 1) as f64));
    }
    assert!(scene.pipeline.store().jobs().len() < 5);
}

#[test]
fn a_window_that_is_refused_is_asked_for_in_half() {
    let mut scene = detected();
    let whole = scene.pipeline.range(MCU, ZERO);
    scene.pipeline.refused(MCU, false);
    assert_eq!(scene.pipeline.range(MCU, ZERO), whole / 2);
    for _ in 0..100 {
        scene.pipeline.refused(MCU, false);
    }
    assert_eq!(scene.pipeline.range(MCU, ZERO), Duration::from_secs(45));
    // What is only new is never less than what may come late.
    scene.feed_at(MCU, POD, &scraped(-40, 0, 15, 15), ZERO);
    scene.pipeline.refused(MCU, false);
    assert_eq!(scene.pipeline.range(MCU, ZERO), Duration::from_secs(45));
}

#[test]
fn what_an_outage_left_is_asked_for_in_half_where_it_is_refused() {
    let mut scene = detected();
    scene.feed_at(MCU, POD, &scraped(-40, 0, 15, 15), ZERO);
    let after = at(300.0);
    let missed = scene.pipeline.range(MCU, after);
    assert!(missed >= Duration::from_secs(300), "{missed:?}");
    // Too slow now and then, and too slow for long.
    for _ in 0..7 {
        scene.pipeline.refused(MCU, false);
        assert_eq!(scene.pipeline.range(MCU, after), missed);
    }
    scene.pipeline.refused(MCU, false);
    assert_eq!(scene.pipeline.range(MCU, after), missed / 2);
    scene.pipeline.refused(MCU, true);
    assert_eq!(scene.pipeline.range(MCU, after), missed / 4);
    for _ in 0..100 {
        scene.pipeline.refused(MCU, true);
    }
    assert_eq!(scene.pipeline.range(MCU, after), Duration::from_secs(45));
}

#[test]
fn absurd_sample_times_stretch_no_freshness() {
    let mut scene = started(15, 15);
    for year in 1..50 {
        let sample = Sample {
            at: Timestamp::from_millis(ZERO.millis() - year * 31_536_000_000),
            value: year as f64,
        };
        let future = Sample {
            at: Timestamp::from_millis(ZERO.millis() + year * 31_536_000_000),
            value: year as f64,
        };
        round(&mut scene, POD, &[sample, future], year);
    }
    assert_eq!(scrape_and_exporter(&scene), (15, 15));
    let range = scene.pipeline.range(MCU, at(60.0));
    assert!(range < Duration::from_secs(120), "{range:?}");
}

#[test]
fn an_equal_reading_of_a_replica_survives_an_invalid_sample() {
    let mut scene = detected();
    let one = "UUID=A job=dcgm prometheus=a namespace=n pod=p";
    let two = "UUID=A job=dcgm prometheus=b namespace=n pod=p";
    let samples = |last: f64| {
        let mut samples = scraped(-120, 0, 15, 1000);
        samples.push(Sample {
            at: at(14.0),
            value: last,
        });
        samples
    };
    scene.feed_at(MCU, one, &samples(50.0), at(15.0));
    scene.feed_at(MCU, two, &samples(SENTINEL), at(15.0));
    let answers = Answers::new(scene.snapshot_at(at(15.0)));
    let value = answers
        .ask("pods n/p", "gpu_memory_utilization", &Default::default())
        .unwrap();
    assert_eq!(value.at, at(14.0));
}

#[test]
fn percent_that_turns_out_to_be_a_ratio_leaves_no_trace_in_the_original() {
    let mut scene = detected();
    let ratio = |value: f64| -> Vec<Sample> {
        scraped(-60, 0, 15, 15)
            .into_iter()
            .map(|sample| Sample { value, ..sample })
            .collect()
    };
    scene.feed_at(MCU, "UUID=A job=r namespace=n pod=a", &ratio(1.0), ZERO);
    scene.feed_at(MCU, "UUID=B job=r namespace=n pod=b", &ratio(0.5), ZERO);
    let original = |scene: &mut Scene, now: f64| {
        Answers::new(scene.snapshot_at(at(now))).external("n", "avg_GPU_utilization")
    };
    close(original(&mut scene, 1.0), 75.0);
    let next = [Sample {
        at: at(15.0),
        value: 0.25,
    }];
    scene.feed_at(MCU, "UUID=A job=r namespace=n pod=a", &next, at(15.0));
    // Of the minute's twelve instants the last holds (25 + 50) / 2.
    close(original(&mut scene, 15.0), (11.0 * 75.0 + 37.5) / 12.0);
}

#[test]
fn a_label_text_without_a_name_may_stand_for_two_signals() {
    let mut scene = detected();
    let text = json(POD);
    for (signal, value) in [(MCU, 40.0), (SignalId::GPU_UTIL, 70.0)] {
        let mut batch = Batch::new(signal, text.clone().into());
        batch.begin_series(key(&text), 0..text.len());
        for sample in scraped(-60, 0, 15, 15) {
            batch.push(Sample { value, ..sample });
        }
        scene.pipeline.take(&batch, ZERO);
    }
    let answers = Answers::new(scene.snapshot_at(at(1.0)));
    close(answers.of("pods n/p", "gpu_memory_utilization"), 40.0);
    close(answers.of("pods n/p", "gpu_utilization"), 70.0);
}

/// The original's grid is of five seconds: the newest sample that an instant
/// holds, not one that came after the last instant or will come.
#[test]
fn the_time_of_the_original_is_that_of_a_sample_used() {
    let mut scene = detected();
    let mut samples = scraped(-60, 0, 15, 15);
    samples.push(Sample {
        at: at(7.0),
        value: 40.0,
    });
    scene.feed_at(MCU, POD, &samples, at(2.0));
    let answers = Answers::new(scene.snapshot_at(at(2.0)));
    let value = answers
        .ask("namespaces n", "avg_GPU_utilization", &Default::default())
        .unwrap();
    assert_eq!(value.at, at(0.0));
}

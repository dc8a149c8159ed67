//! Scrape intervals detected from the data, and ranges of queries.

use std::time::Duration;

use super::answers::{Answers, close};
use super::scene::{SENTINEL, Scene, ZERO, at, json, key, sample};
use gpu_metrics::batch::{Batch, PrometheusId, Sample};
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::SignalId;

const MCU: SignalId = SignalId::MEM_COPY_UTIL;

const POD: &str = "UUID=A job=dcgm namespace=n pod=p";

fn detected() -> Scene {
    Scene::new(Policy {
        window: Some(Duration::from_secs(60)),
        ..Policy::default()
    })
}

/// Scrapes of an exporter with a new reading every `exporter` seconds.
fn scraped(from: i64, until: i64, scrape: i64, exporter: i64) -> Vec<Sample> {
    let times = (from..=until).filter(|secs| secs % scrape == 0);
    let value = |secs: i64| (20 + secs.div_euclid(exporter) % 50) as f64;
    times.map(|secs| sample(secs as f64, value(secs))).collect()
}

/// Takes samples of a series and publishes.
fn round(scene: &mut Scene, labels: &str, samples: &[Sample], now: i64) {
    scene.feed_at(MCU, labels, samples, at(now as f64));
    scene.snapshot_at(at(now as f64));
}

/// A scene after the first read of a start.
fn started(scrape: i64) -> Scene {
    let mut scene = detected();
    round(&mut scene, POD, &scraped(-1200, 0, scrape, scrape), 0);
    scene
}

/// Polls every five seconds, each with a little more than the new samples.
fn polled(scene: &mut Scene, samples: &[Sample], from: i64, until: i64) {
    for now in (from..=until).step_by(5) {
        let range = scene.pipeline.range(PrometheusId(0), MCU, at(now as f64));
        let seen =
            |sample: &&Sample| sample.at <= at(now as f64) && sample.at + range > at(now as f64);
        let part: Vec<Sample> = samples.iter().filter(seen).copied().collect();
        round(scene, POD, &part, now);
    }
}

fn scrape(scene: &Scene) -> i64 {
    let (.., scrape_ms) = scene.pipeline.store().targets().iter().next().unwrap();
    scrape_ms / 1000
}

#[test]
fn the_first_read_shows_the_scrape_interval() {
    for interval in [1, 2, 5, 15, 30, 60, 300] {
        assert_eq!(scrape(&started(interval)), interval);
    }
}

#[test]
fn a_longer_scrape_interval_is_noticed() {
    let mut scene = started(15);
    let mut samples = scraped(-300, 0, 15, 15);
    samples.extend(scraped(60, 1800, 60, 60));
    polled(&mut scene, &samples, 5, 1800);
    assert_eq!(scrape(&scene), 60);
}

#[test]
fn an_exporter_without_gaps_has_the_interval_of_its_job() {
    let mut scene = started(60);
    let sample = [sample(0.0, 40.0)];
    let new = "UUID=B job=dcgm prometheus=other instance=new namespace=n pod=q";
    round(&mut scene, new, &sample, 5);
    let targets = scene.pipeline.store().targets();
    assert!(targets.iter().all(|(.., scrape_ms)| scrape_ms == 60_000));
}

#[test]
fn ended_jobs_are_removed() {
    let mut scene = started(15);
    for job in 0..300 {
        let now = i64::from(job) * 700;
        let labels = format!("UUID=J job=run-{job}");
        round(&mut scene, &labels, &scraped(now - 60, now, 15, 15), now);
        scene.snapshot_at(at((now + 1) as f64));
    }
    let snapshot = scene.snapshot();
    assert!(snapshot.frame().view().sources.len() < 5);
}

#[test]
fn after_an_outage_the_range_is_at_most_that_of_a_start() {
    let scene = started(15);
    let after = |secs: f64| scene.pipeline.range(PrometheusId(0), MCU, at(secs));
    // Two minutes more, once a minute: unknown targets may be late.
    assert_eq!(after(300.0), Duration::from_secs(465));
    assert_eq!(after(9000.0), Duration::from_secs(1200));
}

#[test]
fn absurd_sample_times_change_no_interval_and_no_range() {
    let mut scene = started(15);
    for year in 1..50 {
        let (years, value) = (year as f64 * 31_536_000.0, year as f64);
        let absurd = [sample(-years, value), sample(years, value)];
        round(&mut scene, POD, &absurd, year);
    }
    assert_eq!(scrape(&scene), 15);
    let range = scene.pipeline.range(PrometheusId(0), MCU, at(60.0));
    assert!(range < Duration::from_secs(120), "{range:?}");
}

#[test]
fn an_equal_reading_of_a_replica_survives_an_invalid_sample() {
    let mut scene = detected();
    let one = "UUID=A job=dcgm prometheus=a namespace=n pod=p";
    let two = "UUID=A job=dcgm prometheus=b namespace=n pod=p";
    let samples = |last: f64| {
        let mut samples = scraped(-120, 0, 15, 1000);
        samples.push(sample(14.0, last));
        samples
    };
    scene.feed_at(MCU, one, &samples(50.0), at(15.0));
    scene.feed_at(MCU, two, &samples(SENTINEL), at(15.0));
    let answers = Answers::new(scene.snapshot_at(at(15.0)));
    let value = answers.ask("pods n/p", "gpu_memory_utilization").unwrap();
    assert_eq!(value.at, at(14.0));
}

#[test]
fn a_label_text_without_a_name_may_be_that_of_two_signals() {
    let mut scene = detected();
    let text = json(POD);
    for (signal, value) in [(MCU, 40.0), (SignalId::GPU_UTIL, 70.0)] {
        let mut batch = Batch::new(signal);
        batch.begin_series(key(&text), &text);
        for sample in scraped(-60, 0, 15, 15) {
            batch.push(Sample { value, ..sample });
        }
        scene.pipeline.take(&batch, ZERO);
    }
    let answers = Answers::new(scene.snapshot_at(at(1.0)));
    close(answers.of("pods n/p", "gpu_memory_utilization"), 40.0);
    close(answers.of("pods n/p", "gpu_utilization"), 70.0);
}

/// A device that no pod holds is one row for both jobs, with the times of both.
#[test]
fn a_device_that_two_jobs_scrape_does_not_divide_a_target() {
    let mut scene = detected();
    for from in (0..75).step_by(15) {
        let now = at(f64::from(from + 10));
        for (labels, secs) in [
            ("UUID=A job=a namespace=n pod=p", from),
            ("UUID=B job=a", from),
            ("UUID=B job=b", from + 7),
        ] {
            scene.feed_at(MCU, labels, &[sample(f64::from(secs), 40.0)], now);
        }
        scene.snapshot_at(now);
    }
    assert_eq!(scene.pipeline.store().targets().iter().count(), 2);
}

/// In each scrape another series is missing, and returns in the next one.
#[test]
fn an_exporter_that_leaves_out_series_now_and_then_is_one_target() {
    let mut scene = detected();
    for scrape in 0..8 {
        let now = at(f64::from(15 * scrape + 10));
        for gpu in (0..20).filter(|gpu| *gpu != scrape) {
            let sample = sample(f64::from(15 * scrape), 40.0);
            let labels = format!("UUID=G{gpu} job=a namespace=n pod=p");
            scene.feed_at(MCU, &labels, &[sample], now);
        }
        scene.snapshot_at(now);
    }
    assert_eq!(scene.pipeline.store().targets().iter().count(), 1);
}

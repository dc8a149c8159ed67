//! Stores, exporters and clusters with impossible data.

use super::answers::Answers;
use super::polled::{Line, detected, line, pod, poll};
use super::scene::{Scene, at, json, key, policy, sample, samples};
use gpu_metrics::batch::{Batch, PrometheusId, Sample};
use gpu_metrics::signal::SignalId;

const MCU: SignalId = SignalId::MEM_COPY_UTIL;
const MEAN: &str = "gpu_memory_utilization";
const SUM: &str = "gpu_memory_utilization_sum";

/// A period with all samples of these tests, seconds.
const ALWAYS: (f64, f64) = (-600.0, 5000.0);

/// Values that show their time: each minute adds one percent.
fn dated(number: usize) -> Line {
    let (labels, mut samples) = line(&pod(number, "a"), 0.0, (15.0, 1.0), ALWAYS);
    for sample in &mut samples {
        let minutes = (sample.at.millis() - at(0.0).millis()) as f64 / 60_000.0;
        sample.value = minutes.clamp(0.0, 90.0) + 10.0;
    }
    (labels, samples)
}

#[test]
fn a_sample_of_the_far_future_moves_no_window() {
    let run = |extra: bool| {
        let lines: Vec<Line> = (0..2).map(dated).collect();
        let mut scene = detected(None);
        if extra {
            let times = [-16.0, -1.0, 5e9];
            let samples = times.map(|second| sample(second, 40.0));
            for labels in [
                &lines[0].0,
                "UUID=Z gpu=0 job=z instance=z namespace=n pod=z",
            ] {
                scene.feed_at(MCU, labels, &samples, at(0.0));
            }
        }
        let polls = (0..120).map(|place| {
            let snapshot = poll(&mut scene, &lines, f64::from(place) * 5.0);
            let answers = Answers::new(snapshot);
            (answers.of("pods n/a0", MEAN), answers.cluster())
        });
        polls.collect::<Vec<_>>()
    };
    // Equal once the extra samples are removed; until then the value is missing.
    assert_eq!(run(false)[80..], run(true)[80..]);
}

#[test]
fn a_store_that_returns_more_than_the_range_silences_no_target() {
    let lines: Vec<Line> = (0..3).map(dated).collect();
    let mut scene = detected(None);
    for place in 0..60 {
        let now = f64::from(place) * 5.0;
        let range = scene.pipeline.range(PrometheusId(0), MCU, at(now));
        for (labels, samples) in &lines {
            let asked = |sample: &&Sample| sample.at <= at(now) && sample.at + range > at(now);
            let old = sample(now - 3600.0, 40.0);
            let given: Vec<Sample> = [old]
                .into_iter()
                .chain(samples.iter().filter(asked).copied())
                .collect();
            scene.feed_at(MCU, labels, &given, at(now));
        }
        let value = Answers::new(scene.snapshot_at(at(now))).of("pods n/a0", MEAN);
        assert!(value.is_some(), "at {now}");
    }
}

#[test]
fn the_number_of_series_of_one_device_is_limited() {
    let text = |number: usize| {
        json(&format!(
            "UUID=G gpu=0 job=dcgm instance=i namespace=n pod=p trace={number}"
        ))
    };
    let texts: Vec<String> = (0..2_000).map(text).collect();
    let mut batch = Batch::new(MCU);
    for text in &texts {
        batch.begin_series(key(text), text);
        samples("40 40 40 40")
            .into_iter()
            .for_each(|sample| batch.push(sample));
    }
    let mut scene = Scene::new(policy(60));
    let report = scene.pipeline.take(&batch, at(60.0));
    assert_eq!((report.refused, report.new_series), (2_000 - 512, 2_000));
    let answers = Answers::new(scene.snapshot_at(at(61.0)));
    assert_eq!(answers.of("pods n/p", MEAN), Some(40.0));
    let report = scene.pipeline.take(&batch, at(62.0));
    assert_eq!((report.refused, report.new_series), (2_000 - 512, 0));
    // A further series has room once the others have ended.
    let late = text(2_000);
    let refused = |minute: u32| {
        let newest = sample(60.0 * f64::from(minute), 40.0);
        let mut batch = Batch::new(MCU);
        batch.begin_series(key(&late), &late);
        batch.push(newest);
        let report = scene.pipeline.take(&batch, newest.at);
        scene.snapshot_at(newest.at);
        report.refused
    };
    let refused: Vec<u64> = (2..60).map(refused).collect();
    assert!(refused[0] == 1 && refused[57] == 0, "{refused:?}");
}

#[test]
fn a_gpu_that_was_replaced_twice_counts_once() {
    let lines = |uuids: &[(&str, (f64, f64))], node: &str| -> Vec<Line> {
        let labels = |uuid: &str| {
            format!(
                "UUID={uuid} gpu=0 Hostname={node} job=dcgm instance=i \
                 exported_namespace=n exported_pod=p"
            )
        };
        let of =
            |(uuid, during): &(&str, (f64, f64))| line(&labels(uuid), 40.0, (15.0, 1.0), *during);
        uuids.iter().map(of).collect()
    };
    let run = |lines: &[Line]| {
        let mut scene = detected(None).cluster(&[("n/p", None)]);
        let sums = (0..60).map(|place| {
            let answers = Answers::new(poll(&mut scene, lines, f64::from(place) * 5.0));
            (
                answers.of("pods n/p", SUM),
                answers.of("pods n/p", "gpu_held_count"),
            )
        });
        sums.collect::<Vec<_>>()
    };
    let once = [("B", (-600.0, 60.0)), ("C", (60.0, 5000.0))];
    let twice = [
        ("A", (-600.0, -100.0)),
        ("B", (-100.0, 60.0)),
        ("C", (60.0, 5000.0)),
    ];
    assert_eq!(run(&lines(&twice, "node-1")), run(&lines(&once, "node-1")));
    // Also if another node has the same `instance`.
    let other = line(
        "UUID=X gpu=0 Hostname=another job=dcgm instance=i",
        40.0,
        (15.0, 1.0),
        ALWAYS,
    );
    let mut all = vec![other];
    all.extend(lines(&once, "node-1"));
    assert_eq!(run(&all), run(&lines(&once, "node-1")));
}

#[test]
fn a_row_that_reuses_an_id_has_no_samples_of_the_former_row() {
    let labels = |uuid: &str, job: &str, namespace: &str| {
        format!("UUID={uuid} gpu=0 job={job} instance={uuid} namespace={namespace} pod={uuid}")
    };
    let keep = line(&labels("k", "a", "x"), 10.0, (15.0, 1.0), ALWAYS);
    let late = line(&labels("l", "b", "m"), 10.0, (15.0, 1.0), ALWAYS);
    let gone = line(&labels("g", "a", "n"), 90.0, (15.0, 1.0), (-600.0, 222.0));
    let new = line(&labels("w", "a", "m"), 10.0, (15.0, 1.0), (600.0, 5000.0));
    let mut scene = detected(Some(300));
    for place in 0..180 {
        let now = f64::from(place) * 5.0;
        let mut behind = late.clone();
        behind.1.retain(|sample| sample.at <= at(now - 118.0));
        let lines = [keep.clone(), behind, gone.clone(), new.clone()];
        let answers = Answers::new(poll(&mut scene, &lines, now));
        let value = answers.of("namespaces m", MEAN);
        assert!(now <= 300.0 || value == Some(10.0), "{value:?} at {now}");
    }
}

#[test]
fn a_clock_set_back_by_less_than_two_minutes_stops_no_window() {
    let all = dated(0);
    let mut scene = detected(None);
    for place in 0..120 {
        let truth = f64::from(place) * 5.0;
        let now = if truth < 300.0 { truth + 115.0 } else { truth };
        let mut lines = all.clone();
        lines.1.retain(|sample| sample.at <= at(truth));
        let value = Answers::new(poll(&mut scene, &[lines], now)).of("pods n/a0", MEAN);
        // The mean of a minute that ended less than half a minute ago.
        let least = 10.0 + (truth - 90.0) / 60.0;
        assert!(truth < 330.0 || value > Some(least), "{value:?} at {truth}");
    }
}

#[test]
fn an_exporter_whose_power_is_no_longer_read_is_not_frozen() {
    let labels = "UUID=G0 gpu=0 job=dcgm instance=i0 namespace=n pod=p0";
    let power: String = (0..20).map(|watt| format!("{} ", 100 + watt)).collect();
    let (busy, power) = (samples(&"50 ".repeat(80)), samples(&power));
    let mut scene = Scene::new(policy(60));
    for scrape in 0..busy.len() {
        let time = at(scrape as f64 * 15.0);
        if scrape < power.len() {
            scene.feed_at(SignalId::POWER_USAGE, labels, &power[..=scrape], time);
        }
        let since = scrape.saturating_sub(4);
        scene.feed_at(MCU, labels, &busy[since..=scrape], time);
        let snapshot = scene.snapshot_at(time);
        assert!(snapshot.silent().is_empty(), "at {scrape}");
    }
    let answers = Answers::new(scene.snapshot_at(at(79.0 * 15.0 + 1.0)));
    assert_eq!(answers.of("pods n/p0", MEAN), Some(50.0));
}

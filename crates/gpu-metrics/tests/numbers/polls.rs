//! What a poll reads: intervals, ranges of queries, impossible samples, and a switch between
//! two stores. The worked example of docs/numbers.md.

use std::time::Duration;

use super::answers::{Answers, close};
use super::polled::{Line, detected, line, pod, poll, with_cluster};
use super::scene::{SENTINEL, Scene, at, policy, sample};
use gpu_metrics::batch::Sample;
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::SignalId;
use simulator::random::Noise;

const MCU: SignalId = SignalId::MEM_COPY_UTIL;
const MEAN: &str = "gpu_memory_utilization";
const SUM: &str = "gpu_memory_utilization_sum";
const DEPLOYMENT: &str = "deployments.apps n/d";
const POD: &str = "UUID=A job=dcgm namespace=n pod=p";

/// A period with all samples of these tests, seconds.
const ALWAYS: (f64, f64) = (-600.0, 5000.0);

/// Time zero is 11:55:00. Ten GPUs at 40 are scraped at 5, 20, 35 and 50 seconds and
/// read two seconds later; the first `silent` end at 11:59:50.
fn by_hand(silent: usize) -> Scene {
    let mut scene = detected(None).pods((0..10).map(|pod| format!("n/a{pod}")));
    let until = |gpu| if gpu < silent { 291.0 } else { 900.0 };
    let line = |gpu| line(&pod(gpu, "a"), 40.0, (15.0, 5.0), (-900.0, until(gpu)));
    let lines: Vec<Line> = (0..10).map(line).collect();
    for poll_at in (-298..=332).step_by(5) {
        poll(&mut scene, &lines, f64::from(poll_at));
    }
    scene
}

#[test]
fn the_example_of_the_manual_has_the_values_computed_by_hand() {
    // 12:00:31.
    let now = at(331.0);
    let answers = Answers::new(by_hand(1).snapshot_at(now));
    close(
        answers.of(DEPLOYMENT, SUM),
        (10.0 * 400.0 + 2.0 * 360.0) / 12.0,
    );
    let mut answers = Answers::new(by_hand(2).snapshot_at(now));
    let value = answers.ask(DEPLOYMENT, SUM).unwrap();
    close(Some(value.value), 400.0);
    assert_eq!(value.fresh_until, at(350.0));
    assert_eq!(value.window_secs, 60);
    answers.now = at(350.0);
    assert_eq!(answers.of(DEPLOYMENT, SUM), None);
    let explained = answers.explain(DEPLOYMENT, MEAN).unwrap();
    let window = explained.window.unwrap();
    assert_eq!(window.end, at(340.0).date());
    assert_eq!(window.lag_seconds, 2.0);
}

/// The original has no zeros before the first reading.
#[test]
fn a_value_has_the_time_of_its_newest_sample_and_the_length_of_its_window() {
    let value = |values, metric| {
        let mut scene = Scene::new(policy(90)).mcu("UUID=A namespace=n pod=p", values);
        scene.answers().ask("pods n/p", metric).unwrap()
    };
    let mean = value("· · · · 80 80", MEAN);
    assert_eq!((mean.window_secs, mean.at), (30, at(80.0)));
    let original = value("40 40", "avg_GPU_utilization");
    assert_eq!((original.window_secs, original.value), (30, 40.0));
}

/// A scene after the first read of a start.
fn started(scrape: f64) -> Scene {
    let mut scene = detected(Some(60));
    let line = line(POD, 40.0, (scrape, 0.0), (-1200.0, 1.0));
    poll(&mut scene, &[line], 0.0);
    scene
}

#[test]
fn ended_jobs_are_removed() {
    let mut scene = started(15.0);
    for job in 1..30 {
        let now = f64::from(job) * 700.0;
        let labels = format!("UUID=J job=run-{job}");
        let line = line(&labels, 40.0, (15.0, 0.0), (now - 60.0, now));
        poll(&mut scene, &[line], now);
        scene.snapshot_at(at(now + 1.0));
    }
    assert!(scene.snapshot().frame.sources.all().len() < 5);
}

#[test]
fn a_range_reaches_back_to_the_last_sample_and_at_most_as_far_as_a_start() {
    let range = |scene: &Scene, of, secs: f64| scene.pipeline.range(of, at(secs)).as_secs();
    let hour = Policy {
        max_window: Duration::from_secs(3600),
        ..Policy::default()
    };
    assert_eq!(range(&detected(None), MCU, 0.0), 1200);
    assert_eq!(range(&Scene::new(hour), MCU, 0.0), 3645);
    let scene = started(15.0);
    // Two minutes more, once a minute: unknown targets may be late.
    assert_eq!(range(&scene, MCU, 300.0), 465);
    assert_eq!(range(&scene, MCU, 9000.0), 1200);
}

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
fn absurd_sample_times_move_no_window_and_change_no_interval_and_no_range() {
    let run = |extra: bool| {
        let lines: Vec<Line> = (0..2).map(dated).collect();
        let mut scene = detected(None);
        let years = (-50..50).map(|year| f64::from(year) * 31_536_000.0);
        let absurd = years
            .chain([-16.0, -1.0, 5e9])
            .map(|secs| sample(secs, 40.0));
        let absurd: Vec<Sample> = absurd.collect();
        let ended = "UUID=Z gpu=0 job=z instance=z namespace=n pod=z";
        for labels in [&lines[0].0, ended].into_iter().filter(|_| extra) {
            scene.feed_at(MCU, labels, &absurd, at(0.0));
        }
        let polls = (0..300).map(|place| {
            let answers = Answers::new(poll(&mut scene, &lines, f64::from(place) * 5.0));
            let range = scene.pipeline.range(MCU, at(f64::from(place) * 5.0));
            let values = ["pods n/a0", "cluster"].map(|of| answers.of(of, MEAN));
            (values, scene.pipeline.store().shortest_scrape_ms(), range)
        });
        polls.collect::<Vec<_>>()
    };
    // Equal once the extra samples are forgotten; until then the value is missing.
    assert_eq!(run(false)[260..], run(true)[260..]);
}

#[test]
fn a_line_that_reuses_an_id_has_no_samples_of_the_former_line() {
    let labels = |uuid: &str, job: &str, namespace: &str| {
        format!("UUID={uuid} gpu=0 job={job} instance={uuid} namespace={namespace} pod={uuid}")
    };
    let line = |labels: String, value, during| line(&labels, value, (15.0, 1.0), during);
    let keep = line(labels("k", "a", "x"), 10.0, ALWAYS);
    let late = line(labels("l", "b", "m"), 10.0, ALWAYS);
    let gone = line(labels("g", "a", "n"), 90.0, (-600.0, 222.0));
    let new = line(labels("w", "a", "m"), 10.0, (1500.0, 5000.0));
    let mut scene = detected(Some(300));
    for place in 0..400 {
        let now = f64::from(place) * 5.0;
        let mut behind = late.clone();
        behind.1.retain(|sample| sample.at <= at(now - 118.0));
        let lines = [keep.clone(), behind, gone.clone(), new.clone()];
        let value = Answers::new(poll(&mut scene, &lines, now)).of("namespaces m", MEAN);
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

/// After a clock was set back by years, memory must stay bounded and values must be
/// served again.
#[test]
fn a_clock_set_back_by_years_starts_over() {
    let mut scene = started(15.0);
    let then = |secs: f64| at(secs) - Duration::from_secs(10 * 365 * 86_400);
    let late = [0.0, 15.0, 30.0, 45.0].map(|secs| Sample {
        at: then(secs),
        value: 30.0,
    });
    scene.pipeline.start_over_if_set_back(then(46.0));
    assert!(!scene.pipeline.is_ready(then(46.0)));
    scene.feed_at(MCU, POD, &late, then(46.0));
    let answers = Answers::new(scene.snapshot_at(then(46.0)));
    assert_eq!(answers.of("pods n/p", MEAN), Some(30.0));
}

/// Six GPUs at 10 to 60 in one of two stores, whose scrapes are `offset` seconds after the
/// other's and begin at `since`.
fn store(scrape: f64, offset: f64, since: f64) -> Vec<Line> {
    let lines = (0..6).map(|gpu| {
        let rhythm = (scrape, scrape * gpu as f64 / 7.0 + offset);
        let value = 10.0 * (gpu + 1) as f64;
        line(&pod(gpu, "a"), value, rhythm, (since, 80.0 * scrape))
    });
    lines.collect()
}

/// Of a pair of Prometheus servers that scrape at different times, one is asked at a time.
#[test]
fn a_switch_between_two_stores_changes_no_value() {
    for scrape in [1.0, 5.0, 15.0, 30.0, 60.0] {
        let every = f64::clamp(scrape / 3.0, 1.0, 5.0);
        for share in [0.1, 0.4, 0.5, 0.9] {
            let one = store(scrape, 0.0, -2400.0);
            let other = store(scrape, share * scrape, -2400.0);
            let young = store(scrape, share * scrape, 10.0 * scrape);
            let known = (12.0 * scrape / every) as usize;
            let switches = ["once", "back", "repeated", "restarted without its data"];
            for name in switches {
                let (other, is_other): (_, Box<dyn Fn(usize) -> bool>) = match name {
                    "once" => (&other, Box::new(|poll| poll >= 7)),
                    "back" => (&other, Box::new(|poll| poll < 40)),
                    "repeated" => (&other, Box::new(|poll| poll % 5 > 2)),
                    _ => (&young, Box::new(move |poll| poll >= known)),
                };
                let mut scene = with_cluster(detected(None), &one);
                for place in 0..(60.0 * scrape / every) as usize {
                    let lines = if is_other(place) { other } else { &one };
                    let answers = Answers::new(poll(&mut scene, lines, place as f64 * every));
                    let found = (
                        answers.of("cluster", MEAN),
                        answers.of("namespaces n", SUM),
                        answers.of("namespaces n", "gpu_held_count"),
                    );
                    let right = (Some(35.0), Some(210.0), Some(6.0));
                    assert_eq!(found, right, "{name}, {scrape} s, {share}, poll {place}");
                }
            }
        }
    }
}

/// Samples of one GPU and five pods in turn, each delayed by up to 20 s: jittered, invalid, and
/// some twice.
fn stream(seed: u64) -> Vec<(String, Sample, f64)> {
    let noise = Noise::new(seed);
    let scrapes = (0..80).map(|place| {
        let draw = |part| noise.at(place).at(part);
        let (device, scrape) = (draw(0).below(5), place / 4);
        let value = match draw(1).below(10) {
            0 => f64::NAN,
            1 => SENTINEL,
            _ => draw(2).below(101) as f64,
        };
        let secs = 15.0 * scrape as f64 + draw(3).between(-0.4, 0.4);
        let labels = format!("UUID=G{} namespace=n pod=a{}", device.min(3), device % 3);
        (labels, sample(secs, value), draw(4).between(0.0, 20.0))
    });
    scrapes.collect()
}

#[test]
fn values_depend_on_the_samples_alone_and_not_on_the_order_of_their_arrival() {
    let values = |stream: &[(String, Sample, f64)]| {
        let mut scene = Scene::new(policy(120));
        for (labels, sample, _) in stream {
            scene.feed(MCU, labels, &[*sample]);
        }
        let answers = Answers::new(scene.snapshot_at(at(300.0)));
        let of = [
            "pods n/a0",
            "pods n/a1",
            "pods n/a2",
            "namespaces n",
            "cluster",
        ];
        let of = of.map(|of| [MEAN, SUM, "gpu_held_count"].map(|metric| answers.of(of, metric)));
        of.map(|of| of.map(|value| value.map(f64::to_bits)))
    };
    let clock = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() * 1000;
    for seed in clock..clock + 100 {
        let mut stream = stream(seed);
        stream.sort_by_key(|(_, sample, _)| sample.at);
        let wanted = values(&stream);
        let arrival =
            |(_, sample, late): &(String, Sample, f64)| sample.at.millis() + (late * 1000.0) as i64;
        stream.sort_by_key(arrival);
        stream.extend_from_within(20..60);
        assert_eq!(values(&stream), wanted, "seed {seed}");
    }
}

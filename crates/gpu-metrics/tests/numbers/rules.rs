//! The rules of docs/numbers.md one by one: the worked example, units, fields that
//! disappear, names shared by several exporters.

use gpu_metrics::batch::PrometheusId;
use std::time::Duration;

use super::answers::{Answers, close};
use super::polled::{Line, line, poll, read};
use super::scene::{Scene, at};
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::SignalId;
use gpu_metrics::unit::Scale;

const MEAN: &str = "gpu_memory_utilization";
const SUM: &str = "gpu_memory_utilization_sum";
const DEPLOYMENT: &str = "deployments.apps n/d";

fn labels(gpu: usize) -> String {
    format!("UUID=G{gpu} job=dcgm instance=i{gpu} Hostname=h{gpu} namespace=n pod=p{gpu}")
}

fn scene(count: usize) -> Scene {
    Scene::new(Policy::default()).pods((0..count).map(|pod| format!("n/p{pod}")))
}

/// Time zero is 11:55:00. Ten GPUs at 40 are scraped at 5, 20, 35 and 50 seconds and
/// read two seconds later; the first `silent` end at 11:59:50.
fn by_hand(silent: usize) -> Scene {
    let mut scene = scene(10);
    let until = |gpu| if gpu < silent { 291.0 } else { 900.0 };
    let line = |gpu| line(&labels(gpu), 40.0, (15.0, 5.0), (-900.0, until(gpu)));
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
    assert_eq!(value.fresh_until, at(347.0));
    assert_eq!(value.window_secs, 60);
    answers.now = at(347.0);
    assert_eq!(answers.of(DEPLOYMENT, SUM), None);
    let explained = answers.explain(DEPLOYMENT, MEAN).unwrap();
    let window = explained.window.unwrap();
    assert_eq!(window.end, at(340.0).date());
    assert_eq!(window.lag_seconds, 2.0);
}

/// A job that sends ratios; the first GPU has the value `glitch` in one scrape.
fn ratios(glitch: f64) -> Vec<Line> {
    let line = |gpu| line(&labels(gpu), 0.8, (15.0, 5.0), (-900.0, 900.0));
    let mut lines: Vec<Line> = (0..4).map(line).collect();
    lines[0].1.iter_mut().for_each(|sample| {
        if sample.at == at(65.0) {
            sample.value = glitch;
        }
    });
    lines
}

#[test]
fn one_glitch_is_one_sample_that_is_no_reading() {
    for glitch in [1.02, 3.0] {
        let lines = ratios(glitch);
        let (mut early, mut late) = (scene(4), scene(4));
        for now in (7..600).step_by(5) {
            let now = f64::from(now);
            let first = Answers::new(poll(&mut early, &lines, now));
            assert_eq!(first.flagship("pods n/p1"), Some(80.0), "{glitch} at {now}");
            // The value of the GPU with the glitch may be unknown until the next scrape.
            let of_it = first.flagship("pods n/p0");
            assert!(
                of_it.is_none_or(|it| (80.0..=95.0).contains(&it)),
                "{of_it:?} at {now}"
            );
            if now > 200.0 {
                // A replica that starts later also reads the glitch.
                let second = Answers::new(poll(&mut late, &lines, now));
                for pod in 0..4 {
                    let pod = format!("pods n/p{pod}");
                    assert_eq!(first.flagship(&pod), second.flagship(&pod), "at {now}");
                }
            }
        }
    }
}

#[test]
fn another_unit_is_accepted_after_the_longest_window() {
    let changed = |gpu| {
        let (labels, mut samples) = line(&labels(gpu), 0.8, (15.0, 5.0), (-900.0, 900.0));
        let after = samples.iter_mut().filter(|sample| sample.at > at(60.0));
        after.for_each(|sample| sample.value = 80.0);
        (labels, samples)
    };
    let lines: Vec<Line> = (0..2).map(changed).collect();
    let mut scene = scene(2);
    let mut last_absent = 0;
    for now in (7..700).step_by(5) {
        let answers = Answers::new(poll(&mut scene, &lines, f64::from(now)));
        match answers.flagship("pods n/p0") {
            Some(value) => assert_eq!(value, 80.0, "at {now}"),
            None => last_absent = now,
        }
    }
    assert!((355..400).contains(&last_absent), "{last_absent}");
    let changes = scene.pipeline.store().targets().scale_changes();
    let scales: Vec<Scale> = changes.map(|(.., scale, _)| scale).collect();
    assert_eq!(scales, [Scale::Percent; 2]);
}

/// Polls all wanted signals, and passes the answers after each poll to `look`.
pub(super) fn watch_signals(
    scene: &mut Scene,
    signals: &[(SignalId, Vec<Line>)],
    until: i32,
    mut look: impl FnMut(i32, &Answers),
) {
    for now in (7..until).step_by(5) {
        let time = at(f64::from(now));
        for (signal, lines) in signals {
            if scene.pipeline.is_wanted(PrometheusId(0), *signal, time) {
                read(scene, *signal, lines, f64::from(now));
            }
        }
        look(now, &Answers::new(scene.snapshot_at(time)));
    }
}

#[test]
fn profiling_fields_replace_vanished_percents_within_a_minute() {
    let line = |gpu, value, until| line(&labels(gpu), value, (15.0, 5.0), (-900.0, until));
    let both = |value, until| vec![line(0, value, until), line(1, value, 900.0)];
    let signals = [
        (SignalId::MEM_COPY_UTIL, both(50.0, 60.0)),
        (SignalId::GPU_UTIL, both(50.0, 60.0)),
        (SignalId::DRAM_ACTIVE, both(0.4, 900.0)),
        (SignalId::GR_ENGINE_ACTIVE, both(0.4, 900.0)),
        (SignalId::FB_USED, both(1000.0, 900.0)),
    ];
    let mut absent = Vec::new();
    watch_signals(&mut scene(2), &signals, 500, |now, answers| {
        for metric in [MEAN, "gpu_utilization"] {
            match answers.of("pods n/p0", metric) {
                Some(value) => assert!((40.0..=50.0).contains(&value), "{value} at {now}"),
                None => absent.push(now),
            }
            assert_eq!(answers.of("pods n/p1", metric), Some(50.0), "at {now}");
        }
    });
    // F after the last percentage, and up to a minute until the other field is queried.
    assert!(
        absent.iter().all(|now| (60..180).contains(now)),
        "{absent:?}"
    );
}

#[test]
fn a_start_reads_twenty_minutes_or_the_longest_window() {
    let range = |max_window: u64| {
        let policy = Policy {
            max_window: Duration::from_secs(max_window),
            ..Policy::default()
        };
        let scene = Scene::new(policy);
        scene
            .pipeline
            .range(PrometheusId(0), SignalId::MEM_COPY_UTIL, at(0.0))
            .as_secs()
    };
    assert_eq!((range(300), range(3600)), (1200, 3645));
}

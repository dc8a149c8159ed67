//! Exporters whose readings stop changing, and change again.

use super::answers::Answers;
use super::polled::{Line, line};
use super::rules::watch_signals;
use super::scene::{Scene, at};
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::SignalId;

const MEAN: &str = "gpu_memory_utilization";

/// When the readings of the first exporter stop changing, seconds.
const STILL: f64 = 60.0;

fn labels(gpu: usize) -> String {
    format!("UUID=G{gpu} job=dcgm instance=i{gpu} Hostname=h{gpu} namespace=n pod=p{gpu}")
}

/// Two GPUs of two exporters. The first is at `busy`, and at 10 from `until`, when its
/// readings change again.
fn two(busy: f64, until: f64, look: impl FnMut(i32, &Answers)) {
    let line = |gpu, value| line(&labels(gpu), value, (15.0, 5.0), (-300.0, 2000.0));
    let mut power: Vec<Line> = vec![line(0, 300.0), line(1, 300.0)];
    let mut util: Vec<Line> = vec![line(0, busy), line(1, 10.0)];
    for (gpu, (_, samples)) in power.iter_mut().enumerate() {
        for (place, sample) in samples.iter_mut().enumerate() {
            let is_still = gpu == 0 && sample.at > at(STILL) && sample.at < at(until);
            if !is_still {
                sample.value += (place % 2) as f64;
            }
        }
    }
    let after = util[0].1.iter_mut();
    let after = after.filter(|sample| sample.at > at(until));
    after.for_each(|sample| sample.value = 10.0);
    let signals = [
        (SignalId::MEM_COPY_UTIL, util),
        (SignalId::POWER_USAGE, power),
    ];
    let mut scene = Scene::new(Policy::default()).cluster(&[("n/p0", None), ("n/p1", None)]);
    watch_signals(&mut scene, &signals, 1700, look);
}

#[test]
fn a_frozen_gpu_is_missing_from_a_mean_with_its_last_reading() {
    two(90.0, 1500.0, |now, answers| {
        let mean = answers.of("namespaces n", MEAN);
        match now {
            ..500 => assert_eq!(mean, Some(50.0), "at {now}"),
            700..1500 => assert_eq!(mean, None, "at {now}"),
            _ => {}
        }
    });
    // With the frozen reading the mean would be 10.5, which is near enough to 10.
    two(11.0, 1500.0, |now, answers| {
        let mean = answers.of("namespaces n", MEAN);
        if (700..1500).contains(&now) {
            assert_eq!(mean, Some(10.0), "at {now}");
        }
    });
}

#[test]
fn frozen_readings_stay_invalid_when_the_exporter_recovers() {
    // It is detected at 665. At 680 the window contains readings from before.
    for until in [675, 1500] {
        let mut served = 0;
        two(90.0, f64::from(until), |now, answers| {
            let value = answers.flagship("pods n/p0");
            if now > 670 {
                let is_right = value.is_none_or(|value| value == 10.0);
                assert!(is_right, "{value:?} at {now}");
                served += i32::from(value.is_some());
            }
        });
        assert!(served > 30, "{served} from {until}");
    }
}

//! If one of several signals is missing, values that depend on it are unknown, not 0.

use super::answers::close;
use super::scene::{Scene, at, policy};
use gpu_metrics::batch::Batch;
use gpu_metrics::policy::{
    Activity, ActivityCondition, DeviceValue, Measure, MetricSpec, Over, Policy, Reducer,
};
use gpu_metrics::signal::SignalId;

const SUM: &str = "gpu_memory_utilization_sum";

fn labels(gpu: usize) -> String {
    format!("UUID=G{gpu} job=dcgm instance=i{gpu} namespace=n pod=p")
}

/// Four GPUs at 50 for a minute and a half. Only the first two are active, by `signal`,
/// which ends after half a minute.
fn scene(activity: Activity, signal: SignalId, share: f64) -> Scene {
    let settings = Policy {
        activity,
        ..policy(60)
    };
    let mut scene = Scene::new(settings).cluster(&[("n/p", None)]);
    for gpu in 0..4 {
        let value = if gpu < 2 { share } else { 0.0 };
        scene = scene.mcu(&labels(gpu), &"50 ".repeat(7)).signal(
            signal,
            &labels(gpu),
            &format!("{value} ").repeat(3),
        );
    }
    scene
}

const GPU: ActivityCondition = ActivityCondition::Above(DeviceValue::GpuUtilization, 5.0);
const ENGINE: ActivityCondition =
    ActivityCondition::Above(DeviceValue::Signal(SignalId::GR_ENGINE_ACTIVE), 0.1);

#[test]
fn an_unknown_condition_makes_no_device_idle() {
    for activity in [Activity::Any(vec![GPU]), Activity::All(vec![GPU])] {
        let answers = scene(activity, SignalId::GPU_UTIL, 80.0).answers();
        // The first instants, with all signals known, are half of the window.
        let counts = [("gpu_active_count", 2.0), ("gpu_idle_count", 2.0)];
        for (metric, known) in [(SUM, 100.0)].into_iter().chain(counts) {
            let value = answers.of("pods n/p", metric);
            assert!(
                value.is_none_or(|value| value == known),
                "{metric} {value:?}"
            );
        }
        // Activity does not matter here.
        close(answers.of("pods n/p", "gpu_held_count"), 4.0);
    }
}

#[test]
fn a_known_condition_may_decide_beside_an_unknown_one() {
    let all_busy = ActivityCondition::Above(DeviceValue::MemoryUtilization, 0.0);
    let none_busy = ActivityCondition::Above(DeviceValue::MemoryUtilization, 99.0);
    let any = Activity::Any(vec![GPU, all_busy]);
    let answers = scene(any, SignalId::GPU_UTIL, 80.0).answers();
    close(answers.of("pods n/p", SUM), 200.0);
    let all = Activity::All(vec![GPU, none_busy]);
    let answers = scene(all, SignalId::GPU_UTIL, 80.0).answers();
    close(answers.of("pods n/p", "gpu_idle_count"), 4.0);
}

#[test]
fn a_condition_on_a_signal_that_a_device_never_had_is_not_met() {
    let activity = Activity::Any(vec![GPU, ENGINE]);
    let mut scene = scene(activity, SignalId::GPU_UTIL, 80.0);
    // Before its query is answered, it is unknown which devices have the signal.
    let answers = scene.answers();
    assert_eq!(answers.of("pods n/p", "gpu_idle_count"), None);
    let nothing = Batch::new(SignalId::GR_ENGINE_ACTIVE, "".into());
    scene.pipeline.take(&nothing, at(90.0));
    for gpu in 0..4 {
        let value = if gpu < 2 { 80.0 } else { 0.0 };
        let values = format!("{value} ").repeat(7);
        scene = scene.signal(SignalId::GPU_UTIL, &labels(gpu), &values);
    }
    let answers = scene.answers();
    close(answers.of("pods n/p", SUM), 100.0);
    close(answers.of("pods n/p", "gpu_active_count"), 2.0);
}

#[test]
fn activity_is_unknown_without_the_deciding_utilisation() {
    let watts = MetricSpec {
        name: "watts_of_active".to_owned(),
        measure: Measure::Devices {
            value: DeviceValue::PowerUsage,
            reducer: Reducer::Sum,
            over: Over::Active,
        },
    };
    let mut scene = Scene::of(policy(60), vec![watts]).cluster(&[("n/p", None)]);
    for gpu in 0..4 {
        scene = scene
            .signal(SignalId::POWER_USAGE, &labels(gpu), &"300 ".repeat(9))
            .mcu(&labels(gpu), "50 50 50");
    }
    assert_eq!(scene.answers().of("pods n/p", "watts_of_active"), None);
}

#[test]
fn reserved_memory_without_a_reading_does_not_count_as_zero() {
    let signals = [
        (SignalId::FB_USED, "400 400 400 400 400 400 400"),
        (SignalId::FB_FREE, "400 400 400 400 400 400 400"),
        (SignalId::FB_RESERVED, "200 200 200"),
    ];
    let percent = |count: usize| {
        let mut scene = Scene::new(policy(60)).cluster(&[("n/p", None)]);
        for (signal, values) in &signals[..count] {
            scene = scene.signal(*signal, &labels(0), values);
        }
        scene.answers().of("pods n/p", "gpu_memory_used_percent")
    };
    // Never reported, so there is no reserved memory.
    close(percent(2), 50.0);
    // Reported before: 40 where it is known, and never 50.
    assert!(
        percent(3).is_none_or(|percent| percent == 40.0),
        "{:?}",
        percent(3)
    );
}

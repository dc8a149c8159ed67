//! If one of several signals is missing, values that depend on it are unknown, not 0.

use super::answers::close;
use super::cases::check;
use super::scene::{Scene, at, policy};
use gpu_metrics::batch::Batch;
use gpu_metrics::policy::{
    Activity, ActivityCondition, DeviceValue, Measure, MetricSpec, Over, Policy, Reducer,
};
use gpu_metrics::signal::SignalId;

const SUM: &str = "gpu_memory_utilization_sum";

const CASES: &str = "
# a condition on a signal that ended makes no device idle, unless another decides
// The first instants, with all signals known, are half of the window.
window 60; pods p
0..4 G# p job=dcgm instance=i#: 50*7
gpu 0..2 G# p job=dcgm instance=i#: 80*3
gpu 2..4 G# p job=dcgm instance=i#: 0*3
any gpu>5 = p sum 100?; p active_count 2?; p idle_count 2?; p held_count 4
all gpu>5 = p sum 100?; p active_count 2?; p idle_count 2?; p held_count 4
any gpu>5 memory>0 = p sum 200
all gpu>5 memory>99 = p idle_count 4

# reserved memory that was never reported is none
window 60; pods p
used G0 p job=dcgm instance=i0: 400*7
free G0 p job=dcgm instance=i0: 400*7
= p memory_used_percent 50

# reserved memory without a reading does not count as zero
window 60; pods p
used G0 p job=dcgm instance=i0: 400*7
free G0 p job=dcgm instance=i0: 400*7
reserved G0 p job=dcgm instance=i0: 200*3
= p memory_used_percent 40?
";

#[test]
fn each_case_has_its_value() {
    check(CASES);
}

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
fn a_condition_on_a_signal_that_a_device_never_had_is_not_met() {
    let activity = Activity::Any(vec![GPU, ENGINE]);
    let mut scene = scene(activity, SignalId::GPU_UTIL, 80.0);
    // Before its query is answered, it is unknown which devices have the signal.
    let answers = scene.answers();
    assert_eq!(answers.of("pods n/p", "gpu_idle_count"), None);
    let nothing = Batch::new(SignalId::GR_ENGINE_ACTIVE);
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

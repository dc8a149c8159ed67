//! Syncs are every 15 s from 0 on, readings every second, the target is 50 of a
//! GPU, so a demand of L GPUs needs 2 L replicas. At 0 there is one reading, and a
//! value needs two. Replicas that were ordered serve 20 s later, at the second sync
//! after the order; until then they are missing, and count 0.

use serde_json::{Value, json};

use super::{measure, past, plan, pods, run, sizes, trial};

fn for_seconds(demand: f64, seconds: usize) -> impl Iterator<Item = Option<f64>> {
    std::iter::repeat_n(Some(demand), seconds)
}

/// Four GPUs of work on one replica: it is at 100, twice the target, so replicas
/// double until 8 share it at 50. While the new half is missing, the mean is at the
/// target, and nothing changes. So there is one doubling every second sync, at 0, 30
/// and 60.
///
/// Replicas after each of the 240 syncs of the hour: 2 × 2, 2 × 4, 236 × 8,
/// together 1900, each for 1/240 h: 7.9167 GPU-hours. The 6 syncs until 75 are
/// overloaded: 1.5 minutes. Missing of 8 in these: 2 × 7 + 2 × 6 + 2 × 4 = 34 for a
/// quarter of a minute each: 8.5. Scale-ups are counted between syncs: two.
#[test]
fn a_constant_demand_is_met_by_doubling_and_kept() {
    let plan = plan(&pods("50"), &Value::Null);
    let past = past(1, for_seconds(4.0, 3600));
    let ticks = run(&plan, &past);
    assert_eq!(sizes(&ticks), [(0, 2), (30, 4), (60, 8)]);
    let figures = measure(&plan, &past, &ticks);
    assert!(
        (figures.gpu_hours - 1900.0 / 240.0).abs() < 1e-9,
        "{figures:?}"
    );
    assert!(
        (figures.cost.unwrap() - 3800.0 / 240.0).abs() < 1e-9,
        "{figures:?}"
    );
    assert_eq!(figures.overload_minutes, 1.5);
    assert_eq!(figures.under_provisioned_replica_minutes, 8.5);
    let events = (figures.scale_ups, figures.scale_downs, figures.flaps);
    assert_eq!(events, (2, 0, 0));
    // An autoscaler that knows the demand has 8 replicas from the start.
    let known = trial(&plan, &past).clairvoyant().unwrap();
    let known = measure(&plan, &past, &known);
    assert!((known.gpu_hours - 8.0).abs() < 1e-9, "{known:?}");
    assert_eq!(known.overload_minutes, 0.0);
}

/// From 3 GPUs to 6 at 1795: the six replicas are at 100 when the sync of 1800
/// looks, and become 12. Back to 3 at 3595: they are at 25, and 6 are recommended
/// from 3600 on. The 12 of the sync of 3585 count for 300 s, both ends included,
/// so the first sync without them is that of 3900.
#[test]
fn a_step_is_followed_up_at_once_and_down_after_the_stabilisation() {
    let plan = plan(&pods("50"), &Value::Null);
    let demand = for_seconds(3.0, 1795).chain(for_seconds(6.0, 1800));
    let past = past(6, demand.chain(for_seconds(3.0, 1805)));
    let ticks = run(&plan, &past);
    assert_eq!(sizes(&ticks), [(0, 6), (1800, 12), (3900, 6)]);
    let figures = measure(&plan, &past, &ticks);
    assert_eq!(
        (figures.scale_ups, figures.scale_downs, figures.flaps),
        (1, 1, 0)
    );
    // After the syncs of 1800 and 1815 there are 6 GPUs of work on 6.
    assert_eq!(figures.overload_minutes, 0.5);
}

/// A thousandth of a GPU more each second, from 5 GPUs on ten replicas. With n
/// replicas nothing happens up to 1.1 times the target, L = 0.55 n; then there are
/// 2 L of them, rounded up: 5.5 → 12, 6.6 → 13.2 → 14, 7.7 → 16, 8.8 → 18, 9.9 → 20.
/// The demand reaches these at 500, 1600, 2700, 3800 and 4900 s; the mean of the
/// window is 1.5 s behind, and the next sync decides.
#[test]
fn a_ramp_is_climbed_in_steps_of_the_tolerance() {
    let plan = plan(&pods("50"), &Value::Null);
    let demand = (0..5000).map(|second| Some(5.0 + f64::from(second) / 1000.0));
    let ticks = run(&plan, &past(10, demand));
    let expected = [
        (0, 10),
        (510, 12),
        (1605, 14),
        (2715, 16),
        (3810, 18),
        (4905, 20),
    ];
    assert_eq!(sizes(&ticks), expected);
}

/// Four GPUs for two minutes and eight for two, ten times, on eight replicas. The
/// sync of 120 sees one reading of the peak among three of before, 62.5, and orders
/// 10; that of 135 sees 100 on eight of the ten, 80, and orders 16. With a
/// stabilisation of 300 s no low lasts long enough, and 16 remain. Without
/// stabilisation each peak and each low is followed. A low follows each peak but the
/// last, so there are 9 scale-downs between 10 scale-ups: 18 reversals, each within
/// 300 s of the change that it reverses.
#[test]
fn a_saw_tooth_is_smoothed_by_the_stabilisation_or_followed_without() {
    let tooth = || for_seconds(4.0, 120).chain(for_seconds(8.0, 120));
    let past = past(8, std::iter::repeat_with(tooth).take(10).flatten());
    let stable = plan(&pods("50"), &Value::Null);
    assert_eq!(sizes(&run(&stable, &past)).last().unwrap().1, 16);
    let smooth = measure(&stable, &past, &run(&stable, &past));
    assert!(
        smooth.scale_ups <= 2 && smooth.scale_downs == 0,
        "{smooth:?}"
    );
    let hasty = plan(
        &pods("50"),
        &json!({"scaleDown": {"stabilizationWindowSeconds": 0}}),
    );
    // Measured with the first autoscaler's window: its own window of 0 has no flaps.
    let hasty = measure(&stable, &past, &run(&hasty, &past));
    assert_eq!(hasty.flaps, 18, "{hasty:?}");
    assert!(hasty.gpu_hours < smooth.gpu_hours);
}

/// The sum over the Deployment divided by its replicas is the mean of pods with one
/// GPU, except that it divides by all ordered replicas, including those that do not
/// serve yet. Four GPUs on one replica: 100 shared by 1 against 50 → 2 at 0. At 15
/// the sum is still 100, 50 each: no change. So the steps are the same.
#[test]
fn a_sum_of_the_workload_scales_as_the_mean_of_its_pods() {
    let sum = json!({"type": "Object", "object": {
        "metric": {"name": "gpu_memory_utilization_sum"},
        "describedObject": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "infer"},
        "target": {"type": "AverageValue", "averageValue": "50"},
    }});
    let plan = plan(&sum, &Value::Null);
    let ticks = run(&plan, &past(1, for_seconds(4.0, 600)));
    assert_eq!(sizes(&ticks), [(0, 2), (30, 4), (60, 8)]);
}

/// For 20 minutes the demand is unknown: the values end, the autoscaler keeps the
/// replicas, and continues afterwards. A missing value is not an idle GPU.
#[test]
fn an_unknown_demand_changes_nothing_and_is_counted() {
    let plan = plan(&pods("50"), &Value::Null);
    let gap = std::iter::repeat_n(None, 1200);
    let demand = for_seconds(3.0, 1200)
        .chain(gap)
        .chain(for_seconds(3.0, 1200));
    let past = past(6, demand);
    let ticks = run(&plan, &past);
    assert_eq!(sizes(&ticks), [(0, 6)]);
    assert_eq!(measure(&plan, &past, &ticks).unknown_minutes, 20.0);
    assert!(ticks[120].shown.is_none(), "{:?}", ticks[120]);
}

/// Bounds: 40 GPUs of work need 80 replicas, and 30 are allowed.
#[test]
fn replicas_stay_between_their_bounds() {
    let plan = plan(&pods("50"), &Value::Null);
    let past = past(20, for_seconds(40.0, 600));
    let ticks = run(&plan, &past);
    assert_eq!(sizes(&ticks), [(0, 30)]);
    let figures = measure(&plan, &past, &ticks);
    assert_eq!(figures.minutes_at_max, 10.0);
    assert_eq!(figures.overload_minutes, 10.0);
}

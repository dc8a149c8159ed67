//! Syncs run every 15 s from 0 on, with a reading each second. The target is 50 percent of
//! a GPU, so a demand of L GPUs needs 2 L replicas. Ordered replicas serve 20 s later, at
//! the second sync after the order. Until then they are missing, and count as 0.

use serde_json::{Value, json};

use super::{measure, past, plan, pods, run, sizes};

fn for_seconds(demand: f64, seconds: usize) -> impl Iterator<Item = Option<f64>> {
    std::iter::repeat_n(Some(demand), seconds)
}

/// Four GPUs of work on one replica: it is at 100, twice the target, so the replicas
/// double until 8 share the work at 50. While the new half is missing, the mean is at the
/// target, and nothing changes. The replicas therefore double at every second sync: at 0,
/// 30 and 60.
///
/// Replicas after each of the 240 syncs of the hour: 2 × 2, 2 × 4, 236 × 8, together 1900.
/// Each counts for 1/240 h: 7.9167 GPU-hours. The 6 syncs until 75 are short: 90 s.
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
    assert_eq!(figures.shortage, 90.0);
}

/// The demand rises from 3 GPUs to 6 at 1795: at the sync of 1800 the six replicas are at
/// 100, and become 12. It falls to 3 at 3595: the replicas are at 25, and 6 are
/// recommended from 3600 on. The 12 of the sync of 3585 count for 300 s, both ends
/// included, so the sync of 3900 is the first without them.
#[test]
fn a_step_is_followed_up_at_once_and_down_after_the_stabilisation() {
    let plan = plan(&pods("50"), &Value::Null);
    let demand = for_seconds(3.0, 1795).chain(for_seconds(6.0, 1800));
    let past = past(6, demand.chain(for_seconds(3.0, 1805)));
    let ticks = run(&plan, &past);
    assert_eq!(sizes(&ticks), [(0, 6), (1800, 12), (3900, 6)]);
    let figures = measure(&plan, &past, &ticks);
    // After the syncs of 1800 and 1815 six replicas have 6 GPUs of work.
    assert_eq!(figures.shortage, 30.0);
}

/// The demand begins at 5 GPUs on ten replicas and grows by a thousandth of a GPU each
/// second. Nothing changes up to 1.1 times the target, which n replicas reach at
/// L = 0.55 n. The replicas are then 2 L, rounded up: 5.5 → 12, 6.6 → 13.2 → 14, 7.7 → 16,
/// 8.8 → 18, 9.9 → 20. The demand reaches these at 500, 1600, 2700, 3800 and 4900 s; the
/// mean of the window is 1.5 s behind.
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

/// A demand of four GPUs for two minutes and of eight for two, ten times, on eight
/// replicas. At the sync of 120 the eight are at 100, and become 16. With a stabilisation of
/// 300 s no low lasts long enough, and 16 remain. Without it the replicas follow each peak
/// and each low. A low follows each peak but the last: 9 scale-downs.
#[test]
fn a_saw_tooth_is_smoothed_by_the_stabilisation_or_followed_without() {
    let tooth = || for_seconds(4.0, 120).chain(for_seconds(8.0, 120));
    let past = past(8, std::iter::repeat_with(tooth).take(10).flatten());
    let stable = plan(&pods("50"), &Value::Null);
    let smooth = run(&stable, &past);
    assert_eq!(sizes(&smooth), [(0, 8), (120, 16)]);
    let hasty = plan(
        &pods("50"),
        &json!({"scaleDown": {"stabilizationWindowSeconds": 0}}),
    );
    let hasty = run(&hasty, &past);
    let falls = sizes(&hasty);
    let falls = falls.windows(2).filter(|pair| pair[1].1 < pair[0].1);
    assert_eq!(falls.count(), 9, "{hasty:?}");
    let [smooth, hasty] = [smooth, hasty].map(|ticks| measure(&stable, &past, &ticks));
    assert!(hasty.gpu_hours < smooth.gpu_hours);
}

/// The sum over the Deployment divided by its replicas is the mean of pods with one GPU,
/// but the divisor includes ordered replicas that do not serve yet. Four GPUs on one
/// replica: at 0 the sum is 100 for 1 replica, with a target of 50 → 2. At 15 the sum is
/// still 100, 50 for each of 2: no change. The steps are therefore the same.
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
    assert_eq!(measure(&plan, &past, &ticks).unknown, 1200.0);
}

/// Bounds: 40 GPUs of work need 80 replicas, and 30 are allowed.
#[test]
fn replicas_stay_between_their_bounds() {
    let plan = plan(&pods("50"), &Value::Null);
    let past = past(20, for_seconds(40.0, 600));
    let ticks = run(&plan, &past);
    assert_eq!(sizes(&ticks), [(0, 30)]);
    let figures = measure(&plan, &past, &ticks);
    assert_eq!(figures.shortage, 600.0);
}

/// A queue of 40 requests, of 80 from 595 on, and a target of 10: four replicas, and eight from
/// the sync of 600 on. With 11 requests each, a tenth above the target, four serve 44: the
/// syncs of 600 and 615 are short. Of a metric of pods each serving pod has its share, and pods
/// that do not serve yet have none and count as 0 when scaling up.
#[test]
fn the_value_of_a_rule_does_not_depend_on_the_replicas() {
    let of = |kind: &str, field: &str| {
        let metric = json!({
            "metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"},
        });
        plan(&json!({"type": kind, field: metric}), &Value::Null)
    };
    let past = past(4, for_seconds(40.0, 595).chain(for_seconds(80.0, 605)));
    for plan in [of("Pods", "pods"), of("External", "external")] {
        let ticks = run(&plan, &past);
        assert_eq!(sizes(&ticks), [(0, 4), (600, 8)], "{plan}");
        assert_eq!(measure(&plan, &past, &ticks).shortage, 30.0);
        let twice = plan.with_target(200, 1.0);
        assert_eq!(twice.hpa.metrics[0].target.to_string(), "20 per pod");
        // Two replicas are wanted from the start, and ordered after the stabilisation.
        let ticks = run(&twice, &past);
        assert_eq!(sizes(&ticks), [(0, 4), (315, 2), (600, 4)], "{plan}");
        assert_eq!(measure(&twice, &past, &ticks).shortage, 885.0);
    }
}

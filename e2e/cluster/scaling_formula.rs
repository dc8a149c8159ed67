//! The autoscaler's replicas for the served values: the arithmetic of
//! `pkg/controller/podautoscaler/replica_calculator.go` in kubernetes/kubernetes, in
//! thousandths, and the rows of docs/concepts.md, "What an autoscaler makes of it".

/// Ratios this near to 1 change nothing.
const TOLERANCE: f64 = 0.1;

fn is_near(ratio: f64) -> bool {
    (ratio - 1.0).abs() <= TOLERANCE
}

fn ratio(value: u64, target: u64) -> f64 {
    value as f64 / target as f64
}

/// Replicas for a `Pods` metric, from the values of pods that have one, the number of
/// pods without one, and the target.
pub(super) fn pods(values: &[u64], missing: usize, target: u64) -> u64 {
    let mean = |values: &[u64]| values.iter().sum::<u64>() / values.len() as u64;
    let seen = ratio(mean(values), target);
    let current = (values.len() + missing) as u64;
    if missing == 0 {
        return if is_near(seen) {
            current
        } else {
            (seen * current as f64).ceil() as u64
        };
    }
    // Missing values are assumed such that they oppose the change.
    let filling = if seen < 1.0 { target } else { 0 };
    let mut filled = values.to_vec();
    filled.resize(current as usize, filling);
    let filled = ratio(mean(&filled), target);
    let flips = (seen < 1.0) != (filled < 1.0);
    if is_near(filled) || flips {
        return current;
    }
    (filled * current as f64).ceil() as u64
}

/// Replicas for an `Object` or `External` metric with `Value`, if all current
/// replicas are ready.
pub(super) fn value(value: u64, replicas: u64, target: u64) -> u64 {
    let seen = ratio(value, target);
    if is_near(seen) {
        return replicas;
    }
    (seen * replicas as f64).ceil() as u64
}

/// Replicas with `AverageValue`.
pub(super) fn average_value(value: u64, replicas: u64, target: u64) -> u64 {
    if is_near(ratio(value, target * replicas)) {
        return replicas;
    }
    value.div_ceil(target)
}

/// The target of the rows, in thousandths.
pub(super) const TARGET: u64 = 50_000;

/// From above, 160 leads to four replicas; from below, it may stay at three.
#[test]
fn a_sum_within_the_tolerance_of_fewer_replicas_stays_there() {
    assert_eq!(average_value(160_000, 3, TARGET), 3);
}

/// Two busy pods and eight idle ones.
fn ten(busy: u64, idle: u64) -> Vec<u64> {
    [vec![busy; 2], vec![idle; 8]].concat()
}

#[test]
fn an_active_only_mean_as_value_runs_away() {
    assert_eq!(value(80_000, 10, TARGET), 16);
    assert_eq!(value(80_000, 16, TARGET), 26);
}

#[test]
fn explicit_zeros_of_idle_pods_give_four_and_four_stay() {
    assert_eq!(pods(&ten(80_000, 0), 0, TARGET), 4);
    assert_eq!(pods(&ten(80_000, 0)[..4], 0, TARGET), 4);
}

#[test]
fn omitted_idle_pods_flip_the_direction_of_busy_ones() {
    assert_eq!(pods(&[80_000; 2], 8, TARGET), 10);
}

/// By the table this almost blocks scaling down: each round removes one replica.
#[test]
fn omitted_idle_pods_take_one_replica_a_round_of_slow_ones() {
    for replicas in (2..=10).rev() {
        let omitted = replicas - 2;
        let wanted = pods(&[10_000; 2], omitted, TARGET);
        assert_eq!(wanted, replicas as u64 - 1);
    }
}

#[test]
fn the_sum_as_average_value_gives_four_and_four_stay() {
    assert_eq!(average_value(160_000, 10, TARGET), 4);
    assert_eq!(average_value(160_000, 4, TARGET), 4);
}

#[test]
fn a_pod_without_data_keeps_what_a_zero_would_take() {
    assert_eq!(pods(&[45_000; 3], 0, TARGET), 3);
    assert_eq!(pods(&[45_000; 2], 1, TARGET), 3);
    assert_eq!(pods(&[45_000, 45_000, 0], 0, TARGET), 2);
}

#[test]
fn a_ratio_within_the_tolerance_changes_nothing() {
    assert_eq!(pods(&[54_000; 5], 0, TARGET), 5);
    assert_eq!(pods(&[56_000; 5], 0, TARGET), 6);
    assert_eq!(value(45_500, 5, TARGET), 5);
    assert_eq!(average_value(270_000, 5, TARGET), 5);
}

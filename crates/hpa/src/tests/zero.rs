//! Scaling to and from zero, by the version of Kubernetes (`horizontal.go` of 1.35 and
//! 1.37).

use super::super::Limit;
use super::super::behavior::Behavior;
use super::{Case, ControllerFlags, NOW};

fn case(minor: u32, current: i32, min: i32, measure: &str) -> Case {
    let pods = vec!["-"; usize::try_from(current).unwrap()].join(" ");
    let mut case = Case::new(current, (min, 6), measure, &pods);
    case.flags = ControllerFlags::of_version(minor);
    case
}

#[test]
fn from_1_36_on_only_a_target_that_the_controller_scaled_to_zero_scales_up() {
    for (minor, is_marked, min, wakes) in [
        (33, false, 0, true),
        (35, false, 0, true),
        (35, true, 1, false),
        (36, false, 0, false),
        (36, true, 0, true),
        (37, false, 0, false),
        (37, true, 0, true),
        (37, false, 1, false),
        // `minReplicas` was raised after the controller scaled to zero.
        (37, true, 1, true),
    ] {
        let mut case = case(minor, 0, min, "object =15000 of 20000");
        case.history.scaled_to_zero = is_marked;
        let trace = case.sync();
        let told = format!("1.{minor} {is_marked} {min}");
        if wakes {
            assert_eq!(trace.desired, Some(2), "{told}");
            continue;
        }
        assert_eq!((trace.desired, trace.metrics.len()), (Some(0), 0), "{told}");
    }
}

#[test]
fn a_raised_minimum_ends_zero_without_any_load() {
    let mut case = case(37, 0, 3, "object =15000 of 0");
    case.history.scaled_to_zero = true;
    let trace = case.sync();
    assert_eq!(
        (trace.desired, trace.limit),
        (Some(3), Some(Limit::Minimum))
    );
    case.hpa.behavior = Some(Behavior::default());
    assert_eq!(case.sync().desired, Some(3));
    // Metrics are read, and pods have none yet.
    let mut case = self::case(37, 0, 3, "pods 15000");
    case.history.scaled_to_zero = true;
    assert_eq!(case.sync().desired, None);
}

#[test]
fn every_write_of_the_scale_sets_scaled_to_zero() {
    let (to_zero, to_others) = (Some(true), Some(false));
    for (minor, current, min, measure, expected) in [
        (37, 5, 0, "object =15000 of 0", to_zero),
        (37, 5, 0, "external =15000 of 0", to_zero),
        (37, 5, 1, "object =15000 of 0", to_others),
        (37, 9, 0, "object =15000 of 0", to_others),
        (37, 1, 0, "object =15000 of 15000", None),
        (35, 5, 0, "object =15000 of 0", None),
    ] {
        let mut case = case(minor, current, min, measure);
        let trace = case.sync();
        let told = format!("1.{minor} {current} {min} {measure}");
        assert_eq!(trace.scaled_to_zero, expected, "{told}");
        trace.remember(&mut case.history, &case.hpa, &case.flags, NOW);
        assert_eq!(case.history.scaled_to_zero, expected == to_zero);
    }
}

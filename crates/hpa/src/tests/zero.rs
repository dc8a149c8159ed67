//! Scaling to and from zero, by the version of Kubernetes (`horizontal.go` of 1.35 and
//! 1.37).

use super::super::trace::SCALED_TO_ZERO;
use super::{Case, ControllerFlags, NOW, condition};

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
        assert_eq!(trace.desired, Some(0), "{told}");
        let active = condition(&trace, "ScalingActive");
        assert_eq!(active, (false, "ScalingDisabled"), "{told}");
        let is_by_others = trace.shortcut.unwrap().contains("ScaledToZero");
        assert_eq!(is_by_others, min == 0, "{told}");
    }
}

#[test]
fn a_raised_minimum_ends_zero_without_any_load() {
    let mut case = case(37, 0, 3, "object =15000 of 0");
    case.history.scaled_to_zero = true;
    let trace = case.sync();
    assert_eq!(trace.desired, Some(3));
    let limited = condition(&trace, "ScalingLimited");
    assert_eq!(limited, (true, "TooFewReplicas"));
}

#[test]
fn every_write_of_the_scale_sets_scaled_to_zero() {
    let to_zero = Some((true, "ScaledToZero"));
    let to_others = Some((false, "NotScaledToZero"));
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
        let mut found = trace.conditions.iter();
        let found = found.find(|it| it.type_ == SCALED_TO_ZERO);
        let found = found.map(|it| (it.status, it.reason));
        assert_eq!(found, expected, "1.{minor} {current} {min} {measure}");
        trace.remember(&mut case.history, &case.hpa, &case.flags, NOW);
        let is_zero = expected.is_some_and(|(status, _)| status);
        assert_eq!(case.history.scaled_to_zero, is_zero);
    }
}

//! Properties that hold for all numbers.

use proptest::prelude::*;

use super::{Behavior, Case, MetricsAnswer, past};

/// Values of pods, some of them missing.
fn pods() -> impl Strategy<Value = Vec<Option<i64>>> {
    prop::collection::vec(prop::option::weighted(0.8, 0_i64..200_000), 1..12)
}

fn text(pods: &[Option<i64>]) -> String {
    let words = pods
        .iter()
        .map(|value| value.map_or("-".to_owned(), |value| value.to_string()));
    words.collect::<Vec<_>>().join(" ")
}

proptest! {
    #[test]
    fn desired_replicas_lie_within_the_bounds(
        pods in pods(),
        current in 0..40_i32,
        min in 0..10_i32,
        more in 0..30_i32,
        target in 1..200_000_i64,
        rules: bool,
        history in prop::collection::vec((0..50_i32, 0..900_u64), 0..6),
    ) {
        let mut case = Case::new(current, (min, min + more), &format!("pods {target}"), &text(&pods));
        case.hpa.behavior = rules.then(Behavior::default);
        let words = history.iter().map(|(replicas, age)| format!("{replicas}@{age} "));
        case.history.recommendations = past(&words.collect::<String>());
        let trace = case.sync();
        if let Some(desired) = trace.desired {
            // At zero with a minimum, scaling is off.
            let is_right = match current == 0 && min != 0 {
                true => desired == 0,
                false => (min..=min + more).contains(&desired),
            };
            prop_assert!(is_right, "{trace:#?}");
        } else {
            prop_assert!(pods.iter().all(Option::is_none), "{trace:#?}");
        }
    }

    #[test]
    fn a_higher_value_never_proposes_fewer_replicas(
        values in prop::collection::vec(0_i64..200_000, 1..12),
        index: prop::sample::Index,
        more in 0_i64..100_000,
        target in 1_i64..200_000,
    ) {
        let measure = format!("pods {target}");
        let ask = |values: &[i64]| {
            let pods: Vec<_> = values.iter().copied().map(Some).collect();
            let current = i32::try_from(values.len()).unwrap();
            let case = Case::new(current, (0, i32::MAX), &measure, &text(&pods));
            case.sync().proposed.unwrap()
        };
        let mut higher = values.clone();
        *index.get_mut(&mut higher) += more;
        prop_assert!(ask(&higher) >= ask(&values));
    }

    #[test]
    fn missing_pods_never_reverse_the_direction(pods in pods(), target in 1_i64..200_000) {
        let current = i32::try_from(pods.len()).unwrap();
        let case = Case::new(current, (0, i32::MAX), &format!("pods {target}"), &text(&pods));
        let known: Vec<i64> = pods.iter().flatten().copied().collect();
        prop_assume!(!known.is_empty());
        let mean = known.iter().sum::<i64>() / i64::try_from(known.len()).unwrap();
        let asked = case.sync().proposed.unwrap();
        prop_assert!(mean <= target || asked >= current);
        prop_assert!(mean >= target || asked <= current);
    }

    #[test]
    fn a_failed_metric_never_scales_down(
        pods in pods(),
        target in 1_i64..200_000,
        current in 1..20_i32,
    ) {
        let mut case = Case::new(current, (1, 40), &format!("pods {target}"), &text(&pods));
        case = case.and("external =1 of nothing");
        case.answers[1] = MetricsAnswer::Failed("gone".to_owned());
        let desired = case.sync().desired;
        prop_assert!(desired.is_none_or(|desired| desired >= current));
    }

    #[test]
    fn no_number_causes_a_panic(
        values in prop::collection::vec(any::<i64>(), 1..4),
        target in 1_i64..,
        (spec, status) in any::<(i32, i32)>(),
        rules: bool,
    ) {
        let sum = values.iter().map(ToString::to_string).collect::<Vec<_>>();
        for measure in ["pods", "external =", "external /", "object =", "object /"] {
            let list = if measure.starts_with('o') { sum[0].clone() } else { sum.join("+") };
            let space = if measure.contains(' ') { "" } else { " " };
            let of = if measure.contains(' ') { format!(" of {list}") } else { String::new() };
            let measure = format!("{measure}{space}{target}{of}");
            let mut case = Case::new(spec, (0, i32::MAX), &measure, &sum.join(" "));
            case.scale.status_replicas = status;
            case.hpa.behavior = rules.then(Behavior::default);
            let _ = case.sync();
        }
    }
}

//! Whole syncs: the desired replicas, the conditions, the holds. Rows of the controller's
//! own tests (`horizontal_test.go`), and further ones.

use super::super::behavior::Behavior;
use super::super::metric::MetricOutcome;
use super::{
    Case, History, MetricsAnswer, NOW, ScaledPodPhase, Selection, TargetScale, ago, cells,
    condition, past, policies,
};

/// Subject | current replicas in bounds | metrics, `;` between | pods | recommendations |
/// desired, reasons of AbleToScale, ScalingActive and ScalingLimited.
const ROWS: &str = "
more than the maximum asked for      | 3 in 2-6  | pods 15000 | 50000uh 15000 30000uh | 1@86400 | 6 SucceededRescale ValidMetricFound TooManyReplicas
from zero                            | 0 in 0-6  | object =15000 of 20000 |      | 1@86400 | 2 SucceededRescale ValidMetricFound DesiredWithinRange
down                                 | 5 in 2-6  | cpu 50%  | 100 300 500 250 250 | 1@86400 | 3 SucceededRescale ValidMetricFound DesiredWithinRange
the first recommendation is what is  | 5 in 2-6  | cpu 50%  | 100 300 500 250 250 |        | 5 ScaleDownStabilized ValidMetricFound DesiredWithinRange
a recent recommendation holds        | 4 in 1-5  | cpu 100% | 50/100 50/100 50/100 -/100 | 10@600 4@60 | 4 ScaleDownStabilized ValidMetricFound DesiredWithinRange
down to zero                         | 5 in 0-6  | object =15000 of 0 | - - - - - | 1@86400 | 0 SucceededRescale ValidMetricFound DesiredWithinRange
one metric missing, more asked for   | 3 in 2-6  | cpu 30%; external =100 of nothing | 300 400 500 | 1@86400 | 4 SucceededRescale ValidMetricFound DesiredWithinRange
one metric missing, less asked for   | 5 in 2-6  | cpu 50%; external =1000 of nothing | 100 300 500 250 250 | 1@86400 | - SucceededGetScale FailedGetExternalMetric -
one metric missing, as many asked for | 3 in 2-6 | pods 10000; object =1000 of nothing | 10000 10000 10000 | 1@86400 | 3 ReadyForNewScale ValidMetricFound DesiredWithinRange
the first failure is told            | 3 in 2-6  | pods 10000; cpu 50% |         | 1@86400 | - SucceededGetScale FailedGetPodsMetric -
less than the minimum asked for      | 3 in 2-5  | cpu 90%  | 10/900 95 10/1100  | 1@86400 | 2 SucceededRescale ValidMetricFound TooFewReplicas
zero asked for and allowed           | 3 in 0-5  | cpu 90%  | 0/900 0 0/1100     | 1@86400 | 0 SucceededRescale ValidMetricFound DesiredWithinRange
nothing runs                         | 0 in 3-5  | cpu 90%  |                    | 1@86400 | 0 SucceededGetScale ScalingDisabled -
too few                              | 2 in 3-5  | cpu 90%  |                    | 1@86400 | 3 SucceededRescale - -
too many                             | 10 in 3-5 | cpu 90%  |                    | 1@86400 | 5 SucceededRescale - -
as fast as allowed                   | 3 in 1-100 | cpu 10% | 100/100 200/100 300/100 | 1@86400 | 6 SucceededRescale ValidMetricFound ScaleUpLimit
the highest of two wins              | 3 in 1-9  | pods 10000; cpu 10% | 20000/100000 20000/100000 20000/100000 | 1@86400 | 6 SucceededRescale ValidMetricFound DesiredWithinRange
absurdly high reads as nothing       | 3 in 1-9  | pods 1   | 9000000000000000 9000000000000000 9000000000000000 | 1@86400 | 1 SucceededRescale ValidMetricFound TooFewReplicas
";

#[test]
fn every_row_ends_with_the_replicas_and_conditions_of_the_controller() {
    for text in ROWS.lines().filter(|line| !line.is_empty()) {
        let [_, scale, measures, pods, history, expected] = cells(text);
        let words: Vec<&str> = scale.split([' ', '-']).collect();
        let number = |index: usize| words[index].parse::<i32>().unwrap();
        let mut measures = measures.split("; ");
        let first = measures.next().unwrap();
        let mut case = Case::new(number(0), (number(2), number(3)), first, pods);
        for measure in measures {
            case = case.and(measure);
        }
        case.history.recommendations = past(history);
        let trace = case.sync();
        let reason = |type_: &str| {
            let mut all = trace.conditions.iter();
            let found = all.find(|condition| condition.type_ == type_);
            found.map_or("-", |condition| condition.reason)
        };
        let desired = trace
            .desired
            .map_or("-".to_owned(), |desired| desired.to_string());
        let got = [
            desired.as_str(),
            reason("AbleToScale"),
            reason("ScalingActive"),
            reason("ScalingLimited"),
        ];
        assert_eq!(got.join(" "), expected, "{text}: {:#?}", trace.sentences());
    }
}

#[test]
fn rules_of_behavior_take_the_place_of_the_built_in_limits() {
    let mut case = Case::new(3, (1, 100), "cpu 10%", "100/100 200/100 300/100");
    let behavior = case.hpa.behavior.insert(Behavior::default());
    behavior.up.policies = policies("700%/60");
    let trace = case.sync();
    assert_eq!(trace.desired, Some(24));
    assert_eq!(condition(&trace, "ScalingLimited"), (true, "ScaleUpLimit"));

    case.hpa.max = 20;
    let trace = case.sync();
    assert_eq!(trace.desired, Some(20));
    let limited = condition(&trace, "ScalingLimited");
    assert_eq!(limited, (true, "TooManyReplicas"));
}

#[test]
fn the_window_of_scaling_down_is_the_flag_where_behavior_names_none() {
    let mut case = Case::new(5, (1, 9), "pods 10000", "1000 1000 1000 1000 1000");
    case.hpa.behavior = Some(Behavior::default());
    case.history.recommendations = past("4@299 9@301");
    let trace = case.sync();
    assert_eq!(trace.desired, Some(4));
    assert_eq!(trace.stabilised.unwrap().down_window_s, 300);
}

#[test]
fn a_tolerance_of_the_autoscaler_counts_from_1_35() {
    let mut case = Case::new(3, (1, 9), "pods 20000", "20000 21000 21000");
    let own = case.hpa.behavior.insert(Behavior::default());
    own.up.tolerance = Some(0.01);
    assert_eq!(case.sync().desired, Some(4));
    case.flags.configurable_tolerance = false;
    assert_eq!(case.sync().desired, Some(3));
    for (minor, counts) in [(34, false), (35, true)] {
        let flags = super::ControllerFlags::of_version(minor);
        assert_eq!(flags.configurable_tolerance, counts);
    }
}

/// Minor version, selection | reason of the condition | message.
const SELECTIONS: &str = "
35 missing | InvalidSelector | the HPA target's scale is missing a selector
35 invalid | InvalidSelector | couldn't convert selector into a corresponding internal selector object: found '='
36 ambiguous | AmbiguousSelector | pods by selector app=web are controlled by multiple HPAs: [team/one team/two team/three]
37 ambiguous | AmbiguousSelector | pods by selector app=web are controlled by more than one HPA (e.g. [team/one team/two])
";

#[test]
fn each_unusable_selector_has_its_condition() {
    for row in SELECTIONS.trim().lines() {
        let [selection, reason, message] = cells(row);
        let (minor, selection) = selection.split_once(' ').unwrap();
        let mut case = Case::new(3, (2, 6), "cpu 30%", "300 500 700");
        case.flags.minor = minor.parse().unwrap();
        case.selection = match selection {
            "missing" => Selection::Missing,
            "invalid" => Selection::Invalid("found '='".to_owned()),
            _ => Selection::Ambiguous {
                selector: "app=web".to_owned(),
                autoscalers: ["team/one", "team/two", "team/three"]
                    .map(str::to_owned)
                    .into(),
            },
        };
        let trace = case.sync();
        assert_eq!(trace.desired, None);
        assert_eq!(condition(&trace, "ScalingActive"), (false, reason));
        assert_eq!(trace.conditions[1].message, message);
    }
}

#[test]
fn a_scale_that_cannot_be_read_ends_the_sync() {
    let mut case = Case::new(3, (2, 6), "cpu 30%", "300 500 700");
    case.scale = Err("deployments.apps \"web\" not found".to_owned());
    let trace = case.sync();
    assert_eq!(condition(&trace, "AbleToScale"), (false, "FailedGetScale"));
    assert_eq!(
        trace.conditions[0].message,
        "the HPA controller was unable to get the target's current scale: \
         deployments.apps \"web\" not found"
    );
    assert_eq!((trace.current, trace.desired), (None, None));
}

/// Metric | reason of the condition | the event's text before the cause | the cause.
const FAILED: &str = "
pods 1 | FailedGetPodsMetric | failed to get pods metric value | unable to get metric qps: FETCH custom metrics API: gone
object =1 | FailedGetObjectMetric | failed to get object metric value | unable to get metric qps: Deployment on team web/FETCH custom metrics API: gone
object /1 | FailedGetObjectMetric | failed to get object metric value: failed to get qps object metric | unable to get metric qps: Deployment on team web/FETCH custom metrics API: gone
external =1 | FailedGetExternalMetric | failed to get qps external metric value: failed to get external metric qps | unable to get external metric team/qps/nil: FETCH external metrics API: gone
external /1 | FailedGetExternalMetric | failed to get qps external metric value: failed to get qps external metric | unable to get external metric team/qps/nil: FETCH external metrics API: gone
cpu 50% | FailedGetResourceMetric | failed to get cpu resource metric value | failed to get cpu utilization: unable to get metrics for resource cpu: FETCH resource metrics API: gone
cpu@c 50 | FailedGetContainerResourceMetric | failed to get c container metric value | failed to get cpu usage: unable to get metrics for resource cpu: FETCH resource metrics API: gone
";

#[test]
fn a_failed_metric_has_the_messages_of_the_controller() {
    for row in FAILED.trim().lines() {
        let [measure, reason, error, cause] = cells(row);
        let message = cause.replace("FETCH", "unable to fetch metrics from");
        let mut case = Case::new(3, (2, 6), measure, "1 2 3");
        case.answers = vec![MetricsAnswer::Failed("gone".to_owned())];
        let trace = case.sync();
        let active = trace.conditions.last().unwrap();
        assert_eq!((active.type_, active.reason), ("ScalingActive", reason));
        assert_eq!(
            active.message,
            format!("the HPA was unable to compute the replica count: {message}")
        );
        assert_eq!(
            trace.error.clone().unwrap(),
            format!("invalid metrics (1 invalid out of 1), first error is: {error}: {message}")
        );
        let last = trace.sentences().pop();
        assert_eq!(
            last.as_deref(),
            Some("no metric can be used: nothing is changed")
        );
    }
}

#[test]
fn an_average_value_is_divided_by_the_replicas_of_the_status() {
    let mut case = Case::new(3, (1, 99), "object /1000 of 6000", "- - -");
    case.scale = Ok(TargetScale {
        spec_replicas: 3,
        status_replicas: 6,
    });
    let trace = case.sync();
    // 6 for 6 replicas is on target, so it proposes the existing 6.
    assert_eq!(trace.desired, Some(6));
}

#[test]
fn memory_holds_recommendations_and_changes() {
    let mut case = Case::new(2, (1, 99), "pods 10000", "40000 40000");
    case.hpa.behavior = Some(Behavior::default());
    case.history = History::default();
    let trace = case.sync();
    assert_eq!(trace.desired, Some(6));
    let mut history = case.history.clone();
    trace.remember(&mut history, &case.hpa, &case.flags, NOW);
    let recommended: Vec<i32> = history
        .recommendations
        .iter()
        .map(|past| past.replicas)
        .collect();
    // The current replicas, then the proposal.
    assert_eq!(recommended, [2, 8]);
    assert_eq!((history.ups[0].replicas, history.downs.len()), (4, 0));

    case.hpa.behavior = None;
    let mut history = History {
        recommendations: past("7@9000"),
        ups: past("3@9000"),
        ..History::default()
    };
    case.history = history.clone();
    let trace = case.sync();
    trace.remember(&mut history, &case.hpa, &case.flags, NOW);
    // Entries outside of every window are dropped; without behavior no event is kept.
    assert_eq!((history.recommendations.len(), history.ups.len()), (1, 0));
}

#[test]
fn the_steps_read_as_sentences() {
    let mut case = Case::new(4, (1, 8), "pods 50000", "62000 71500 66500 -");
    case.history.recommendations = past("4@120");
    assert_eq!(
        case.sync().sentences(),
        [
            "4 replicas now",
            "pods metric qps, target 50 per pod",
            "4 pods selected: 3 answered, 1 missing (pod-3: no value)",
            "200 over 3 pods is 66.666, 1.3333 of the target",
            "1 missing count as 0: 200 over 4 pods is 50, 1 of the target",
            "within the tolerance (0.9–1.1): stays at 4",
            "4 replicas asked for by pods metric qps",
            "stabilisation changes nothing: 4",
            "no limit applies: 4",
            "stays at 4 replicas",
        ]
    );
}

#[test]
fn a_trace_is_data() {
    let mut case = Case::new(5, (2, 6), "cpu 50%", "100 300 500 250 250");
    case.history.recommendations = past("5@120");
    let trace = serde_json::to_value(case.sync()).unwrap();
    assert_eq!(trace["desired"], 5);
    assert_eq!(trace["stabilised"]["highest"]["ageMs"], 120_000);
    let step = &trace["metrics"][0]["outcome"]["pods"];
    assert_eq!(step["mean"]["mean"], "280m");
    assert_eq!(step["mean"]["percent"], 28);
}

#[test]
fn a_shortcut_reads_no_metric() {
    for (current, reason) in [
        (10, "above Spec.MaxReplicas"),
        (1, "below Spec.MinReplicas"),
    ] {
        let mut case = Case::new(current, (3, 5), "cpu 90%", "");
        case.hpa.behavior = Some(Behavior::default());
        let trace = case.sync();
        assert!(trace.shortcut.is_some());
        assert!(trace.metrics.is_empty() && trace.stabilised.is_none());
        let expected = format!("Current number of replicas {reason}");
        assert_eq!(trace.rescale.as_ref(), Some(&expected));
        trace.remember(&mut case.history, &case.hpa, &case.flags, NOW);
        let events = case.history.ups.len() + case.history.downs.len();
        assert_eq!(events, 1, "and counts as an event");
    }
}

#[test]
fn readiness_of_the_processor_follows_start_window_and_transition() {
    // Started and ready since, in seconds ago; whether it is ready; whether it counts.
    for (started, since, ready, counts) in [
        (60, 59, Some(true), false),
        (119, 61, Some(true), true),
        (119, 59, Some(true), false),
        (119, 100, Some(false), false),
        (119, 100, None, true),
        (180, 175, Some(false), false),
        (180, 10, Some(false), true),
        (180, 10, Some(true), true),
    ] {
        let mut case = Case::new(2, (1, 9), "cpu 50%", "500 500");
        case.pods[1].started = Some(ago(started));
        case.pods[1].ready = Some(super::Readiness {
            ready,
            since: ago(since),
        });
        let trace = case.sync();
        let MetricOutcome::Pods(step) = &trace.metrics[0].outcome else {
            panic!("{trace:?}");
        };
        assert_eq!(
            step.groups.ready.len() == 2,
            counts,
            "{started} {since} {ready:?}"
        );
    }
    let mut case = Case::new(2, (1, 9), "cpu 50%", "500 500");
    case.pods[1].ready = None;
    case.pods[0].phase = ScaledPodPhase::Unknown;
    let trace = case.sync();
    assert!(trace.sentences()[2].contains("1 not ready (pod-1: no start or no Ready condition)"));
}

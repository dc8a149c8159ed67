//! Whole syncs: memory, tolerances by version, the steps in sentences.

use super::super::behavior::Behavior;
use super::super::hpa::{Metric, MetricSource, MetricTarget};
use super::{Case, ControllerFlags, History, MetricsAnswer, NOW, Proposal, past};

#[test]
fn the_window_of_scaling_down_is_the_flag_where_behavior_names_none() {
    let mut case = Case::new(5, (1, 5), "pods 10000", "1000 1000 1000 1000 1000");
    case.hpa.behavior = Some(Behavior::default());
    case.history.recommendations = past("4@299 9@301");
    assert_eq!(case.sync().desired, Some(4));
}

#[test]
fn a_tolerance_of_the_autoscaler_counts_from_1_35() {
    for (minor, desired) in [(34, 3), (35, 4)] {
        let mut case = Case::new(3, (3, 9), "pods 20000", "20000 21000 21000");
        let own = case.hpa.behavior.insert(Behavior::default());
        own.up.tolerance = Some(0.01);
        case.flags = ControllerFlags::of_version(minor);
        assert_eq!(case.sync().desired, Some(desired), "1.{minor}");
    }
}

#[test]
fn a_metric_that_is_not_computed_leaves_the_replicas_unknown() {
    let mut case = Case::new(2, (1, 9), "pods 10000", "40000 40000");
    case.hpa.metrics.push(Metric {
        source: MetricSource::Resource {
            resource: "cpu".to_owned(),
        },
        target: MetricTarget::Utilization(50),
    });
    case.answers.push(MetricsAnswer::NotAsked);
    let trace = case.sync();
    assert_eq!((trace.proposed, trace.desired), (Some(8), None));
    assert_eq!(trace.metrics[1].proposal, Proposal::NotComputed);
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
    let recommended = history.recommendations.iter();
    let recommended: Vec<i32> = recommended.map(|past| past.replicas).collect();
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
    case.sync()
        .remember(&mut history, &case.hpa, &case.flags, NOW);
    // Entries outside of every window are dropped; without behavior no event is kept.
    assert_eq!((history.recommendations.len(), history.ups.len()), (1, 0));
}

#[test]
fn a_rescale_without_metrics_is_an_event() {
    let mut case = Case::new(10, (3, 5), "pods 90000", "");
    case.hpa.behavior = Some(Behavior::default());
    let trace = case.sync();
    assert!(trace.metrics.is_empty() && trace.stabilised.is_none());
    trace.remember(&mut case.history, &case.hpa, &case.flags, NOW);
    assert_eq!(case.history.downs[0].replicas, 5);
}

#[test]
fn the_steps_read_as_sentences() {
    let mut case = Case::new(4, (1, 8), "pods 50000", "62000 71500 66500 -");
    case.history.recommendations = past("5@120");
    let trace = case.sync();
    assert_eq!(
        trace.metrics[0].steps,
        [
            "3 pods with a value, 1 pod without a value",
            "the mean is 66.666, 1.3333 of the target",
            "with 0 for each missing and 0 for each pending pod the mean is 50, 1 of the target",
            "within the tolerance, 0.9–1.1: no change",
        ]
    );
    assert_eq!(
        trace.steps,
        [
            "the metrics ask for 4",
            "stabilisation makes it 5, the highest recommendation of the last 300 s",
        ]
    );
    let mut case = Case::new(2, (1, 8), "pods 10000", "5000 5000 700F -P");
    assert_eq!(
        case.sync().metrics[0].steps,
        [
            "2 pods with a value, 1 pending pod, 1 failed or deleted pod",
            "the mean is 5, 0.5 of the target",
            "0.5 times 2 pods is 1, rounded up",
        ]
    );
    case.answers[0] = MetricsAnswer::Failed("gone".to_owned());
    assert_eq!(case.sync().metrics[0].steps, ["no value: gone"]);
    let mut case = Case::new(6, (1, 1000), "external /1000 of 24000", "");
    let rules = case.hpa.behavior.insert(Behavior::default());
    rules.up.policies = super::policies("300%/300");
    rules.up.window = Some(60);
    case.history.recommendations = past("20@30");
    case.history.ups = past("4@100 9@300");
    case.history.downs = past("2@20");
    assert_eq!(
        case.sync().steps,
        [
            "the metrics ask for 24",
            "stabilisation makes it 20, the lowest recommendation of the last 60 s",
            "policy 300 % in 300 s: from 4 at its start to 16",
            "ScaleUpLimit makes it 16",
        ]
    );
}

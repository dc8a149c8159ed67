//! Compares every number of simulated fleets with the result of a real Prometheus for PromQL.
//! The fleets have no defects: what the server makes of those, `worlds` of gpu-metrics
//! compares with its oracle.

mod comparison;
mod explained;
mod promql;
mod stage;

use std::time::Duration;

use gpu_metrics::pipeline::Pipeline;
use prometheus_source::KeyHasher;
use simulator::{LabelScheme, Scenario};

use comparison::{Compared, Comparison};
use stage::Stage;

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Milliseconds after the epoch, and the window to compare at that time. The scenarios'
/// epoch is 5 s past a multiple of the step. Times are on and off the grid of instants, with
/// windows that are a multiple of the step and windows that are not.
const LOOKS: [(u64, Duration); 4] = [
    (340_000, secs(60)),
    (402_345, secs(60)),
    (465_000, secs(127)),
    (533_211, secs(300)),
];

/// Compares values of a scenario at each look, `many` questions each time. Returns how many
/// values were compared.
async fn compare(
    scenario: Scenario,
    looks: &[(u64, Duration)],
    many: usize,
    compared: &mut Compared,
) -> usize {
    let before: usize = compared.values().sum();
    let epoch = scenario.epoch;
    let is_clean =
        scenario == Scenario::clean(scenario.nodes, scenario.gpus_per_node, scenario.seed);
    // Data that the longest window of a look may include is not dropped.
    let longest = looks.iter().map(|look| look.1).max().unwrap() + secs(60);
    let from = epoch + Duration::from_millis(looks[0].0) - longest - secs(120);
    let hasher = KeyHasher::new();
    let mut lived: Option<Pipeline> = None;
    for (turn, (after_ms, window)) in looks.iter().copied().enumerate() {
        let at = epoch + Duration::from_millis(after_ms);
        let mut stage = Stage::new(
            scenario.clone(),
            (from, at),
            (window, longest),
            hasher.clone(),
        )
        .await;
        let pipeline = lived.get_or_insert_with(|| stage.pipeline(looks[0].1));
        stage.polls(pipeline, at, turn).await;
        // A pipeline that just started has not measured any delay yet.
        let mut fresh = stage.pipeline(looks[0].1);
        stage.poll(&mut fresh, at, turn + 3).await;
        let fresh = stage.publish(&mut fresh, at);
        if is_clean {
            explained::queries_agree(&stage, &fresh).await;
        }
        for snapshot in [stage.publish(pipeline, at), fresh] {
            let comparison = Comparison::new(&stage, &snapshot, window);
            comparison.run(many, compared).await;
        }
    }
    compared.values().sum::<usize>() - before
}

#[tokio::test]
async fn every_metric_of_every_kind_of_object_agrees_with_promql() {
    let mut compared = Compared::new();
    for seed in 1..=3 {
        compare(Scenario::clean(3, 8, seed), &LOOKS, 7, &mut compared).await;
    }
    let all = compared.values().all(|count| *count > 0);
    assert!(all, "some were never compared: {compared:#?}");
}

/// MIG instances beside their cards, rescaled percentages, and each form of labels.
#[tokio::test]
async fn each_form_of_the_data_agrees_with_promql() {
    let schemes = [
        LabelScheme::HonorTrue,
        LabelScheme::EndpointsAnnotation,
        LabelScheme::PodsAnnotation,
        LabelScheme::OldAnnotation,
        LabelScheme::Gmp,
        LabelScheme::AzureLowercase,
        LabelScheme::RhoaiRatio,
    ];
    let schemes = schemes.into_iter().map(|scheme| {
        let mut scenario = Scenario::clean(2, 8, 22);
        scenario.scrape.schemes = vec![scheme];
        scenario
    });
    for scenario in schemes.chain([Scenario::instances(25)]) {
        let count = compare(scenario, &LOOKS[1..2], 6, &mut Compared::new()).await;
        assert!(count > 10, "{count}");
    }
}

#[tokio::test]
async fn a_fleet_of_two_hundred_agrees_with_promql() {
    let fleet = Scenario::clean(25, 8, 11);
    let count = compare(fleet, &LOOKS[1..], 2, &mut Compared::new()).await;
    assert!(count > 100, "{count}");
}

#[tokio::test]
#[ignore = "takes minutes: make test-slow"]
async fn a_large_fleet_agrees_with_promql() {
    let fleet = Scenario::clean(625, 8, 14);
    let count = compare(fleet, &LOOKS[1..2], 1, &mut Compared::new()).await;
    assert!(count > 1000, "{count}");
}

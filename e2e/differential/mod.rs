//! Compares every number of simulated fleets that PromQL can compute with the result of a real
//! Prometheus.

mod comparison;
mod explained;
mod promql;
mod promql_scope;
mod stage;
mod tally;

use std::time::Duration;

use gpu_metrics::pipeline::Pipeline;
use prometheus_source::KeyHasher;
use simulator::Scenario;

use comparison::Comparison;
use stage::Stage;
use tally::Tally;

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

/// Compares values of a scenario at each look, `many` questions each time.
async fn compare(scenario: Scenario, looks: &[(u64, Duration)], many: usize, tally: &mut Tally) {
    let what = format!(
        "{} nodes × {} GPUs, seed {}",
        scenario.nodes, scenario.gpus_per_node, scenario.seed
    );
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
        let snapshot = stage.publish(pipeline, at);
        let comparison = Comparison::new(&stage, &snapshot);
        comparison.run(window, many, tally).await;
        // A pipeline that just started has not measured any delay yet.
        let mut fresh = stage.pipeline(snapshot.window());
        stage.poll(&mut fresh, at, turn + 3).await;
        let fresh = stage.publish(&mut fresh, at);
        if is_clean {
            explained::queries_agree(&stage, &fresh).await;
        }
        let comparison = Comparison::new(&stage, &fresh);
        comparison.run(window, many, tally).await;
    }
    if is_clean {
        let skipped = (tally.beyond_promql, tally.absent);
        assert_eq!(skipped, (0, 0), "{what}: {tally}");
    }
    println!("{what}: so far {tally}");
}

#[tokio::test]
async fn small_clean_fleets_agree_with_promql() {
    let mut tally = Tally::default();
    for seed in 1..=3 {
        compare(Scenario::clean(3, 8, seed), &LOOKS, 7, &mut tally).await;
    }
    tally.assert_all_compared();
}

/// Small fleets with all defects, two jobs, MIG instances beside their cards, and rescaled
/// percentages.
#[tokio::test]
async fn defective_fleets_agree_with_promql() {
    let mut tally = Tally::default();
    for seed in 4..=5 {
        compare(Scenario::defects(8, 3, seed), &LOOKS[..3], 4, &mut tally).await;
    }
    for scenario in [
        Scenario::two_jobs(22),
        Scenario::instances(25),
        Scenario::ratios(26),
    ] {
        let before = tally.to_promql;
        compare(scenario, &LOOKS[..3], 3, &mut tally).await;
        assert!(tally.to_promql > before + 10, "{tally}");
    }
    assert!(tally.questions() >= 74, "{tally}: {:#?}", tally.compared);
}

#[tokio::test]
async fn fleets_of_two_hundred_agree() {
    let mut tally = Tally::default();
    compare(Scenario::clean(25, 8, 11), &LOOKS[1..], 2, &mut tally).await;
    assert!(tally.to_promql > 100, "{tally}");
    let mut tally = Tally::default();
    compare(Scenario::defects(25, 8, 12), &LOOKS[..3], 2, &mut tally).await;
    assert!(tally.to_promql > 50, "{tally}");
}

#[tokio::test]
#[ignore = "takes minutes: make test-slow"]
async fn more_and_large_fleets_agree() {
    let mut tally = Tally::default();
    for seed in 6..=8 {
        compare(Scenario::defects(8, 3, seed), &LOOKS[..3], 4, &mut tally).await;
    }
    for (scenario, least) in [
        (Scenario::defects(125, 8, 13), 100),
        (Scenario::clean(625, 8, 14), 1000),
    ] {
        let mut tally = Tally::default();
        compare(scenario, &LOOKS[1..2], 1, &mut tally).await;
        assert!(tally.to_promql > least, "{tally}");
    }
}

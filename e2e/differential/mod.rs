//! Every number against three witnesses: PromQL on a real Prometheus, a slow
//! reference over the raw samples, and what the simulator knows to be true
//! (`dcgm.md` §8.4).

mod comparison;
mod promql;
mod reference;
mod stage;

use std::time::{Duration, Instant};

use gpu_metrics_apiserver::core::snapshot::Snapshot;
use gpu_metrics_apiserver::core::time::Timestamp;
use gpu_metrics_apiserver::simulator::{LabelScheme, LoadClass, Profile, Scenario, SharingMode};

use comparison::{Comparison, Tally, values_of_all};
use stage::Stage;

const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// A moment and a window to compare at it.
struct Look {
    /// Milliseconds after the epoch. The scenarios' epoch lies 5 s past a
    /// multiple of the step.
    after_ms: u64,
    window: Duration,
}

/// On and off the grid of instants; windows that are a multiple of the step
/// and that are not.
const LOOKS: [Look; 4] = [
    Look { after_ms: 340_000, window: secs(60) },
    Look { after_ms: 352_345, window: secs(60) },
    Look { after_ms: 415_000, window: secs(127) },
    Look { after_ms: 483_211, window: secs(300) },
];

/// Which PromQL is asked for, by kind and metric.
type Asked = fn(&str, &str) -> bool;

const ALL: Asked = |_, _| true;

/// Runs a scenario through all witnesses.
async fn compare(scenario: Scenario, looks: &[Look], asked: Asked, with_truth: bool) -> Tally {
    let begun = Instant::now();
    let what = format!("{} nodes × {} GPUs, seed {}", scenario.nodes, scenario.gpus_per_node, scenario.seed);
    let percent_as_ratio = scenario.scrape.schemes.iter().all(|scheme| *scheme == LabelScheme::RhoaiRatio);
    let epoch = scenario.epoch;
    let moments: Vec<Timestamp> = looks.iter().map(|look| epoch + Duration::from_millis(look.after_ms)).collect();
    let longest = looks.iter().map(|look| look.window).max().unwrap();
    let mut stage = Stage::new(scenario, &moments, longest).await;
    let staged = begun.elapsed();
    let mut pipeline = stage.pipeline(looks[0].window);
    let mut total = Tally::default();
    for (turn, (look, at)) in looks.iter().zip(&moments).enumerate() {
        // Polls as they come in life, then one that is only a little later.
        for before in [11_700, 4_200, 0] {
            stage.poll(&mut pipeline, *at - Duration::from_millis(before), turn).await;
        }
        let (snapshot, inventory) = stage.publish(&mut pipeline, *at);
        agrees_with_a_fresh_start(&mut stage, &snapshot, *at, turn).await;
        let comparison = Comparison::new(&stage, &snapshot, &inventory, *at, percent_as_ratio);
        if with_truth {
            comparison.against_truth(look.window, &mut total);
        }
        total += comparison.run(look.window, asked).await;
    }
    println!("{what}: {total}; {staged:.1?} to stage, {:.1?} in all", begun.elapsed());
    total
}

/// A pipeline that starts now serves the same, to the last bit.
async fn agrees_with_a_fresh_start(stage: &mut Stage, snapshot: &Snapshot, at: Timestamp, turn: usize) {
    let mut fresh = stage.pipeline(snapshot.window());
    stage.poll(&mut fresh, at, turn + 3).await;
    let (fresh, _) = stage.publish(&mut fresh, at);
    let (old, new) = (values_of_all(snapshot), values_of_all(&fresh));
    for (name, value) in &old {
        assert_eq!(Some(value), new.get(name), "{name:?}: with history, and after a fresh start");
    }
    assert_eq!(old.len(), new.len(), "objects with values after a fresh start");
}

fn defects(nodes: u32, gpus_per_node: u32, seed: u64) -> Scenario {
    let mut scenario = Scenario::defects(nodes, gpus_per_node, seed);
    // Rescaled fields beside others in one job are beyond anybody's judgement;
    // they have a test of their own.
    scenario.scrape.schemes.retain(|scheme| *scheme != LabelScheme::RhoaiRatio);
    scenario
}

#[tokio::test]
async fn small_clean_fleets_agree_with_all_three_witnesses() {
    for seed in [1, 2, 3] {
        let total = compare(Scenario::clean(3, 8, seed), &LOOKS, ALL, true).await;
        assert!(total.to_promql > 1000 && total.to_truth > 20, "{total}");
    }
}

#[tokio::test]
async fn small_defective_fleets_agree_with_promql_and_the_reference() {
    for seed in [4, 5, 6] {
        let total = compare(defects(8, 3, seed), &LOOKS, ALL, false).await;
        assert!(total.to_promql > 1000, "{total}");
    }
}

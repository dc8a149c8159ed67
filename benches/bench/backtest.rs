//! `backtest` without its store: simulates an autoscaler on the demand of a week of a thousand
//! pods.

use std::time::{Duration, Instant};

use apimachinery::time::Timestamp;
use gpu_metrics::policy::Policy;
use hpa::{ControllerFlags, Hpa};
use kubectl_gpu_metrics::check::SAMPLE_HPA;
use kubectl_gpu_metrics::replay::{Past, Plan, Trial};

use super::row;

const PODS: usize = 1000;
const DAYS: usize = 7;
const STEP: Duration = Duration::from_secs(15);
const A_DAY: usize = 5760;
const START: Timestamp = Timestamp::from_secs(1_700_000_100);

/// The load of each pod in percent: a daily wave between 10 and 90.
fn percent(moment: usize) -> f64 {
    let phase = (moment % A_DAY) as f64 / A_DAY as f64;
    50.0 - 40.0 * (std::f64::consts::TAU * phase).cos()
}

pub(super) fn run() {
    let text = SAMPLE_HPA.replace("maxReplicas: 4", "maxReplicas: 2000");
    let text = text
        .replace("llm-server", "infer")
        .replace("team-a", "team");
    let text = text.replace("averageValue: \"50\"", "averageValue: \"60\"");
    let object = serde_saphyr::from_str(&text).expect("an autoscaler");
    let hpa = Hpa::try_from(&object).expect("an autoscaler");
    let plan = Plan::read(hpa, "default").expect("a plan");
    let demands = (0..DAYS * A_DAY).map(|moment| Some(PODS as f64 * percent(moment) / 100.0));
    let past = Past::of_demands(START, STEP, PODS as u32, demands.collect());
    let begun = Instant::now();
    let ticks = Trial {
        past: &past,
        plan: &plan,
        policy: &Policy::default(),
        flags: &ControllerFlags::of_version(35),
        ready_after: Duration::from_secs(60),
    }
    .run();
    let simulated = begun.elapsed();
    assert_eq!(ticks.len(), DAYS * A_DAY);
    let sizes = ticks.iter().skip(A_DAY).map(|tick| tick.replicas);
    let most = sizes.max().expect("ticks");
    // At most 900 GPUs are needed: 1,500 replicas at 60 percent, and fewer within the
    // tolerance.
    assert!((1364..=1500).contains(&most), "{most}");
    let size = format!("{DAYS} days, {PODS} pods, {} syncs", ticks.len());
    let seconds = |took: Duration| format!("{:.1} s", took.as_secs_f64());
    row(
        "backtest: an autoscaler follows it",
        &size,
        &seconds(simulated),
        "≤ 60 s, all in all",
    );
}

//! `backtest` without its store: computes the demand of a week of a thousand pods, and
//! simulates an autoscaler on it.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use apimachinery::time::Timestamp;
use gpu_metrics::batch::{Batch, Sample, SeriesKey};
use gpu_metrics::policy::Policy;
use gpu_metrics::signal::{SignalId, Unit};
use hpa::{ControllerFlags, Hpa};
use kubectl_gpu_metrics::check::SAMPLE_HPA;
use kubectl_gpu_metrics::replay::{Gather, Plan, Trial};
use serde_json::json;

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

fn day(number: usize) -> Batch {
    let label = |pod: usize| {
        let name = format!("infer-5d4f8c9b7-{pod:05}");
        json!({"UUID": name, "exported_namespace": "team", "exported_pod": name}).to_string()
    };
    let labels: Vec<String> = (0..PODS).map(label).collect();
    let mut batch = Batch::new(SignalId::MEM_COPY_UTIL);
    for (pod, text) in labels.iter().enumerate() {
        batch.begin_series(SeriesKey(pod as u128), text);
        for moment in number * A_DAY..(number + 1) * A_DAY {
            let at = START + STEP * u32::try_from(moment).expect("a week");
            let value = percent(moment).floor();
            batch.push(Sample { at, value });
        }
    }
    batch
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
    let (unit, moments) = ((Unit::Percent, None), DAYS * A_DAY);
    let mut gather = Gather::new(&plan, HashSet::new(), unit, (START, STEP), moments);
    let mut took = Duration::ZERO;
    for number in 0..DAYS {
        let batch = day(number);
        let begun = Instant::now();
        gather.take(&batch, number * A_DAY..(number + 1) * A_DAY);
        took += begun.elapsed();
    }
    let (past, _) = gather.finish();
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
        "backtest: readings become a demand",
        &size,
        &seconds(took),
        "",
    );
    row(
        "backtest: an autoscaler follows it",
        &size,
        &seconds(simulated),
        "≤ 60 s, all in all",
    );
}

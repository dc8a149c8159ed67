//! Demands whose replicas can be computed by hand.

use serde_json::{Value, json};

use crate::tests::rows;

use super::{Plan, measure, past, plan, pods, run, sizes};

/// The autoscaler of a cell: `mean 50`, `sum 50`, `queue Pods 10`.
fn autoscaler(text: &str) -> Plan {
    let words: Vec<&str> = text.split(' ').collect();
    let behavior = match words.ends_with(&["hasty"]) {
        true => json!({"scaleDown": {"stabilizationWindowSeconds": 0}}),
        false => Value::Null,
    };
    let target = |value: &str| json!({"type": "AverageValue", "averageValue": value});
    let metric = match words[0] {
        "mean" => pods(words[1]),
        "sum" => json!({"type": "Object", "object": {
            "metric": {"name": "gpu_memory_utilization_sum"},
            "describedObject": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "infer"},
            "target": target(words[1]),
        }}),
        _ => json!({"type": words[1], words[1].to_lowercase(): {
            "metric": {"name": "queue"}, "target": target(words[2]),
        }}),
    };
    let plan = plan(&metric, &behavior);
    match words.ends_with(&["twice"]) {
        true => plan.with_target(200, 1.0),
        false => plan,
    }
}

/// `3*1200 -*60`, unknown with `-`; `5..10*5000` grows. `x10` at the end repeats all.
fn demand(text: &str) -> Vec<Option<f64>> {
    let (text, times) = text.split_once(" x").unwrap_or((text, "1"));
    let words = text.split(' ').flat_map(|word| {
        let (demand, seconds) = word.split_once('*').unwrap();
        let (from, to) = demand.split_once("..").unwrap_or((demand, demand));
        let (from, to) = (from.parse::<f64>().ok(), to.parse::<f64>().ok());
        let seconds: u32 = seconds.parse().unwrap();
        (0..seconds).map(move |at| {
            let share = f64::from(at) / f64::from(seconds);
            Some(from? + (to? - from?) * share)
        })
    });
    words.collect::<Vec<_>>().repeat(times.parse().unwrap())
}

#[test]
fn each_demand_has_the_replicas_and_figures_that_follow_by_hand() {
    let mut wrong = Vec::new();
    for row in rows(include_str!("closed_forms.txt")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let plan = autoscaler(cells[0]);
        let past = past(cells[1].parse().unwrap(), demand(cells[2]));
        let ticks = run(&plan, &past);
        let sizes = sizes(&ticks).into_iter();
        let sizes: Vec<String> = sizes.map(|(at, size)| format!("{at}:{size}")).collect();
        let figures = measure(&plan, &past, &ticks);
        let syncs = (figures.gpu_hours * 240.0).round();
        assert!((figures.gpu_hours - syncs / 240.0).abs() < 1e-9, "{row}");
        let found = format!(
            "{} | {syncs} {} {}",
            sizes.join(" "),
            figures.shortage,
            figures.unknown
        );
        if cells[3..].join(" | ") != found {
            wrong.push(format!("{row}\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

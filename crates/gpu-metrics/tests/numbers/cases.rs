//! Values of the scenes in a table: an object, a metric without `gpu_` (if none, the mean memory
//! utilisation), and the value. `-` is no value, `46?` none or this one. `foreign` has the nodes
//! of other clusters, `clusters` has the names of several, and `without_labels` the number of
//! GPUs that lost their labels.

use super::answers::Answers;
use super::notation::{self, named_pod, number};

/// Checks all cases of a table.
pub(super) fn check(table: &str) {
    notation::check(table, |(mut scene, now), values| {
        let answers = match now {
            Some(now) => Answers::new(scene.snapshot_at(now)),
            None => scene.answers(),
        };
        let values = values.iter().filter_map(|value| compare(&answers, value));
        values.collect()
    });
}

/// A value of the table and the actual one, if they differ.
fn compare(answers: &Answers, text: &str) -> Option<String> {
    let words: Vec<&str> = text.split(' ').collect();
    let snapshot = &answers.snapshot;
    let told = match words[0] {
        "foreign" => Some(snapshot.layout().foreign_nodes().join(" ")),
        "clusters" => Some(snapshot.layout().several_clusters().join(" ")),
        "without_labels" => Some(snapshot.without_labels().len().to_string()),
        _ => None,
    };
    if let Some(told) = told {
        let is_told = told == words[1..].join(" ").trim_start_matches('-');
        return (!is_told).then(|| format!("{text}, not {told}"));
    }
    let (of, metric, wanted) = match words[..] {
        [of, wanted] => (of, "memory_utilization", wanted),
        [of, metric, wanted] => (of, metric, wanted),
        _ => panic!("{text}"),
    };
    let object = match of.split_once(':') {
        Some((kind, name)) => format!("{kind} {name}"),
        None if of == "cluster" => of.to_owned(),
        None if of == "namespace" => "namespaces n".to_owned(),
        None if of == "deployment" => "deployments.apps n/d".to_owned(),
        None if of == "node" => "nodes node-1".to_owned(),
        None => format!("pods {}", named_pod(of).join("/")),
    };
    let metric = match metric {
        "original" => "avg_GPU_utilization".to_owned(),
        "sum" => "gpu_memory_utilization_sum".to_owned(),
        _ => format!("gpu_{metric}"),
    };
    assert!(answers.metric(&metric).is_some(), "{text}");
    let value = answers.of(&object, &metric);
    let (number_of, over) = wanted.split_once('/').unwrap_or((wanted, "1"));
    let near = |text: &str, value: f64| (value - number(text) / number(over)).abs() < 1e-9;
    let is_right = match number_of.strip_suffix('?') {
        _ if wanted == "-" => value.is_none(),
        Some(maybe) => value.is_none_or(|value| near(maybe, value)),
        None => value.is_some_and(|value| near(number_of, value)),
    };
    (!is_right).then(|| format!("{text}, not {value:?}"))
}

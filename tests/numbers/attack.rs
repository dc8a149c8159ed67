//! Plausible data for which the rules serve a wrong number.

use std::sync::Arc;

use super::scene::{Scene, close, policy};
use apimachinery::labels::Labels;
use gpu_metrics::inventory::{ClusterObject, Inventory};

const SUM: &str = "gpu_memory_utilization_sum";
const HELD: &str = "gpu_held_count";

/// Three nodes with four GPUs each come by a federation that keeps neither the nodes'
/// names nor the times of their scrapes; one of them dies.
#[test]
fn one_instance_without_node_names_hides_no_node_that_dies() {
    for scrapes in [5, 8, 13, 20] {
        let pods: Vec<String> = (0..12).map(|pod| format!("n/p{pod:02}")).collect();
        let pods: Vec<(&str, Option<f64>)> = pods.iter().map(|pod| (pod.as_str(), None)).collect();
        let mut scene = Scene::new(policy(60)).cluster(&pods);
        for gpu in 0..12 {
            let held = format!(
                "UUID=G{gpu:02} gpu={} job=federate instance=prometheus:9090 \
                 exported_namespace=n exported_pod=p{gpu:02}",
                gpu % 4
            );
            let until = if gpu < 8 { scrapes } else { 3 };
            scene = scene.mcu(&held, &"59 ".repeat(until));
        }
        let mut inventory = Inventory::clone(&scene.inventory);
        for name in ["node-2", "node-3"] {
            inventory.nodes.push(ClusterObject {
                name: name.into(),
                labels: Labels::default(),
                created: None,
            });
        }
        for (place, pod) in inventory.pods.iter_mut().enumerate() {
            pod.node = Some(format!("node-{}", place / 4 + 1).into());
        }
        scene.inventory = Arc::new(inventory);
        let answers = scene.provider();
        let sum = answers.of("namespaces n", SUM);
        assert!(
            sum.is_none_or(|sum| (sum - 708.0).abs() < 1e-9),
            "{sum:?} after {scrapes}"
        );
        close(answers.of("namespaces n", HELD), 12.0);
    }
}

//! Plausible data for which simple rules would serve a wrong number.

use std::sync::Arc;

use super::answers::{Answers, close};
use super::polled::{line, poll};
use super::scene::{Scene, at, object, policy};
use gpu_metrics::policy::Policy;

const SUM: &str = "gpu_memory_utilization_sum";
const HELD: &str = "gpu_held_count";

/// The same with GPUs by resource claims, on the node of the old pod and on another.
#[test]
fn a_recreated_pod_does_not_hold_the_gpu_of_the_former_claim() {
    let device =
        |uuid: &str, node: &str| format!("UUID={uuid} job=d instance={node} Hostname={node}");
    let held = |uuid: &str, node: &str| {
        device(uuid, node) + &format!(" namespace=n pod=p dra_claim_name=c{uuid}")
    };
    for old in ["node-1", "node-2"] {
        let mut scene = Scene::new(policy(60))
            .cluster(&[("n/p", Some(42.0))])
            .mcu(&held("A", old), "80 80 80 80")
            .mcu(&device("A", old), &format!("· · · · {}", "0 ".repeat(16)))
            .mcu(
                &held("B", "node-1"),
                &format!("· · · · {}", "40 ".repeat(16)),
            );
        let inventory = Arc::make_mut(&mut scene.inventory);
        inventory.nodes.push(object("node-2"));
        let pod = &mut inventory.pods[0];
        (pod.gpus, pod.uncounted) = (0, true);
        let mut before = pod.clone();
        before.node = Some(old.into());
        (before.started, before.ended) = (None, Some(at(41.0)));
        inventory.departed = vec![before];
        let answers = scene.answers();
        close(answers.of("pods n/p", HELD), 1.0);
        close(answers.of("namespaces n", HELD), 1.0);
        close(answers.external("n", "cluster_gpu_held_count"), 1.0);
        close(answers.of("pods n/p", SUM), 40.0);
    }
}

#[test]
fn a_recreated_pod_is_seen_if_it_gets_the_gpu_of_its_predecessor() {
    let labels = |pod: &str| format!("UUID={pod} Hostname=node-1 namespace=n pod={pod}");
    let line = |pod: &str, value, from| line(&labels(pod), value, (15.0, 5.0), (from, 600.0));
    let mut lines = [line("p", 80.0, -300.0), line("q", 40.0, -300.0)];
    lines[0]
        .1
        .retain(|sample| sample.at < at(50.0) || sample.at > at(200.0));
    let mut scene = Scene::new(Policy::default()).cluster(&[("n/p", Some(100.0)), ("n/q", None)]);
    let inventory = Arc::make_mut(&mut scene.inventory);
    inventory.pods[0].running_since = Some(at(100.0));
    for now in (7..500).step_by(5) {
        let answers = Answers::new(poll(&mut scene, &lines, f64::from(now)));
        let (sum, held) = (
            answers.of("namespaces n", SUM),
            answers.of("namespaces n", HELD),
        );
        match now {
            // The new pod runs for more than F and a window without a GPU.
            200..205 => assert_eq!(sum, None, "at {now}"),
            300.. => assert_eq!((sum, held), (Some(120.0), Some(2.0)), "at {now}"),
            _ => {}
        }
    }
}

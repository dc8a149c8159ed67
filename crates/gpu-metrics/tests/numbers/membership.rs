//! Readings of deleted pods, of processes that share a device, and of other clusters.

use std::sync::Arc;

use super::answers::close;
use super::scene::{Scene, at, object, policy};
use gpu_metrics::batch::Sample;
use gpu_metrics::signal::SignalId;

const SUM: &str = "gpu_memory_utilization_sum";

/// Ten pods of a Deployment at 40 each until second 60, eight of them until second
/// 75.
fn scaled_down(known: bool) -> Scene {
    let mut scene =
        Scene::new(policy(60)).pods((0..10).map(|pod| format!("n/d-6d4cf56db6-aaaa{pod}")));
    for gpu in 0..10 {
        let target = format!("UUID=G{gpu} job=dcgm instance=i");
        let held = format!("{target} exported_namespace=n exported_pod=d-6d4cf56db6-aaaa{gpu}");
        if gpu < 8 {
            scene = scene.mcu(&held, "40 40 40 40 40 40");
        } else {
            scene = scene.mcu(&held, "40 40 40 40 40");
            scene = scene.mcu(&target, "· · · · · 0");
        }
    }
    let inventory = Arc::make_mut(&mut scene.inventory);
    let gone = inventory.pods.split_off(8);
    if known {
        inventory.departed = gone;
    }
    inventory.namespaces = vec![object("n")];
    scene
}

#[test]
fn a_workload_that_was_scaled_down_keeps_its_past() {
    // Ten pods at 30, 45 and 60, eight at 75.
    let sum = (3.0 * 400.0 + 320.0) / 4.0;
    for known in [true, false] {
        let answers = scaled_down(known).answers();
        close(answers.of("deployments.apps n/d", SUM), sum);
        close(answers.of("namespaces n", SUM), sum);
        close(answers.of("deployments.apps n/d", "gpu_held_count"), 9.5);
        assert_eq!(answers.flagship("pods n/d-6d4cf56db6-aaaa9"), None);
    }
}

#[test]
fn a_recreated_group_has_no_readings_of_its_predecessor() {
    let mut scene = scaled_down(true);
    let inventory = Arc::make_mut(&mut scene.inventory);
    inventory.workloads[0].created = Some(at(55.0));
    inventory.namespaces[0].created = Some(at(55.0));
    let answers = scene.answers();
    close(answers.of("deployments.apps n/d", SUM), 360.0);
    close(answers.of("namespaces n", SUM), 360.0);
}

#[test]
fn a_deleted_namespace_has_no_values() {
    let mut scene = scaled_down(true);
    let inventory = Arc::make_mut(&mut scene.inventory);
    inventory.namespaces.clear();
    assert_eq!(scene.answers().of("namespaces n", SUM), None);
}

/// A pod shares its GPU for a minute, then has it alone. Later the exporter loses the
/// labels of pods.
#[test]
fn lines_of_processes_that_ended_long_ago_hide_no_lost_label() {
    let device = "UUID=A gpu=0 job=d instance=i Hostname=node-1";
    let held = format!("{device} namespace=n pod=p");
    let shared = format!("{held} pod_uid=u vgpu=0");
    let mut scene = Scene::new(policy(60)).cluster(&[("n/p", None)]);
    for scrape in 0..120 {
        let labels = match scrape {
            ..5 => &*shared,
            5..100 => &*held,
            _ => device,
        };
        let sample = Sample {
            at: at(15.0 * f64::from(scrape) + 5.0),
            value: 40.0,
        };
        for signal in [SignalId::GPU_UTIL, SignalId::MEM_COPY_UTIL] {
            scene.feed(signal, labels, &[sample]);
        }
        let answers = scene.answers();
        let held = answers.of("nodes node-1", "gpu_held_count");
        assert!(scrape < 3 || held == Some(1.0), "{held:?} at {scrape}");
    }
}

#[test]
fn a_row_of_another_cluster_is_not_attributed_to_a_pod_of_the_same_name() {
    let series = |cluster: &str, uuid: &str, host: &str| {
        format!(
            "UUID={uuid} job=d instance={uuid} cluster={cluster} Hostname={host} namespace=n pod=p"
        )
    };
    let mut scene = Scene::new(policy(60))
        .cluster(&[("n/p", None)])
        .mcu(&series("east", "A", "node-1"), "40 40 40")
        .mcu(&series("west", "B", "elsewhere"), "90 90 90")
        .mcu(
            &series("west", "C", "elsewhere").replace("pod=p", "pod=q"),
            "90 90 90",
        );
    let snapshot = scene.snapshot();
    let names: Vec<&str> = snapshot
        .layout()
        .several_clusters()
        .iter()
        .map(AsRef::as_ref)
        .collect();
    assert_eq!(names, ["cluster=east", "cluster=west"]);
    let answers = scene.answers();
    close(answers.flagship("pods n/p"), 40.0);
    close(answers.cluster(), 40.0);
}

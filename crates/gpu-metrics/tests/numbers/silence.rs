//! Which devices are missing when exporters fall silent, and what is reported.

use gpu_metrics::batch::PrometheusId;
use std::sync::Arc;
use std::time::Duration;

use super::answers::{Answers, close};
use super::scene::{Scene, at, policy};
use apimachinery::labels::Labels;
use gpu_metrics::aggregate::{Absence, Missing};
use gpu_metrics::dcgm::metrics;
use gpu_metrics::inventory::Inventory;
use gpu_metrics::signal::SignalId;

const SUM: &str = "gpu_memory_utilization_sum";

fn labels(gpu: usize) -> String {
    format!("UUID=G{gpu} job=dcgm instance=i{gpu} namespace=n pod=p{gpu}")
}

const fn missing(why: Missing, devices: usize, of: usize) -> Absence {
    Absence::Missing { why, devices, of }
}

/// Ten pods of one Deployment with a GPU each and these values.
fn ten(values: impl Fn(usize) -> String) -> Scene {
    let scene = Scene::new(policy(60)).pods((0..10).map(|pod| format!("n/p{pod}")));
    (0..10).fold(scene, |scene, gpu| scene.mcu(&labels(gpu), &values(gpu)))
}

/// All at 40; the first `silent` have no samples after second 60, the others go on
/// until second 180.
fn outage(silent: usize) -> Scene {
    ten(|gpu| "40 ".repeat(if gpu < silent { 5 } else { 13 }))
}

#[test]
fn a_sum_without_half_of_its_devices_is_absent_with_a_reason() {
    let answers = outage(5).answers();
    let silent = missing(Missing::Silent(at(65.0)), 5, 10);
    assert_eq!(answers.absence("deployments.apps n/d", SUM), silent);
    // The mean of the other half is served, and held GPUs stay held.
    close(answers.flagship("deployments.apps n/d"), 40.0);
    close(answers.of("deployments.apps n/d", "gpu_held_count"), 10.0);
    assert_eq!(answers.flagship("pods n/p0"), None);
    close(answers.flagship("pods n/p9"), 40.0);
}

#[test]
fn a_tenth_may_be_missing() {
    let answers = outage(1).answers();
    close(answers.of("deployments.apps n/d", SUM), 360.0);
    assert_eq!(outage(2).answers().of("deployments.apps n/d", SUM), None);
    assert_eq!(outage(6).answers().flagship("deployments.apps n/d"), None);
}

/// A pod that runs for three minutes and requests `gpus` GPUs of which none is seen.
fn with_unseen(mut scene: Scene, gpus: u32, change: impl FnOnce(&mut Inventory)) -> Scene {
    let inventory = Arc::make_mut(&mut scene.inventory);
    let mut unseen = inventory.pods[0].clone();
    (unseen.name, unseen.gpus) = ("q".into(), gpus);
    unseen.running_since = Some(at(0.0));
    inventory.pods.push(unseen);
    inventory.exporter_nodes = vec!["node-1".into()];
    change(inventory);
    scene
}

#[test]
fn gpus_of_running_pods_that_were_never_seen_are_missing() {
    let answers = with_unseen(outage(0), 2, |_| ()).answers();
    assert_eq!(answers.of("deployments.apps n/d", SUM), None);
    let unseen = missing(Missing::Unseen, 2, 12);
    assert_eq!(answers.absence("deployments.apps n/d", SUM), unseen);
    close(answers.of("deployments.apps n/d", "gpu_held_count"), 12.0);
    // GPUs of a pod that has just started are not missing yet.
    let young = |inventory: &mut Inventory| inventory.pods[10].running_since = Some(at(150.0));
    let answers = with_unseen(outage(0), 2, young).answers();
    close(answers.of("deployments.apps n/d", SUM), 400.0);
}

/// Beside ten GPUs at 40 it counts with 40: 40 of 440 is less than a tenth. With the
/// first GPU at 90 it counts with 90: 90 of 540 is more.
#[test]
fn a_gpu_that_was_never_read_counts_with_the_largest_reading_of_its_group() {
    let sum = |first: &str| {
        let scene = ten(|gpu| if gpu == 0 { first } else { "40 " }.repeat(13));
        let answers = with_unseen(scene, 1, |_| ()).answers();
        answers.of("deployments.apps n/d", SUM)
    };
    close(sum("40 "), 400.0);
    assert_eq!(sum("90 "), None);
}

#[test]
fn a_request_does_not_count_where_gpus_are_shared_or_there_is_no_exporter() {
    let held = |change: fn(&mut Inventory)| {
        let answers = with_unseen(outage(0), 2, change).answers();
        answers.of("deployments.apps n/d", "gpu_held_count")
    };
    let elsewhere = |inventory: &mut Inventory| inventory.pods[10].node = Some("node-2".into());
    let shared = |inventory: &mut Inventory| {
        let replicas = [("nvidia.com/gpu.replicas", "4")];
        inventory.nodes[0].labels = Labels::from_pairs(replicas);
    };
    close(held(|_| ()), 12.0);
    close(held(elsewhere), 10.0);
    close(held(shared), 10.0);
}

#[test]
fn a_missing_gpu_counts_as_active_or_idle_by_its_last_reading() {
    let of = |answers: &Answers, metric| answers.of("deployments.apps n/d", metric);
    // The first has no samples after second 60.
    let one_away = |first: &str, other: &str| {
        let values = |gpu| match gpu {
            0 => first.repeat(5),
            _ => other.repeat(13),
        };
        ten(values).answers()
    };
    // One of ten active GPUs is missing, and no idle one.
    let busy = one_away("40 ", "40 ");
    close(of(&busy, "gpu_active_count"), 9.0);
    close(of(&busy, "gpu_idle_count"), 0.0);
    // The only active GPU is missing.
    let alone = one_away("40 ", "0 ");
    assert_eq!(of(&alone, "gpu_active_count"), None);
    close(of(&alone, "gpu_idle_count"), 9.0);
}

/// Two GPUs, of which the second is silent: the mean without it is 4, with it 6 or 6.5.
#[test]
fn a_mean_may_change_by_two_points() {
    let mean = |second: f64| {
        let mut scene = Scene::new(policy(60)).cluster(&[("n/p0", None), ("n/p1", None)]);
        scene = scene.mcu(&labels(0), &"4 ".repeat(13));
        let values = format!("{second} ").repeat(5);
        let answers = scene.mcu(&labels(1), &values).answers();
        answers.flagship("deployments.apps n/d")
    };
    close(mean(8.0), 4.0);
    assert_eq!(mean(9.0), None);
}

#[test]
fn a_device_that_its_target_leaves_out_is_lost_after_a_window() {
    let mut scene = Scene::new(policy(60)).cluster(&[("n/p", None)]);
    for gpu in 0..4 {
        let labels = format!("UUID=G{gpu} job=dcgm instance=i namespace=n pod=p");
        let scrapes = if gpu == 0 { 5 } else { 13 };
        scene = scene.mcu(&labels, &"40 ".repeat(scrapes));
    }
    close(scene.answers().of("pods n/p", SUM), 120.0);
    // Before that it is missing, and a quarter of the sum is unknown.
    let mut early = Scene::new(policy(60)).cluster(&[("n/p", None)]);
    for gpu in 0..4 {
        let labels = format!("UUID=G{gpu} job=dcgm instance=i namespace=n pod=p");
        let scrapes = if gpu == 0 { 5 } else { 9 };
        early = early.mcu(&labels, &"40 ".repeat(scrapes));
    }
    let at_end = Answers::new(early.snapshot_at(at(121.0)));
    assert_eq!(at_end.of("pods n/p", SUM), None);
}

/// Two nodes with two GPUs each. The exporter of the first is silent from second 65 to
/// 200, and from 185 on the query of utilisation fails.
#[test]
fn a_field_whose_query_fails_makes_no_device_lost() {
    let pods = ["n/p0", "n/p1", "n/p2", "n/p3"].map(|pod| (pod, None));
    let mut scene = Scene::new(policy(60)).cluster(&pods);
    let inventory = Arc::make_mut(&mut scene.inventory);
    let mut other = inventory.nodes[0].clone();
    other.name = "node-2".into();
    inventory.nodes.push(other);
    for pod in &mut inventory.pods[2..] {
        pod.node = Some("node-2".into());
    }
    for gpu in 0..4 {
        let node = if gpu < 2 { 1 } else { 2 };
        let labels = format!(
            "UUID=G{gpu} job=dcgm instance=i{node} Hostname=node-{node} \
             exported_namespace=n exported_pod=p{gpu}"
        );
        let (util, memory) = match node {
            1 => (5, format!("{}{}1 1", "1 ".repeat(5), "· ".repeat(8))),
            _ => (13, "1 ".repeat(15)),
        };
        scene = scene
            .mcu(&labels, &"40 ".repeat(util))
            .signal(SignalId::FB_USED, &labels, &memory);
    }
    let answers = scene.answers();
    close(answers.of("namespaces n", "gpu_memory_used"), 4.0);
    assert_eq!(answers.of("namespaces n", SUM), None);
}

/// The other devices of its node have the field, and none has a profiling field.
#[test]
fn a_device_that_never_had_the_field_is_lost_beside_others_that_have_it() {
    let mut scene = Scene::new(policy(60)).cluster(&[("n/p", None)]);
    for gpu in 0..8 {
        let labels = format!(
            "UUID=G{gpu} job=dcgm instance=i Hostname=node-1 exported_namespace=n exported_pod=p"
        );
        scene = scene.signal(SignalId::POWER_USAGE, &labels, &"300 ".repeat(15));
        if gpu > 0 {
            scene = scene.mcu(&labels, &"40 ".repeat(15));
        }
    }
    close(scene.answers().of("namespaces n", SUM), 7.0 * 40.0);
}

#[test]
fn devices_without_percents_are_shown_by_profiling_fields() {
    let labels = "UUID=A job=dcgm instance=i namespace=n pod=p";
    let mut scene = Scene::new(policy(60))
        .signal(SignalId::DRAM_ACTIVE, labels, "0.4 0.4 0.4 0.4")
        .signal(SignalId::GR_ENGINE_ACTIVE, labels, "0.5 0.5 0.5 0.5");
    let answers = scene.answers();
    close(answers.flagship("pods n/p"), 40.0);
    close(answers.of("pods n/p", "gpu_utilization"), 50.0);
}

#[test]
fn the_field_of_a_device_is_chosen_at_each_instant() {
    let labels = "UUID=A job=dcgm instance=i namespace=n pod=p";
    let mut scene = Scene::new(policy(60)).mcu(labels, "80 80 80").signal(
        SignalId::DRAM_ACTIVE,
        labels,
        &"0.4 ".repeat(9),
    );
    close(scene.answers().flagship("pods n/p"), 40.0);
}

#[test]
fn a_store_without_new_samples_is_reported() {
    let mut scene = outage(0);
    let late = at(180.0) + Duration::from_secs(120);
    let answers = Answers::new(scene.snapshot_at(late));
    let behind = Absence::StoreBehind { newest: at(185.0) };
    assert_eq!(
        answers.absence("deployments.apps n/d", metrics::MEMORY_UTILIZATION),
        behind
    );
}

#[test]
fn profiling_fields_are_queried_for_mig_alone_if_no_whole_gpu_needs_them() {
    let dram = SignalId::DRAM_ACTIVE;
    let mig = "UUID=A GPU_I_ID=1 namespace=n pod=p";
    let mut scene = Scene::new(policy(60)).mcu("UUID=B namespace=n pod=q", "40 40 40 40");
    assert!(scene.pipeline.is_wanted(PrometheusId(0), dram, at(60.0)));
    assert!(
        !scene
            .pipeline
            .is_of_mig_alone(PrometheusId(0), dram, at(60.0)),
        "never seen"
    );
    scene = scene.signal(dram, mig, "0.4 0.4 0.4 0.4");
    assert!(
        scene
            .pipeline
            .is_of_mig_alone(PrometheusId(0), dram, at(60.0))
    );
    // Every ten minutes a query of all devices checks whether a whole GPU needs them too.
    scene.feed_at(dram, mig, &[], at(600.0));
    assert!(
        !scene
            .pipeline
            .is_of_mig_alone(PrometheusId(0), dram, at(660.0))
    );
    scene = scene.signal(dram, "UUID=C job=new namespace=n pod=r", "0.4 0.4 0.4 0.4");
    assert!(
        !scene
            .pipeline
            .is_of_mig_alone(PrometheusId(0), dram, at(60.0))
    );
}

/// Two pods with a GPU each behind one exporter, which has not reported the
/// first pod's GPU for two minutes.
fn without_the_first_gpu() -> Scene {
    let labels = |gpu: char| format!("UUID={gpu} job=dcgm instance=i namespace=n pod=p{gpu}");
    Scene::new(policy(60))
        .cluster(&[("n/pA", None), ("n/pB", None)])
        .mcu(&labels('A'), "40 40 40 40 40")
        .mcu(&labels('B'), &"20 ".repeat(13))
}

#[test]
fn a_gpu_that_its_exporter_no_longer_reports_is_lost_and_reported() {
    let mut scene = without_the_first_gpu();
    let snapshot = scene.snapshot();
    let lost: Vec<&str> = snapshot
        .lost()
        .iter()
        .map(|facts| &*facts.row.device.uuid)
        .collect();
    assert_eq!(lost, ["A"]);
    let answers = Answers::new(snapshot);
    let lost = missing(Missing::Lost(at(65.0)), 1, 1);
    assert_eq!(answers.absence("pods n/pA", SUM), lost);
    close(answers.of("deployments.apps n/d", SUM), 20.0);
}

/// An exporter that reports one pod for each GPU names the sharing pods in turn.
#[test]
fn a_shared_gpu_is_lost_only_if_it_is_lost_for_each_of_its_pods() {
    let labels =
        |gpu: char, pod: char| format!("UUID={gpu} job=dcgm instance=i namespace=n pod=p{pod}");
    let later = "· · · · · 30 30 30 30 · · · · · · · · 30 30";
    let mut scene = Scene::new(policy(60))
        .cluster(&[("n/pA", None), ("n/pB", None), ("n/pC", None)])
        .mcu(&labels('A', 'A'), "40 40 40 40 40")
        .mcu(&labels('A', 'B'), later)
        .mcu(&labels('C', 'C'), &"20 ".repeat(19));
    let answers = scene.answers();
    close(answers.of("deployments.apps n/d", SUM), 50.0);
    close(answers.of("deployments.apps n/d", "gpu_held_count"), 2.0);
}

#[test]
fn a_gpu_that_is_reported_for_another_pod_is_not_lost() {
    let other = "UUID=A job=dcgm instance=i namespace=n pod=pB";
    let mut scene = without_the_first_gpu().mcu(other, "· · · · · 30 30 30 30 30 30 30 30");
    let snapshot = scene.snapshot();
    assert!(snapshot.lost().is_empty());
    let absence = Answers::new(snapshot).absence("pods n/pA", SUM);
    assert!(matches!(absence, Absence::HandedOver { .. }), "{absence:?}");
}

#[test]
fn an_exporter_with_unchanging_readings_is_frozen_and_not_silent() {
    let card = (SignalId::MEM_COPY_UTIL, labels(0), "80 ");
    let instance = format!("{} GPU_I_ID=1 GPU_I_PROFILE=1g.10gb", labels(0));
    let instance = (SignalId::DRAM_ACTIVE, instance, "0.8 ");
    for (signal, labels, busy) in [card, instance] {
        let power = format!("300 301 {}", "300 ".repeat(43));
        let mut scene = Scene::new(policy(60))
            .cluster(&[("n/p0", None)])
            .signal(signal, &labels, &busy.repeat(45))
            .signal(SignalId::POWER_USAGE, &labels, &power);
        let snapshot = scene.snapshot();
        let targets = &snapshot.frame().view().targets;
        assert!(targets.iter().all(|target| target.frozen_since.is_some()));
        assert!(snapshot.silent().is_empty());
        let absence = Answers::new(snapshot).absence("pods n/p0", SUM);
        assert!(
            matches!(
                absence,
                Absence::Missing {
                    why: Missing::Frozen(_),
                    devices: 1,
                    of: 1,
                }
            ),
            "{absence:?}"
        );
    }
}

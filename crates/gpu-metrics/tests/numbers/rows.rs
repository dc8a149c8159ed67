//! Rows A to M of docs/numbers.md, "Small cases", each with its value.

use std::time::Duration;

use super::answers::{Answers, by_formula, close};
use super::scene::{Scene, at, policy, samples};
use gpu_metrics::signal::SignalId;

fn two_gpus(scene: Scene) -> Scene {
    scene
        .mcu("UUID=A namespace=n pod=p", "80 80 0 0")
        .mcu("UUID=B namespace=n pod=p", "40 0 0 0")
}

#[test]
fn row_a_two_gpus_under_each_formula() {
    let values = by_formula(two_gpus, 50, "pods n/p");
    close(Some(values[0]), 35.0);
    close(Some(values[1]), 200.0 / 3.0);
    close(Some(values[2]), 70.0);
    close(Some(values[3]), 25.0);
}

fn handed_over() -> Scene {
    Scene::new(policy(80))
        .mcu("UUID=A namespace=n pod=old", "90 90")
        .mcu("UUID=A", "· · 0")
        .mcu("UUID=A namespace=n pod=new", "· · · 10 10 10")
}

#[test]
fn row_b_a_gpu_handed_over_counts_for_the_pod_that_its_labels_name() {
    let mut scene = handed_over().cluster(&[("n/new", None)]);
    let answers = scene.answers();
    close(answers.flagship("pods n/new"), 10.0);
    assert_eq!(answers.flagship("pods n/old"), None);
    close(answers.cluster(), 35.0);
}

#[test]
fn row_b_the_old_owners_own_average_was_ninety() {
    let mut scene = handed_over();
    let answers = Answers::new(scene.snapshot_at(at(31.0)));
    close(answers.flagship("pods n/old"), 90.0);
}

#[test]
fn row_c_an_owner_without_a_stale_marker_ends_by_age() {
    let mut scene = Scene::new(policy(121))
        .mcu("UUID=A namespace=n pod=old", "90 90")
        .mcu(
            "UUID=A namespace=n pod=new",
            "· · 10 10 10 10 10 10 10 10 10 10 10",
        );
    let answers = scene.answers();
    close(answers.flagship("pods n/new"), 10.0);
    assert_eq!(answers.flagship("pods n/old"), None);
    close(answers.cluster(), 10.0);
}

fn recreated() -> Scene {
    Scene::new(policy(110))
        .mcu("UUID=A namespace=n pod=sts-0", "90 90 90 90")
        .mcu("UUID=B namespace=n pod=sts-0", "· · · · · 0 0 30")
}

#[test]
fn row_d_a_pod_of_the_same_name_does_not_inherit_the_load() {
    let mut scene = recreated().cluster(&[("n/sts-0", Some(70.0))]);
    close(scene.answers().flagship("pods n/sts-0"), 10.0);
}

#[test]
fn row_e_a_gap_is_no_zero() {
    let mut scene = Scene::new(policy(110)).mcu("UUID=A namespace=n pod=p", "60 60 · · · 60 60 60");
    close(scene.answers().flagship("pods n/p"), 60.0);
}

#[test]
fn row_e_a_gap_at_the_end_ends_the_value() {
    let mut scene = Scene::new(policy(110)).mcu("UUID=A namespace=n pod=p", "60 60");
    let at_end = |scene: &mut Scene, secs| Answers::new(scene.snapshot_at(at(secs)));
    assert_eq!(at_end(&mut scene, 74.0).flagship("pods n/p"), Some(60.0));
    assert_eq!(at_end(&mut scene, 75.0).flagship("pods n/p"), None);
}

#[test]
fn row_f_sentinels_and_nan_are_no_samples() {
    let mut scene = Scene::new(policy(50))
        .mcu("UUID=A namespace=n pod=p", "50 50 SENT 50")
        .mcu("UUID=B namespace=n pod=p", "30 30 NaN 30");
    let answers = scene.answers();
    close(answers.flagship("pods n/p"), 40.0);
    close(answers.cluster(), 40.0);
}

#[test]
fn row_g_a_pod_that_just_started_is_averaged_since_its_start() {
    let mut scene = Scene::new(policy(90)).mcu("UUID=A namespace=n pod=p", "· · · · 80 80");
    let answers = scene.answers();
    close(answers.flagship("pods n/p"), 80.0);
    let value = answers.ask("pods n/p", "gpu_memory_utilization").unwrap();
    assert_eq!(value.window_secs, 30, "the effective window is exposed");
    assert_eq!(value.at, at(80.0), "the newest sample's time");
}

#[test]
fn row_g_one_reading_is_served() {
    let mut scene = Scene::new(policy(90)).mcu("UUID=A namespace=n pod=p", "· · · · · 80");
    close(scene.answers().flagship("pods n/p"), 80.0);
}

#[test]
fn row_h_unlabelled_history_belongs_to_the_device_only() {
    let mut scene = Scene::new(policy(80))
        .mcu("UUID=A", "0 0 0")
        .mcu("UUID=A namespace=n pod=p", "· · · 0 70 70");
    let answers = scene.answers();
    close(answers.flagship("pods n/p"), 140.0 / 3.0);
    close(answers.cluster(), 140.0 / 6.0);
}

fn shared() -> Scene {
    Scene::new(policy(50))
        .mcu("UUID=A namespace=n pod=p1 vgpu=0", "60 60 60 60")
        .mcu("UUID=A namespace=n pod=p1 vgpu=3", "60 60 60 60")
        .mcu("UUID=A namespace=n pod=p2 vgpu=1", "60 60 60 60")
        .mcu("UUID=B namespace=n pod=p3 vgpu=0", "20 20 20 20")
}

#[test]
fn row_i_a_shared_device_counts_once_per_group() {
    let answers = shared().answers();
    close(answers.flagship("pods n/p1"), 60.0);
    close(answers.flagship("pods n/p2"), 60.0);
    close(answers.flagship("pods n/p3"), 20.0);
    close(answers.cluster(), 40.0);
    close(answers.flagship("namespaces n"), 40.0);
    close(answers.of("pods n/p1", "gpu_held_count"), 1.0);
    close(answers.of("namespaces n", "gpu_held_count"), 2.0);
}

#[test]
fn row_j_replicas_are_reduced_before_any_mean() {
    let mut scene = Scene::new(policy(50))
        .mcu(
            "UUID=A namespace=n pod=p prometheus_replica=0",
            "60 60 60 60",
        )
        .mcu(
            "UUID=A namespace=n pod=p prometheus_replica=1",
            "60 60 60 60",
        )
        .mcu(
            "UUID=B namespace=n pod=p prometheus_replica=0",
            "20 20 20 20",
        );
    let answers = scene.answers();
    close(answers.flagship("pods n/p"), 40.0);
    close(answers.cluster(), 40.0);
}

/// Two jobs read one GPU and differ: at the same second, and one of them 5 s later.
#[test]
fn of_several_series_the_newest_counts_and_of_equally_new_ones_the_larger() {
    let labels = |job: &str| format!("UUID=A job={job} instance=i namespace=n pod=p");
    let later = |secs: f64| {
        let mut scene = Scene::new(policy(50)).mcu(&labels("a"), "60 60 60 60");
        let mut other = samples("40 40 40 40");
        for sample in &mut other {
            sample.at = sample.at + Duration::from_secs_f64(secs);
        }
        scene.feed(SignalId::MEM_COPY_UTIL, &labels("b"), &other);
        scene.answers()
    };
    for group in ["pods n/p", "namespaces n"] {
        close(later(0.0).flagship(group), 60.0);
        close(later(5.0).flagship(group), 40.0);
    }
    close(later(5.0).cluster(), 40.0);
}

#[test]
fn row_k_labels_dropped_for_one_scrape_change_nothing() {
    let mut scene = Scene::new(policy(50))
        .mcu("UUID=A namespace=n pod=p", "50 50 · 50")
        .mcu("UUID=A", "· · 50");
    let answers = scene.answers();
    close(answers.flagship("pods n/p"), 50.0);
    close(answers.cluster(), 50.0);
}

#[test]
fn row_l_counters_are_no_utilisation_and_not_polled() {
    let names = gpu_metrics::dcgm::fields::built_in();
    let counters = names
        .iter()
        .flat_map(|spec| &spec.wire_names)
        .filter(|name| {
            name.to_lowercase().contains("_total") || name.to_lowercase().contains("energy")
        });
    assert_eq!(counters.count(), 0);
}

#[test]
fn row_m_reconfigured_mig_instances_end_like_pods() {
    let mut scene = Scene::new(policy(110))
        .signal(
            SignalId::DRAM_ACTIVE,
            "UUID=A GPU_I_ID=1 GPU_I_PROFILE=3g.40gb namespace=n pod=old",
            "0.9 0.9",
        )
        .signal(
            SignalId::DRAM_ACTIVE,
            "UUID=A GPU_I_ID=1 GPU_I_PROFILE=1g.10gb namespace=n pod=new",
            "· · · 0.2 0.2 0.2 0.2 0.2",
        );
    let answers = scene.answers();
    close(answers.flagship("pods n/new"), 20.0);
    assert_eq!(answers.flagship("pods n/old"), None);
}

fn three_pods(scene: Scene) -> Scene {
    scene
        .mcu("UUID=A namespace=n pod=p1", "80 80 80 80")
        .mcu("UUID=B namespace=n pod=p2", "20 20 20 20")
        .mcu("UUID=C namespace=n pod=p2", "20 20 20 20")
        .mcu("UUID=D namespace=n pod=p3", "0 0 0 0")
}

#[test]
fn a_namespace_is_the_mean_over_devices_not_over_pods() {
    let values = by_formula(three_pods, 50, "namespaces n");
    close(Some(values[0]), 40.0);
    close(Some(values[3]), 30.0);
    let pods = [("n/p1", None), ("n/p2", None), ("n/p3", None)];
    let mut scene = three_pods(Scene::new(policy(50))).cluster(&pods);
    let answers = scene.answers();
    close(answers.flagship("deployments.apps n/d"), 40.0);
    close(answers.flagship("nodes node-1"), 40.0);
    close(answers.flagship("pods n/p3"), 0.0);
}

//! Series beside those of pods: of whole cards and of MIG parents.

use super::answers::close;
use super::scene::{Scene, policy};
use gpu_metrics::signal::SignalId;

#[test]
fn a_line_without_a_pod_beside_a_process_line_frees_no_device() {
    let mut scene = Scene::new(policy(60)).cluster(&[("n/p", None)]);
    let pod = "UUID=A Hostname=node-1 namespace=n pod=p vgpu=0";
    scene = scene
        .signal(SignalId::MEM_COPY_UTIL, pod, "SENT SENT SENT SENT")
        .signal(SignalId::GPU_UTIL, "UUID=A Hostname=node-1", "60 60 60 60")
        .signal(SignalId::GPU_UTIL, pod, "60 60 20 0");
    let answers = scene.answers();
    close(answers.of("nodes node-1", "gpu_held_count"), 1.0);
    close(answers.external("n", "cluster_gpu_held_count"), 1.0);
}

#[test]
fn an_instance_shadows_its_gpu_before_its_pod_was_recreated() {
    let mut scene = Scene::new(policy(60)).cluster(&[("n/p", Some(30.0))]);
    let instance = "UUID=A GPU_I_ID=1 GPU_I_PROFILE=1g.10gb Hostname=node-1 namespace=n pod=p";
    scene = scene
        .signal(
            SignalId::FB_USED,
            "UUID=A Hostname=node-1",
            "500 500 500 500",
        )
        .signal(SignalId::FB_USED, instance, "100 100 100 100");
    let answers = scene.answers();
    close(answers.of("nodes node-1", "gpu_memory_used"), 100.0);
    close(answers.external("n", "cluster_gpu_memory_used"), 100.0);
}

/// A series identifies the exporter of its own target only (docs/attribution.md, "Pods").
#[test]
fn a_series_declares_no_other_targets_workload_an_exporter() {
    let mut scene = Scene::new(policy(60))
        .mcu(
            "UUID=A job=d instance=a namespace=n pod=exp exported_namespace=n exported_pod=p",
            "50 50",
        )
        .mcu("UUID=B job=d instance=a namespace=n pod=exp", "0 0")
        .mcu("UUID=C job=d instance=c namespace=n pod=exp", "70 70")
        .mcu(
            "UUID=D job=d instance=e namespace=n pod=q exported_namespace=n exported_pod=r",
            "0 0",
        );
    scene = scene.mcu("UUID=E job=d instance=f namespace=n pod=q", "30 30");
    let answers = scene.answers();
    close(answers.flagship("pods n/p"), 50.0);
    // The idle GPU B of the exporter's target is not held; C and E are held.
    close(answers.flagship("pods n/exp"), 70.0);
    close(answers.flagship("pods n/q"), 30.0);
}

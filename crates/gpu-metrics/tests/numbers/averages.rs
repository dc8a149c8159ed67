//! Cases of docs/numbers.md besides the small ones: the original's value, MIG, label
//! schemes, predicates, and the autoscaler's result.

use std::sync::Arc;
use std::time::Duration;

use super::answers::{Answers, close};
use super::scene::{SCRAPE, Scene, at, object, policy};
use gpu_metrics::dcgm::metrics;
use gpu_metrics::policy::{
    Activity, ActivityCondition, DeviceValue, IdleValue, MigWeight, Policy, Shared,
};
use gpu_metrics::signal::SignalId;

#[test]
fn the_original_averages_the_non_zero_readings_of_the_whole_cluster() {
    // Two of three GPUs are active, then one, then none. The original takes the last
    // scrape every 5 s.
    let scene = || {
        Scene::new(policy(60))
            .mcu("UUID=A namespace=n pod=p", "80 80 0 0 80")
            .mcu("UUID=B", "40 0 0 0 40")
            .mcu("UUID=C namespace=m pod=q", "0 0 0 0 0")
    };
    let answers = scene().answers();
    // (0, 60]: 60 at 5 and 10, 80 from 15 to 25, 0 from 30 to 55, 60 at 60.
    close(
        answers.external("n", "avg_GPU_utilization"),
        (2.0 * 60.0 + 3.0 * 80.0 + 60.0) / 12.0,
    );
}

#[test]
fn the_original_counts_each_gpu_once() {
    let mut scene = Scene::new(policy(30))
        .mcu("UUID=A prometheus_replica=a", "60 60 60")
        .mcu("UUID=A prometheus_replica=b", "60 60 60")
        .mcu("UUID=B prometheus_replica=a", "20 20 20");
    close(scene.answers().external("x", "avg_GPU_utilization"), 40.0);
}

fn any_of() -> Activity {
    Activity::Any(vec![
        ActivityCondition::Above(DeviceValue::MemoryUtilization, 0.0),
        ActivityCondition::Above(DeviceValue::GpuUtilization, 0.0),
        ActivityCondition::Above(DeviceValue::Signal(SignalId::GR_ENGINE_ACTIVE), 0.01),
    ])
}

#[test]
fn any_of_three_predicates() {
    let settings = Policy {
        activity: any_of(),
        ..policy(50)
    };
    let mut scene = Scene::new(settings)
        .mcu("UUID=A namespace=n pod=p", "0 40 0 20")
        .signal(SignalId::GPU_UTIL, "UUID=A namespace=n pod=p", "90 95 0 30")
        .mcu("UUID=B namespace=n pod=p", "0 0 0 60")
        .signal(SignalId::GPU_UTIL, "UUID=B namespace=n pod=p", "0 0 0 0")
        .signal(
            SignalId::GR_ENGINE_ACTIVE,
            "UUID=B namespace=n pod=p",
            "0.5 0.001 0 0.4",
        );
    close(scene.answers().flagship("pods n/p"), 20.0);
}

#[test]
fn mig_instances_use_dram_and_shadow_their_parent() {
    let mut scene = Scene::new(policy(50))
        .signal(
            SignalId::DRAM_ACTIVE,
            "UUID=A GPU_I_ID=1 namespace=n pod=p1",
            "0.4 0.2 0 0.2",
        )
        .signal(
            SignalId::DRAM_ACTIVE,
            "UUID=A namespace=n pod=p1",
            "0.9 0.9 0.9 0.9",
        )
        .mcu("UUID=A namespace=n pod=p1", "99 99 99 99")
        .signal(
            SignalId::DRAM_ACTIVE,
            "UUID=B namespace=n pod=p2",
            "0.5 0.5 0.5 0.5",
        )
        .mcu("UUID=B namespace=n pod=p2", "70 70 70 70");
    let answers = scene.answers();
    close(answers.flagship("pods n/p1"), 20.0);
    close(answers.flagship("pods n/p2"), 70.0);
}

#[test]
fn mig_weights_keep_small_instances_from_outvoting_a_gpu() {
    let build = |weight| {
        let settings = Policy {
            mig_weight: weight,
            ..policy(50)
        };
        let mut scene = Scene::new(settings)
            .signal(
                SignalId::DRAM_ACTIVE,
                "UUID=A GPU_I_ID=7 GPU_I_PROFILE=1g.10gb namespace=n pod=p",
                "0.2 0.2",
            )
            .mcu("UUID=B namespace=n pod=p", "60 60");
        scene.answers().flagship("pods n/p")
    };
    close(build(MigWeight::Equal), 40.0);
    close(build(MigWeight::Slices), (20.0 + 7.0 * 60.0) / 8.0);
}

/// A whole GPU and nine instances of three slices, of which the last is silent.
#[test]
fn mig_weights_change_no_sum() {
    for (mig_weight, silent) in [
        (MigWeight::Equal, "20 20 20 20 20"),
        (MigWeight::Slices, "20 20 20 20 20"),
        (MigWeight::Slices, "60 60 60 60 60"),
    ] {
        let settings = Policy {
            mig_weight,
            ..policy(50)
        };
        let mut scene = Scene::new(settings)
            .cluster(&[("n/p", None), ("n/q", None)])
            .signal(
                SignalId::FB_USED,
                "UUID=B instance=b namespace=n pod=p",
                &"20 ".repeat(13),
            );
        for id in 0..9 {
            let labels = format!(
                "UUID=A GPU_I_ID={id} GPU_I_PROFILE=3g.40gb instance=a{id} namespace=n pod=q"
            );
            let values = if id == 8 { silent } else { &"20 ".repeat(13) };
            scene = scene.signal(SignalId::FB_USED, &labels, values);
        }
        // 20 of 200 may be missing, 60 of 240 may not.
        let sum = scene.answers().of("namespaces n", "gpu_memory_used");
        let expected = silent.starts_with("20").then_some(180.0);
        assert_eq!(sum, expected, "{mig_weight:?}");
    }
}

/// Four series, four schemes (docs/attribution.md, "Pods").
#[test]
fn all_schemes_in_one_store() {
    let mut scene = Scene::new(policy(50))
        .mcu(
            "UUID=A exported_namespace=t exported_pod=w1 exported_container=c namespace=gpu-operator pod=exp-1 \
             container=nvidia-dcgm-exporter",
            "30 30 30 30",
        )
        .mcu("UUID=B namespace=gpu-operator pod=exp-1 container=nvidia-dcgm-exporter", "0 0 0 0")
        .mcu("UUID=C namespace=t pod=w2 container=vllm", "50 50 50 50")
        .mcu("UUID=D exported_namespace=t namespace=monitoring pod=w3 container=vllm", "70 70 70 70");
    let answers = scene.answers();
    close(answers.flagship("pods t/w1"), 30.0);
    close(answers.flagship("pods t/w2"), 50.0);
    close(answers.flagship("pods t/w3"), 70.0);
    assert_eq!(answers.flagship("pods gpu-operator/exp-1"), None);
    assert_eq!(answers.flagship("namespaces gpu-operator"), None);
    close(answers.flagship("namespaces t"), 50.0);
    close(answers.of("namespaces t", "gpu_held_count"), 3.0);
}

/// The idle GPU under `honor_labels: true` (docs/exporter.md, "After the
/// scrape").
#[test]
fn an_unheld_gpu_is_never_attributed_to_the_exporter() {
    let idle = "UUID=B namespace=monitoring pod=gpu-exp-9xk2f container=main instance=i:9400 job=j";
    let held = "UUID=A exported_namespace=t exported_pod=w1 namespace=monitoring pod=gpu-exp-9xk2f container=main \
                instance=i:9400 job=j";
    // Another series of the target names the exporter's pod beside a holder.
    let mut scene = Scene::new(policy(50))
        .mcu(idle, "7 7 7 7")
        .mcu(held, "30 30 30 30");
    assert_eq!(
        scene.answers().flagship("pods monitoring/gpu-exp-9xk2f"),
        None
    );
    // The exporter's pod requests no GPU.
    let mut scene = Scene::new(policy(50))
        .mcu(idle, "7 7 7 7")
        .cluster(&[("monitoring/gpu-exp-9xk2f", None)]);
    let inventory = Arc::make_mut(&mut scene.inventory);
    inventory.pods[0].gpus = 0;
    let answers = scene.answers();
    assert_eq!(answers.flagship("pods monitoring/gpu-exp-9xk2f"), None);
    assert_eq!(answers.flagship("namespaces monitoring"), None);
    close(answers.cluster(), 7.0);
    assert_eq!(answers.external("x", "cluster_gpu_held_count"), Some(0.0));
}

#[test]
fn a_reading_from_another_node_than_its_pods_counts_for_no_object() {
    let mut scene = Scene::new(policy(50))
        .mcu(
            "UUID=A exported_namespace=n exported_pod=p Hostname=node-2",
            "50 50 50 50",
        )
        .cluster(&[("n/p", None)]);
    let inventory = Arc::make_mut(&mut scene.inventory);
    inventory.nodes.push(object("node-2"));
    let answers = scene.answers();
    assert_eq!(answers.flagship("pods n/p"), None);
    assert_eq!(answers.cluster(), None);
}

/// Ten replicas, two of them busy at 80, eight idle, target 50
/// (docs/concepts.md, "What an autoscaler makes of it").
#[test]
fn what_an_autoscaler_sees() {
    let mut scene = Scene::new(policy(50));
    for pod in 0..10 {
        let load = if pod < 2 { "80 80 80 80" } else { "0 0 0 0" };
        scene = scene.mcu(&format!("UUID=G{pod} namespace=n pod=p{pod}"), load);
    }
    let answers = scene.answers();
    let desired = |value: f64, replicas: f64| (replicas * value / 50.0).ceil();
    let mean = answers.flagship("namespaces n").unwrap();
    close(Some(mean), 80.0);
    close(Some(desired(mean, 10.0)), 16.0);
    close(Some(desired(mean, 16.0)), 26.0);
    let pods = (0..10).map(|pod| answers.flagship(&format!("pods n/p{pod}")).unwrap());
    let mean_of_pods = pods.sum::<f64>() / 10.0;
    close(Some(mean_of_pods), 16.0);
    close(Some(desired(mean_of_pods, 10.0)), 4.0);
    let sum = answers.external("n", "gpu_memory_utilization_sum").unwrap();
    close(Some(sum), 160.0);
    close(Some((sum / 50.0).ceil()), 4.0);
    close(answers.of("namespaces n", "gpu_active_count"), 2.0);
    close(answers.of("namespaces n", "gpu_idle_count"), 8.0);
    close(answers.of("namespaces n", "gpu_held_count"), 10.0);
}

#[test]
fn omitted_idle_pods_leave_two() {
    let settings = Policy {
        idle: IdleValue::Omit,
        ..policy(50)
    };
    let mut scene = Scene::new(settings)
        .mcu("UUID=A namespace=n pod=busy", "80 80 80 80")
        .mcu("UUID=B namespace=n pod=idle", "0 0 0 0");
    let answers = scene.answers();
    close(answers.flagship("pods n/busy"), 80.0);
    assert_eq!(answers.flagship("pods n/idle"), None);
}

#[test]
fn framebuffer_and_power_are_sums_and_the_percent_a_ratio_of_sums() {
    let mut scene = Scene::new(policy(50));
    for (uuid, used, free, watts) in [
        ("A", "20000", "60000", "300"),
        ("B", "1000", "19000", "70.5"),
    ] {
        let labels = format!("UUID={uuid} namespace=n pod=p");
        let twice = |value: &str| format!("{value} {value}");
        scene = scene
            .signal(SignalId::FB_USED, &labels, &twice(used))
            .signal(SignalId::FB_FREE, &labels, &twice(free))
            .signal(SignalId::FB_RESERVED, &labels, &twice("500"))
            .signal(SignalId::POWER_USAGE, &labels, &twice(watts));
    }
    let answers = scene.answers();
    close(answers.of("pods n/p", "gpu_memory_used"), 21_000.0);
    close(
        answers.of("pods n/p", "gpu_memory_used_percent"),
        100.0 * 21_000.0 / 101_000.0,
    );
    close(answers.of("pods n/p", "gpu_power_usage"), 370.5);
    assert_eq!(
        answers.flagship("pods n/p"),
        None,
        "no utilisation was seen"
    );
    close(answers.of("pods n/p", "gpu_held_count"), 2.0);
}

#[test]
fn gpu_utilization_has_its_own_activity() {
    let mut scene = Scene::new(policy(50))
        .mcu("UUID=A namespace=n pod=p", "0 0 0 0")
        .signal(
            SignalId::GPU_UTIL,
            "UUID=A namespace=n pod=p",
            "90 90 90 90",
        )
        .signal(
            SignalId::GR_ENGINE_ACTIVE,
            "UUID=M GPU_I_ID=1 namespace=n pod=m",
            "0.25 0.25 0.25 0.25",
        );
    let answers = scene.answers();
    close(answers.of("pods n/p", "gpu_utilization"), 90.0);
    close(answers.flagship("pods n/p"), 0.0);
    close(answers.of("pods n/m", "gpu_utilization"), 25.0);
}

#[test]
fn hold_keeps_a_flickering_device_in_the_mean() {
    let build = |hold| {
        let settings = Policy { hold, ..policy(50) };
        let mut scene = Scene::new(settings)
            .mcu("UUID=A namespace=n pod=p", "60 0 60 0")
            .mcu("UUID=B namespace=n pod=p", "20 20 20 20");
        scene.answers().flagship("pods n/p")
    };
    close(build(Duration::ZERO), (40.0 + 20.0 + 40.0 + 20.0) / 4.0);
    close(build(SCRAPE), (40.0 + 10.0 + 40.0 + 10.0) / 4.0);
}

#[test]
fn a_split_share_is_the_devices_value_divided_by_its_holders() {
    let settings = Policy {
        shared: Shared::Split,
        ..policy(50)
    };
    let mut scene = Scene::new(settings)
        .mcu("UUID=A namespace=n pod=p1 vgpu=0", "60 60 60 60")
        .mcu("UUID=A namespace=n pod=p2 vgpu=1", "60 60 60 60");
    let answers = scene.answers();
    close(answers.flagship("pods n/p1"), 30.0);
    close(answers.flagship("namespaces n"), 60.0);
}

#[test]
fn the_share_of_a_process_is_not_split_again() {
    let settings = Policy {
        shared: Shared::Split,
        ..policy(50)
    };
    let device = "UUID=A job=d instance=i";
    let part = |pod: &str| format!("{device} namespace=n pod={pod} pod_uid=u-{pod} vgpu=0");
    let mut scene = Scene::new(settings).cluster(&[("n/a", None), ("n/b", None)]);
    for (signal, whole, first, second) in [
        (SignalId::GPU_UTIL, "88 88", "61 61", "27 27"),
        (SignalId::FB_USED, "9000 9000", "5000 5000", "3000 3000"),
        (SignalId::FB_FREE, "1000 1000", "1000 1000", "1000 1000"),
        (SignalId::MEM_COPY_UTIL, "40 40", "40 40", "40 40"),
    ] {
        scene = scene
            .signal(signal, device, whole)
            .signal(signal, &part("a"), first)
            .signal(signal, &part("b"), second);
    }
    let answers = scene.answers();
    close(answers.of("pods n/a", "gpu_utilization"), 61.0);
    close(answers.of("pods n/b", "gpu_memory_used"), 3000.0);
    close(answers.of("pods n/b", "gpu_memory_used_percent"), 30.0);
    close(answers.flagship("pods n/b"), 20.0);
}

/// A collector that converts percentages to ratios (docs/exporter.md, "After the
/// scrape").
#[test]
fn a_job_that_sends_ratios_is_served_in_percent() {
    let mut scene = Scene::new(policy(50))
        .mcu("UUID=A namespace=n pod=p job=rhoai", "1 0.5 0.25 0.25")
        .mcu("UUID=B namespace=n pod=q job=plain", "1 1 1 1");
    let answers = scene.answers();
    close(answers.flagship("pods n/p"), 50.0);
    close(answers.flagship("pods n/q"), 1.0);
}

#[test]
fn values_end_fifteen_seconds_after_the_last_instant_with_a_reading() {
    let mut scene = Scene::new(policy(120)).mcu("UUID=A namespace=n pod=p", "60 60 60 60 60");
    let last = 65.0;
    // The last instant with the reading is 105, and until second 120 it is one of the
    // last two in the window.
    let mut at_age =
        |age: f64| Answers::new(scene.snapshot_at(at(last + age))).flagship("pods n/p");
    close(at_age(54.9), 60.0);
    assert_eq!(at_age(55.0), None);
    // A snapshot that is not replaced becomes stale.
    let mut answers = Answers::new(scene.snapshot_at(at(last + 1.0)));
    answers.now = at(last + 24.0);
    close(answers.flagship("pods n/p"), 60.0);
    answers.now = at(last + 25.0);
    assert_eq!(answers.flagship("pods n/p"), None);
}

#[test]
fn the_original_has_no_zeros_before_the_first_reading() {
    let mut scene = Scene::new(policy(60)).mcu("UUID=A namespace=n pod=p", "40 40");
    let answers = scene.answers();
    close(answers.external("n", "avg_GPU_utilization"), 40.0);
    let value = answers.ask("namespaces n", "avg_GPU_utilization").unwrap();
    assert_eq!(value.window_secs, 30);
}

/// Power is that of the board, and is repeated on every instance (docs/exporter.md,
/// "MIG").
#[test]
fn the_power_of_a_board_counts_once_for_all_its_instances() {
    let mut scene = Scene::new(policy(50));
    for instance in 1..8 {
        let labels =
            format!("UUID=A GPU_I_ID={instance} GPU_I_PROFILE=1g.10gb namespace=n pod=p{instance}");
        scene = scene.signal(SignalId::POWER_USAGE, &labels, "340 340");
    }
    scene = scene
        .signal(SignalId::POWER_USAGE, "UUID=A", "340 340")
        .signal(SignalId::POWER_USAGE, "UUID=B namespace=n pod=q", "350 350");
    let answers = scene.answers();
    close(answers.of("namespaces n", "gpu_power_usage"), 690.0);
    close(answers.of("pods n/p3", "gpu_power_usage"), 340.0);
    close(answers.external("n", "cluster_gpu_power_usage"), 690.0);
}

#[test]
fn a_window_too_short_is_stretched_to_four_readings() {
    let mut scene = Scene::new(policy(300)).mcu("UUID=A namespace=n pod=p", "90 10 20 30 40");
    let answers = scene.answers();
    let (group, snapshot) = (answers.group("pods n/p").unwrap(), &answers.snapshot);
    let (_, spec) = answers.metric(metrics::MEMORY_UTILIZATION).unwrap();
    for window in [5, 15, 60] {
        let window = Duration::from_secs(window);
        let values = snapshot.evaluate(&[group], &spec.measure, None, Some(window));
        let value = values[0].unwrap();
        assert_eq!((value.value, value.window_secs), (25.0, 60), "{window:?}");
    }
}

//! Attribution of devices with misleading labels: docs/attribution.md.

use super::answers::close;
use super::scene::{Scene, at, object as node, policy};
use apimachinery::labels::Labels;
use gpu_metrics::inventory::PodPhase;
use gpu_metrics::signal::SignalId;

const SUM: &str = "gpu_memory_utilization_sum";
const HELD: &str = "gpu_held_count";

/// The nodes recognised as those of other clusters.
fn foreign(scene: &mut Scene) -> Vec<String> {
    let snapshot = scene.snapshot();
    let nodes = snapshot.layout().foreign_nodes().iter();
    nodes.map(ToString::to_string).collect()
}

/// Pod p, which requests `gpus` GPUs, on node-1 with the GPU A, and a node of another
/// cluster with GPUs of a pod of the same name, of an unknown pod, and of no pod.
fn two_clusters(job: &str, gpus: u32) -> Scene {
    let other = |uuid: &str, pod: &str| {
        format!("UUID={uuid} job={job} instance=b Hostname=other-1 namespace=n {pod}")
    };
    let scene = Scene::new(policy(60))
        .cluster(&[("n/p", None)])
        .mcu(
            "UUID=A job=d instance=a Hostname=node-1 namespace=n pod=p",
            "40 40 40",
        )
        .mcu(&other("B", "pod=p"), "90 90 90")
        .mcu(&other("C", "pod=q"), "90 90 90")
        .mcu(&other("D", ""), "90 90 90");
    scene.with(|inventory| inventory.pods[0].gpus = gpus)
}

#[test]
fn a_pod_that_lives_on_a_reported_node_has_no_gpu_on_an_unknown_one() {
    let mut scene = two_clusters("d", 2);
    assert_eq!(foreign(&mut scene), ["other-1"]);
    let answers = scene.answers();
    close(answers.flagship("pods n/p"), 40.0);
    close(answers.of("pods n/p", HELD), 1.0);
    close(answers.of("namespaces n", SUM), 40.0);
    close(answers.cluster(), 40.0);
}

#[test]
fn a_pod_has_no_more_gpus_elsewhere_than_it_requests() {
    let mut scene = two_clusters("e", 1);
    assert_eq!(foreign(&mut scene), ["other-1"]);
    let answers = scene.answers();
    close(answers.of("pods n/p", HELD), 1.0);
    close(answers.cluster(), 40.0);
    // For a pod that requests two GPUs, a second one is not too many.
    assert!(foreign(&mut two_clusters("e", 2)).is_empty());
}

#[test]
fn a_request_for_shared_gpus_does_not_limit_their_number() {
    let sharing = [("nvidia.com/gpu.sharing-strategy", "time-slicing")];
    let mut scene = two_clusters("e", 1).with(|inventory| {
        inventory.nodes[0].labels = Labels::from_pairs(sharing);
    });
    assert!(foreign(&mut scene).is_empty());
}

#[test]
fn without_listed_nodes_no_device_is_foreign() {
    let mut scene = two_clusters("d", 1).with(|inventory| inventory.nodes.clear());
    assert!(foreign(&mut scene).is_empty());
}

/// Pods p and q on two nodes, with these node names in their exporters' series.
fn two_nodes(names: [&str; 2]) -> Scene {
    let held = |uuid: &str, host: &str, pod: &str| {
        format!("UUID={uuid} job=d instance={pod} Hostname={host} namespace=n pod={pod}")
    };
    let scene = Scene::new(policy(60))
        .cluster(&[("n/p", None), ("n/q", None)])
        .mcu(&held("A", names[0], "p"), "40 40 40")
        .mcu(&held("B", names[1], "q"), "20 20 20")
        .mcu(
            &format!("UUID=C job=d instance=p Hostname={}", names[0]),
            "60 60 60",
        );
    scene.with(|inventory| {
        inventory.nodes.push(node("node-2"));
        inventory.pods[1].node = Some("node-2".into());
    })
}

#[test]
fn a_node_with_another_name_makes_no_device_foreign() {
    for names in [
        ["node-1", "node-2"],
        ["renamed", "node-2"],
        ["node-1", "renamed"],
        ["renamed-1", "renamed-2"],
        ["same", "same"],
    ] {
        let mut scene = two_nodes(names);
        assert!(foreign(&mut scene).is_empty(), "{names:?}");
        let answers = scene.answers();
        close(answers.flagship("pods n/p"), 40.0);
        close(answers.flagship("pods n/q"), 20.0);
        close(answers.of("nodes node-2", SUM), 20.0);
        close(answers.cluster(), 40.0);
    }
}

#[test]
fn devices_stay_when_an_upgrade_renames_the_node() {
    let held = |uuid: &str, host: &str| {
        format!("UUID={uuid} job=d instance=a Hostname={host} namespace=n pod=p")
    };
    let mut scene = Scene::new(policy(60))
        .cluster(&[("n/p", None)])
        .mcu(&held("A", "node-1"), "40 40 40")
        .mcu("UUID=B job=d instance=a Hostname=node-1", "20 20 20")
        .mcu(&held("A", "renamed"), "· · · 40 40")
        .mcu(&held("B", "renamed"), "· · · 20 20");
    assert!(foreign(&mut scene).is_empty());
    let answers = scene.answers();
    close(answers.cluster(), 30.0);
    assert!(answers.flagship("pods n/p").is_some());
}

#[test]
fn a_node_has_the_devices_reported_under_any_of_its_names() {
    for host in ["node-1", "node-1.dc.local", "gpu-host", "10.0.0.7"] {
        let labels = format!("UUID=A job=d instance=a Hostname={host}");
        let scene = Scene::new(policy(60)).cluster(&[("n/p", None)]);
        let scene = scene.mcu(&labels, "40 40 40").with(|inventory| {
            let host = [("kubernetes.io/hostname", "gpu-host")];
            inventory.nodes[0].labels = Labels::from_pairs(host);
            inventory.node_addresses = vec![("10.0.0.7".into(), "node-1".into())];
        });
        close({ scene }.answers().of("nodes node-1", SUM), 40.0);
    }
}

#[test]
fn a_bare_pod_that_requests_no_gpu_holds_one_only_by_labels_of_holders() {
    for (gpus, more, holds) in [(1, "", true), (0, "", false), (0, "vgpu=0", true)] {
        let labels = format!("UUID=A job=d instance=i namespace=n pod=p {more}");
        let scene = Scene::new(policy(60)).cluster(&[("n/p", None)]);
        let scene = scene.mcu(&labels, "40 40 40");
        let mut scene = scene.with(|inventory| inventory.pods[0].gpus = gpus);
        let value = scene.answers().flagship("pods n/p");
        assert_eq!(value.is_some(), holds, "{gpus} {more}");
    }
}

/// Pod p has the GPU A at 80, and q has B at 20. p ends at second 25, but its labels
/// remain on the series.
fn ended(departed: bool) -> Scene {
    let held =
        |uuid: &str, pod: &str| format!("UUID={uuid} job=d instance=i namespace=n pod={pod}");
    let scene = Scene::new(policy(60))
        .cluster(&[("n/p", None), ("n/q", None)])
        .mcu(&held("A", "p"), "80 80 80 80 80")
        .mcu(&held("B", "q"), "20 20 20 20 20");
    scene.with(|inventory| {
        let pod = &mut inventory.pods[0];
        (pod.phase, pod.ended) = (PodPhase::Finished, Some(at(25.0)));
        if departed {
            inventory.departed.push(inventory.pods.remove(0));
        }
    })
}

#[test]
fn readings_from_after_a_pods_end_count_for_no_pod() {
    for departed in [false, true] {
        let answers = ended(departed).answers();
        assert_eq!(answers.flagship("pods n/p"), None);
        // At second 15 both pods hold a GPU, at 30, 45 and 60 one of them.
        for group in ["namespaces n", "deployments.apps n/d"] {
            close(answers.of(group, SUM), (100.0 + 3.0 * 20.0) / 4.0);
            close(answers.of(group, HELD), 1.25);
        }
        // The device continues, unheld.
        close(answers.of("nodes node-1", SUM), 100.0);
        close(answers.of("nodes node-1", HELD), 1.25);
        close(
            answers.external("n", "cluster_gpu_memory_utilization_sum"),
            100.0,
        );
        close(answers.external("n", "cluster_gpu_held_count"), 1.25);
    }
}

/// The next pod holds the GPU, and the exporter still names the previous pod now and
/// then.
#[test]
fn the_name_of_an_ended_pod_hides_no_readings_of_the_next_pod() {
    let held = |pod: &str| format!("UUID=A job=d instance=i namespace=n pod={pod}");
    let scene = Scene::new(policy(60))
        .cluster(&[("n/p", None), ("n/q", None)])
        .mcu(&held("p"), "80 · · 20 ·")
        .mcu(&held("q"), "· 20 20 · 20");
    let scene = scene.with(|inventory| {
        let pod = &mut inventory.pods[0];
        (pod.phase, pod.ended) = (PodPhase::Finished, Some(at(15.0)));
    });
    let answers = { scene }.answers();
    close(answers.of("namespaces n", SUM), 20.0);
    close(answers.of("namespaces n", HELD), 1.0);
}

/// A StatefulSet's pod had GPU A on node-2 until second 45 and has GPU B on node-1 since.
#[test]
fn a_pod_that_moved_to_another_node_has_only_the_gpus_of_its_own_node() {
    let held = |uuid: &str, node: &str| {
        format!("UUID={uuid} job=d instance={node} Hostname={node} namespace=n pod=p")
    };
    let scene = Scene::new(policy(60))
        .cluster(&[("n/p", Some(50.0))])
        .mcu(&held("A", "node-2"), "80 80 80")
        .mcu(&held("B", "node-1"), "· · · · 20 20 20");
    let scene = scene.with(|inventory| {
        inventory.nodes.push(node("node-2"));
        let mut before = inventory.pods[0].clone();
        (before.node, before.started) = (Some("node-2".into()), Some(at(0.0)));
        inventory.departed.push(before);
    });
    let answers = { scene }.answers();
    close(answers.flagship("pods n/p"), 20.0);
    // At 60 A has its last reading, at 75 both, at 90 and 105 B alone.
    let sum = (80.0 + 100.0 + 20.0 + 20.0) / 4.0;
    close(answers.of("namespaces n", SUM), sum);
    close(answers.of("deployments.apps n/d", SUM), sum);
}

/// Eight pods, and a GPU whose series name a pod that is not known.
fn with_a_stranger(listed: Option<f64>) -> Scene {
    let values = [40, 42, 44, 46, 48, 50, 52, 53];
    let mut scene = Scene::new(policy(60)).pods((0..8).map(|pod| format!("n/p{pod}")));
    for (place, value) in values.into_iter().enumerate() {
        let labels = format!("UUID=G{place} job=d instance=i namespace=n pod=p{place}");
        scene = scene.mcu(&labels, &format!("{value} ").repeat(5));
    }
    let stranger = "UUID=X job=d instance=i namespace=n pod=d-6d4cf56db6-aaaaa";
    let scene = scene.mcu(stranger, "99 99 99 99 99");
    scene.with(|inventory| inventory.listed = listed.map(at))
}

#[test]
fn a_pod_that_never_existed_does_not_count() {
    let (without, with) = (46.875, 474.0 / 9.0);
    for (listed, value) in [
        (None, with),
        (Some(-25.0), without),
        (Some(42.0), (with + without) / 2.0),
        (Some(66.0), with),
    ] {
        let answers = with_a_stranger(listed).answers();
        for group in ["namespaces n", "deployments.apps n/d"] {
            close(answers.flagship(group), value);
        }
        assert_eq!(answers.flagship("pods n/d-6d4cf56db6-aaaaa"), None);
    }
}

/// Twelve pods with a GPU at 59 each, behind three exporters; the last one has named
/// no pods since the third scrape.
fn without_labels(scrapes: usize) -> Scene {
    let mut scene = Scene::new(policy(60)).pods((0..12).map(|pod| format!("n/p{pod:02}")));
    for gpu in 0..12 {
        let exporter = gpu / 4 + 1;
        let device = format!("UUID=G{gpu:02} job=d instance=i{exporter} Hostname=node-{exporter}");
        let held = format!("{device} exported_namespace=n exported_pod=p{gpu:02}");
        if exporter < 3 {
            scene = scene.mcu(&held, &"59 ".repeat(scrapes));
        } else {
            scene = scene.mcu(&held, "59 59 59");
            let values = format!("· · · {}", "59 ".repeat(scrapes - 3));
            scene = scene.mcu(&device, &values);
        }
    }
    scene.with(|inventory| {
        inventory.nodes.extend([node("node-2"), node("node-3")]);
        for (place, pod) in inventory.pods.iter_mut().enumerate() {
            pod.node = Some(format!("node-{}", place / 4 + 1).into());
        }
    })
}

#[test]
fn a_device_that_lost_its_labels_is_missing_and_not_lost() {
    for scrapes in [5, 8, 13, 20] {
        let mut scene = without_labels(scrapes);
        let answers = scene.answers();
        let sum = answers.of("namespaces n", SUM);
        assert!(sum.is_none_or(|sum| (sum - 708.0).abs() < 1e-9), "{sum:?}");
        close(answers.of("namespaces n", HELD), 12.0);
        assert!(scene.snapshot().lost().is_empty());
    }
    let snapshot = without_labels(13).snapshot();
    let without = snapshot.without_labels().into_iter();
    let instances = without.map(|facts| {
        facts
            .row
            .label_facts
            .labels
            .get("instance")
            .unwrap()
            .to_owned()
    });
    assert_eq!(instances.collect::<Vec<_>>(), ["i3"; 4]);
}

#[test]
fn a_free_device_and_lines_of_processes_count_as_without_lost_labels() {
    let device = "UUID=A gpu=0 job=d instance=i Hostname=node-1";
    let process = format!("{device} namespace=n pod=p pod_uid=u vgpu=0");
    let mut scene = Scene::new(policy(60))
        .cluster(&[("n/p", None)])
        .signal(SignalId::GPU_UTIL, device, &"59 ".repeat(13))
        .signal(SignalId::GPU_UTIL, &process, "59 59 59");
    assert!(scene.snapshot().without_labels().is_empty());
}

#[test]
fn the_model_of_a_device_is_that_of_its_newest_series() {
    let labels = |model: &str| {
        format!("UUID=A job=d instance=i modelName={model} exported_namespace=n exported_pod=p")
    };
    let mut scene = Scene::new(policy(60))
        .cluster(&[("n/p", None)])
        .mcu(&labels("A100"), "40 40 40 40")
        .mcu(&labels("NVIDIA-A100"), "· · · · 40");
    let answers = scene.answers();
    close(answers.flagship("pods n/p"), 40.0);
    let rows = &answers.group("pods n/p").unwrap().members;
    let layout = answers.snapshot.layout();
    let facts = rows.iter().filter_map(|row| layout.fact(*row));
    let models = facts.filter_map(|facts| facts.row.label_facts.labels.get("modelName"));
    assert_eq!(models.collect::<Vec<_>>(), ["NVIDIA-A100"]);
}

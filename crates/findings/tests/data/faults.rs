//! Each finding in data with its fault, and none in correct data.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::polled::{Line, detected, line, pod, poll, with_cluster};
use super::scene::{Scene, at, policy};
use apimachinery::labels::Labels;
use findings::Finding;
use findings::source::{self, PolledSource};
use gpu_metrics::inventory::{ClusterObject, Inventory};
use gpu_metrics::policy::{Policy, Shared};
use gpu_metrics::signal::SignalId;
use gpu_metrics::snapshot::Snapshot;

const MEMORY: SignalId = SignalId::MEM_COPY_UTIL;
const DRAM: SignalId = SignalId::DRAM_ACTIVE;
const POWER: SignalId = SignalId::POWER_USAGE;

const SCRAPES: usize = 13;

fn found_in(scene: &Scene, snapshot: &Snapshot) -> Vec<Finding> {
    let store = scene.pipeline.store();
    let failing = &BTreeSet::new();
    let seen = PolledSource {
        snapshot,
        store,
        failing,
        down: &BTreeSet::new(),
    };
    source::check(seen, None).findings
}

fn found(mut scene: Scene) -> Vec<Finding> {
    let snapshot = scene.snapshot();
    found_in(&scene, &snapshot)
}

fn codes(found: &[Finding]) -> Vec<&'static str> {
    found.iter().map(|it| it.code).collect()
}

/// The only finding of a code.
fn message<'f>(found: &'f [Finding], code: &str) -> &'f str {
    let mut of_code = found.iter().filter(|it| it.code == code);
    let first = of_code
        .next()
        .unwrap_or_else(|| panic!("no {code}: {found:?}"));
    assert_eq!(of_code.next(), None);
    &first.message
}

fn labels(gpu: char) -> String {
    format!("UUID={gpu} job=dcgm instance=i{gpu} Hostname=node-1 namespace=n pod=p{gpu}")
}

/// The GPUs A and B, each held by a pod on node-1.
fn scene(policy: Policy) -> Scene {
    Scene::new(policy).cluster(&[("n/pA", None), ("n/pB", None)])
}

fn busy(scene: Scene) -> Scene {
    let values = "40 41 ".repeat(SCRAPES);
    scene.mcu(&labels('A'), &values).mcu(&labels('B'), &values)
}

/// The scene with a changed inventory.
fn with(mut scene: Scene, change: impl FnOnce(&mut Inventory)) -> Scene {
    let mut inventory = Inventory::clone(&scene.inventory);
    change(&mut inventory);
    scene.inventory = Arc::new(inventory);
    scene
}

fn running(inventory: &mut Inventory) {
    for pod in &mut inventory.pods {
        pod.running_since = Some(at(0.0));
    }
}

#[test]
fn correct_data_has_no_finding() {
    let well = with(busy(scene(policy(60))), running);
    assert_eq!(found(well), []);
}

/// Power, and before it `had` readings of the memory utilisation.
fn power_alone(labels: &str, had: usize) -> Scene {
    let mut scene = scene(policy(60)).signal(POWER, labels, &"300 301 ".repeat(SCRAPES));
    scene = scene.mcu(labels, &"40 ".repeat(had));
    scene.feed(DRAM, labels, &[]);
    scene
}

#[test]
fn gm401_distinguishes_a_field_never_reported_from_a_lost_one_and_from_mig() {
    let never = found(power_alone(&labels('A'), 0));
    assert_eq!(codes(&never), ["GM401"]);
    let said = message(&never, "GM401");
    let none = "GPUs without memory utilisation: 1 of 1; ";
    assert!(said.starts_with(none), "{said}");
    let gone = found(power_alone(&labels('A'), 4));
    let said = message(&gone, "GM401");
    let since = "utilisation since 2023-11-14T22:15:50Z: ";
    assert!(said.contains(since), "{said}");
    let mig = found(power_alone(
        &format!("{} GPU_I_ID=1 GPU_I_PROFILE=1g.10gb", labels('A')),
        0,
    ));
    assert!(mig[0].remedy.contains("MIG"), "{mig:?}");
    // A signal may exist if its query was never answered.
    let unknown = scene(policy(60)).signal(POWER, &labels('A'), &"300 301 ".repeat(SCRAPES));
    assert_eq!(found(unknown), []);
    let mut profiling = scene(policy(60)).signal(DRAM, &labels('A'), &"0.3 0.4 ".repeat(SCRAPES));
    profiling.feed(MEMORY, &labels('A'), &[]);
    assert_eq!(found(profiling), []);
}

#[test]
fn gm301_about_one_field_replaces_gm401_about_it() {
    let mut scene = power_alone(&labels('A'), 4);
    let snapshot = scene.snapshot();
    let seen = PolledSource {
        snapshot: &snapshot,
        store: scene.pipeline.store(),
        failing: &BTreeSet::from([MEMORY]),
        down: &BTreeSet::new(),
    };
    let how = ("server_error", "see the log");
    let trouble = source::unanswered("Prometheus", ["memory_copy_utilization"], at(0.0), how);
    let report = source::check(seen, Some(trouble));
    assert_eq!(codes(&report.findings), ["GM301"]);
    assert!(report.skipped.is_empty());
    let said = message(&report.findings, "GM301");
    assert!(
        said.starts_with("queries for memory_copy_utilization have failed since ")
            && said.ends_with(" (server_error); others are answered"),
        "{said}"
    );
}

#[test]
fn gm402_is_about_running_pods_that_no_series_names() {
    let unnamed = |running_since: Option<f64>| {
        let values = "40 41 ".repeat(SCRAPES);
        let scene = scene(policy(60)).mcu("UUID=A job=dcgm instance=i Hostname=node-1", &values);
        with(scene, |inventory| {
            for pod in &mut inventory.pods {
                pod.running_since = running_since.map(at);
            }
        })
    };
    let all = found(unnamed(Some(0.0)));
    assert_eq!(codes(&all), ["GM402", "GM411"]);
    let said = message(&all, "GM402");
    let is_none = said.starts_with("none of 1 GPUs is") && said.ends_with("values: 2");
    assert!(is_none, "{said}");
    assert_eq!(found(unnamed(None)), []);
    // One of two nodes.
    let other = unnamed(Some(0.0)).mcu(
        "UUID=C job=dcgm instance=j Hostname=node-2 namespace=n pod=pC",
        &"40 41 ".repeat(SCRAPES),
    );
    let some = found(with(other, |inventory| {
        let mut pod = inventory.pods[0].clone();
        (pod.name, pod.node) = ("pC".into(), Some("node-2".into()));
        inventory.pods.push(pod);
        let node = ClusterObject {
            name: "node-2".into(),
            labels: Labels::default(),
            created: None,
        };
        inventory.nodes.push(node);
    }));
    let said = message(&some, "GM402");
    assert!(said.starts_with("no GPU of node-1 is"), "{said}");
}

#[test]
fn owners_in_exported_pod_are_no_fault() {
    let labels = "UUID=A job=dcgm instance=i exported_namespace=n exported_pod=pA";
    let exported = scene(policy(60)).mcu(labels, &"40 41 ".repeat(SCRAPES));
    assert_eq!(found(exported), []);
}

#[test]
fn gm405_depends_on_the_scrape_interval() {
    let scraped_every = |secs: u64| {
        codes(&found(busy(scene(Policy {
            scrape_interval: Some(Duration::from_secs(secs)),
            ..policy(60)
        }))))
    };
    assert_eq!(scraped_every(60), ["GM405"]);
    assert_eq!(scraped_every(30), [""; 0]);
}

#[test]
fn gm406_is_about_whole_values_of_shared_gpus() {
    let shared = |shared| {
        let other = "UUID=A job=dcgm instance=iA Hostname=node-1 namespace=n pod=pB";
        let policy = Policy {
            shared,
            ..policy(60)
        };
        codes(&found(
            busy(scene(policy)).mcu(other, &"40 41 ".repeat(SCRAPES)),
        ))
    };
    assert_eq!(shared(Shared::DeviceValue), ["GM406"]);
    assert_eq!(shared(Shared::Split), [""; 0]);
}

#[test]
fn gm407_names_the_jobs() {
    let again = labels('A').replace("job=dcgm", "job=annotated");
    let found = found(busy(scene(policy(60))).mcu(&again, &"40 41 ".repeat(SCRAPES)));
    assert_eq!(codes(&found), ["GM407"]);
    assert_eq!(found[0].object, "Jobs annotated, dcgm");
}

#[test]
fn gm408_and_gm411_name_silent_exporters_and_the_sums_without_a_value() {
    let silent = scene(policy(60)).mcu(&labels('A'), &"40 41 ".repeat(SCRAPES));
    let found = found(silent.mcu(&labels('B'), "40 41 40 41 40"));
    assert_eq!(codes(&found), ["GM408", "GM411"]);
    let said = message(&found, "GM408");
    assert!(said.contains("(iB)"), "{said}");
    let said = message(&found, "GM411");
    let of_all = said.contains("1 deployments.apps") && said.contains("the cluster");
    assert!(of_all, "{said}");
    let names_pod = found.iter().any(|it| it.message.contains("pB"));
    assert!(!names_pod, "{found:?}");
}

#[test]
fn gm409_is_about_power_that_no_longer_changes() {
    let frozen = scene(policy(60)).mcu(&labels('A'), &"80 ".repeat(45));
    let power = format!("300 301 {}", "300 ".repeat(43));
    let found = found(frozen.signal(POWER, &labels('A'), &power));
    assert!(message(&found, "GM409").contains("(iA)"), "{found:?}");
}

#[test]
fn gm410_names_the_missing_gpu() {
    let of = |gpu| labels(gpu).replace(&format!("instance=i{gpu}"), "instance=i");
    let lost = scene(policy(60)).mcu(&of('A'), "40 41 40 41 40");
    let found = found(lost.mcu(&of('B'), &"40 41 ".repeat(SCRAPES)));
    assert_eq!(codes(&found), ["GM410"]);
    assert!(found[0].message.contains("not reported A for"), "{found:?}");
}

#[test]
fn gm412_names_nodes_of_gpu_pods_without_an_exporter() {
    let without = with(busy(scene(policy(60))), |inventory| {
        running(inventory);
        inventory.exporter_nodes = vec!["node-2".into()];
    });
    assert!(message(&found(without), "GM412").contains("node-1"));
}

#[test]
fn gm304_names_the_clusters() {
    let values = "40 41 ".repeat(SCRAPES);
    let ours = scene(policy(60)).mcu(&format!("{} cluster=one", labels('A')), &values);
    let theirs = "UUID=X job=dcgm instance=x Hostname=far namespace=n pod=pX cluster=two";
    let found = found(ours.mcu(theirs, &values));
    let said = message(&found, "GM304");
    assert!(said.contains("cluster=one, cluster=two"), "{said}");
}

#[test]
fn gm304_names_the_nodes_of_another_cluster_without_a_label() {
    let other = |uuid: &str, pod: &str| {
        format!("UUID={uuid} job=dcgm instance=b Hostname=other-1 namespace=n {pod}")
    };
    let values = "40 41 ".repeat(SCRAPES);
    let ours = with(scene(policy(60)), |inventory| inventory.pods[0].gpus = 2);
    let found = found(
        ours.mcu(&labels('A'), &values)
            .mcu(&other("C", "pod=pA"), &values)
            .mcu(&other("D", "pod=q"), &values),
    );
    let said = message(&found, "GM304");
    assert!(said.contains(": other-1 are not nodes"), "{said}");
}

#[test]
fn gm410_names_the_node_whose_exporter_has_lost_the_pod_labels() {
    let device = "UUID=B job=dcgm instance=iB Hostname=node-1";
    let held = format!("{device} exported_namespace=n exported_pod=pB");
    let of_a = "UUID=A job=dcgm instance=iA Hostname=node-1 exported_namespace=n exported_pod=pA";
    let unnamed = format!("· · · {}", "59 60 ".repeat(SCRAPES - 2));
    let found = found(
        scene(policy(60))
            .mcu(of_a, &"59 60 ".repeat(SCRAPES))
            .mcu(&held, "59 60 59")
            .mcu(device, &unnamed),
    );
    let said = message(&found, "GM410");
    assert!(said.starts_with("exporters on node-1 report"), "{said}");
}

/// Polls every five seconds. `late` has the seconds after which the samples of each line
/// become visible.
fn polled(late: &[f64]) -> (Scene, Snapshot) {
    let lines = |now: f64| -> Vec<Line> {
        let line = |(gpu, late): (usize, &f64)| {
            line(
                &pod(gpu, "dcgm"),
                40.0,
                (15.0, gpu as f64),
                (0.0, now - late),
            )
        };
        late.iter().enumerate().map(line).collect()
    };
    let mut scene = with_cluster(detected(None), &lines(100.0));
    let mut snapshot = None;
    for round in 0..60 {
        let now = 60.0 + f64::from(round) * 5.0;
        snapshot = Some(poll(&mut scene, &lines(now), now));
    }
    (scene, snapshot.unwrap())
}

#[test]
fn gm302_is_about_a_store_that_is_late_and_gm303_about_one_target() {
    let (scene, snapshot) = polled(&[0.0; 6]);
    assert_eq!(found_in(&scene, &snapshot), []);
    let (scene, snapshot) = polled(&[45.0; 6]);
    let found = found_in(&scene, &snapshot);
    assert_eq!(codes(&found), ["GM302"]);
    let (scene, snapshot) = polled(&[0.0, 0.0, 0.0, 0.0, 0.0, 45.0]);
    let found = found_in(&scene, &snapshot);
    let said = message(&found, "GM303");
    assert!(said.contains("dcgm5") && said.contains("behind"), "{said}");
}

#[test]
fn gm303_is_about_the_clock_of_prometheus_too() {
    let mut scene = busy(scene(policy(60)));
    for (skew_ms, way) in [(4_000, "4s ahead of"), (-65_000, "1m5s behind")] {
        let snapshot = scene.snapshot().with_skew(skew_ms);
        let found = found_in(&scene, &snapshot);
        assert!(message(&found, "GM303").contains(way), "{found:?}");
    }
}

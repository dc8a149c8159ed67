//! Which devices are missing when exporters fall silent, and what is reported.

use std::sync::Arc;
use std::time::Duration;

use super::answers::{Answers, close};
use super::cases::check;
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

const CASES: &str = "
# a missing GPU counts as active by its last reading
window 60; pods 0..10 p#
G0 p0 job=dcgm instance=i0: 40*5
1..10 G# p# job=dcgm instance=i#: 40*13
= deployment active_count 9; deployment idle_count 0

# a missing GPU does not count as idle, and may be the only active one
window 60; pods 0..10 p#
G0 p0 job=dcgm instance=i0: 40*5
1..10 G# p# job=dcgm instance=i#: 0*13
= deployment active_count -; deployment idle_count 9

# a mean may change by two points
// With the silent GPU it is 6.
window 60; pods p0 p1
G0 p0 job=dcgm instance=i0: 4*13
G1 p1 job=dcgm instance=i1: 8*5
= deployment 4

# a mean may not change by more than two points
// With the silent GPU it is 6.5.
window 60; pods p0 p1
G0 p0 job=dcgm instance=i0: 4*13
G1 p1 job=dcgm instance=i1: 9*5
= deployment -

# a device that its target leaves out is lost after a window
window 60; pods p
G0 p job=dcgm instance=i: 40*5
1..4 G# p job=dcgm instance=i: 40*13
= p sum 120

# a device that its target leaves out is missing before
window 60; pods p
G0 p job=dcgm instance=i: 40*5
1..4 G# p job=dcgm instance=i: 40*9
at 121 = p sum -

# a field whose query fails makes no device lost
// The exporter of node-1 is silent from 65 to 200, and from 185 on the query of utilisation
// fails.
window 60; pods 0..4 p#; nodes node-2; node p2 node-2; node p3 node-2
0..2 G# job=dcgm instance=i1 Hostname=node-1 exported_namespace=n exported_pod=p#: 40*5
2..4 G# job=dcgm instance=i2 Hostname=node-2 exported_namespace=n exported_pod=p#: 40*13
used 0..2 G# job=dcgm instance=i1 Hostname=node-1 exported_namespace=n exported_pod=p#: 1*5 ·*8 1 1
used 2..4 G# job=dcgm instance=i2 Hostname=node-2 exported_namespace=n exported_pod=p#: 1*15
= namespace memory_used 4; namespace sum -

# a device that never had the field is lost beside others that have it
// None has a profiling field.
window 60; pods p
watts 0..8 G# job=dcgm instance=i Hostname=node-1 exported_namespace=n exported_pod=p: 300*15
1..8 G# job=dcgm instance=i Hostname=node-1 exported_namespace=n exported_pod=p: 40*15
= namespace sum 280

# a shared GPU is lost only if it is lost for each of its pods
// An exporter that reports one pod for each GPU names the sharing pods in turn.
window 60; pods pA pB pC
A pA job=dcgm instance=i: 40*5
A pB job=dcgm instance=i: ·*5 30*4 ·*8 30 30
C pC job=dcgm instance=i: 20*19
= deployment sum 50; deployment held_count 2

# a device that returns was missing before
// Without a cluster its samples before and afterwards show that its pod was there.
window 120
G0 p0 job=dcgm instance=i0: 40*12
G1 p1 job=dcgm instance=i1: 40*4 ·*6 40 40
= namespace sum 80
pods p0 p1 = deployment sum 80
";

#[test]
fn each_case_has_its_value() {
    check(CASES);
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

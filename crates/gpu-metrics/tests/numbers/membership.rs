//! Readings of deleted pods, of processes that share a device, and of other clusters.

use super::cases::check;
use super::scene::{Scene, policy, sample};
use gpu_metrics::signal::SignalId;

const CASES: &str = "
# a workload that was scaled down keeps its past, and a new one of its name has none of it
// Ten pods at 30, 45 and 60, eight at 75.
window 60; pods 0..10 d-6d4cf56db6-aaaa#
0..8 G# job=dcgm instance=i exported_namespace=n exported_pod=d-6d4cf56db6-aaaa#: 40*6
8..10 G# job=dcgm instance=i exported_namespace=n exported_pod=d-6d4cf56db6-aaaa#: 40*5
8..10 G# job=dcgm instance=i: ·*5 0
departed d-6d4cf56db6-aaaa8; departed d-6d4cf56db6-aaaa9 = deployment sum 380; namespace sum 380; \
    deployment held_count 9.5; d-6d4cf56db6-aaaa9 -
unknown d-6d4cf56db6-aaaa8; unknown d-6d4cf56db6-aaaa9 = deployment sum 380; namespace sum 380; \
    deployment held_count 9.5; d-6d4cf56db6-aaaa9 -
departed d-6d4cf56db6-aaaa8; departed d-6d4cf56db6-aaaa9; created 55 = deployment sum 360; namespace sum 360
departed d-6d4cf56db6-aaaa8; departed d-6d4cf56db6-aaaa9; namespaces none = namespace sum -

# a row of another cluster is not attributed to a pod of the same name
window 60; pods p
A p job=d instance=A cluster=east Hostname=node-1: 40*3
B p job=d instance=B cluster=west Hostname=elsewhere: 90*3
C q job=d instance=C cluster=west Hostname=elsewhere: 90*3
= clusters cluster=east cluster=west; p 40; cluster 40
";

#[test]
fn each_case_has_its_value() {
    check(CASES);
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
        let sample = sample(15.0 * f64::from(scrape) + 5.0, 40.0);
        for signal in [SignalId::GPU_UTIL, SignalId::MEM_COPY_UTIL] {
            scene.feed(signal, labels, &[sample]);
        }
        let answers = scene.answers();
        let held = answers.of("nodes node-1", "gpu_held_count");
        assert!(scrape < 3 || held == Some(1.0), "{held:?} at {scrape}");
    }
}

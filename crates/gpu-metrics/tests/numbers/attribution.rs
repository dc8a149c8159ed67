//! Attribution of devices with misleading labels: docs/attribution.md.

use super::answers::close;
use super::cases::check;
use super::scene::{Scene, object as node, policy};
use apimachinery::labels::Labels;

const SUM: &str = "gpu_memory_utilization_sum";
const HELD: &str = "gpu_held_count";

const CASES: &str = "
# a bare pod that requests no GPU holds one only by evidence
window 60; pods p q; gpus p 0
A p job=d instance=10.0.0.1:9400: 40*3
= p -
gpus p 1 = p 40
exporter e 10.0.0.1 = p 40
exporter e 10.0.0.2 = p -
exporter p 10.0.0.1 = p -

# the address of an exporter can be one of IPv6
window 60; pods p q; gpus p 0
A p job=d instance=[fd00::2]:9400: 40*3
exporter e fd00::2 = p 40

# the address of a node can be one of IPv6
window 60; pods p; address fd00::1 node-1
A job=d instance=[fd00::1]:9400: 40*3
B p job=d instance=i Hostname=node-1: 20*3
= node sum 60

# a bare pod that requests no GPU holds one by labels of holders
window 60; pods p q; gpus p 0
A p job=d instance=10.0.0.1:9400 vgpu=0: 40*3
= p 40

# of several bare pods on a target all but exporters hold their GPUs
window 60; pods p q; gpus p 0
A p job=d: 40*3
B q job=d: 40*3
= p 40
daemon p = p -
exporter p - = p -

# readings from after a pod's end count for no pod
// At second 15 both pods hold a GPU, at 30, 45 and 60 one of them. The device stays, unheld.
window 60; pods p q; ended p 25
A p job=d instance=i: 80*5
B q job=d instance=i: 20*5
= p -; namespace sum 40; deployment sum 40; namespace held_count 5/4; deployment held_count 5/4
= node sum 100; node held_count 5/4; cluster sum 100; cluster held_count 5/4
departed p = p -; namespace sum 40; deployment sum 40; namespace held_count 5/4
departed p = deployment held_count 5/4; node sum 100; node held_count 5/4
departed p = cluster sum 100; cluster held_count 5/4

# the name of an ended pod hides no readings of the next pod
// The exporter still names the previous pod now and then.
window 60; pods p q; ended p 15
A p job=d instance=i: 80 · · 20 ·
A q job=d instance=i: · 20 20 · 20
= namespace sum 20; namespace held_count 1

# a recreated pod does not hold the GPU of its predecessor
// The pod of a StatefulSet gets another GPU of its node. The exporter names pods as it read
// them up to half a minute ago: for one scrape the new pod is named at the old GPU.
window 60; pods p@30
A job=d instance=i Hostname=node-1 exported_namespace=n exported_pod=p: 80*3
A job=d instance=i Hostname=node-1: ·*3 0*27
B job=d instance=i Hostname=node-1: 0*3
B job=d instance=i Hostname=node-1 exported_namespace=n exported_pod=p: ·*3 40*27
= p held_count 1; namespace held_count 1; node held_count 1; cluster held_count 1; p sum 40

# a pod that never existed does not count once all pods were listed
window 60; pods 0..8 p#
G0 p0 job=d instance=i: 40*5
G1 p1 job=d instance=i: 42*5
G2 p2 job=d instance=i: 44*5
G3 p3 job=d instance=i: 46*5
G4 p4 job=d instance=i: 48*5
G5 p5 job=d instance=i: 50*5
G6 p6 job=d instance=i: 52*5
G7 p7 job=d instance=i: 53*5
X d-6d4cf56db6-aaaaa job=d instance=i: 99*5
= namespace 474/9; deployment 474/9; d-6d4cf56db6-aaaaa -
listed -25 = namespace 375/8; deployment 375/8; d-6d4cf56db6-aaaaa -
listed 42 = namespace 2389/48; deployment 2389/48; d-6d4cf56db6-aaaaa -
listed 66 = namespace 474/9; deployment 474/9; d-6d4cf56db6-aaaaa -

# a pod that lives on a reported node has no GPU on an unknown one
// The other node is of another cluster, with GPUs of a pod of the same name, of an unknown
// pod, and of no pod.
window 60; pods p
A p job=d instance=a Hostname=node-1: 40*3
B p job=d instance=b Hostname=other-1: 90*3
C q job=d instance=b Hostname=other-1: 90*3
D namespace=n job=d instance=b Hostname=other-1: 90*3
gpus p 2 = foreign other-1; p 40; p held_count 1; namespace sum 40; cluster 40
nodes none = foreign -

# a pod has no more GPUs of another job elsewhere than it requests, unless they are shared
window 60; pods p
A p job=d instance=a Hostname=node-1: 40*3
B p job=e instance=b Hostname=other-1: 90*3
C q job=e instance=b Hostname=other-1: 90*3
D namespace=n job=e instance=b Hostname=other-1: 90*3
= foreign other-1; p held_count 1; cluster 40
gpus p 2 = foreign -
label nvidia.com/gpu.sharing-strategy time-slicing = foreign -

# devices stay when an upgrade renames the node
window 60; pods p
A p job=d instance=a Hostname=node-1: 40*3
B job=d instance=a Hostname=node-1: 20*3
A p job=d instance=a Hostname=renamed: ·*3 40*2
B job=d instance=a Hostname=renamed: ·*3 20*2
= foreign -; cluster 30; p 40

# a pod that moved to another node has only the GPUs of its own node
// A StatefulSet's pod had GPU A on node-2 until 45 and has GPU B on node-1 since. At 60 A has
// its last reading, at 75 both, at 90 and 105 B alone.
window 60; pods p@50; nodes node-2; was p node-2 0
A p job=d instance=node-2 Hostname=node-2: 80*3
B p job=d instance=node-1 Hostname=node-1: ·*4 20*3
= p 20; namespace sum 220/4; deployment sum 220/4

# a free device and lines of processes have lost no labels
window 60; pods p
gpu A gpu=0 job=d instance=i Hostname=node-1: 59*13
gpu A p gpu=0 job=d instance=i Hostname=node-1 pod_uid=u vgpu=0: 59*3
= without_labels 0

# a recreated pod is not seen at the GPU of its predecessor
// The exporter does not report the GPU of the new pod, whose containers run or do not yet.
window 60; pods p@50 q
A job=d instance=i Hostname=node-1 exported_namespace=n exported_pod=p: 80*3
C job=d instance=i Hostname=node-1 exported_namespace=n exported_pod=q: 40*20
running 52 p = namespace sum -; namespace held_count 2
= namespace sum 40; node held_count 1; node idle_count 0; without_labels 0

# a recreated pod is not seen at the GPU of its predecessor while that is idle
window 60; pods p@50 q
A job=d instance=i Hostname=node-1 exported_namespace=n exported_pod=p: 80*3
A job=d instance=i Hostname=node-1: ·*3 0*17
C job=d instance=i Hostname=node-1 exported_namespace=n exported_pod=q: 40*20
running 52 p = namespace sum -; namespace held_count 2
= namespace sum 40; node held_count 1; node idle_count 0; without_labels 0
";

#[test]
fn each_case_has_its_value() {
    check(CASES);
}

/// The nodes recognised as those of other clusters.
fn foreign(scene: &mut Scene) -> Vec<String> {
    let snapshot = scene.snapshot();
    let nodes = snapshot.layout().foreign_nodes().iter();
    nodes.map(ToString::to_string).collect()
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

//! Cases of docs/numbers.md besides the small ones: the original's value, MIG, label
//! schemes, predicates, and the autoscaler's result.

use std::time::Duration;

use super::cases::check;
use super::scene::{Scene, at, policy};
use gpu_metrics::dcgm::metrics;
use gpu_metrics::policy::{DeviceValue, Measure, Over, Reducer};

const CASES: &str = "
# the original averages the non-zero readings of the whole cluster
// (0, 60]: 60 at 5 and 10, 80 from 15 to 25, 0 from 30 to 55, 60 at 60.
window 60
A p: 80 80 0 0 80
B: 40 0 0 0 40
C m/q: 0*5
= namespace original 420/12

# the original counts each GPU once
window 30
A prometheus_replica=a: 60*3
A prometheus_replica=b: 60*3
B prometheus_replica=a: 20*3
= namespace original 40

# one of three conditions is enough
any memory>0 gpu>0 engine>0.01
A p: 0 40 0 20
gpu A p: 90 95 0 30
B p: 0 0 0 60
gpu B p: 0*4
engine B p: 0.5 0.001 0 0.4
= p 20

# MIG instances use DRAM and shadow their parent
dram A GPU_I_ID=1 p1: 0.4 0.2 0 0.2
dram A p1: 0.9*4
A p1: 99*4
dram B p2: 0.5*4
B p2: 70*4
= p1 20; p2 70

# MIG weights keep small instances from outvoting a GPU
dram A GPU_I_ID=7 GPU_I_PROFILE=1g.10gb p: 0.2 0.2
B p: 60 60
mig equal = p 40
mig slices = p 440/8

# MIG weights change no sum
// Of a whole GPU and nine instances of three slices the last is silent: 20 of 200 may be
// missing.
pods p q
used B p instance=b: 20*13
used 0..8 A q GPU_I_ID=# GPU_I_PROFILE=3g.40gb instance=a#: 20*13
used A q GPU_I_ID=8 GPU_I_PROFILE=3g.40gb instance=a8: 20*5
mig equal = namespace memory_used 180
mig slices = namespace memory_used 180

# MIG weights do not make the missing share of a sum smaller
// 60 of 240 may not be missing.
pods p q; mig slices
used B p instance=b: 20*13
used 0..8 A q GPU_I_ID=# GPU_I_PROFILE=3g.40gb instance=a#: 20*13
used A q GPU_I_ID=8 GPU_I_PROFILE=3g.40gb instance=a8: 60*5
= namespace memory_used -

# four series have four schemes of docs/attribution.md
A exported_namespace=t exported_pod=w1 exported_container=c gpu-operator/exp-1 container=nvidia-dcgm-exporter: 30*4
B gpu-operator/exp-1 container=nvidia-dcgm-exporter: 0*4
C t/w2 container=vllm: 50*4
D exported_namespace=t monitoring/w3 container=vllm: 70*4
= t/w1 30; t/w2 50; t/w3 70; gpu-operator/exp-1 -; namespaces:gpu-operator -
= namespaces:t 50; namespaces:t held_count 3

# a free GPU is not the exporter's, by another series of the target that has a holder
// Under `honor_labels: true`: docs/exporter.md, After the scrape.
B monitoring/gpu-exp-9xk2f container=main instance=i:9400 job=j: 7*4
A exported_namespace=t exported_pod=w1 monitoring/gpu-exp-9xk2f container=main instance=i:9400 job=j: 30*4
= monitoring/gpu-exp-9xk2f -

# a free GPU is not the exporter's, which requests none
B monitoring/gpu-exp-9xk2f container=main instance=i:9400 job=j: 7*4
pods monitoring/gpu-exp-9xk2f; gpus monitoring/gpu-exp-9xk2f 0
= monitoring/gpu-exp-9xk2f -; namespaces:monitoring -; cluster 7; cluster held_count 0

# a reading from another node than its pod's counts for no object
pods p; nodes node-2
A exported_namespace=n exported_pod=p Hostname=node-2: 50*4
= p -; cluster -

# what an autoscaler sees of two busy pods and eight idle ones
// With a target of 50 the mean asks for 16 replicas and next for 26, the pods (their mean
// is 16) and the sum for 4: docs/concepts.md, What an autoscaler makes of it.
0..2 G# p#: 80*4
2..10 G# p#: 0*4
= namespace 80; p0 80; p1 80; p2 0; p9 0; namespace sum 160
= namespace active_count 2; namespace idle_count 8; namespace held_count 10

# omitted idle pods have no value
A busy: 80*4
B idle: 0*4
idle omit = busy 80; idle -

# framebuffer and power are sums, and the percent is a ratio of sums
used A p: 20000 20000
free A p: 60000 60000
watts A p: 300 300
used B p: 1000 1000
free B p: 19000 19000
watts B p: 70.5 70.5
reserved A p: 500 500
reserved B p: 500 500
= p memory_used 21000; p memory_used_percent 2100000/101000; p power_usage 370.5
// No utilisation was seen.
= p -; p held_count 2

# the utilisation of GPUs has an activity of its own
A p: 0*4
gpu A p: 90*4
engine M m GPU_I_ID=1: 0.25*4
= p utilization 90; p 0; m utilization 25

# hold keeps a flickering device in the mean
A p: 60 0 60 0
B p: 20*4
hold 0 = p 30
hold 15 = p 25

# a split share is the value of the device divided by its holders
shared split
A p1 vgpu=0: 60*4
A p2 vgpu=1: 60*4
= p1 30; namespace 60

# the share of a process is not split again
shared split; pods a b
gpu A job=d instance=i: 88 88
gpu A job=d instance=i a pod_uid=u-a vgpu=0: 61 61
gpu A job=d instance=i b pod_uid=u-b vgpu=0: 27 27
used A job=d instance=i: 9000 9000
used A job=d instance=i a pod_uid=u-a vgpu=0: 5000 5000
used A job=d instance=i b pod_uid=u-b vgpu=0: 3000 3000
free A job=d instance=i: 1000 1000
free A job=d instance=i a pod_uid=u-a vgpu=0: 1000 1000
free A job=d instance=i b pod_uid=u-b vgpu=0: 1000 1000
A job=d instance=i: 40 40
A job=d instance=i a pod_uid=u-a vgpu=0: 40 40
A job=d instance=i b pod_uid=u-b vgpu=0: 40 40
= a utilization 61; b memory_used 3000; b memory_used_percent 30; b 20
// Groups have the sum of the shares, and the cluster has the device.
shared whole = a utilization 61; deployment utilization 88; b memory_used 3000
shared whole = deployment memory_used 8000; cluster memory_used 9000; b memory_used_percent 30

# values that older exporters repeat for processes are not added up
// 4.4.0 to 4.5.2 with UIDs of pods (docs/exporter.md): no line for the device itself.
window 60; pods a b
gpu A job=d instance=i a pod_uid=u-a vgpu=0: 60*3
gpu A job=d instance=i b pod_uid=u-b vgpu=0: 60*3
used A job=d instance=i a pod_uid=u-a vgpu=0: 4000*3
used A job=d instance=i b pod_uid=u-b vgpu=0: 4000*3
free A job=d instance=i a pod_uid=u-a vgpu=0: 6000*3
free A job=d instance=i b pod_uid=u-b vgpu=0: 6000*3
= deployment utilization 60; deployment memory_used 4000; cluster memory_used_percent 40

# a job that sends ratios is served in percent
// A collector converts percentages: docs/exporter.md, After the scrape.
A p job=rhoai: 1 0.5 0.25 0.25
B q job=plain: 1*4
C r job=rhoai prometheus=shard-1: 1*4
= p 50; q 1; r 100

# with configured ratios a percent is no reading
window 60; ratios
A p gpu=0 job=dcgm instance=i: 46*6
B q gpu=1 job=dcgm instance=i: 0.1*6
= p -; namespace original 10

# a job in ratios does not change the readings of a job in percents
window 60
A p gpu=0 job=percent instance=i: 46*8
A p gpu=0 job=ratio instance=i: · · · · · 0 0 0.46
= p 46?

# values end fifteen seconds after the last instant with a reading
// The last sample is of 65 and its last instant 105, which until 120 is one of the last two
// in the window.
window 120
A p: 60*5
at 119.9 = p 60
at 120 = p -

# the power of a board counts once for all its instances
// It is repeated on each: docs/exporter.md, MIG.
watts 1..8 A p# GPU_I_ID=# GPU_I_PROFILE=1g.10gb: 340 340
watts A: 340 340
watts B q: 350 350
= namespace power_usage 690; p3 power_usage 340; cluster power_usage 690

# devices without percents are shown by profiling fields
window 60
dram A p job=dcgm instance=i: 0.4*4
engine A p job=dcgm instance=i: 0.5*4
= p 40; p utilization 50

# the field of a device is chosen at each instant
window 60
A p job=dcgm instance=i: 80*3
dram A p job=dcgm instance=i: 0.4*9
= p 40

# a line without a pod beside that of a process frees no device
window 60; pods p
A p Hostname=node-1 vgpu=0: SENT*4
gpu A Hostname=node-1: 60*4
gpu A p Hostname=node-1 vgpu=0: 60 60 20 0
= node held_count 1; cluster held_count 1

# an instance shadows its GPU before its pod was recreated
window 60; pods p@30
used A Hostname=node-1: 500*4
used A p Hostname=node-1 GPU_I_ID=1 GPU_I_PROFILE=1g.10gb: 100*4
= node memory_used 100; cluster memory_used 100

# a series declares no workload of another target an exporter
// The free GPU B of the target of the exporter is not held; C and E are held:
// docs/attribution.md, Pods.
window 60
A n/exp job=d instance=a exported_namespace=n exported_pod=p: 50 50
B exp job=d instance=a: 0 0
C exp job=d instance=c: 70 70
D q job=d instance=e exported_namespace=n exported_pod=r: 0 0
E q job=d instance=f: 30 30
= p 50; exp 70; q 30
";

#[test]
fn each_case_has_its_value() {
    check(CASES);
}

/// The original has no zeros before the first reading.
#[test]
fn a_value_has_the_time_of_its_newest_sample_and_the_length_of_its_window() {
    let value = |values, metric| {
        let mut scene = Scene::new(policy(90)).mcu("UUID=A namespace=n pod=p", values);
        scene.answers().ask("pods n/p", metric).unwrap()
    };
    let mean = value("· · · · 80 80", metrics::MEMORY_UTILIZATION);
    assert_eq!((mean.window_secs, mean.at), (30, at(80.0)));
    let original = value("40 40", "avg_GPU_utilization");
    assert_eq!((original.window_secs, original.value), (30, 40.0));
}

#[test]
fn a_window_over_held_devices_begins_when_one_is_held() {
    let free = "UUID=A Hostname=node-1";
    let mut scene = Scene::new(policy(90))
        .cluster(&[("n/p", None)])
        .mcu(free, "80 80 80 80")
        .mcu(
            &format!("{free} exported_namespace=n exported_pod=p"),
            "· · · · 80 80",
        );
    let answers = scene.answers();
    let node = answers.group("nodes node-1").unwrap();
    for (over, window_secs) in [(Over::Held, 30), (Over::All, 90)] {
        let (value, reducer) = (DeviceValue::MemoryUtilization, Reducer::Mean);
        let measure = Measure::Devices {
            value,
            reducer,
            over,
        };
        let values = answers.snapshot.evaluate(&[node], &measure, None, None);
        assert_eq!(values[0].unwrap().window_secs, window_secs, "{over:?}");
    }
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

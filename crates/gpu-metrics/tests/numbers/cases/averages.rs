//! MIG, label schemes, predicates, and what an autoscaler sees.

pub(super) const TABLE: &str = "
# the original averages the non-zero readings of the whole cluster
// (0, 60]: 60 at 5 and 10, 80 from 15 to 25, 0 from 30 to 55, 60 at 60.
window 60
A p: 80 80 0 0 80
B: 40 0 0 0 40
C m/q: 0*5
= namespace original 420/12

# MIG instances use DRAM and shadow their parent
dram A GPU_I_ID=1 p1: 0.4 0.2 0 0.2
dram A p1: 0.9*4
A p1: 99*4
dram B p2: 0.5*4
B p2: 70*4
= p1 20; p2 70

# four series have four schemes of labels
A exported_namespace=t exported_pod=w1 exported_container=c gpu-operator/nvidia-dcgm-exporter-1 container=nvidia-dcgm-exporter: 30*4
B gpu-operator/nvidia-dcgm-exporter-1 container=nvidia-dcgm-exporter: 0*4
C t/w2 container=vllm: 50*4
D exported_namespace=t monitoring/w3 container=vllm: 70*4
= t/w1 30; t/w2 50; t/w3 70; gpu-operator/nvidia-dcgm-exporter-1 -; namespaces:gpu-operator -
= namespaces:t 50; namespaces:t held_count 3

# what an autoscaler sees of two busy pods and eight idle ones
// With a target of 50 the mean asks for 16 replicas and next for 26, the pods (their mean
// is 16) and the sum for 4: docs/concepts.md, What an autoscaler makes of it.
0..2 G# p#: 80*4
2..10 G# p#: 0*4
= namespace 80; p0 80; p1 80; p2 0; p9 0; namespace sum 160
= namespace active_count 2; namespace idle_count 8; namespace held_count 10

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

# a process does not change the value of its GPU
pods a b
gpu A job=d instance=i: 88 88
gpu A job=d instance=i a pod_uid=u-a vgpu=0: 61 61
gpu A job=d instance=i b pod_uid=u-b vgpu=0: 27 27
= a utilization 88; deployment utilization 88; deployment held_count 1

# ratios are served in percent where this is configured, and otherwise not
// A collector converts percentages: `gpu_metrics::dcgm`, After the scrape.
A p job=rhoai: 1 0.5 0.25 0.25
ratios = p 50
= p -

# with configured ratios a percent is no reading
window 60; ratios
A p gpu=0 job=dcgm instance=i: 46*6
B q gpu=1 job=dcgm instance=i: 0.1*6
= p -; namespace original 10

# the power of a board counts once for all its instances
// It is repeated on each: `gpu_metrics::dcgm`, MIG.
watts 1..8 A p# GPU_I_ID=# GPU_I_PROFILE=1g.10gb: 340 340
watts A: 340 340
watts B q: 350 350
= namespace power_usage 690; p3 power_usage 340; cluster power_usage 690

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
";

//! Devices with misleading labels, of deleted pods and of other clusters: docs/numbers.md,
//! "Whose a device is".

pub(super) const TABLE: &str = "
# a bare pod that requests no GPU holds none
window 60; pods p q; gpus p 0
A p job=d instance=10.0.0.1:9400: 40*3
= p -
gpus p 1 = p 40

# the address of a node can be one of IPv6
window 60; pods p; address fd00::1 node-1
A job=d instance=[fd00::1]:9400: 40*3
B p job=d instance=i Hostname=node-1: 20*3
= node sum 60

# a bare pod that requests no GPU holds one by labels of holders
window 60; pods p q; gpus p 0
A p job=d instance=10.0.0.1:9400 vgpu=0: 40*3
= p 40

# readings from after a pod's end count for no pod
// The window begins after the end. The device stays, unheld.
window 60; pods p q; ended p 25
A p job=d instance=i: 80*5
B q job=d instance=i: 20*5
= p -; namespace sum 20; deployment sum 20; namespace held_count 1; deployment held_count 1
= node sum 100; node held_count 1; cluster sum 100; cluster held_count 1
departed p = p -; namespace sum 20; deployment sum 20; namespace held_count 1

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

# labels of a pod that requests a GPU cannot name another pod
// The exporter copies labels of pods into their series, as exported_pod too.
window 60; pods p q
A p job=d instance=i: 40*12
B job=d instance=i namespace=n pod=q exported_namespace=n exported_pod=p: 90*12
= p 40; p held_count 1; q -

# of several GPUs that name a pod it holds those on its own Node
window 60; pods p
A p job=d instance=i Hostname=node-1: 40*5
B p job=d instance=unknown: · 90*4
= p 40; p held_count 1

# of several GPUs on its Node a pod holds those that name it, not those that named it last
window 60; pods p
A p job=d instance=i: 40*12
B p job=d instance=i: · 90 90
= p 40; p held_count 1

# of several GPUs that name a pod it holds those that named it last
window 60; pods p
A p job=d instance=i: 40*9
B p job=d instance=i: ·*3 90*6
= p 90; p held_count 1

# requests are no limit for pods that series of one GPU name in turn
window 60; pods pA pB
A pA job=d instance=i: 40 · 40 · 40 · 40 ·
A pB job=d instance=i: · 40 · 40 · 40 · 40
B pA job=d instance=i: 20*8
= pA sum 60; pA held_count 2; namespace held_count 2

# a pod that is not known ended a scrape interval after its last sample
window 60; pods q
X x job=d instance=i: 99*3
Q q job=d instance=j: 20*5
at 70 = namespace sum 139/2

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
X job=d instance=i exported_namespace=n exported_pod=d-6d4cf56db6-aaaaa: 99*5
= namespace 474/9; deployment 474/9; d-6d4cf56db6-aaaaa -
listed -25 = namespace 375/8; deployment 375/8; d-6d4cf56db6-aaaaa -
listed 42 = namespace 4639/96; deployment 4639/96; d-6d4cf56db6-aaaaa -
listed 66 = namespace 1639/32; deployment 1639/32; d-6d4cf56db6-aaaaa -

# a pod that lives on a reported node has no GPU on an unknown one
// The other node is of another cluster, with GPUs of a pod of the same name, of an unknown
// pod, and of no pod.
window 60; pods p
A p job=d instance=a Hostname=node-1: 40*3
B p job=d instance=b Hostname=other-1: 90*3
C q job=d instance=b Hostname=other-1: 90*3
D namespace=n job=d instance=b Hostname=other-1: 90*3
gpus p 2 = foreign other-1; p 40; p held_count 1; namespace sum 40; cluster 40
nodes none = foreign other-1

# devices stay when an upgrade renames the node
window 60; pods p
A p job=d instance=a Hostname=node-1: 40*3
B job=d instance=a Hostname=node-1: 20*3
A p job=d instance=a Hostname=renamed: ·*3 40*2
B job=d instance=a Hostname=renamed: ·*3 20*2
= foreign -; cluster 30; p 40

# a pod that moved to another node has only the GPUs of its own node
// A StatefulSet's pod had GPU A on node-2 until 45 and has GPU B on node-1 since. The window
// begins later.
window 60; pods p@50; nodes node-2; was p node-2 0 45
A p job=d instance=node-2 Hostname=node-2: 80*3
B p job=d instance=node-1 Hostname=node-1: ·*4 20*3
= p 20; namespace sum 20; deployment sum 20

# a recreated pod is not seen at the GPU of its predecessor
// The exporter does not report the GPU of the new pod, whose containers run or do not yet.
window 60; pods p@50 q
A job=d instance=i Hostname=node-1 exported_namespace=n exported_pod=p: 80*3
C job=d instance=i Hostname=node-1 exported_namespace=n exported_pod=q: 40*20
running 52 p = namespace sum -; namespace held_count 2
= namespace sum 40; node held_count 1; node idle_count 0

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

# names of no Node are of another cluster only beside names of Nodes
window 60; pods p q; nodes node-2; node q node-2
A p job=d instance=p Hostname=same: 40*3
B q job=d instance=q Hostname=same: 20*3
= foreign -; p 40; q 20; nodes:node-2 sum 20; cluster 30

# a node has the devices reported under any of its names
window 60; pods p; label kubernetes.io/hostname gpu-host; address 10.0.0.7 node-1
A Hostname=node-1: 10*3
B Hostname=gpu-host: 20*3
C Hostname=10.0.0.7: 80*3
= node sum 110

# a recreated pod does not hold the GPU of the former claim
window 60; pods p@42; uncounted p; was p node-1 0 41
A job=d instance=i Hostname=node-1 p dra_claim_name=a: 80*4
A job=d instance=i Hostname=node-1: ·*4 0*16
B job=d instance=i Hostname=node-1 p dra_claim_name=b: ·*4 40*16
= p held_count 1; namespace held_count 1; cluster held_count 1; p sum 40

# a recreated pod does not hold the GPU of the former claim on another node
window 60; pods p@42; nodes node-2; uncounted p; was p node-2 0 41
A job=d instance=j Hostname=node-2 p dra_claim_name=a: 80*4
A job=d instance=j Hostname=node-2: ·*4 0*16
B job=d instance=i Hostname=node-1 p dra_claim_name=b: ·*4 40*16
= p held_count 1; namespace held_count 1; cluster held_count 1; p sum 40

# another cluster has a pod and a node of this one's names
window 60; pods p q
A p job=d instance=a Hostname=node-1 cluster=east: 40*3
B q job=d instance=b Hostname=node-1 cluster=west: 20*3
X x job=d instance=b Hostname=node-1 cluster=west: 90*3
Y y job=d instance=b Hostname=node-1 cluster=west: 90*3
= clusters cluster=east cluster=west; p 40; cluster 30; cluster held_count 2

# without a pod on its Node no cluster is foreign
window 60; pods p q
A p job=d instance=a cluster=east: 40*3
X x job=d instance=b cluster=west: 90*3
= clusters cluster=east cluster=west; p 40; cluster 65
";

//! Values computed by hand, a row for each rule.

pub(super) const TABLE: &str = "
# row A: two GPUs
A p: 80 80 0 0
B p: 40 0 0 0
= p 35

# row B: a GPU handed over counts for the pod that its labels name
window 80
A old: 90 90
A: · · 0
A new: · · · 10 10 10
pods new = new 10; old -; cluster 35
at 31 = old 90

# row C: an owner without a stale marker ends by age
window 121
A old: 90 90
A new: · · 10*11
= new 10; old -; cluster 10

# row D: a pod of the same name does not inherit the load
window 110; pods sts-0@70
A sts-0: 90*4
B sts-0: · · · · · 0 0 30
= sts-0 10

# row E: a gap is no zero
window 110
A p: 60 60 · · · 60 60 60
= p 60

# row E: a gap at the end ends the value
window 110
A p: 60 60
at 74 = p 60
at 75 = p -

# row E: a value is served for two instants
step 30; window 120
A p: 60 60
at 104 = p 60
at 105 = p -

# row F: sentinels and NaN are no samples
A p: 50 50 SENT 50
B p: 30 30 NaN 30
= p 40; cluster 40

# row G: a pod that just started is averaged since its start
window 90
A p: · · · · 80 80
= p 80

# row H: unlabelled history belongs to the device only
window 80
A: 0 0 0
A p: · · · 0 70 70
= p 140/3; cluster 140/6

# row I: a shared device counts once for each group
A p1 vgpu=0: 60*4
A p1 vgpu=3: 60*4
A p2 vgpu=1: 60*4
B p3 vgpu=0: 20*4
= p1 60; p2 60; p3 20; cluster 40; namespace 40; p1 held_count 1; namespace held_count 2

# row K: labels dropped for one scrape change nothing
A p: 50 50 · 50
A: · · 50
= p 50; cluster 50

# row M: reconfigured MIG instances end like pods
window 110
dram A GPU_I_ID=1 GPU_I_PROFILE=3g.40gb old: 0.9 0.9
dram A GPU_I_ID=1 GPU_I_PROFILE=1g.10gb new: · · · 0.2*5
= new 20; old -

# of equally new readings of two jobs the larger counts
A p job=a instance=i: 60*4
A p job=b instance=i: 40*4
= p 60; namespace 60

# of readings of two jobs the newest counts
A p job=a instance=i: 60*4
A p job=b instance=i +5: 40*4
= p 40; namespace 40; cluster 40

# of several names of a field the first one with a reading counts
__name__=DCGM_FI_DEV_MEM_COPY_UTIL UUID=A p job=a instance=i: 40*4
__name__=dcgm_mem_copy_utilization UUID=A p job=a instance=i +5: 90*4
= p 40; namespace 40

# a namespace is the mean over devices and not over pods
A p1: 80*4
B p2: 20*4
C p2: 20*4
D p3: 0*4
= namespace 40
pods p1 p2 p3; gpus p2 2 = deployment 40; node 40; p3 0
";

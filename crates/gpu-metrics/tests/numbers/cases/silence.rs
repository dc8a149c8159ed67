//! Devices that are missing, and signals that are.

pub(super) const TABLE: &str = "
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

# a mean may change by a tenth
// With the silent GPU it is 43.5.
window 60; pods p0 p1
G0 p0 job=dcgm instance=i0: 40*13
G1 p1 job=dcgm instance=i1: 47*5
= deployment 40

# a mean may not change by more than a tenth
// With the silent GPU it is 45.
window 60; pods p0 p1
G0 p0 job=dcgm instance=i0: 40*13
G1 p1 job=dcgm instance=i1: 50*5
= deployment -

# more than a tenth may not be missing by number
window 60; pods 0..8 p#
G0 p0 job=dcgm instance=i0: 0*5
1..8 G# p# job=dcgm instance=i#: 40*13
= deployment sum -Silent1/8; deployment held_count 8

# a device that its target leaves out is missing before
window 60; pods p; gpus p 4
G0 p job=dcgm instance=i: 40*5
1..4 G# p job=dcgm instance=i: 40*9
at 130 = p sum -

# a device that never had the field is missing
// None has a profiling field.
window 60; pods p; gpus p 8
watts 0..8 G# job=dcgm instance=i Hostname=node-1 exported_namespace=n exported_pod=p: 300*15
1..8 G# job=dcgm instance=i Hostname=node-1 exported_namespace=n exported_pod=p: 40*15
= namespace sum -; namespace 40

# a shared GPU answers for all its pods while its series name one
// An exporter that reports one pod for each GPU names the sharing pods in turn.
window 60; pods pA pB pC
A pA job=dcgm instance=i: 40*5
A pB job=dcgm instance=i: ·*5 30*4 ·*8 30 30
C pC job=dcgm instance=i: 20*19
= deployment sum 50; deployment held_count 2

# reserved memory that was never reported is none
window 60; pods p
used G0 p job=dcgm instance=i0: 400*7
free G0 p job=dcgm instance=i0: 400*7
= p memory_used_percent 50

# reserved memory without a reading does not count as zero
window 60; pods p
used G0 p job=dcgm instance=i0: 400*7
free G0 p job=dcgm instance=i0: 400*7
reserved G0 p job=dcgm instance=i0: 200*3
= p memory_used_percent 40?

# a tenth may be missing from a sum, and half from a mean
window 60; pods 0..10 p#
0..1 G# p# job=dcgm instance=i#: 40*5
1..2 G# p# job=dcgm instance=i#: 40*12
2..5 G# p# job=dcgm instance=i#: 40*16
5..6 G# p# job=dcgm instance=i#: 40*21
6..10 G# p# job=dcgm instance=i#: 40*26
at 181 = deployment sum 360; deployment held_count 10; p0 -Silent1/1
at 255 = deployment sum -Silent2/10; deployment 40
at 330 = deployment sum -Silent5/10; deployment 40
at 400 = deployment -Silent6/10; deployment held_count 10

# GPUs of running pods that were never seen are missing
window 60; pods 0..11 p#; gpus p10 2
0..10 G# p# job=dcgm instance=i#: 40*13
running 0 p10 = deployment sum -Unseen2/12; deployment held_count 12
running 110 p10 = deployment sum -Unseen2/12
running 150 p10 = deployment sum 400
// On a node without exporter, and where GPUs are shared.
running 0 p10; nodes node-2; node p10 node-2 = deployment held_count 12
running 0 p10; label nvidia.com/gpu.replicas 4 = deployment held_count 10
running 0 p10; nodes node-2; node p10 node-2; label nvidia.com/gpu.replicas 4 = deployment held_count -

# a GPU that was never read counts with the largest reading of its group
// 40 of 440 is less than a tenth, 90 of 540 more.
window 60; pods 0..11 p#; running 0 p10
0..9 G# p# job=dcgm instance=i#: 40*13
G9 p9 job=dcgm instance=i9: 40*13
= deployment sum 400

# a GPU that was never read counts with the largest reading, which may be too much
window 60; pods 0..11 p#; running 0 p10
0..9 G# p# job=dcgm instance=i#: 40*13
G9 p9 job=dcgm instance=i9: 90*13
= deployment sum -Unseen1/11

# devices without new samples are reported
window 60; pods p q
A p job=dcgm instance=a: 40*13
B q job=dcgm instance=b: 40*13
at 300 = deployment -Silent2/2

# a GPU that its exporter no longer reports is missing
window 60; pods p q
A p job=dcgm instance=i: 40*5
B q job=dcgm instance=i: 20*13
= p sum -Silent1/1; deployment sum -; deployment held_count 2

# a device that lost its labels is missing
window 60; pods 0..12 p#
0..8 G# job=d instance=i exported_namespace=n exported_pod=p#: 59*13
8..12 G# job=d instance=j exported_namespace=n exported_pod=p#: 59*3
8..12 G# job=d instance=j: ·*3 59*10
= namespace sum 708; namespace held_count 12
";

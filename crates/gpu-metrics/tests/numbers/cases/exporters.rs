//! The situations. The times of `=` are those of polls, in seconds.

pub(super) const TABLE: &str = "
# an exporter without UUIDs is replaced, as in every rolling update
pods 0..4 each 1; starting 400
0..4 gpu=0 p# job=d instance=10.0.0.#:9400: S15 +2# 60 ..300
0..4 gpu=0 p# job=d instance=10.0.9.#:9400: S15 +2# 60 320..
0..900 = namespace sum 240?; namespace held_count 4; nodes:node-1 held_count 1
420..900 = namespace sum 240; nodes:node-1 sum 60

# the names of the exporter's pods are those of nodes
pods 0..4 each 1; starting 400
0..4 gpu=0 p# job=d instance=10.0.0.#:9400 Hostname=exp-a#: S15 +2# 60 ..300
0..4 gpu=0 p# job=d instance=10.0.9.#:9400 Hostname=exp-b#: S15 +2# 60 320..
0..900 = namespace sum 240?; namespace held_count 4; nodes:node-1 held_count 1
420..900 = namespace sum 240; nodes:node-1 sum 60

# an exporter names the pods of a shared GPU by turns
pods 0..4 each 4; starting 190
0..4 A p# job=d instance=i Hostname=node-0: S60 +15# 20 ..200 80 200..
280..600 = deployment 80; p1 80; namespace held_count 1; nodes:node-0 sum 80

# a pod of the same name in another cluster, from the first series of this one on
pods 0..1 each 1; starting 200 402
X p0 job=d instance=w Hostname=west-0 cluster=west: S15 +3 90
A p0 job=d instance=o Hostname=node-0: S15 +6 10 100..400
A p0 job=d instance=o Hostname=node-0 cluster=east: S15 +6 10 400..
120..900 = p0 10?; namespace sum 10?
200..400 = p0 10
440..900 = p0 10

# half of the pods are on a node without an exporter
pods 0..10 each 5; starting 400 1600
0..5 G# p# job=d instance=i Hostname=node-0: S15 +1# 60
0..1900 = namespace sum -; namespace held_count 10; deployment 60

# pods start on a new node, whose exporter is scraped late
pods 0..4 each 4; pods 4..8 each 4 since 100; starting 400
0..4 G# p# job=d instance=i Hostname=node-0: S15 +1# 60
4..8 G# p# job=d instance=j Hostname=node-1: S15 +1# 60 190..
175..190 = namespace sum -
200..900 = namespace sum 480?; namespace held_count >6
270..900 = namespace sum 480; namespace held_count 8

# the exporter of a node is removed
pods 0..10 each 5; starting 400 1600
0..5 G# p# job=d instance=i Hostname=node-0: S15 +1# 60
5..10 G# p# job=d instance=j Hostname=node-1: S15 +1# 60 ..300
0..300 = namespace sum 600
360..1900 = namespace sum -; namespace held_count 10

# one exporter is slower than the others
pods 0..13 each 1; starting 310
0..1 G# p# job=d instance=i# Hostname=node-#: S60 +30 90 ..300 10 300..
1..13 G# p# job=d instance=i# Hostname=node-#: S15 +1# 90 ..300 10 300..
-200..900 = deployment >9
380..900 = deployment <18; p1 10
435..900 = deployment 10

# one exporter loses three of four scrapes
pods 0..21 each 1
0..1 G# p# job=d instance=i# Hostname=node-#: S15 /4 20 ..300 90 300..
1..21 G# p# job=d instance=i# Hostname=node-#: S15 +1# 20 ..300 90 300..
380..900 = deployment >80; p1 90

# one GPU is a hundred seconds late
pods 0..21 each 1
0..1 G# p# job=d instance=i# Hostname=node-#: S15 late100 20 ..300 90 300..
1..21 G# p# job=d instance=i# Hostname=node-#: S15 +1# 20 ..300 90 300..
0..900 = deployment >19
410..900 = deployment 90; p0 90

# half of a fleet is rescaled to ratios
pods 0..4 each 1; starting 600
0..2 G# p# job=d instance=i# Hostname=node-#: S15 +2# 60
2..4 G# p# job=d instance=i# Hostname=node-#: S15 +2# 60 ..300 0.6 300..
0..900 = p0 60?; p3 60?; namespace 60?
0..290 = namespace 60

# ratios under another name beside the percents
pods 0..4 each 1
0..4 __name__=DCGM_FI_DEV_MEM_COPY_UTIL UUID=G# p# job=d instance=i#: S15 +2# 60
0..4 __name__=DCGM_FI_DEV_MEM_COPY_UTIL_RATIO UUID=G# p# job=d instance=i#: S15 +2# 0.6
0..300 = p0 60; p3 60; namespace 60

# a replica starts on an idle fleet
pods 0..4 each 1
0..4 G# p# job=d instance=i#: S15 +2# 0.4 ..300 60 300..
-300..300 = p0 0.4?; namespace 0.4?
350..580 = p0 -; namespace -
620..900 = p0 60; namespace 60

# UUIDs repeat over nodes
pods 0..6 each 2
0..2 U# p# gpu=# job=d instance=i0 Hostname=node-0: S15 50
0..1 U0 p2 job=d instance=i1 Hostname=node-1: S15 +2 50
0..1 U1 p3 job=d instance=i1 Hostname=node-1: S15 +2 50
0..1 U0 p4 job=d instance=i2 Hostname=node-2: S15 +4 50
0..1 U1 p5 job=d instance=i2 Hostname=node-2: S15 +4 50
0..300 = namespace sum 300; namespace 50; namespace held_count 6; p5 50

# a node joins while others are silent, and nothing names nodes
pods 0..12 each 4; pods 12..16 each 4 since 310; starting 600
0..4 G# p# gpu=# job=d: S15 +3 60 ..300
4..12 G# p# gpu=# job=d: S15 +3 60
12..16 G# p# gpu=# job=d: S15 +3 60 330..
400..1400 = namespace sum -; namespace held_count 16

# UUIDs are relabelled at a running fleet
pods 0..4 each 4; starting 600
0..4 old# p# gpu=# job=d instance=i Hostname=node-0: S15 +3 60 ..300
0..4 new# p# gpu=# job=d instance=i Hostname=node-0: S15 +3 60 300..
0..900 = namespace sum 240?; namespace held_count 4; nodes:node-0 held_count 4; nodes:node-0 sum 240?
400..900 = namespace sum 240; nodes:node-0 sum 240

# a static pod with an unknown name is the exporter
pods 0..5 each 5; gpus p4 0
0..4 G# p# gpu=# job=d instance=i Hostname=node-0: S15 +3 60
5..9 G# p4 gpu=# job=d instance=i Hostname=node-0: S15 +3 60
0..300 = nodes:node-0 held_count 4; nodes:node-0 sum 480; p4 -

# one instance for GPUs that are scraped at different times
pods 0..32 each 4; starting 7
0..8 G# p# job=d instance=gateway:9091: S60 +7# 50
8..32 G# p# job=d instance=gateway:9091: S15 +1# 50
40..600 = namespace sum 1600; namespace held_count 32

# the first MIG instances of a fleet
pods 0..3 each 1; starting 600
0..2 G# p# job=d instance=i# Hostname=node-#: S15 +3 50
used 0..2 G# p# job=d instance=i# Hostname=node-#: S15 +3 1000
used A p2 GPU_I_ID=1 job=d instance=i2 Hostname=node-2: S15 +3 1000 300..
dram A p2 GPU_I_ID=1 job=d instance=i2 Hostname=node-2: S15 +3 0.3 300..
370..900 = p2 30; namespace sum 130

# half of an exporter's series are a minute late
pods 0..8 each 8; starting 100
0..4 G# p# job=d instance=i Hostname=node-0: S15 +3 late60 50
4..8 G# p# job=d instance=i Hostname=node-0: S15 +3 50
0..600 = p0 50; namespace sum 400

# a scrape interval is lengthened
// Until two gaps have shown it, a sample is valid for thirty seconds.
pods 0..1 each 1; starting 300
A p0 job=d instance=i Hostname=node-0: S5 S60@0 50
130..900 = p0 50

# a scrape interval is lengthened to two minutes
pods 0..1 each 1; starting 500
A p0 job=d instance=i Hostname=node-0: S10 S120@0 50
250..900 = p0 50

# a sample is valid for less than F
pods 0..1 each 1
A p0 job=d instance=i: S15 60 ..300
0..336 = p0 60
340..400 = p0 -

# series are forgotten after 20 minutes
A p job=d instance=i: S15 +3 60 ..1
B q job=d instance=i: S15 +3 60
100..1180 = namespace held_count 2; namespace sum -
1270..1500 = namespace held_count 1; namespace sum 60

# without a cluster a sum is absent rather than low
0..7 G# p# job=d instance=i#: S15 +1# 60
7..12 G# p# job=d instance=i#: S15 +1# 60 ..60 60 400..
0..700 = namespace sum 720?
120..395 = namespace sum -
500..700 = namespace sum 720
";

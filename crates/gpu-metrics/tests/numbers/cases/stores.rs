//! Late, slow and failing stores and exporters, and pods that come and go, poll by poll.

pub(super) const TABLE: &str = "
# the example of the manual: one GPU of ten ends
pods 0..10 each 10
0..1 G# p# job=d instance=i#: S15 +3 40 ..290
1..10 G# p# job=d instance=i#: S15 +3 40
330..331 = deployment sum 4720/12

# the example of the manual: two GPUs of ten end
pods 0..10 each 10
0..2 G# p# job=d instance=i#: S15 +3 40 ..290
2..10 G# p# job=d instance=i#: S15 +3 40
330..346 = deployment sum 400
350..600 = deployment sum -; deployment 40; deployment held_count 10

# a window is at most as long as gpu.maxWindow
window 900; pods 0..1 each 1
A p0 job=d instance=i: S15 50 ..300 90 300..
610..900 = p0 90

# a store is a minute late
pods 0..4 each 1; lag 60; jitter 3; starting 300
0..4 G# p# job=d instance=i#: S15 +1# 60 ..300 80 300..
0..300 = namespace sum 240; p0 60
430..900 = namespace sum 320; p0 80

# a store is as late as half a minute at random
pods 0..4 each 1; lag 2; jitter 30; starting 300
0..4 G# p# job=d instance=i#: S15 +1# 60
0..900 = namespace sum 240; namespace held_count 4; p0 60

# a store becomes late, and quick again
pods 0..4 each 1; lag 2; lag 40 300..600
0..4 G# p# job=d instance=i#: S15 +1# 60
0..900 = namespace sum 240; p0 60

# a new exporter is later than all others
pods 0..4 each 4; pods 4..5 on 1 since 300
0..4 G# p# job=d instance=i Hostname=node-0: S15 +1# 60
G4 p4 job=e instance=j Hostname=node-1: S15 late100 60 300..
530..900 = p4 60; namespace sum 300

# the first sample of a new series that is late is read within a minute
pods 0..2 each 1
A p0 job=d instance=i Hostname=node-0: S5 +1 40
B p1 job=d instance=j Hostname=node-1: S30 +2 late40 60 200..
320..600 = p1 60; namespace sum 100

# two stores, one of them late
pods 0..4 each 1; lag 2; lag 45 b; starting 300
0..2 G# p# job=d instance=i# prometheus=a: S15 +1# 60 ..400 80 400..
2..4 G# p# job=d instance=i# prometheus=b: S15 +1# 60 ..400 80 400..
0..400 = namespace sum 240
520..900 = namespace sum 320; namespace held_count 4

# a store stalls for three minutes
// F + L + 15 after the last sample.
pods 0..4 each 1; lag 2; stall 300..480
0..4 G# p# job=d instance=i#: S15 +1# 60
0..345 = namespace sum 240; p0 60; namespace held_count 4
380..475 = namespace sum -; p0 -; namespace held_count -
485..900 = namespace sum 240; p0 60; namespace held_count 4

# after a stall of one store of two its samples since the last one are read
// 155 s at 90, 100 at 30, 45 at 90.
window 300; pods 0..2 each 2; lag 2; stall b 300..445
A p0 job=d instance=i prometheus=b: S15 +2 90 ..300 30 300..400 90 400..
B p1 job=d instance=i prometheus=a: S15 +2 90
445..446 = p0 <75

# a store is down for a minute
pods 0..4 each 1; down 300..360; starting 330
0..4 G# p# job=d instance=i#: S15 +1# 60
0..350 = namespace sum 240?; p0 60?
380..900 = namespace sum 240; p0 60

# queries of one field fail
pods 0..4 each 1; refused watts 300..900
0..4 G# p# job=d instance=i#: S15 +1# 60
watts 0..4 G# p# job=d instance=i#: S15 +1# 300
-200..345 = namespace power_usage 1200
0..900 = namespace sum 240; namespace held_count 4
380..900 = namespace power_usage -

# a scrape each second, and each minute
pods 0..2 each 1
A p0 job=a instance=a: S1 50 ..300 80 300..
B p1 job=b instance=b: S60 50 ..300 80 300..
0..300 = namespace sum 100
365..800 = p0 80
440..800 = namespace sum 160; p1 80

# a scrape each five minutes
pods 0..1 each 1; starting 600
A p0 job=d instance=i: S300 +20 50
600..2000 = p0 50; namespace sum 50

# two scrapers of one series
pods 0..2 each 1
0..2 G# p# job=d instance=i#: S60 +3 50 ..600
0..2 G# p# job=d instance=i#: S60 +6 50 ..600
0..615 = namespace sum 100
780..900 = namespace sum -

# a few short gaps shorten no interval
pods 0..4 each 4; pods 4..5 on 0 since 290
0..4 G# p# job=d instance=i Hostname=node-0: S60 +1# 50
G4 p4 job=d instance=i Hostname=node-0: S60 S10@300 S60@310 50 300..
305..600 = p4 50

# an outage after the first sample lengthens no interval
pods 0..4 each 4; pods 4..5 on 0 since 290
0..4 G# p# job=d instance=i Hostname=node-0: S15 +1# 50
G4 p4 job=d instance=i Hostname=node-0: S15 50 300..310 50 600..610
610..640 = p4 50
400..590 = p4 -
670..1200 = p4 -

# samples are valid for half a minute at least
pods 0..1 each 1
A p0 job=d instance=i: S5 50 ..300 50 330..
0..600 = p0 50

# one late sample is not the usual lateness
pods 0..1 each 1; lag 40 300..310
A p0 job=d instance=i: S60 +2 50 ..300 90 300..
345..360 = p0 >80

# series that ended are no longer late
pods 0..3 each 3
0..2 G# p# job=d instance=i#: S15 +1# late60 50 ..300
2..3 G# p# job=d instance=i#: S15 +1# 50 ..900 90 900..
965..1200 = p2 90

# clocks of exporters are wrong
pods 0..6 each 1; lag 2; starting 300
0..1 G# p# job=d instance=i#: S15 +1# clock40 50
1..2 G# p# job=d instance=i#: S15 +1# clock-60 50
2..6 G# p# job=d instance=i#: S15 +1# 50
0..900 = namespace sum 300; p0 50; p1 50

# a clock is more than two minutes behind
pods 0..6 each 1
0..1 G# p# job=d instance=i#: S15 +1# clock-200 50
1..6 G# p# job=d instance=i#: S15 +1# 50
0..900 = namespace sum -; namespace 50; p0 -; p1 50

# half of the exporters are silent for ten minutes
pods 0..10 each 1; starting 500
0..5 G# p# job=d instance=i#: S15 +1# 60 ..300 60 900..
5..10 G# p# job=d instance=i#: S15 +1# 60
0..330 = namespace sum 600; p0 60
0..1500 = namespace 60; namespace held_count 10; p9 60
365..895 = namespace sum -; p0 -
975..1500 = namespace sum 600; p0 60

# all but two exporters are silent
pods 0..25 each 1
0..23 G# p# job=d instance=i#: S15 +1# 60 ..300
23..25 G# p# job=d instance=i#: S15 +1# 60
380..900 = namespace sum -; namespace -; namespace held_count 25; p24 60

# a busy GPU among ten is silent
// Without it the mean is 12 for 19.8.
pods 0..10 each 1
0..1 G# p# job=d instance=i#: S15 +1# 90 ..300
1..10 G# p# job=d instance=i#: S15 +1# 12
0..330 = namespace sum 198; namespace 19.8
380..900 = namespace sum -; namespace -

# exporters are replaced in less than a minute
pods 0..4 each 1
0..4 G# p# job=d instance=i#: S15 +1# 60 ..300 60 320..
0..900 = namespace sum 240; p0 60

# a pod holds four GPUs, and one exporter of two is silent
pods 0..2 each 1 gpus 4
0..4 G# p0 job=d instance=i0: S15 +3 60 ..300
4..8 G# p1 job=d instance=i1: S15 +3 60
380..900 = p0 -; p1 60; namespace sum -; namespace 60; namespace held_count 8

# exporters continue without pod labels
pods 0..4 each 2
0..2 G# p# gpu=# job=d instance=i0 Hostname=node-0: S15 +3 60 ..300
0..2 G# gpu=# job=d instance=i0 Hostname=node-0: S15 +3 60 300..
2..4 G# p# gpu=# job=d instance=i1 Hostname=node-1: S15 +3 60
0..900 = namespace sum 240; namespace held_count 4; p0 60; cluster sum 240

# all but one Node are drained
pods 0..7 each 1 until 300 removed; pods 7..8 each 1; starting 330
0..7 G# p# job=d instance=i# Hostname=node-#: S15 +3 60 ..300
7..8 G# p# job=d instance=i# Hostname=node-#: S15 +3 60
0..300 = namespace sum 480; namespace held_count 8
380..900 = namespace sum 60; namespace held_count 1; cluster sum 60

# pods end, and their labels stay
pods 0..4 each 4; pods 4..6 on 0 until 300; starting 400
0..4 G# p# job=d instance=i Hostname=node-0: S15 +3 60
4..6 G# p# job=d instance=i Hostname=node-0: S15 +3 60 ..370
4..6 G# job=d instance=i Hostname=node-0: S15 +3 60 370..
0..300 = namespace sum 360; namespace held_count 6
365..900 = namespace sum 240; namespace held_count 4; cluster sum 360; nodes:node-0 sum 360

# GPUs are handed over
pods 0..2 each 2 until 300; pods 2..4 on 0 since 302; starting 400
0..2 G# p# job=d instance=i Hostname=node-0: S15 +3 60 ..320
G0 p2 job=d instance=i Hostname=node-0: S15 +3 80 320..
G1 p3 job=d instance=i Hostname=node-0: S15 +3 80 320..
0..300 = namespace sum 120; p0 60
345..900 = p2 80; p3 80
385..900 = namespace sum 160; namespace held_count 2; cluster sum 160

# pods start, and series name them after 75 s
pods 0..8 each 8; pods 8..12 on 1 since 300
0..8 G# p# job=d instance=i Hostname=node-0: S15 +3 60
8..12 G# p# job=d instance=j Hostname=node-1: S15 +3 60 375..
0..300 = namespace sum 480
363..375 = namespace held_count >8
460..900 = namespace sum 720; namespace held_count 12

# pods that share GPUs, of which some end
pods 0..4 each 2
0..2 A p# vgpu=# job=d instance=i Hostname=node-0: S15 +3 60 ..300
2..4 B p# vgpu=# job=d instance=j Hostname=node-1: S15 +3 60
0..345 = namespace sum 120; namespace held_count 2; p0 60; p1 60
380..900 = p0 -; p1 -; p2 60; namespace sum -; namespace 60; namespace held_count 2

# a series that takes the place of a forgotten one has none of its samples
window 300
K namespace=x pod=k job=a instance=k: S15 +1 10
L namespace=m pod=l job=b instance=l: S15 +1 late118 10
G namespace=n pod=g job=a instance=g: S15 +1 90 ..222
W namespace=m pod=w job=a instance=w: S15 +1 10 1500..
300..2000 = namespaces:m 10
";

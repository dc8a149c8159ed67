//! Named worlds, one for each trait of real clusters.

use super::drive::run;
use super::world::World;

/// A name | the fleets | settings and weather, in the words of `row.rs`.
const STORES: &str = "
steady15 | 10 | swing
more than the range | 10 | generous; lag 60
lag32 S15 | 10 | lag 32; jitter 3
lag60 S15 | 10 | lag 60; jitter 3
lag90 S15 | 10 | lag 90; jitter 3
lag 2/40/2 | 10 | lag 2; lag 40 600..1500; jitter 1
lag step@restart | 10 | lag 2; lag 40 600..1190; jitter 1
lag spikes | 10 | lag 2; lag 30 0..100/400; jitter 1
jit0-45 | 10 | lag 2; jitter 45
lag30 jit20 drop3 | 10 | swing; lag 30; jitter 20; drop 0.03
2src 2/45 | 5, 5 b | lag 2; lag 45 b
drop5% markers | 10 | drop 0.05; markers
stall3m | 10 | lag 2; stall a 900..1080
stall@restart | 10 | lag 2; stall a 1100..1280
stall45 lag30 | 10 | swing; stall a 100..145/300; lag 30
pair lag20 | 10 | swing; pair; lag 20 b
pair, one stalls, 2of10 silent | 10 | swing; pair; stall b 900..1200; silent #0..2 950..1150
one source 74s late, all stop | 1 S5, 1 S5 b | drawn 1285 600; lag 74 a; down 330..530
one source stalls, then all stop | 1 S30, 3 I30 b | drawn 17554 600; down 439..739; stall b 201..501
";

/// Scrape intervals, scrapers and clocks.
const SCRAPES: &str = "
15s edge | 10 edge |
60s win1m edge | 10 S60 edge | window 60
S1 lag60 | 6 S1 | swing; secs 700; lag 60
S1 I30 | 6 S1 I30 | swing; secs 700
S5 I60 | 6 S5 I60 | swing
S15 I60 drop5 | 6 I60 | swing; drop 0.05
S5 lag30 | 6 S5 | swing; lag 30
S30 lag60 | 6 S30 | swing; lag 60
S60 | 6 S60 | swing
S60 drop5 | 6 S60 I30 | swing; drop 0.05
S120 | 6 S120 | swing; secs 4800
S300 | 6 S300 | swing; secs 4800
S300 lag60 | 6 S300 | swing; secs 4800; lag 60
S60 window60 drop3 | 6 S60 I30 | swing; window 60; drop 0.03
S2 large | 6 S2 | swing; secs 700; poll 2; lag 1
2scr 2s S15 | 6 +2 |
2scr 3/27 | 6 S30 +3 |
2scr S60 10 drop3 | 6 S60 +10 | swing; drop 0.03
mixed 15<60 | 5, 9 S60 |
mixed 1<4 | 5 S1, 9 S4 slow | secs 600; lag 0.2
mixed flip | 5, 5 S60 v | leave #0..1 700
new slow 1of5 | 4 | join 1 S60 985/0 ~10..10
clk+-40 lag32 | 10 | clock #0..1 40; clock #1..2 -40; lag 32
2 bad ahead lag32 | 10 | clock #0..1 40; clock #1..2 40; lag 32
clk-60 | 10 | clock #1..2 -60
clk-60 n20 | 20 | clock #1..2 -60
clk-200 | 10 | clock #0..1 -200
clock steps | 10 | clock #0..3 -30 800..1400
1of3 clk+34 lag52 | 3 S5 | drawn 91111 600; lag 52; clock #0..1 34
1of2 clk-49, the other lost | 2 S5 | drawn 78716 600; clock #0..1 -49; gpus-lost #1..2 624..
";

/// Missing and frozen exporters, lost GPUs and labels, and a Prometheus that does not answer.
const EXPORTERS: &str = "
5of10 12m | 10 | swing; lag 0.5; silent #0..5 900..1620
restart 5of10 4m | 10 | swing; lag 0.5; silent #0..5 1000..1240
5of10 S1 | 10 S1 | swing; lag 0.5; silent #0..5 900..1500
5of10 S60 | 10 S60 | swing; lag 2; silent #0..5 900..1500
5of10 S15 lag60 | 10 | swing; lag 60; silent #0..5 900..1500
5of10 40m, restart in it | 10 | swing; secs 3300; restart 2700; lag 0.5; silent #0..5 600..3000
5of10 40m S60 lag30, restart in it | 10 S60 | secs 3300; restart 2700; lag 30; silent #0..5 600..3000
2of10 twice, restart between | 10 | swing; silent #0..2 900..1250; silent #5..7 1150..1400
5of10 10m markers | 10 | drawn 1 600; silent #0..5 500..1100; markers
1of4 | 4 | silent #0..1 900..1200
23of25 | 25 | silent #0..23 900..1200
all dead@restart | 10 | lag 32; silent #0..10 1170..2400
dead 100s before restart | 10 | silent #0..10 1100..2400
exporter restart45 | 10 | silent #0..1 1160..1205; silent #3..4 1160..1205
exporter restart45 markers | 10 | silent #0..4 1160..1205; markers
big one silent | 10 | load #0..10 12; load #0..1 90; silent #0..1 1000..1680
4 busy of 8 dead | 8 | load #0..4 90; load #4..8 10; silent #0..4 900..1500
prom restart60 | 10 | down 1160..1220
gpu lost 1of8 | 1 G8 | gpus-lost #0..1 900..
frozen 1of10 | 10 | frozen #0..1 900..
frozen 5of10 | 10 | frozen #0..5 900..
frozen beside live | 5 | swing; job other 15; frozen other 600..
frozen beside live, jump | 5 | job other 15; frozen other 600..; jump 90 700..
2jobs 2scr frozen | 2 +2 | drawn 1377 688; job dcgm-slow 60; frozen #0..4 478..
refused 1 signal | 10 | refused 0 900..960
refused other signal | 10 | refused 1 900..1200
refused all | 10 | refused all 900..1080
one instance, 32 nodes | 32 OneInstance | secs 1200
no instance, 32 nodes S30 | 32 S30 NodeOnly | secs 1200
no instance, no node, 32 nodes S30 | 32 S30 Nothing | secs 1200
one instance, 1of3 dead | 3 G4 OneInstance | silent #0..1 900..1500
no instance, 1of3 dead | 3 G4 NodeOnly | silent #0..1 900..1500
no instance, no node, 1of3 dead | 3 G4 Nothing | silent #0..1 900..1500
1of3 without pod labels | 3 G4 | unlabelled #0..1 900..1500
percents vanish, ratios stay | 10 | profiled #0..10 900
percents vanish of 1of3, ratios stay | 3 G8 | profiled #0..8 900
GPUs of both kinds on an exporter | 2 G8 | profiled #0..4 -1e9
";

/// States after an outage.
const AFTERMATH: &str = "
back one by one, later than before | 3 | drawn 15046 600; lag 42 587..987; down 331..631
two outages of 5m | 1 | drawn 16834 600; down 762..1062; down 345..645
all GPUs away for 400s | 5 | drawn 74278 450; gpus-lost #0..5 511..911
GPU lost in a stall | 3 | drawn 13686 600; stall a 397..697; gpus-lost #0..1 521..721
restart in an outage, two cadences | 1 S5, 1 G2 | drawn 21433 367; down 357..657
restart after one was away for 400s, I 6S | 7, 1 S5 I30 | drawn 81642 840; silent #7..8 258..658
restart in 5m down, two jobs alike | 2 S60 G4 | drawn 78580 371; drop 0.05; job dcgm-slow 60; \
    down 312..612
";

/// Pods and nodes that come and go, and pods that share GPUs.
const PODS: &str = "
drain 29of30 | 30 | leave #0..29 900
drain 1of10 | 10 | leave #0..1 1150
rolling | 10 | join 10 1000/40 ~20..60; end #0..10 1060/40
scale10-8-12 | 10 | end #8..10 1170; start w #8..10 1500/1 ~5..15; \
    join 2 1502/1 ~5..15
10->6 labels late | 10 | end #6..10 1180 ~70..70
8->12 75s unseen | 8 | join 4 1000/1 ~75..75
handed over | 10 | end #0..5 1000; start v #0..5 1000 ~10..30
silent, others replaced | 10 | swing; silent #0..3 900..1500; end #3..6 950/20; \
    start w #3..6 960/20 ~10..30
restart after pods moved, two cadences | 6, 2 S60 G4 b | drawn 28157 501; lag 79; \
    start w #4..8 204/1 ~5..6
restart after pods ended and 5m down, I 2S | 1 I30 | drawn 90830 723; end #0..1 246/1; \
    down 358..658
2jobs replaced, prom restart | 5 | end #0..5 800/30; \
    start w #0..5 800/30 ~10..30; job dcgm-slow 60; down 1100..1160
2jobs, a pod ends | 5 | job dcgm-slow 60; end #4..5 1000
4 GPUs a pod 1of4 | 4 G4 | silent #0..1 900..1200
two workloads 1of2 | 5, 5 v | silent #0..5 900..1200
shared 2of5 silent | 5 | shared #0..5 3; silent #0..2 900..1200
shared 2of5 gone silent | 5 | shared #0..5 3; silent #0..2 900..
";

#[test]
fn promises_hold_in_named_worlds() {
    let wanted = std::env::var("WEATHER").unwrap_or_default();
    let tables = [STORES, SCRAPES, EXPORTERS, AFTERMATH, PODS];
    let rows = tables.iter().flat_map(|table| table.lines());
    let mut broken = Vec::new();
    for world in rows.filter(|row| !row.is_empty()).map(World::read) {
        if world.name.contains(&wanted) {
            let of_world = run(&world).into_iter();
            broken.extend(of_world.map(|what| format!("{}: {what}", world.name)));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

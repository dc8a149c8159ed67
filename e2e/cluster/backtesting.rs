//! `backtest` compared with a real autoscaler: its replicas over time, computed again
//! from Prometheus' samples of the GPUs.

use std::time::{Duration, Instant};

use apimachinery::time::Timestamp;
use cluster_state::clock;
use serde_json::{Value, json};

use super::lab::{APP, Lab, PODS, TEAM};
use super::scaling::SYNC;
use super::workload::on_pods;
use crate::program::Program;

/// Loads shared by the GPUs, in percent, and how long each lasts. No GPU is saturated,
/// because the demand would then be unknown. Each load needs a single number of replicas;
/// 160, for example, would allow three or four, because 53 is within the tolerance of the
/// target of 50. The last load needs a single pod even if the former load of pods that
/// were just deleted is added for a moment: 25 and three times 6 are below 50.
const LOADS: [u32; 6] = [70, 175, 60, 130, 190, 25];
const HELD_FOR: Duration = Duration::from_secs(36);

/// The stabilisation is longer than a window of readings. A read of the controller that is
/// a second late, as on a busy machine, then changes no size.
const STABLE: Duration = Duration::from_secs(16);

/// How often the replicas are read.
const LOOK: Duration = Duration::from_millis(400);

/// The largest distance in time of two equal sizes: the syncs of the two are at different
/// times, and the server has a reading one poll after Prometheus.
const AROUND: Duration = Duration::from_secs(SYNC.as_secs() + 2);

/// Times, and the size from each time on.
type Sizes = Vec<(Timestamp, i64)>;

fn at(sizes: &Sizes, time: Timestamp) -> Option<i64> {
    let until = sizes.iter().take_while(|(since, _)| *since <= time);
    until.last().map(|(_, size)| *size)
}

/// Whether the size was `wanted` at some time around `time`.
fn was(sizes: &Sizes, wanted: i64, time: Timestamp) -> bool {
    let changed = sizes
        .iter()
        .filter(|(since, size)| *size == wanted && (time - AROUND..=time + AROUND).contains(since));
    changed.count() > 0 || at(sizes, time - AROUND) == Some(wanted)
}

/// The replicas of the Deployment while the load changes.
fn watch(lab: &Lab) -> Sizes {
    let mut sizes: Sizes = Vec::new();
    for load in LOADS {
        lab.gpus.share(load);
        let until = Instant::now() + HELD_FOR;
        while Instant::now() < until {
            let size = i64::try_from(lab.replicas()).unwrap();
            if sizes.last().is_none_or(|(_, last)| *last != size) {
                sizes.push((clock::now(), size));
            }
            std::thread::sleep(LOOK);
        }
    }
    sizes
}

fn backtest(lab: &Lab, from: Timestamp, to: Timestamp) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let (hpa, config) = (dir.path().join("hpa.json"), dir.path().join("config.yaml"));
    let object = ["get", "hpa", APP, "-n", TEAM, "-o", "json"];
    std::fs::write(&hpa, lab.plane.kubectl(&object)).unwrap();
    std::fs::write(&config, super::lab::CONFIG).unwrap();
    let mut command = Program::plugin(["backtest", "-o", "json"]);
    command.arg(hpa).arg("--config").arg(config);
    command.args(["--prometheus-url", &lab.prometheus.url, "--ready-after=1s"]);
    command.args(["--since", &from.date(), "--until", &to.date()]);
    let sync = format!("{}s", SYNC.as_secs());
    command.args(["--horizontal-pod-autoscaler-sync-period", &sync]);
    let end = Program::run(command);
    assert_eq!(end.code, Some(0), "{end:?}");
    serde_json::from_str(&end.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes: make test-slow"]
async fn replicas_of_a_backtest_are_those_of_the_real_controller() {
    let lab = Lab::start().await;
    lab.deploy(2);
    lab.gpus.share(LOADS[0]);
    lab.await_values(PODS, 2, "35");
    let metrics = json!([on_pods("gpu_memory_utilization", "50")]);
    lab.autoscale_after(6, &metrics, STABLE);
    std::thread::sleep(2 * SYNC);
    let begun = clock::now();
    let real = watch(&lab);
    let ended = clock::now();
    let report = backtest(&lab, begun, ended);
    let blocks = report["blocks"].as_array().unwrap();
    let series = blocks.iter().find(|it| it["kind"] == "series").unwrap();
    let rows = series["rows"].as_array().unwrap().iter().map(|row| {
        let time = Timestamp::from_date(row["time"].as_str().unwrap()).unwrap();
        (time, row["simulated replicas"].as_f64().unwrap() as i64)
    });
    let simulated: Sizes = rows.collect();
    let (mut syncs, mut agree, mut exactly) = (0, 0, 0);
    let mut time = begun + SYNC;
    while time < ended {
        if let Some(size) = at(&simulated, time) {
            syncs += 1;
            agree += u32::from(was(&real, size, time));
            exactly += u32::from(at(&real, time) == Some(size));
        }
        time = time + SYNC;
    }
    println!(
        "backtest: {agree} of {syncs} syncs agree with the controller, {exactly} at the very \
         moment; real {:?}, simulated {:?}",
        real.iter().map(|(_, size)| size).collect::<Vec<_>>(),
        simulated.iter().map(|(_, size)| size).collect::<Vec<_>>(),
    );
    assert!(syncs >= 60 && real.len() >= LOADS.len(), "{syncs} {real:?}");
    assert!(
        100 * agree >= 95 * syncs,
        "{real:?}\n{simulated:?}\n{report}"
    );
}

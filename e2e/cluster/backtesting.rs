//! `backtest` compared with a real autoscaler: its replicas over time, computed again
//! from Prometheus' samples of the GPUs.

use std::time::{Duration, Instant};

use apimachinery::time::Timestamp;
use cluster_state::clock;
use serde_json::{Value, json};

use super::lab::{APP, Lab, PODS, TEAM};
use super::scaling::SYNC;
use super::workload::on_pods;
use crate::asking::{ApiClient, identity_of};
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

/// How often the test looks for a sync of the controller.
const LOOK: Duration = Duration::from_millis(400);

/// The largest distance in time of two equal sizes: the syncs of the two are at different
/// times, and Prometheus has a sample a second before the server.
const AROUND: Duration = Duration::from_secs(SYNC.as_secs() + 1);

/// Times, and the size from each time on.
type Sizes = Vec<(Timestamp, i64)>;

/// A sync of the controller. A busy machine delays it and what it reads; neither is in the
/// samples of which the backtest computes.
#[derive(Debug)]
struct Sync {
    /// The newest sample that the server had before the controller read, and after.
    samples: [Timestamp; 2],
    /// The replicas before the next sync.
    size: i64,
}

fn at(sizes: &Sizes, time: Timestamp) -> Option<i64> {
    let until = sizes.iter().take_while(|(since, _)| *since <= time);
    until.last().map(|(_, size)| *size)
}

impl Sync {
    /// Whether these are its size at some time around the samples that the controller read.
    fn agrees(&self, sizes: &Sizes) -> bool {
        let [from, to] = [self.samples[0] - AROUND, self.samples[1] + AROUND];
        let between =
            |(since, size): &(Timestamp, i64)| *size == self.size && (from..=to).contains(since);
        sizes.iter().any(between) || at(sizes, from) == Some(self.size)
    }
}

/// What the server has at a moment: its newest sample, and the number of requests for metrics.
fn look(lab: &Lab, admin: &ApiClient) -> (Option<Timestamp>, usize) {
    let values = lab.plane.client().values(PODS).unwrap_or_default();
    let newest = values.iter().map(|it| it.at.as_second()).max();
    let metrics = admin.wait("/metrics").body;
    let of_metrics = |line: &&str| {
        line.starts_with("gpu_metrics_apiserver_requests_total{")
            && line.contains("resource=\"custom\"")
    };
    let counts = metrics.lines().filter(of_metrics);
    let counts = counts.map(|line| line.rsplit_once(' ').unwrap().1);
    let requests = counts.map(|count| count.parse::<usize>().unwrap()).sum();
    (newest.map(Timestamp::from_secs), requests)
}

/// The syncs of the controller while the load changes.
fn watch(lab: &Lab) -> Vec<Sync> {
    let admin = ApiClient::direct(lab.port, Some(identity_of(lab.plane.kubeconfig())));
    let mut syncs: Vec<Sync> = Vec::new();
    let (first, mut count) = look(lab, &admin);
    let mut sample = first.unwrap();
    for load in LOADS {
        lab.gpus.share(load);
        let until = Instant::now() + HELD_FOR;
        while Instant::now() < until {
            std::thread::sleep(LOOK);
            let (newest, requests) = look(lab, &admin);
            let newest = newest.unwrap_or(sample);
            let size = i64::try_from(lab.replicas()).unwrap();
            // One of the requests is that of `look`.
            if requests > count + 1 {
                let samples = [sample, newest];
                syncs.push(Sync { samples, size });
            } else if let Some(last) = syncs.last_mut() {
                last.size = size;
            }
            (sample, count) = (newest, requests);
        }
    }
    syncs
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
    let syncs = watch(&lab);
    let report = backtest(&lab, begun, clock::now());
    let blocks = report["blocks"].as_array().unwrap();
    let series = blocks.iter().find(|it| it["kind"] == "series").unwrap();
    let rows = series["rows"].as_array().unwrap().iter().map(|row| {
        let time = Timestamp::from_date(row["time"].as_str().unwrap()).unwrap();
        (time, row["simulated replicas"].as_f64().unwrap() as i64)
    });
    let simulated: Sizes = rows.collect();
    let agree = syncs.iter().filter(|sync| sync.agrees(&simulated)).count();
    let is_exact = |sync: &&Sync| at(&simulated, sync.samples[1]) == Some(sync.size);
    let exactly = syncs.iter().filter(is_exact).count();
    let mut real: Vec<i64> = syncs.iter().map(|sync| sync.size).collect();
    real.dedup();
    println!(
        "backtest: {agree} of {} syncs agree with the controller, {exactly} at the very \
         moment; real {real:?}, simulated {:?}",
        syncs.len(),
        simulated.iter().map(|(_, size)| size).collect::<Vec<_>>(),
    );
    assert!(syncs.len() >= 60 && real.len() >= LOADS.len(), "{syncs:?}");
    assert!(
        100 * agree >= 95 * syncs.len(),
        "{syncs:?}\n{simulated:?}\n{report}"
    );
}

//! The queries that Prometheus receives, according to its query log.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::scene::{GPU, PATIENCE, PODS_A, Scene, WINDOW, await_window};
use crate::program::{eventually, found_if};
use crate::prometheus::Storage;
use crate::stores::scene::Reader;

/// Percentages, memory in use and power: whole GPUs need no profiling field.
const NEEDED: [&str; 6] = [
    "DCGM_FI_DEV_MEM_COPY_UTIL",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_DEV_FB_USED",
    "DCGM_FI_DEV_FB_FREE",
    "DCGM_FI_DEV_FB_RESERVED",
    "DCGM_FI_DEV_POWER_USAGE",
];

/// The queries of each poll, by evaluation time. The last poll may not be complete.
fn polls(log: &Path) -> Vec<Vec<String>> {
    let mut polls: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in std::fs::read_to_string(log).unwrap_or_default().lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_default();
        if let (Some(at), Some(query)) = (
            line["params"]["end"].as_str(),
            line["params"]["query"].as_str(),
        ) {
            polls
                .entry(at.to_owned())
                .or_default()
                .push(query.to_owned());
        }
    }
    polls.into_values().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_of_a_small_fleet_is_one_query() {
    let scene = Scene::start().await;
    let storage = Storage::new();
    let log = storage.path("queries.log");
    let logged = format!("global: {{query_log_file: {}, ", log.display());
    let scrapes = scene.exporters.scrapes().replacen("global: {", &logged, 1);
    let store = storage.start(&scrapes).await;
    let server = Reader::start(&store.url, GPU);
    await_window(&server, PODS_A, WINDOW);
    let steady = eventually("ten polls", PATIENCE, || {
        let (past, steady): (Vec<_>, Vec<_>) = polls(&log)
            .into_iter()
            .partition(|poll| is_of_the_past(poll));
        assert!(past.iter().all(|part| part.len() == 1), "{past:?}");
        found_if(steady, |steady| steady.len() >= 11)
    });
    let one = |poll: &Vec<String>| poll.len() == 1 && NEEDED.iter().all(|it| poll[0].contains(it));
    let (ones, others): (Vec<_>, Vec<_>) = steady[..10].iter().partition(|poll| one(poll));
    // A scrape may end during the first poll. Some fields are then read once from further
    // back than others.
    assert!(ones.len() >= 7, "{others:?}");
}

/// Whether the queries read a part of the past, which has five minutes.
fn is_of_the_past(poll: &[String]) -> bool {
    poll.iter().any(|query| query.ends_with("[5m]"))
}

//! The queries that Prometheus receives, according to its query log.

use std::collections::BTreeMap;
use std::path::Path;

use gpu_metrics::dcgm::fields;
use gpu_metrics::signal::{SignalSpec, Unit};
use serde_json::Value;

use super::scene::{METRICS, PATIENCE, Reader, exporters};
use crate::program::{eventually, found_if};
use crate::prometheus::Storage;

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
    let nodes = exporters().await;
    let storage = Storage::new();
    let log = storage.path("queries.log");
    let logged = format!("global: {{query_log_file: {}, ", log.display());
    let scrapes = nodes.scrapes().replacen("global: {", &logged, 1);
    let store = storage.start(&scrapes).await;
    let server = Reader::start(&store.url, "{window: 10s, freshness: 20s}");
    server.await_values(&METRICS);
    let steady = eventually("ten polls", PATIENCE, || {
        let (past, steady): (Vec<_>, Vec<_>) = polls(&log)
            .into_iter()
            .partition(|poll| is_of_the_past(poll));
        assert!(past.iter().all(|part| part.len() == 1), "{past:?}");
        found_if(steady, |steady| steady.len() >= 11)
    });
    // Whole GPUs need no profiling field.
    let all = fields::built_in().into_iter();
    let needed: Vec<SignalSpec> = all.filter(|it| it.unit != Unit::Ratio).collect();
    assert!(needed.len() >= 6, "{needed:?}");
    let one = |poll: &Vec<String>| {
        let asks = |field: &SignalSpec| poll[0].contains(&field.wire_names[0]);
        poll.len() == 1 && needed.iter().all(asks)
    };
    let (ones, others): (Vec<_>, Vec<_>) = steady[..10].iter().partition(|poll| one(poll));
    // A scrape may end during the first poll. Some fields are then read once from further
    // back than others.
    assert!(ones.len() >= 7, "{others:?}");
}

/// Whether the queries read a part of the past, which has five minutes.
fn is_of_the_past(poll: &[String]) -> bool {
    poll.iter().any(|query| query.ends_with("[5m]"))
}

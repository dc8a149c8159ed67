//! The program with stores that take minutes to build. `make test-slow` builds them first
//! and runs this; the results are the table in `e2e/slow/README.md`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that meets what it did not expect has failed, in its helpers too"
)]
#![allow(
    dead_code,
    reason = "what runs stores and programs is shared with the other tests"
)]

#[path = "../asking.rs"]
mod asking;
#[path = "../exporters.rs"]
mod exporters;
mod mimir;
#[path = "../program.rs"]
mod program;
#[path = "../prometheus.rs"]
mod prometheus;
#[path = "../stores/scene.rs"]
mod scene;
#[path = "../served.rs"]
mod served;
#[path = "../stores/store.rs"]
mod store;
mod table;
mod thanos;

/// The other tests have this module under this name.
mod stores {
    pub(crate) use crate::store;
}

use std::path::PathBuf;
use std::time::Duration;

use program::{eventually, found_if};
use prometheus::Storage;
use scene::{FRESHNESS, METRICS, PATIENCE, PERCENT, Reader, compare, difference, exporters};
use served::Served;
use store::Store;
use table::Row;
use thanos::Replicas;

/// How many times each program is queried while readings change.
const ASKED: u32 = 40;

/// A program built by `build.sh`.
fn built(name: &str) -> PathBuf {
    program::built("slow", name, "make stores").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn values_from_every_store_equal_those_of_its_promql() {
    let nodes = exporters().await;
    let mimir = mimir::start(&built("mimir")).await;
    let mut replicas = Replicas::start(&nodes, &mimir).await;
    let scrapes = nodes.scrapes();
    let stores = [
        Storage::new().start(&scrapes).await,
        Store::victoria_metrics(&scrapes).await,
        replicas.first(),
        replicas.deduplicated(),
        replicas.all(),
        mimir,
    ];
    let readers = stores
        .each_ref()
        .map(|store| Reader::start(&store.url, "{window: 30s}"));
    for (store, reader) in stores.iter().zip(&readers) {
        println!("{}", store.name);
        reader.await_values(&METRICS);
    }
    let mut rows = stores.each_ref().map(|store| Row::new(&store.name));
    for turn in 0..ASKED {
        nodes.controls.force_value(0, f64::from(turn * 37 % 100));
        nodes.controls.force_value(7, f64::from(turn * 61 % 100));
        // At that time each node is scraped again, and the window has both readings.
        let scraped = served::unix_seconds() as i64 + 3;
        for ((store, reader), row) in stores.iter().zip(&readers).zip(&mut rows) {
            for (metric, _) in METRICS {
                let is_there = reader.value(metric).is_ok();
                let served = value_since(reader, metric, scraped);
                let off = difference(store, &served, FRESHNESS).await;
                row.count(is_there, off.unwrap_or(f64::INFINITY));
            }
        }
    }
    // Then readings are constant, and each store must agree to a thousandth.
    for device in [0, 7] {
        nodes.controls.force_value(device, PERCENT[device]);
    }
    for (store, reader) in stores.iter().zip(&readers) {
        reader.await_values(&METRICS);
        compare(store, reader, FRESHNESS).await;
    }
    let mut rows = Vec::from(rows);
    rows.push(
        outage("Thanos, one replica frozen", &readers[3], || {
            replicas.freeze();
        })
        .await,
    );
    replicas.thaw();
    readers[3].await_values(&METRICS);
    rows.push(outage("Thanos, one replica down", &readers[3], || replicas.kill()).await);
    readers[3].await_values(&METRICS);
    table::write(&rows);
}

/// Waits for a value whose newest sample is not older than this second.
fn value_since(reader: &Reader, metric: &str, second: i64) -> Served {
    eventually(metric, PATIENCE, || {
        let served = reader.value(metric)?;
        found_if(served, |served| served.at.as_second() >= second)
    })
}

/// Values during a fault: they may be missing, but must not be wrong.
async fn outage(what: &str, reader: &Reader, mut begin: impl FnMut()) -> Row {
    let mut row = Row::new(what);
    begin();
    for (metric, value) in METRICS.iter().cycle().take(2 * ASKED as usize) {
        let served = reader.value(metric).ok();
        if let Some(served) = &served {
            assert_eq!(&served.value, value, "{what}");
        }
        row.count(served.is_some(), 0.0);
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    row
}

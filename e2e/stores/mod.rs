//! The program with the stores in Debian: Prometheus 2 and VictoriaMetrics. Served
//! values are compared with the store's own answer to PromQL, and with those from the
//! other store.

mod queries;
mod restarts;
pub(crate) mod scene;
mod signed;
pub(crate) mod store;

use std::time::Duration;

use crate::exporters::Exporters;
use crate::program::{eventually, in_time, ok_if};
use crate::prometheus::Storage;
use crate::served::Served;

use scene::{FRESHNESS, METRICS, PATIENCE, Reader, agrees, compare, exporters};
use store::Store;

/// The window of these tests in seconds: six instants.
const WINDOW: u64 = 30;

/// Debian's stores, which scrape the same exporters.
async fn stores(nodes: &Exporters) -> [Store; 2] {
    let scrapes = nodes.scrapes();
    let prometheus = Storage::new().start(&scrapes).await;
    [prometheus, Store::victoria_metrics(&scrapes).await]
}

/// Waits until a program serves the initial readings over a full window.
fn await_full(reader: &Reader) {
    for (metric, value) in METRICS {
        eventually("a full window", PATIENCE, || {
            let served = reader.value(metric)?;
            ok_if(served.window == WINDOW && served.value == value, &served)
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_from_each_store_equal_those_of_its_promql() {
    let nodes = exporters().await;
    let stores = stores(&nodes).await;
    let readers = stores
        .each_ref()
        .map(|store| Reader::start(&store.url, "{window: 30s}"));
    for (store, reader) in stores.iter().zip(&readers) {
        await_full(reader);
        compare(store, reader, FRESHNESS).await;
    }
    // Readings change: at each moment the stores have different samples, and each program
    // must serve the values of its own store.
    for round in 0..4_u32 {
        nodes.controls.force_value(0, f64::from(20 + 20 * round));
        nodes.controls.force_value(7, f64::from(5 * round));
        for (store, reader) in stores.iter().zip(&readers) {
            for (metric, _) in METRICS {
                in_time(metric, PATIENCE, async || {
                    let served = reader.value(metric)?;
                    // A sample may become visible after the query of this test.
                    agrees(store, &served, FRESHNESS).await
                })
                .await;
            }
        }
    }
    // The last readings are constant: mean of the eight, and their sum.
    let last = [(METRICS[0].0, "45625m"), (METRICS[1].0, "365")];
    for (store, reader) in stores.iter().zip(&readers) {
        reader.await_values(&last);
        compare(store, reader, FRESHNESS).await;
    }
}

/// VictoriaMetrics returns a failed scrape as NaN, and Prometheus leaves it out. With
/// both, the previous reading is valid for the configured time.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_scrape_ends_no_reading() {
    let nodes = exporters().await;
    let stores = stores(&nodes).await;
    let readers = stores
        .each_ref()
        .map(|store| Reader::start(&store.url, "{window: 30s, freshness: 60s}"));
    readers.iter().for_each(await_full);
    nodes.controls.silence(0);
    for store in &stores {
        await_up(store, 1.0).await;
    }
    nodes.controls.resume(0);
    let rightly = |served: &Served| METRICS.contains(&(&served.name, &served.value));
    // Repeats until the gap is outside of the windows.
    for _ in 0..2 * WINDOW {
        for (store, reader) in stores.iter().zip(&readers) {
            for (metric, _) in METRICS {
                let served = reader.value(metric).unwrap();
                assert!(rightly(&served), "{served:?} from {}", store.name);
            }
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    for (store, reader) in stores.iter().zip(&readers) {
        compare(store, reader, 60).await;
    }
}

/// Waits until the store has this many targets up.
async fn await_up(store: &Store, wanted: f64) {
    in_time("targets that are up", PATIENCE, async || {
        let now = crate::served::unix_seconds().to_string();
        let up = store.number("sum(up)", &now).await;
        ok_if(up == Some(wanted), &(&store.name, up))
    })
    .await;
}

//! One series with the samples of two scrapers, imported as by remote write.

use std::fmt::Write as _;
use std::time::Duration;

use super::scene::{METRICS, PERCENT, Reader, compare};
use super::store::Store;
use crate::kubectl::unix_seconds;

/// Each scraper's interval, and the delay of the second, in milliseconds.
const INTERVAL_MS: i64 = 6000;
const BEHIND_MS: i64 = 1500;

/// Samples of both scrapers after `from` and up to `to`, as lines for
/// VictoriaMetrics' import.
fn lines(from: i64, to: i64) -> String {
    let mut lines = String::new();
    for (device, percent) in PERCENT.into_iter().enumerate() {
        let times: Vec<i64> = (from + 1..=to)
            .filter(|ms| ms % INTERVAL_MS == 0 || ms % INTERVAL_MS == BEHIND_MS)
            .collect();
        if times.is_empty() {
            continue;
        }
        let values = vec![percent; times.len()];
        let (node, gpu) = (device / 4, device % 4);
        let metric = serde_json::json!({
            "__name__": "DCGM_FI_DEV_MEM_COPY_UTIL", "job": "nvidia-dcgm-exporter",
            "instance": format!("10.0.0.{node}:9400"), "Hostname": format!("node-{node}"),
            "gpu": gpu.to_string(), "UUID": format!("GPU-{device}"),
            "exported_namespace": "team-a", "exported_pod": format!("train-{device}"),
            "exported_container": "main",
        });
        let line = serde_json::json!({"metric": metric, "values": values, "timestamps": times});
        writeln!(lines, "{line}").unwrap();
    }
    lines
}

fn now_ms() -> i64 {
    (1000.0 * unix_seconds()) as i64
}

/// Writes due samples twice a second; does not end.
async fn keep_writing(url: String, mut written: i64) {
    let client = reqwest::Client::new();
    loop {
        let now = now_ms();
        let text = lines(written, now);
        let sent = client.post(format!("{url}/api/v1/import")).body(text);
        sent.send().await.unwrap().error_for_status().unwrap();
        written = now;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_series_written_by_two_scrapers_has_a_steady_value() {
    let store = Store::victoria_metrics("").await;
    let writer = tokio::spawn(keep_writing(store.url.clone(), now_ms() - 600_000));
    let reader = Reader::start(&store.url, "{}");
    reader.await_values(&METRICS, |_| true);
    // During several scrapes of each, no value is missing and none differs.
    for (metric, value) in METRICS.iter().cycle().take(40) {
        let served = reader.value(metric).unwrap();
        assert_eq!(&served.value, value);
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    compare(&store, &reader).await;
    writer.abort();
}

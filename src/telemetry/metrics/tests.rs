//! The output of a scrape, checked by Prometheus' own tool.

use std::io::Write;
use std::process::{Command, Stdio};

use super::*;

fn promtool(text: &str) -> String {
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool is missing: apt-get install prometheus, or make prerequisites");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    format!("{}{}", output.status, String::from_utf8_lossy(&said))
}

#[test]
fn promtool_accepts_the_text() {
    let metrics = Metrics::new().unwrap();
    let took = Duration::from_millis(30);
    metrics
        .queries_total
        .add(["prometheus", "DCGM_FI_DEV_GPU_UTIL", "timeout"], 2);
    metrics
        .query_duration_seconds
        .observe(["DCGM_FI_DEV_GPU_UTIL"], took);
    metrics.series.set([], 3.0);
    let text = metrics.render().unwrap();
    assert_eq!(promtool(&text), "exit status: 0", "{text}");
    let bucket = "gpu_metrics_apiserver_query_duration_seconds_bucket";
    for line in [
        r#"gpu_metrics_apiserver_queries_total{outcome="timeout",server="prometheus",signal="DCGM_FI_DEV_GPU_UTIL"} 2"#,
        "gpu_metrics_apiserver_series 3",
        &format!("{bucket}{{signal=\"DCGM_FI_DEV_GPU_UTIL\",le=\"0.025\"}} 0"),
        &format!("{bucket}{{signal=\"DCGM_FI_DEV_GPU_UTIL\",le=\"0.05\"}} 1"),
        "# HELP gpu_metrics_apiserver_series Series kept in memory.",
        "# TYPE process_cpu_seconds_total counter",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}\n{text}");
    }
}

#[test]
fn unknown_numbers_are_omitted() {
    let metrics = Metrics::new().unwrap();
    let active = "gpu_metrics_apiserver_devices{state=\"active\"}";
    metrics.devices.set(["active"], 1.5);
    let text = metrics.render().unwrap();
    assert!(text.contains(&format!("{active} 1.5")));
    metrics.devices.set(["active"], None);
    assert!(!metrics.render().unwrap().contains(active));
}

#[test]
fn numbers_of_other_parts_are_copied_at_each_scrape() {
    let metrics = Metrics::new().unwrap();
    let count = std::sync::atomic::AtomicU64::new(5);
    metrics.before_scrape(move |families| {
        let count = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        families.rule_queries_refused_total.set(["metric"], count);
    });
    for number in [5, 6, 7] {
        let line = format!(
            "\ngpu_metrics_apiserver_rule_queries_refused_total{{kind=\"metric\"}} {number}\n"
        );
        assert!(metrics.render().unwrap().contains(&line));
    }
}

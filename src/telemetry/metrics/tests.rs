//! The output of a scrape, checked by Prometheus' own tool.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::*;

/// Metrics with a number in every family of the catalog.
fn busy() -> Metrics {
    let metrics = Metrics::new(&Health::new());
    let took = Duration::from_millis(30);
    let field = "DCGM_FI_DEV_GPU_UTIL";
    metrics.count(&catalog::QUERIES, &["prometheus", field, "timeout"], 2);
    metrics.observe(&catalog::QUERY_SECONDS, &[field], took);
    metrics.observe(&catalog::SNAPSHOT_SECONDS, &[], took);
    let class = Class {
        verb: "get",
        group: "custom.metrics.k8s.io",
        resource: "pods",
    };
    metrics.begin_request().answered(class, 200, took);
    drop(metrics.begin_request());
    let before = metrics.render(Exposition::OpenMetrics);
    for spec in catalog::ALL {
        if !before.contains(&format!("# TYPE {} ", spec.name)) {
            metrics.read(spec, &vec!["x"; spec.labels.len()], || Some(3.0));
        }
    }
    metrics
}

#[test]
fn promtool_accepts_the_prometheus_format() {
    let text = busy().render(Exposition::Prometheus);
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
    let said = String::from_utf8_lossy(&said);
    let is_accepted = output.status.success() && said.trim().is_empty();
    assert!(is_accepted, "{said}\n{text}");
}

#[test]
fn every_family_is_in_the_catalog_and_every_entry_is_written_once() {
    let text = busy().render(Exposition::Prometheus);
    let written = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let mut written: Vec<String> = written.map(str::to_owned).collect();
    let listed = catalog::ALL.iter();
    let listed = listed.map(|spec| format!("{} {}", spec.full_name(), spec.written_kind().0));
    let mut listed: Vec<String> = listed.collect();
    written.sort();
    listed.sort();
    assert_eq!(written, listed);
    for spec in catalog::ALL {
        let help = format!("# HELP {} {}.\n", spec.full_name(), spec.help);
        assert!(text.contains(&help), "{help}");
        let end = match spec.kind {
            MetricType::Histogram => "_count",
            _ => spec.written_kind().1,
        };
        let name = format!("{}{end}", spec.name);
        let sample = text.lines().find(|line| line.starts_with(&name)).unwrap();
        for label in spec.labels {
            assert!(sample.contains(&format!("{label}=\"")), "{sample}");
        }
    }
}

#[test]
fn unknown_numbers_are_omitted() {
    let metrics = Metrics::new(&Health::new());
    let render = || metrics.render(Exposition::Prometheus);
    let active = "gpu_metrics_apiserver_devices{state=\"active\"}";
    metrics.show(&catalog::DEVICES, &["active"], Some(1.5));
    assert!(render().contains(&format!("{active} 1.5")));
    metrics.show(&catalog::DEVICES, &["active"], None);
    assert!(!render().contains(active));
}

#[test]
fn a_request_without_an_answer_is_aborted() {
    let metrics = Metrics::new(&Health::new());
    let under_way = metrics.begin_request();
    let render = || metrics.render(Exposition::Prometheus);
    assert!(render().contains("\ngpu_metrics_apiserver_requests_in_flight 1.0\n"));
    drop(under_way);
    assert!(render().contains("\ngpu_metrics_apiserver_requests_in_flight 0.0\n"));
    assert!(render().contains("\ngpu_metrics_apiserver_requests_aborted_total 1\n"));
}

//! ServiceMonitor, alerts and dashboard refer to existing metrics and pages.

use super::*;
use crate::prometheus::promtool;

/// Checks that every metric of the server in a text is in docs/metrics.md.
fn assert_known(text: &str) {
    let known = std::fs::read_to_string(root().join("docs/metrics.md")).unwrap();
    let prefix = "gpu_metrics_apiserver_";
    let mut count = 0;
    for (at, _) in text.match_indices(prefix) {
        let rest = &text[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let name = &rest[..end.unwrap_or(rest.len())];
        let name = name.strip_suffix("_bucket").unwrap_or(name);
        assert!(known.contains(&format!("| `{name}` |")), "{name}");
        count += 1;
    }
    assert!(count > 0, "{text}");
}

#[test]
fn prometheus_takes_the_alerts() {
    let objects = render("our-keys");
    let rule = one(&objects, "PrometheusRule");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules.json");
    std::fs::write(&file, rule["spec"].to_string()).unwrap();
    promtool(&["check", "rules", "--lint-fatal", file.to_str().unwrap()]);
    assert_known(&rule.to_string());
}

/// `alerts.promtool.yml` has the conditions and texts of each alert.
#[test]
fn the_alerts_fire_when_they_should() {
    let tests = root().join("e2e/chart/alerts.promtool.yml");
    promtool(&["test", "rules", tests.to_str().unwrap()]);
}

/// The pages that alerts link to.
#[test]
fn every_alert_links_to_an_existing_page() {
    let text = std::fs::read_to_string(root().join("alerts/gpu-metrics-apiserver.yaml")).unwrap();
    let charts = root().join("charts/gpu-metrics-apiserver/files/alerts.yaml");
    assert_eq!(
        text,
        std::fs::read_to_string(charts).unwrap(),
        "make manifests"
    );
    let file: Value = serde_saphyr::from_str(&text).unwrap();
    for alert in file["groups"][0]["rules"].as_array().unwrap() {
        let link = alert["annotations"]["runbook_url"].as_str().unwrap();
        let link = link.replace("{{ $labels.code }}", "GM408");
        let (page, section) = link.split_once('#').unwrap_or((&link, ""));
        let page = std::fs::read_to_string(root().join(page));
        let page = page.unwrap_or_else(|error| panic!("{link}: {error}"));
        let mut headings = page.lines().filter_map(|line| line.strip_prefix("## "));
        let is_there = headings.any(|heading| heading.to_lowercase() == section);
        assert!(section.is_empty() || is_there, "{link}");
    }
}

/// `dashboard.rs` runs the dashboard's queries.
#[test]
fn the_dashboard_is_the_file_and_queries_existing_metrics() {
    let objects = render("our-keys");
    let map = named(&objects, "ConfigMap", &format!("{FULL}-dashboard"));
    let text = map["data"]["gpu-metrics-apiserver.json"].as_str().unwrap();
    let file = root().join("dashboards/gpu-metrics-apiserver.json");
    assert_eq!(
        text,
        std::fs::read_to_string(file).unwrap(),
        "make manifests"
    );
    assert_known(text);
}

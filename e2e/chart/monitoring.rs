//! ServiceMonitor, alerts and dashboard: what they ask for is there.

use serde_json::json;

use super::*;

fn metrics_of_the_server() -> String {
    std::fs::read_to_string(root().join("docs/metrics.md")).unwrap()
}

/// Every name of a metric of the server's own in a text is in docs/metrics.md.
fn assert_known(text: &str) {
    let known = metrics_of_the_server();
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

/// What promtool says of a file with rules.
fn promtool(arguments: &[&str]) {
    let output = Command::new("promtool").args(arguments).output();
    let output = output.unwrap_or_else(|error| {
        panic!(
            "promtool is not installed, and reads these rules: apt-get install prometheus ({error})"
        )
    });
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complaint}");
}

#[test]
fn the_server_is_scraped_verified_by_a_prometheus_that_may() {
    let objects = render("our-keys");
    let monitor = one(&objects, "ServiceMonitor");
    assert_eq!(monitor["metadata"]["labels"]["release"], "stack");
    let service = one(&objects, "Service");
    let labels = service["metadata"]["labels"].as_object().unwrap();
    let selector = monitor["spec"]["selector"]["matchLabels"]
        .as_object()
        .unwrap();
    for (label, value) in selector {
        assert_eq!(labels[label], *value);
    }
    let endpoint = &monitor["spec"]["endpoints"][0];
    assert_eq!(endpoint["port"], service["spec"]["ports"][0]["name"]);
    let wanted = json!({
        "ca": {"secret": {"name": "pairs", "key": "ca.crt"}},
        "serverName": format!("{FULL}.{NAMESPACE}.svc"),
    });
    assert_eq!(endpoint["tlsConfig"], wanted);
    let role = format!("{FULL}:scrape");
    let rules = &named(&objects, "ClusterRole", &role)["rules"];
    assert_eq!(
        *rules,
        json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}])
    );
    let subjects = &named(&objects, "ClusterRoleBinding", &role)["subjects"];
    assert_eq!(subjects[0]["name"], "prometheus-k8s");
}

#[test]
fn prometheus_takes_the_alerts() {
    let objects = render("our-keys");
    let rule = one(&objects, "PrometheusRule");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules.json");
    std::fs::write(&file, rule["spec"].to_string()).unwrap();
    promtool(&["check", "rules", "--lint-fatal", file.to_str().unwrap()]);
    let rules = rule["spec"]["groups"][0]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), 10);
    for alert in rules {
        assert_eq!(
            alert["labels"],
            json!({"severity": "warning", "team": "metrics"})
        );
        assert!(alert["annotations"]["summary"].is_string(), "{alert}");
    }
    assert_known(&rule.to_string());
}

#[test]
fn an_apiservice_that_is_left_to_another_server_is_not_missed() {
    let objects = try_render("keda", &["prometheusRule.enabled=true"]).unwrap();
    let rules = &one(&objects, "PrometheusRule")["spec"]["groups"][0]["rules"];
    let rules = rules.as_array().unwrap();
    assert_eq!(rules.len(), 9);
    let missed = |rule: &Value| rule["alert"] == "GpuMetricsNotRegistered";
    assert!(!rules.iter().any(missed));
}

/// `alerts.promtool.yml` says of each alert when it fires and what it says.
#[test]
fn the_alerts_fire_when_they_should() {
    let tests = root().join("e2e/chart/alerts.promtool.yml");
    promtool(&["test", "rules", tests.to_str().unwrap()]);
}

#[test]
fn the_dashboard_asks_for_what_there_is() {
    let objects = render("our-keys");
    let map = named(&objects, "ConfigMap", &format!("{FULL}-dashboard"));
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    let text = map["data"]["gpu-metrics-apiserver.json"].as_str().unwrap();
    let dashboard: Value = serde_json::from_str(text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let asked = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let rules: Vec<Value> = asked
        .map(|target| target["expr"].as_str().unwrap())
        .map(|expr| expr.replace("$__rate_interval", "5m"))
        .enumerate()
        .map(|(at, expr)| json!({"record": format!("asked:{at}"), "expr": expr}))
        .collect();
    assert!(rules.len() > 15, "{}", rules.len());
    let file = json!({"groups": [{"name": "dashboard", "rules": rules}]}).to_string();
    assert_known(&file);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("dashboard.json");
    std::fs::write(&path, file).unwrap();
    promtool(&["check", "rules", path.to_str().unwrap()]);
}

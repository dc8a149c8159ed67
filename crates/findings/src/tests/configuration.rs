//! Rights, and configuration files.

use serde_json::json;

use crate::rights::{self, Grant, Installed, Right};
use crate::{Severity, config};

/// The server of the manifests.
fn of_manifests() -> Installed {
    Installed {
        namespace: "gpu-metrics".to_owned(),
        service: "gpu-metrics-apiserver".to_owned(),
        account: "gpu-metrics-apiserver".to_owned(),
        release: None,
        secret: Some("gpu-metrics-apiserver-certificates".to_owned()),
        registered: vec![
            "v1beta2.custom.metrics.k8s.io",
            "v1beta1.custom.metrics.k8s.io",
            "v1beta1.external.metrics.k8s.io",
        ],
    }
}

#[test]
fn every_verb_of_every_rule_of_the_manifests_is_a_right() {
    let asked = |installed: &Installed| {
        let grants = rights::grants(installed).into_iter();
        let grants = grants.map(|it| (it.is_of_autoscaler, it.rights.len()));
        let (autoscaler, server): (Vec<_>, Vec<_>) = grants.partition(|(is, _)| *is);
        assert_eq!(autoscaler, [(true, 4)]);
        let mut server: Vec<usize> = server.into_iter().map(|(_, rights)| rights).collect();
        server.sort_unstable();
        server
    };
    assert_eq!(asked(&of_manifests()), [2, 3, 3, 6, 30]);
    let mut beside = of_manifests();
    beside.registered.truncate(2);
    assert_eq!(asked(&beside), [2, 3, 3, 4, 30]);
    // With a provided certificate the server writes no `caBundle`.
    beside.secret = None;
    assert_eq!(asked(&beside), [2, 3, 30]);
}

#[test]
fn gm201_and_gm202_name_the_missing_rights_and_what_grants_them() {
    let installed = Installed {
        namespace: "ns".to_owned(),
        service: "gm".to_owned(),
        account: "sa".to_owned(),
        release: Some(["ns", "release"].map(str::to_owned)),
        ..of_manifests()
    };
    let all = rights::grants(&installed);
    let of = |role: &str| -> &Grant {
        let has = |it: &&Grant| {
            let found = it.finding(&installed, &it.rights).unwrap();
            found.remedy.contains(role)
        };
        all.iter().find(has).unwrap()
    };
    let found = |role: &str, is_missing: fn(&Right) -> bool| {
        let mut missing = of(role).rights.clone();
        missing.retain(is_missing);
        of(role).finding(&installed, &missing)
    };
    assert_eq!(found("gm:inventory", |_| false), None);
    let watches = found("gm:inventory", |it| it.verb == "watch").unwrap();
    assert_eq!(
        (&*watches.code, &*watches.object),
        ("GM201", "ServiceAccount ns/sa")
    );
    let said = &watches.message;
    let is_right = said.starts_with("may not watch ") && said.contains("; watch cronjobs.batch");
    assert!(is_right, "{said}");
    for (role, code) in [
        ("ClusterRole gm:inventory", "GM201"),
        ("ClusterRole system:auth-delegator", "GM201"),
        (
            "Role extension-apiserver-authentication-reader in kube-system",
            "GM201",
        ),
        ("Role gm:certificates in ns", "GM201"),
        ("ClusterRole gm:registration", "GM201"),
        ("ClusterRole gm:autoscaler", "GM202"),
    ] {
        let found = found(role, |_| true).unwrap();
        assert_eq!((&*found.code, found.command), (code, None));
        let helm = "helm upgrade for the release ns/release";
        assert!(found.remedy.contains(helm), "{}", found.remedy);
    }
    // The manifests can be applied again as they are.
    let installed = of_manifests();
    let grants = rights::grants(&installed);
    let found = grants[0].finding(&installed, &grants[0].rights).unwrap();
    let command = "kubectl apply -f manifests/rbac.yaml";
    assert_eq!(found.command.as_deref(), Some(command));
}

#[test]
fn gm601_is_about_skipped_rules_and_misleading_queries() {
    let rule = |query: &str| json!({"seriesQuery": "a", "metricsQuery": query});
    let series = "<<.Series>>{<<.LabelMatchers>>}";
    for (list, rules, count) in [
        (
            "rules",
            vec![rule(&format!("sum({series}) by (<<.GroupBy>>)"))],
            0,
        ),
        ("rules", vec![rule(series)], 0),
        ("rules", vec![rule(&format!("sum({series})"))], 1),
        ("rules", vec![rule("sum(<<.Series>>) by (<<.GroupBy>>)")], 1),
        ("rules", vec![rule("sum(<<.Series>>)")], 2),
        ("externalRules", vec![rule(&format!("sum({series})"))], 0),
    ] {
        let file = json!({list: rules});
        let found = config::check("File a", &file, &[]);
        assert_eq!(found.len(), count, "{file}: {found:?}");
        assert!(found.iter().all(|it| it.code == "GM601"));
    }
    let faults = ["rules[0] is odd".to_owned()];
    assert_eq!(config::check("File a", &json!({}), &faults).len(), 1);
    let refused = config::refused("File a", "line 3");
    assert_eq!(refused.severity, Severity::Error);
}

#[test]
fn gm601_is_about_queries_that_prometheus_refuses_and_counters_as_they_are() {
    let by = "by (<<.GroupBy>>)";
    let external = |query: &str, namespaced: bool| {
        json!({"externalRules": [{"seriesQuery": "q", "metricsQuery": query,
            "resources": {"namespaced": namespaced}}]})
    };
    let custom = |series: &str, query: &str| json!({"rules": [{"seriesQuery": series, "metricsQuery": query}]});
    let after = format!("sum(<<.Series>>{{<<.LabelMatchers>>, queue=~\"a.*\"}}) {by}");
    let before = format!("sum(<<.Series>>{{queue=~\"a.*\",<<.LabelMatchers>>}}) {by}");
    let sum = format!("sum(<<.Series>>{{<<.LabelMatchers>>}}) {by}");
    let rate = format!("sum(rate(<<.Series>>{{<<.LabelMatchers>>}}[2m])) {by}");
    for (file, says) in [
        (
            external(&after, false),
            "a comma follows { when a request has no selector",
        ),
        (external(&after, true), ""),
        (external(&before, false), ""),
        (custom("a", &after), ""),
        (
            custom("{__name__=~\"^http_.*\",namespace!=\"\"", &sum),
            "seriesQuery: Prometheus refuses the query: a { is not closed",
        ),
        (custom("a{b=\"{\\\"\"}", &sum), ""),
        (
            custom(
                "a",
                "sum(<<.Series>>{<<.LabelMatchers>>}[2m) by (<<.GroupBy>>)",
            ),
            "a ) has no (",
        ),
        (custom("a{b='c}", &sum), "a ' is not closed"),
        (
            custom("http_requests_total{pod!=\"\"}", &sum),
            "http_requests_total has the name of a counter",
        ),
        (custom("http_requests_total{pod!=\"\"}", &rate), ""),
    ] {
        let found = config::check("File a", &file, &[]);
        let said: Vec<&str> = found.iter().map(|it| it.message.as_str()).collect();
        let is_right = match says {
            "" => said.is_empty(),
            says => said.len() == 1 && said[0].contains(says),
        };
        assert!(is_right, "{file}: {said:?}");
    }
}

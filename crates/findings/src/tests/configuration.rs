//! Rights, and configuration files.

use adapter_rules::raw::RuleEntry;
use adapter_rules::rule::Rules;
use serde_json::{Value, json};

use crate::rights::{Account, Installed, Right};
use crate::{Severity, config};

/// The server of the manifests.
fn of_manifests() -> Installed {
    Installed {
        namespace: "gpu-metrics".to_owned(),
        service: "gpu-metrics-apiserver".to_owned(),
        account: "gpu-metrics-apiserver".to_owned(),
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
    let needs = |account: Account, of: &Installed| account.needs(of).len();
    assert_eq!(needs(Account::Autoscaler, &of_manifests()), 4);
    assert_eq!(needs(Account::Server, &of_manifests()), 44);
    let mut beside = of_manifests();
    beside.registered.truncate(2);
    assert_eq!(needs(Account::Server, &beside), 42);
    // With a provided certificate the server writes no `caBundle`.
    beside.secret = None;
    assert_eq!(needs(Account::Server, &beside), 35);
}

#[test]
fn gm201_and_gm202_name_the_missing_rights_and_what_grants_them() {
    let installed = Installed {
        namespace: "ns".to_owned(),
        service: "gm".to_owned(),
        account: "sa".to_owned(),
        ..of_manifests()
    };
    let lacks = |account: Account, of: &Installed, is_missing: fn(&Right) -> bool| {
        let mut missing = account.needs(of);
        missing.retain(is_missing);
        account.lacks(&missing, of)
    };
    assert_eq!(lacks(Account::Server, &installed, |_| false), None);
    let watches = lacks(Account::Server, &installed, |it| it.verb == "watch").unwrap();
    assert_eq!(
        (&*watches.code, &*watches.object),
        ("GM201", "ServiceAccount ns/sa")
    );
    let said = &watches.message;
    let is_right = said.starts_with("may not watch ") && said.contains("; watch cronjobs.batch");
    assert!(is_right, "{said}");
    let all = lacks(Account::Server, &installed, |_| true).unwrap();
    for right in [
        "get, list, watch configmaps extension-apiserver-authentication",
        "create tokenreviews.authentication.k8s.io",
        "get, patch, create secrets gpu-metrics-apiserver-certificates",
        "get, patch apiservices.apiregistration.k8s.io v1beta1.external.metrics.k8s.io",
    ] {
        assert!(all.message.contains(right), "{}", all.message);
    }
    assert_eq!(all.command, None);
    assert!(all.remedy.contains("helm upgrade"), "{}", all.remedy);
    let controller = lacks(Account::Autoscaler, &installed, |_| true).unwrap();
    assert_eq!(
        (&*controller.code, &*controller.object),
        (
            "GM202",
            "ServiceAccount kube-system/horizontal-pod-autoscaler"
        )
    );
    // The manifests can be applied again as they are.
    let found = lacks(Account::Server, &of_manifests(), |_| true).unwrap();
    let command = "kubectl apply -f manifests/rbac.yaml";
    assert_eq!(found.command.as_deref(), Some(command));
}

fn found_in(list: &str, rule: &Value) -> Vec<String> {
    let raw: Vec<RuleEntry> = serde_saphyr::from_str(&json!([rule]).to_string()).unwrap();
    let rules = Rules::resolve(list, &raw).usable;
    let found = config::rule("File a", &rules[0], list == "externalRules");
    assert!(found.iter().all(|it| it.code == "GM601"));
    found.into_iter().map(|it| it.message).collect()
}

#[test]
fn gm601_is_about_misleading_queries() {
    let series = "<<.Series>>{<<.LabelMatchers>>}";
    for (list, query, count) in [
        ("rules", format!("sum({series}) by (<<.GroupBy>>)"), 0),
        ("rules", series.to_owned(), 0),
        ("rules", format!("sum({series})"), 1),
        ("rules", "sum(<<.Series>>) by (<<.GroupBy>>)".to_owned(), 1),
        ("rules", "sum(<<.Series>>)".to_owned(), 2),
        ("externalRules", format!("sum({series})"), 0),
    ] {
        let rule = json!({"seriesQuery": "a", "metricsQuery": query});
        let found = found_in(list, &rule);
        assert_eq!(found.len(), count, "{rule}: {found:?}");
    }
    let refused = config::refused("File a", "line 3");
    assert_eq!(refused.severity, Severity::Error);
}

#[test]
fn gm601_is_about_queries_that_prometheus_refuses_and_counters_as_they_are() {
    let external = |query: &str, namespaced: bool| {
        let rule = json!({"seriesQuery": "q", "metricsQuery": query,
            "resources": {"namespaced": namespaced}});
        ("externalRules", rule)
    };
    let custom = |series: &str, query: &str| {
        let query = format!("{query} by (<<.GroupBy>>)");
        (
            "rules",
            json!({"seriesQuery": series, "metricsQuery": query}),
        )
    };
    let after = "sum(<<.Series>>{<<.LabelMatchers>>, queue=~\"a.*\"})";
    let before = "sum(<<.Series>>{queue=~\"a.*\",<<.LabelMatchers>>})";
    let sum = "sum(<<.Series>>{<<.LabelMatchers>>})";
    let rate = "sum(rate(<<.Series>>{<<.LabelMatchers>>}[2m]))";
    for ((list, rule), says) in [
        (
            external(after, false),
            "a comma follows { when a request has no selector",
        ),
        (external(after, true), ""),
        (external(before, false), ""),
        (custom("a", after), ""),
        (
            custom("{__name__=~\"^http_.*\",namespace!=\"\"", sum),
            "seriesQuery: Prometheus refuses the query: a { is not closed",
        ),
        (custom("a{b=\"{\\\"\"}", sum), ""),
        (
            custom("a", "sum(<<.Series>>{<<.LabelMatchers>>}[2m)"),
            "a ) has no (",
        ),
        (custom("a{b='c}", sum), "a ' is not closed"),
        (
            custom("http_requests_total{pod!=\"\"}", sum),
            "the series has the name of a counter",
        ),
        (custom("http_requests_total{pod!=\"\"}", rate), ""),
    ] {
        let said = found_in(list, &rule);
        let is_right = match says {
            "" => said.is_empty(),
            says => said.len() == 1 && said[0].contains(says),
        };
        assert!(is_right, "{rule}: {said:?}");
    }
}

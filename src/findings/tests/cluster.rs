//! Registration, rights, configuration files and flags.

use serde_json::{Value, json};

use super::{codes_of, read};
use crate::core::time::Timestamp;
use crate::findings::registration::{self, Registered};
use crate::findings::{Severity, config, rights};

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

/// An APIService of ours that is available; `over` replaces fields of its spec.
fn registered(over: &Value, condition: &Value) -> Registered {
    let mut spec = json!({
        "group": "custom.metrics.k8s.io", "version": "v1beta2", "groupPriorityMinimum": 100, "versionPriority": 100,
        "service": {"namespace": "gpu-metrics", "name": "gpu-metrics-apiserver"},
    });
    for (key, value) in over.as_object().unwrap() {
        spec[key] = value.clone();
    }
    Registered {
        name: "v1beta2.custom.metrics.k8s.io".to_owned(),
        object: read(json!({
            "metadata": {"annotations": {"meta.helm.sh/release-name": "pa", "meta.helm.sh/release-namespace": "monitoring"}},
            "spec": spec, "status": {"conditions": [condition]},
        })),
        ..Registered::default()
    }
}

fn available(status: &str, reason: &str, message: &str) -> Value {
    json!({"type": "Available", "status": status, "reason": reason, "message": message})
}

#[test]
fn gm101_is_another_servers_service_and_not_ours_by_another_name() {
    let fine = available("True", "Passed", "");
    assert_eq!(registration::owner(&registered(&json!({}), &fine)), None);
    let other = json!({"service": {"namespace": "monitoring", "name": "prometheus-adapter"}});
    let mut theirs = registered(&other, &fine);
    let found = registration::owner(&theirs).unwrap();
    assert!(
        found
            .message
            .contains("monitoring/prometheus-adapter (Helm release monitoring/pa)"),
        "{}",
        found.message
    );
    theirs.service_label = Some("gpu-metrics-apiserver".to_owned());
    assert_eq!(registration::owner(&theirs), None);
    theirs.service_label = Some(String::new());
    assert!(registration::owner(&theirs).is_some());
    let nobody = Registered::default();
    assert_eq!(registration::owner(&nobody), None);
}

#[test]
fn gm102_and_gm103_tell_what_is_away_from_what_is_not_trusted() {
    let fine = available("True", "Passed", "");
    let secure = json!({});
    let insecure = json!({"insecureSkipTLSVerify": true});
    let x509 = "failing or missing response: tls: failed to verify certificate: x509: certificate signed by unknown authority";
    for (over, condition, wanted) in [
        (&secure, fine.clone(), vec![]),
        (
            &secure,
            available("False", "MissingEndpoints", "endpoints have no addresses"),
            vec![("GM102", Severity::Error)],
        ),
        (
            &secure,
            available("False", "FailedDiscoveryCheck", "context deadline exceeded"),
            vec![("GM102", Severity::Error)],
        ),
        (
            &secure,
            available("False", "FailedDiscoveryCheck", x509),
            vec![("GM103", Severity::Error)],
        ),
        (&insecure, fine, vec![("GM103", Severity::Warning)]),
    ] {
        let found = registration::check(&registered(over, &condition), NOW);
        let found: Vec<_> = found.iter().map(|it| (it.code, it.severity)).collect();
        assert_eq!(found, wanted, "{condition}");
    }
    let status = "failing or missing response from https://10.0.0.1: bad status from https://10.0.0.1/apis: ";
    for (status, remedy) in [
        (format!("{status}404"), "another server"),
        (format!("{status}503"), "refuses"),
        ("context deadline exceeded".to_owned(), "firewall"),
    ] {
        let condition = available("False", "FailedDiscoveryCheck", &status);
        let found = registration::check(&registered(&secure, &condition), NOW);
        assert!(found[0].remedy.contains(remedy), "{status}: {found:?}");
    }
    let missing = registration::check(&Registered::default(), NOW);
    assert_eq!(codes_of(missing), ["GM102"]);
}

#[test]
fn gm104_is_an_authority_with_less_than_three_days() {
    for (hours, is_found) in [(-1, true), (48, true), (73, false)] {
        let mut registered = registered(&json!({}), &available("True", "Passed", ""));
        registered.authority_ends = Some(Timestamp::from_secs(NOW.secs() + hours * 3600));
        let found = codes_of(registration::check(&registered, NOW));
        assert_eq!(found == ["GM104"], is_found, "{hours}");
    }
}

#[test]
fn gm201_and_gm202_name_the_rule_that_is_missing() {
    let found = rights::server_may_not("gpu-metrics/server", &rights::SERVER[0]);
    assert_eq!(
        (found.code, found.message.as_str()),
        ("GM201", "may not list pods")
    );
    assert!(
        found
            .remedy
            .contains(r#"{apiGroups: [""], resources: ["pods"], verbs: [list]}"#),
        "{}",
        found.remedy
    );
    let last = rights::server_may_not("x/y", &rights::SERVER[6]);
    assert!(
        last.remedy.contains("Role in kube-system"),
        "{}",
        last.remedy
    );
    let found = rights::autoscaler_may_not("kube-system/hpa", &rights::AUTOSCALER[0]);
    assert_eq!(found.code, "GM202");
}

#[test]
fn gm601_is_about_rules_that_are_left_out_or_do_not_mean_what_they_say() {
    let rule = |query: &str| json!({"seriesQuery": "a", "metricsQuery": query});
    let named = |name: &str| json!({"name": {"as": name}, "metricsQuery": "<<.Series>>{<<.LabelMatchers>>}"});
    for (file, count) in [
        (
            json!({"rules": [rule("sum(<<.Series>>{<<.LabelMatchers>>}) by (<<.GroupBy>>)")]}),
            0,
        ),
        (
            json!({"rules": [rule("<<.Series>>{<<.LabelMatchers>>}")]}),
            0,
        ),
        (
            json!({"rules": [rule("sum(<<.Series>>{<<.LabelMatchers>>})")]}),
            1,
        ),
        (
            json!({"rules": [rule("sum(<<.Series>>) by (<<.GroupBy>>)")]}),
            1,
        ),
        (json!({"rules": [rule("sum(<<.Series>>)")]}), 2),
        (
            json!({"externalRules": [rule("sum(<<.Series>>{<<.LabelMatchers>>})")]}),
            0,
        ),
        (json!({"rules": [named("x"), named("y"), named("x")]}), 1),
        (json!({"rules": [named("${1}_x"), named("${1}_x")]}), 0),
    ] {
        let found = config::check("File a", &file, &[]);
        assert_eq!(found.len(), count, "{file}: {found:?}");
        assert!(found.iter().all(|it| it.code == "GM601"));
    }
    assert_eq!(
        config::check("File a", &json!({}), &["rules[0] is odd".to_owned()]).len(),
        1
    );
    assert_eq!(
        config::refused("File a", "line 3").severity,
        Severity::Error
    );
}

#[test]
fn gm602_has_a_finding_for_each_flag() {
    assert_eq!(config::flags("Deployment a/b", &[]), []);
    assert_eq!(
        codes_of(config::flags(
            "Deployment a/b",
            &["--x has no effect".to_owned()]
        )),
        ["GM602"]
    );
}

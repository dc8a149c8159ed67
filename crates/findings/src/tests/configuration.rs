//! Rights, configuration files and flags.

use serde_json::{Value, json};

use super::codes_of;
use crate::rights::{Installed, Right, Role};
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
        others: Vec::new(),
    }
}

#[test]
fn the_table_of_rights_is_that_of_the_manifests() {
    let text = include_str!("../../../../manifests/rbac.yaml");
    let mut manifests: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    for object in &mut manifests {
        object["metadata"].as_object_mut().unwrap().remove("labels");
    }
    let roles = [&Role::SERVER[..], &[Role::Autoscaler]].concat();
    let objects = roles.iter().flat_map(|role| role.objects(&of_manifests()));
    let sorted = |mut objects: Vec<Value>| {
        objects.sort_by_key(|it| format!("{}{}", it["kind"], it["metadata"]["name"]));
        objects
    };
    assert_eq!(sorted(objects.collect()), sorted(manifests));
}

#[test]
fn every_verb_of_every_rule_is_a_right() {
    let asked = |installed: &Installed| {
        let rights = Role::SERVER.iter().map(|role| role.rights(installed));
        rights.map(|rights| rights.len()).collect::<Vec<_>>()
    };
    assert_eq!(asked(&of_manifests()), [30, 2, 3, 6, 3]);
    let mut beside = of_manifests();
    beside.others = beside.registered.split_off(2);
    assert_eq!(asked(&beside), [30, 2, 3, 5, 3]);
    // With a provided certificate the server writes no `caBundle`.
    beside.secret = None;
    assert_eq!(asked(&beside), [30, 2, 3, 0, 0]);
}

#[test]
fn gm201_and_gm202_name_the_missing_rights_and_the_command_that_grants_them() {
    let installed = Installed {
        service: "gm".to_owned(),
        account: "sa".to_owned(),
        release: Some(["ns", "release"].map(str::to_owned)),
        ..of_manifests()
    };
    let found = |role: Role, is_missing: fn(&Right<'_>) -> bool| {
        let mut missing = role.rights(&installed);
        missing.retain(is_missing);
        role.finding(&installed, &missing)
    };
    assert_eq!(found(Role::Inventory, |_| false), None);
    let watches = found(Role::Inventory, |it| it.verb == "watch").unwrap();
    assert_eq!(
        (watches.code, &*watches.object),
        ("GM201", "ServiceAccount gpu-metrics/sa")
    );
    let said = &watches.message;
    let is_right = said.starts_with("may not watch cronjobs.batch, ") && said.contains(", pods, ");
    assert!(is_right, "{said}");
    assert_eq!(Role::Autoscaler.code().id, "GM202");
    for (role, says) in [
        (Role::Inventory, "ClusterRole gm:inventory"),
        (Role::Reviews, "ClusterRole system:auth-delegator"),
        (
            Role::Authentication,
            "extension-apiserver-authentication-reader in kube-system",
        ),
        (Role::Certificates, "Role gm:certificates in gpu-metrics"),
        (Role::Registration, "ClusterRole gm:registration"),
        (Role::Autoscaler, "ClusterRole gm:autoscaler"),
    ] {
        let found = found(role, |_| true).unwrap();
        assert_eq!(found.code, role.code().id);
        assert!(found.remedy.contains(says), "{}", found.remedy);
        let command = found.command.unwrap();
        let list = command.strip_prefix("echo '").unwrap();
        let list = list
            .strip_suffix("' | kubectl auth reconcile -f -")
            .unwrap();
        let list: Value = serde_json::from_str(list).unwrap();
        assert_eq!(list["items"], json!(role.objects(&installed)));
        // An upgrade of the release adopts them.
        let annotations = &list["items"][0]["metadata"]["annotations"];
        assert_eq!(annotations["meta.helm.sh/release-name"], "release");
    }
}

#[test]
fn gm601_is_about_skipped_rules_and_misleading_queries() {
    let rule = |query: &str| json!({"seriesQuery": "a", "metricsQuery": query});
    let named = |name: &str| json!({"name": {"as": name}, "metricsQuery": "<<.Series>>{<<.LabelMatchers>>}"});
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
        ("rules", vec![named("x"), named("y"), named("x")], 1),
        ("rules", vec![named("${1}_x"), named("${1}_x")], 0),
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
fn gm602_has_a_finding_for_each_flag() {
    for sentences in [vec![], vec!["--x has no effect".to_owned()]] {
        let found = codes_of(config::flags("Deployment a/b", &sentences));
        assert_eq!(found, vec!["GM602"; sentences.len()]);
    }
}

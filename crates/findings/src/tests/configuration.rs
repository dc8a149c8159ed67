//! Rights, and configuration files.

use adapter_rules::raw::RuleEntry;
use adapter_rules::rule::Rules;

use super::{told, transcript};
use crate::rights::{Account, Installed};
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
    transcript::compare("src/tests/rights.txt", |line| {
        let (installed, account) = match line.split_once(" of manifests/rbac.yaml") {
            Some(_) => (of_manifests(), Account::Server),
            None if line.starts_with("server") => (installed.clone(), Account::Server),
            None => (installed.clone(), Account::Autoscaler),
        };
        let mut missing = account.needs(&installed);
        missing.retain(|it| line.ends_with("all") || line.ends_with(&it.verb));
        let found = account.lacks(&missing, &installed);
        told(found.as_slice())
    });
}

#[test]
fn gm601_is_about_queries_that_mislead_and_those_that_prometheus_refuses() {
    transcript::compare("src/tests/rules.txt", |line| {
        let (list, rule) = line.split_once(' ').unwrap();
        let raw: Vec<RuleEntry> = serde_saphyr::from_str(&format!("- {rule}")).unwrap();
        let rules = Rules::resolve(list, &raw).usable;
        told(&config::rule("File a", &rules[0], list == "externalRules"))
    });
    let refused = config::refused("File a", "line 3");
    assert_eq!(refused.severity, Severity::Error);
}

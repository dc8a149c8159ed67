//! Registration: the APIServices and the server behind them.

use serde_json::json;

use super::{read, told, transcript};
use crate::registration::{self, AnsweringServer, Registered};

const NAMES: [&str; 4] = [
    "v1beta2.custom.metrics.k8s.io",
    "v1beta1.custom.metrics.k8s.io",
    "v1beta1.external.metrics.k8s.io",
    "v1.metrics.k8s.io",
];

/// An APIService, as `registration.txt` describes.
fn registered(text: &str) -> Registered {
    let (text, failure) = split(text, " refused ");
    let (text, condition) = split(text, " failed ");
    let (text, service) = split(text, " at ");
    let words: Vec<&str> = text.split(' ').collect();
    let has = |word: &str| words.contains(&word);
    let name = NAMES.into_iter().find(|name| name.starts_with(words[0]));
    let name = name.unwrap();
    if has("absent") {
        return Registered {
            name,
            ..Registered::default()
        };
    }
    let (namespace, service) =
        service.map_or(("gpu-metrics", "gm"), |it| it.split_once('/').unwrap());
    let (status, reason) = match condition {
        Some(reason) => ("False", reason),
        None => ("True", "Passed: "),
    };
    let (reason, message) = reason.split_once(": ").unwrap();
    let condition =
        json!({"type": "Available", "status": status, "reason": reason, "message": message});
    let object = json!({
        "metadata": {},
        "spec": {
            "group": "custom.metrics.k8s.io", "version": "v1beta2",
            "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": {"namespace": namespace, "name": service},
            "insecureSkipTLSVerify": has("insecure"),
        },
        "status": {"conditions": [condition]},
    });
    let labels = match has("labelled") {
        true => json!({"app.kubernetes.io/name": "gpu-metrics-apiserver"}),
        false => json!({}),
    };
    Registered {
        name,
        object: read(object),
        service: read(json!({"metadata": {"labels": labels}})),
        answers: match (has("other"), has("none")) {
            (true, _) => AnsweringServer::Other,
            (_, true) => AnsweringServer::NoServer,
            _ => AnsweringServer::Ours,
        },
        failure: failure.map(str::to_owned),
    }
}

fn split<'t>(text: &'t str, at: &str) -> (&'t str, Option<&'t str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

#[test]
fn each_registration_has_its_findings() {
    transcript::compare("src/tests/registration.txt", |line| {
        let (all, is_pre) = match line.strip_prefix("pre ") {
            Some(all) => (all, true),
            None => (line, false),
        };
        let all: Vec<Registered> = all.split(" ; ").map(registered).collect();
        told(&registration::check(&all, is_pre))
    });
}

#[test]
fn an_unreachable_server_is_identified_by_the_label_of_its_service() {
    let all = [
        "v1beta2.custom none at monitoring/prometheus-adapter",
        "v1beta2.custom none labelled at monitoring/prometheus-adapter",
        "v1beta2.custom",
    ];
    let all = all.map(registered);
    assert_eq!(registration::home(&all[..1]), None);
    assert_eq!(registration::home(&all[..2]), Some(&all[1]));
    assert_eq!(registration::home(&all), Some(&all[2]));
}

#[test]
fn gm102_is_also_an_apiservice_of_resource_metrics_that_no_server_serves() {
    let home = Some(("gpu-metrics", "gm"));
    let left = "v1.metrics none failed ServiceNotFound: no";
    for (text, home, is_found) in [
        (left, home, true),
        // It is not ours.
        (left, None, false),
        (left, Some(("kube-system", "metrics-server")), false),
        // Another server took it over.
        ("v1.metrics other failed ServiceNotFound: no", home, false),
        ("v1.metrics none", home, false),
    ] {
        let found = registration::check_resource(&registered(text), home);
        assert_eq!(found.len(), usize::from(is_found), "{text} {home:?}");
        for finding in found {
            assert_eq!(finding.code, "GM102");
            assert!(finding.remedy.contains("delete the APIService"));
        }
    }
    assert_eq!(
        registration::check_resource(&Registered::default(), home),
        []
    );
}

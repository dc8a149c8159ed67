//! Registration: the APIServices and the server behind them.

use serde_json::{Value, json};

use super::read;
use crate::registration::{self, AnsweringServer, Registered};
use crate::{Finding, Severity};

/// An APIService that leads to this server; `over` replaces fields of its spec.
fn registered(over: &Value, condition: &Value) -> Registered {
    let mut spec = json!({
        "group": "custom.metrics.k8s.io", "version": "v1beta2", "groupPriorityMinimum": 100, "versionPriority": 100,
        "service": {"namespace": "gpu-metrics", "name": "gm"},
    });
    for (key, value) in over.as_object().unwrap() {
        spec[key] = value.clone();
    }
    Registered {
        name: "v1beta2.custom.metrics.k8s.io",
        object: read(json!({
            "metadata": {},
            "spec": spec, "status": {"conditions": [condition]},
        })),
        answers: AnsweringServer::Ours,
        ..Registered::default()
    }
}

fn available(status: &str, reason: &str, message: &str) -> Value {
    json!({"type": "Available", "status": status, "reason": reason, "message": message})
}

fn fine() -> Value {
    available("True", "Passed", "")
}

/// An APIService that leads to prometheus-adapter's Service, with every fault.
fn theirs(answers: AnsweringServer) -> Registered {
    let over = json!({
        "service": {"namespace": "monitoring", "name": "prometheus-adapter"},
        "insecureSkipTLSVerify": true,
    });
    Registered {
        answers,
        ..registered(&over, &available("False", "MissingEndpoints", "no"))
    }
}

#[test]
fn gm101_depends_on_the_answering_server_and_is_the_only_finding_there() {
    let ours = [registered(&json!({}), &fine())];
    let check = |of: AnsweringServer, ours: &[Registered], pre| {
        let all = [ours, &[theirs(of)]].concat();
        let found = registration::check(&all, pre);
        found
            .into_iter()
            .map(|it| (it.code.to_string(), it.command.is_some()))
            .collect::<Vec<_>>()
    };
    let other = [("GM101", false)];
    let stolen = [("GM101", true)];
    let unreached = [("GM102", false), ("GM103", false)];
    for (of, home, pre, wanted) in [
        // This server answers there, whatever the Service's name.
        (AnsweringServer::Ours, &[][..], true, &[][..]),
        (AnsweringServer::Other, &[], true, &other),
        (AnsweringServer::Other, &[], false, &other),
        (AnsweringServer::Other, &ours[..], false, &stolen),
        (AnsweringServer::NoServer, &ours, false, &stolen),
        (AnsweringServer::NoServer, &[], true, &other),
        // The unreachable server may be this one.
        (AnsweringServer::NoServer, &[], false, &unreached),
    ] {
        let wanted: Vec<_> = wanted
            .iter()
            .map(|(code, has)| ((*code).to_owned(), *has))
            .collect();
        assert_eq!(check(of, home, pre), wanted, "{of:?} {home:?} {pre}");
    }
    let found = registration::check(&[theirs(AnsweringServer::Other)], true);
    let Finding {
        message, remedy, ..
    } = &found[0];
    assert_eq!(found[0].severity, Severity::Info);
    let service = "refers to Service monitoring/prometheus-adapter, ";
    assert!(message.starts_with(service), "{message}");
    let page = "docs/migrate/prometheus-adapter.md";
    assert!(
        remedy.contains(page) && !remedy.contains("uninstall"),
        "{remedy}"
    );
    let all = [&ours[..], &[theirs(AnsweringServer::Other)]].concat();
    let found = registration::check(&all, false);
    let back = r#"-p '{"spec":{"service":{"name":"gm","namespace":"gpu-metrics"}}}'"#;
    assert!(
        found[0].command.as_ref().unwrap().ends_with(back),
        "{found:?}"
    );
}

#[test]
fn external_metrics_of_keda_beside_the_server_need_no_action() {
    let place =
        json!({"service": {"namespace": "keda", "name": "keda-operator-metrics-apiserver"}});
    let taken = |name| Registered {
        name,
        answers: AnsweringServer::Other,
        ..registered(&place, &fine())
    };
    for (name, wanted) in [
        ("v1beta1.external.metrics.k8s.io", (Severity::Info, false)),
        ("v1beta1.custom.metrics.k8s.io", (Severity::Error, true)),
    ] {
        let all = [registered(&json!({}), &fine()), taken(name)];
        let found = registration::check(&all, false);
        let found: Vec<_> = found
            .iter()
            .map(|it| (it.severity, it.command.is_some()))
            .collect();
        assert_eq!(found, [wanted], "{name}");
    }
}

#[test]
fn an_unreachable_server_is_identified_by_the_label_of_its_service() {
    let label = json!({"app.kubernetes.io/name": "gpu-metrics-apiserver"});
    let down = |labels: &Value| Registered {
        service: read(json!({"metadata": {"labels": labels}})),
        ..theirs(AnsweringServer::NoServer)
    };
    let all = [
        down(&json!({})),
        down(&label),
        registered(&json!({}), &fine()),
    ];
    assert_eq!(registration::home(&all[..1]), None);
    assert_eq!(registration::home(&all[..2]), Some(&all[1]));
    assert_eq!(registration::home(&all), Some(&all[2]));
}

#[test]
fn gm102_is_an_unreachable_server_and_gm103_an_untrusted_certificate() {
    let insecure = json!({"insecureSkipTLSVerify": true});
    let own = |over: &Value, condition: &Value| {
        registration::check(&[registered(over, condition)], false)
    };
    let unverified = own(&insecure, &fine());
    assert_eq!(unverified.len(), 1);
    let found = (&*unverified[0].code, unverified[0].severity);
    assert_eq!(found, ("GM103", Severity::Warning));
    assert_eq!(own(&json!({}), &fine()), []);
    // Reason: message | code: words of the remedy. `STATUS` is the beginning of a status.
    for row in [
        "MissingEndpoints: endpoints have no addresses | GM102: no pod of the server is ready",
        "FailedDiscoveryCheck: tls: failed to verify certificate: x509: unknown authority | GM103: caBundle",
        "FailedDiscoveryCheck: STATUS404 | GM102: another server",
        "FailedDiscoveryCheck: STATUS403 | GM102: front proxy",
        "FailedDiscoveryCheck: STATUS503 | GM102: refuses",
        "FailedDiscoveryCheck: context deadline exceeded | GM102: firewall",
        "FailedDiscoveryCheck: dial tcp 10.0.0.1:443: i/o timeout | GM102: firewall",
        "FailedDiscoveryCheck: dial tcp 10.0.0.1:443: connect: connection refused | GM102: no process listens",
        "FailedDiscoveryCheck: remote error: tls: access denied | GM102: no certificate yet",
        "FailedDiscoveryCheck: remote error: tls: protocol version not supported | GM102: --tls-min-version",
        "FailedDiscoveryCheck: http: server gave HTTP response to HTTPS client | GM102: plain HTTP",
        "FailedDiscoveryCheck: tls: first record does not look like a TLS handshake | GM102: plain HTTP",
        "FailedDiscoveryCheck: dial tcp: lookup gm.example on 10.0.0.10:53: no such host | GM102: externalName",
        "FailedDiscoveryCheck: dial tcp 10.0.0.1:443: connect: network is unreachable | GM102: firewall",
        "ServiceAccessError: service/gm in \"ns\" cannot be accessed | GM102: could not read the Service",
        "FailedDiscoveryCheck: EOF | GM102: accepted and then closed",
        "FailedDiscoveryCheck: something new | GM102: log of the server",
    ] {
        let (condition, expected) = row.split_once(" | ").unwrap();
        let (reason, message) = condition.split_once(": ").unwrap();
        let (code, remedy) = expected.split_once(": ").unwrap();
        let status = "failing or missing response from https://10.0.0.1: bad status from https://10.0.0.1/apis: ";
        let message = message.replace("STATUS", status);
        let found = own(&json!({}), &available("False", reason, &message));
        let [finding] = &found[..] else {
            panic!("{row}: {found:?}");
        };
        let found = (&*finding.code, finding.severity);
        assert_eq!(found, (code, Severity::Error), "{row}");
        assert!(finding.remedy.contains(remedy), "{row}: {finding:?}");
    }
}

#[test]
fn gm102_is_also_an_apiservice_of_resource_metrics_that_no_server_serves() {
    let home = Some(("gpu-metrics", "gm"));
    let left = |condition: &Value| Registered {
        name: "v1.metrics.k8s.io",
        answers: AnsweringServer::NoServer,
        ..registered(&json!({}), condition)
    };
    let check = |it: &Registered, home| registration::check_resource(it, home);
    let mut it = left(&available("False", "ServiceNotFound", "no"));
    let found = check(&it, home);
    assert_eq!(found[0].code, "GM102");
    assert!(found[0].remedy.contains("delete the APIService"));
    let metrics_server = Some(("kube-system", "metrics-server"));
    for elsewhere in [None, metrics_server] {
        assert_eq!(check(&it, elsewhere), [], "it is not ours");
    }
    it.answers = AnsweringServer::Other;
    assert_eq!(check(&it, home), [], "another server took it over");
    assert_eq!(check(&left(&fine()), home), []);
    assert_eq!(check(&Registered::default(), home), []);
}

#[test]
fn gm102_is_also_a_missing_apiservice_of_a_group_without_another() {
    let absent = |name| Registered {
        name,
        ..Registered::default()
    };
    let external = absent("v1beta1.external.metrics.k8s.io");
    // One version of a group is enough.
    let custom = absent("v1beta1.custom.metrics.k8s.io");
    let home = registered(&json!({}), &fine());
    for (all, pre, is_found) in [
        (vec![external.clone()], false, true),
        (vec![home.clone(), external.clone()], false, true),
        (vec![home, custom], false, false),
        (vec![external], true, false),
    ] {
        let found = registration::check(&all, pre);
        assert_eq!(found.len(), usize::from(is_found), "{found:?}");
        assert!(found.iter().all(|it| it.code == "GM102"));
    }
    let all = [
        registered(&json!({}), &fine()),
        absent("v1beta1.external.metrics.k8s.io"),
    ];
    let remedy = &registration::check(&all, false)[0].remedy;
    for said in [
        "helm upgrade",
        "document of v1beta1.external.metrics.k8s.io in",
    ] {
        assert!(remedy.contains(said), "{remedy}");
    }
}

#[test]
fn apiservices_with_one_fault_are_one_finding() {
    let of = |name: &'static str, failure: Option<&str>| Registered {
        name,
        answers: AnsweringServer::NoServer,
        service: read(
            json!({"metadata": {"labels": {"app.kubernetes.io/name": registration::NAME}}}),
        ),
        failure: failure.map(str::to_owned),
        ..registered(&json!({}), &fine())
    };
    // The APIService is still available although no server answers.
    let refused =
        Some("error trying to reach service: dial tcp 10.0.0.1:443: connect: connection refused");
    let names = [
        "v1beta2.custom.metrics.k8s.io",
        "v1beta1.custom.metrics.k8s.io",
        "v1beta1.external.metrics.k8s.io",
    ];
    let found = registration::check(&names.map(|name| of(name, refused)), false);
    let [found] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(&*found.code, "GM102");
    assert_eq!(found.object, format!("APIService {}", names.join(", ")));
    assert!(found.remedy.starts_with("no process listens"), "{found:?}");
    assert_eq!(
        registration::check(&names.map(|name| of(name, None)), false),
        []
    );
}

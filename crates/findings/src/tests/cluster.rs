//! Registration, rights, configuration files and flags.

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use super::{codes_of, read};
use crate::registration::{self, AnsweringServer, Registered};
use crate::rights::{Installed, Right, Role};
use crate::{Finding, Severity, config};
use apimachinery::time::Timestamp;

const NOW: Timestamp = Timestamp::from_secs(1_800_000_000);

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
            "metadata": {"annotations": {"meta.helm.sh/release-name": "pa", "meta.helm.sh/release-namespace": "monitoring"}},
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
fn gm101_goes_by_who_answers_and_says_all_that_is_wrong_there() {
    let ours = [registered(&json!({}), &fine())];
    let check = |of: AnsweringServer, ours: &[Registered], pre| {
        let all = [ours, &[theirs(of)]].concat();
        let found = registration::check(&all, pre, NOW);
        found
            .into_iter()
            .map(|it| (it.code, it.command.is_some()))
            .collect::<Vec<_>>()
    };
    let other = [("GM101", false)];
    let stolen = [("GM101", true)];
    for (of, home, pre, wanted) in [
        // This server answers there, whatever the Service's name.
        (AnsweringServer::Ours, &[][..], true, &[][..]),
        (AnsweringServer::Other, &[], true, &other),
        (AnsweringServer::Other, &[], false, &other),
        (AnsweringServer::Other, &ours[..], false, &stolen),
        (AnsweringServer::NoServer, &ours, false, &stolen),
        (AnsweringServer::NoServer, &[], true, &other),
        // The unreachable server may be this one.
        (
            AnsweringServer::NoServer,
            &[],
            false,
            &[("GM102", false), ("GM103", false)],
        ),
    ] {
        assert_eq!(check(of, home, pre), wanted, "{of:?} {home:?} {pre}");
    }
    let found = registration::check(&[theirs(AnsweringServer::Other)], true, NOW);
    let Finding {
        message, remedy, ..
    } = &found[0];
    assert!(
        message.contains("monitoring/prometheus-adapter (Helm release monitoring/pa)"),
        "{message}"
    );
    assert!(
        remedy.contains("docs/migrate/prometheus-adapter.md") && !remedy.contains("uninstall"),
        "{remedy}"
    );
    let all = [&ours[..], &[theirs(AnsweringServer::Other)]].concat();
    let found = registration::check(&all, false, NOW);
    let back = r#"-p '{"spec":{"service":{"name":"gm","namespace":"gpu-metrics"}}}'"#;
    assert!(
        found[0].command.as_ref().unwrap().ends_with(back),
        "{found:?}"
    );
}

#[test]
fn external_metrics_of_keda_beside_the_server_are_left_to_it() {
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
        let found = registration::check(&all, false, NOW);
        let found: Vec<_> = found
            .iter()
            .map(|it| (it.severity, it.command.is_some()))
            .collect();
        assert_eq!(found, [wanted], "{name}");
    }
}

/// A Service with labels and annotations.
fn service(labels: &Value, annotations: &Value) -> Option<Service> {
    read(json!({"metadata": {"labels": labels, "annotations": annotations}}))
}

#[test]
fn a_server_that_does_not_answer_is_known_by_the_label_of_its_service() {
    let label = json!({"app.kubernetes.io/name": "gpu-metrics-apiserver"});
    let down = |labels: &Value| Registered {
        service: service(labels, &json!({})),
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
fn gm102_and_gm103_tell_what_is_away_from_what_is_not_trusted() {
    let secure = json!({});
    let insecure = json!({"insecureSkipTLSVerify": true});
    let x509 = "failing or missing response: tls: failed to verify certificate: x509: certificate signed by unknown authority";
    let own = |over: &Value, condition: &Value| {
        registration::check(&[registered(over, condition)], false, NOW)
    };
    for (over, condition, wanted) in [
        (&secure, fine(), vec![]),
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
        (&insecure, fine(), vec![("GM103", Severity::Warning)]),
    ] {
        let found = own(over, &condition);
        let found: Vec<_> = found.iter().map(|it| (it.code, it.severity)).collect();
        assert_eq!(found, wanted, "{condition}");
    }
    let status = "failing or missing response from https://10.0.0.1: bad status from https://10.0.0.1/apis: ";
    for (status, remedy) in [
        (format!("{status}404"), "another server"),
        (format!("{status}403"), "front proxy"),
        (format!("{status}503"), "refuses"),
        ("context deadline exceeded".to_owned(), "firewall"),
        ("dial tcp 10.0.0.1:443: i/o timeout".to_owned(), "firewall"),
        (
            "dial tcp 10.0.0.1:443: connect: connection refused".to_owned(),
            "no process listens",
        ),
        (
            "remote error: tls: access denied".to_owned(),
            "no certificate yet",
        ),
        (
            "remote error: tls: protocol version not supported".to_owned(),
            "--tls-min-version",
        ),
        (
            "http: server gave HTTP response to HTTPS client".to_owned(),
            "plain HTTP",
        ),
        ("EOF".to_owned(), "accepted and then closed"),
        ("something new".to_owned(), "log of the server"),
    ] {
        let condition = available("False", "FailedDiscoveryCheck", &status);
        let found = own(&secure, &condition);
        assert!(found[0].remedy.contains(remedy), "{status}: {found:?}");
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
    let check = |it: &Registered, home| registration::check_resource(it, home, NOW);
    let gone = "failing or missing response from https://10.0.0.1:443/apis/metrics.k8s.io/v1: bad status from https://10.0.0.1:443/apis/metrics.k8s.io/v1: 404";
    let command = "kubectl delete apiservice v1.metrics.k8s.io";
    for (reason, message, is_left) in [
        ("FailedDiscoveryCheck", gone, true),
        ("ServiceNotFound", "service/gm is not present", true),
        ("MissingEndpoints", "no", false),
    ] {
        let found = check(&left(&available("False", reason, message)), home);
        assert_eq!(found[0].code, "GM102", "{reason}");
        let told = found[0].command.as_deref();
        assert_eq!(told, is_left.then_some(command), "{reason}");
    }
    let mut it = left(&available("False", "ServiceNotFound", "no"));
    let metrics_server = Some(("kube-system", "metrics-server"));
    for elsewhere in [None, metrics_server] {
        assert_eq!(check(&it, elsewhere), [], "it is not ours");
    }
    let object = it.object.as_mut().unwrap();
    let label = (
        "app.kubernetes.io/name".to_owned(),
        registration::NAME.to_owned(),
    );
    object.metadata.labels = Some([label].into());
    assert_eq!(check(&it, None).len(), 1, "its label tells that it is ours");
    it.answers = AnsweringServer::Other;
    assert_eq!(check(&it, None), [], "another server took it over");
    assert_eq!(check(&left(&fine()), home), []);
    assert_eq!(check(&Registered::default(), home), []);
}

#[test]
fn gm102_makes_the_one_apiservice_again_that_leads_where_the_server_is() {
    let absent = || Registered {
        name: "v1beta1.external.metrics.k8s.io",
        ..Registered::default()
    };
    let made_by = |annotations: &Value| Registered {
        service: service(&json!({}), annotations),
        ..registered(&json!({"insecureSkipTLSVerify": true}), &fine())
    };
    assert_eq!(
        registration::check(&[absent()], false, NOW)[0].command,
        None
    );
    let release =
        json!({"meta.helm.sh/release-name": "a'; reboot", "meta.helm.sh/release-namespace": "ns"});
    for (annotations, labels) in [
        (json!({}), Value::Null),
        (release, json!({"app.kubernetes.io/managed-by": "Helm"})),
    ] {
        let home = made_by(&annotations);
        let found = registration::check(&[home, absent()], false, NOW);
        let command = found.iter().find(|it| it.code == "GM102").unwrap();
        let command = command.command.as_ref().unwrap().replace(r"'\''", "'");
        let object = command.strip_prefix("echo '").unwrap();
        let object = object.strip_suffix("' | kubectl apply -f -").unwrap();
        let object: Value = serde_json::from_str(object).unwrap();
        assert_eq!(object["metadata"]["name"], absent().name);
        assert_eq!(object["metadata"]["labels"], labels);
        let spec = json!({
            "group": "external.metrics.k8s.io", "version": "v1beta1",
            "groupPriorityMinimum": 100, "versionPriority": 100,
            "service": {"namespace": "gpu-metrics", "name": "gm"},
        });
        assert_eq!(object["spec"], spec);
    }
    assert_eq!(registration::check(&[absent()], true, NOW), []);
    // One version of a group is enough.
    let other = Registered {
        name: "v1beta1.custom.metrics.k8s.io",
        ..Registered::default()
    };
    let all = [registered(&json!({}), &fine()), other];
    assert_eq!(registration::check(&all, false, NOW), []);
}

#[test]
fn gm104_is_an_authority_with_less_than_three_days_and_an_error_without_any() {
    let x509 = available(
        "False",
        "FailedDiscoveryCheck",
        "x509: certificate has expired",
    );
    for (hours, condition, wanted) in [
        (-1, &x509, Some(Severity::Error)),
        (48, &fine(), Some(Severity::Warning)),
        (73, &fine(), None),
    ] {
        let mut registered = registered(&json!({}), condition);
        registered.authority_ends = Some(Timestamp::from_secs(NOW.secs() + hours * 3600));
        let found = registration::check(&[registered], false, NOW);
        let found: Vec<_> = found.iter().map(|it| (it.code, it.severity)).collect();
        let wanted: Vec<_> = wanted.into_iter().map(|it| ("GM104", it)).collect();
        assert_eq!(found, wanted, "{hours}");
    }
}

#[test]
fn gm103_names_the_operator_of_keda_that_replaces_the_authority() {
    let x509 = available("False", "FailedDiscoveryCheck", "x509: unknown authority");
    for (authorities, words) in [
        (
            vec!["O=KEDAORG, CN=KEDA"],
            "--enable-apiservice-patching=false",
        ),
        (
            vec!["CN=gpu-metrics-apiserver authority"],
            "allow the server to write caBundle",
        ),
    ] {
        let mut registered = registered(&json!({}), &x509);
        registered.authorities = authorities.into_iter().map(str::to_owned).collect();
        let found = registration::check(&[registered], false, NOW);
        let [finding] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(finding.code, "GM103");
        assert!(finding.remedy.contains(words), "{finding:?}");
    }
}

/// The server of the manifests.
fn of_manifests() -> Installed<'static> {
    Installed {
        namespace: "gpu-metrics",
        service: "gpu-metrics-apiserver",
        account: "gpu-metrics-apiserver",
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
fn every_verb_of_every_rule_is_asked_for() {
    let asked = |installed: &Installed<'_>| {
        let rights = Role::SERVER.iter().map(|role| role.rights(installed));
        rights.map(|rights| rights.len()).collect::<Vec<_>>()
    };
    assert_eq!(asked(&of_manifests()), [30, 2, 3, 6, 2]);
    let mut beside = of_manifests();
    beside.others = beside.registered.split_off(2);
    assert_eq!(asked(&beside), [30, 2, 3, 5, 2]);
    // With a provided certificate it writes none.
    beside.secret = None;
    assert_eq!(asked(&beside), [30, 2, 3, 0, 0]);
}

#[test]
fn gm201_and_gm202_name_what_is_missing_and_what_gives_it() {
    let installed = Installed {
        service: "gm",
        account: "sa",
        release: Some(["ns", "release"]),
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
    assert!(
        watches
            .message
            .starts_with("may not watch cronjobs.batch, ")
            && watches.message.contains(", pods, "),
        "{}",
        watches.message
    );
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
        assert_eq!(
            found.code,
            if role == Role::Autoscaler {
                "GM202"
            } else {
                "GM201"
            }
        );
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

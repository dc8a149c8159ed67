use super::super::EXT;
use super::*;
use aggregated_apiserver::security::reviewer::AccessVerdict;
use aggregated_apiserver::testing::fake_reviewer::Mood;

fn path(verb: &str, path: &str) -> Access {
    Access::NonResource {
        verb: verb.to_owned(),
        path: path.to_owned(),
    }
}

/// Refuses everything from now on.
fn deny(scene: &Scene, reason: &'static str) {
    let verdict = |_: &Identity, _: &Access| AccessVerdict::Refused(reason.to_owned());
    scene.reviewer.rule(verdict);
}

#[tokio::test]
async fn s079_masters_and_health_need_no_review() {
    let scene = Scene::new().await;
    scene.reviewer.mood(Mood::Failing);
    for target in [VALUES, V2, "/apis"] {
        assert_eq!(scene.proxied(target, &MASTER).await.status, 200, "{target}");
    }
    for target in ["/healthz", "/livez", "/readyz", "/readyz?verbose"] {
        assert_eq!(scene.direct(target, &[]).await.status, 200, "{target}");
    }
    assert!(scene.reviewer.asked().is_empty());
    for target in ["/readyz/ping", "/livez/x", "/metrics", "/apis"] {
        refused(&scene.direct(target, &[]).await, 500);
        assert_eq!(scene.reviewer.last().1, path("get", target));
    }
}

#[tokio::test]
async fn s080_only_the_exact_spelling_is_open() {
    let scene = Scene::new().await;
    let targets = "//readyz /readyz/ /readyz%00 /Readyz /healthz/../metrics /healthz/.. /./readyz \
                   /%72eadyz /readyz;x /readyz%3Fx http://x//livez";
    for target in targets.split(' ') {
        let before = scene.reviewer.asked().len();
        refused(&scene.direct(target, &[]).await, 403);
        assert_eq!(scene.reviewer.asked().len(), before + 1, "{target}");
    }
    assert_eq!(scene.times_served(), 0);
}

#[tokio::test]
async fn s081_a_refusal_has_the_message_of_the_reference() {
    let scene = Scene::new().await;
    deny(&scene, "");
    let (group, bob) = ("custom.metrics.k8s.io", r#"forbidden: User "bob" cannot"#);
    let of_group = |what: &str, of: &str| format!(r#"{what}" in API group "{of}" "#);
    let [pods, nodes] = ["pods/m", "nodes/m"].map(|it| of_group(it, group));
    let external = of_group("q", "external.metrics.k8s.io");
    for (target, wanted) in [
        (
            VALUES.to_owned(),
            format!(r#"pods.{group} "a" is {bob} get resource "{pods}in the namespace "ns""#),
        ),
        (
            format!("{V2}/nodes/*/m"),
            format!(r#"nodes.{group} "*" is {bob} get resource "{nodes}at the cluster scope"#),
        ),
        (
            format!("{EXT}/namespaces/ns/q"),
            format!(
                r#"q.external.metrics.k8s.io is {bob} list resource "{external}in the namespace "ns""#
            ),
        ),
        (
            "/metrics".to_owned(),
            format!(r#"{bob} get path "/metrics""#),
        ),
    ] {
        let answer = scene.by_user("bob", &target).await;
        assert_eq!(refused(&answer, 403), wanted);
        assert_eq!(answer.json()["reason"], "Forbidden");
    }
    deny(&scene, "RBAC: no\r\nrole");
    let message = refused(&scene.by_user("<b>\"", "/x&").await, 403);
    let wanted =
        r#"forbidden: User "&lt;b&gt;\"" cannot get path "/x&amp;": RBAC: no\u000d\u000arole"#;
    assert_eq!(message, wanted);
    let headers = [("X-Remote-User", "eve"), ("Accept", super::super::PROTOBUF)];
    let answer = scene.proxied(VALUES, &headers).await;
    assert_eq!((answer.status, &answer.body[..4]), (403, &b"k8s\0"[..]));
}

#[tokio::test]
async fn only_users_with_the_right_to_list_all_pods_see_their_names() {
    let scene = Scene::new().await;
    scene
        .reviewer
        .rule(|user, access| match *access == Access::all_pods() {
            true if user.user != "admin" => AccessVerdict::Refused(String::new()),
            _ => AccessVerdict::Allowed(()),
        });
    let explained = format!("{V2}/nodes/n/m?explain=true");
    for (user, pods) in [
        ("admin", serde_json::json!(["ml/train-0"])),
        ("bob", serde_json::json!([])),
    ] {
        let answer = scene.by_user(user, &explained).await.json();
        assert_eq!(answer["devices"][0]["pods"], pods, "{user}");
        assert_eq!(answer.to_string().contains("train-0"), user == "admin");
    }
    // Where there is nothing to explain, there is nothing more to review.
    for path in ["/livez?explain=1", "/readyz/x?explain=1", "/apis?explain=1"] {
        let before = scene.reviewer.asked().len();
        scene.ask(None, path, &[]).await;
        let pods = |what: &Access| matches!(what, Access::Resource { .. });
        let asked = scene.reviewer.asked();
        assert!(
            !asked[before..].iter().any(|(_, what)| pods(what)),
            "{path}"
        );
    }
    // A value contains no name of a pod that holds the GPU, and needs no further review.
    let before = scene.reviewer.asked().len();
    scene.by_user("eve", VALUES).await;
    assert_eq!(scene.reviewer.asked().len(), before + 1);
}

#[tokio::test]
async fn s082_revoked_and_granted_rights_take_effect() {
    let scene = Scene::with(|it| {
        it.allowed_life = Duration::from_millis(300);
        it.denied_life = Duration::from_millis(300);
    })
    .await;
    assert_eq!(scene.by_user("bob", VALUES).await.status, 200);
    deny(&scene, "");
    until("the right ended", async || {
        scene.by_user("bob", VALUES).await.status == 403
    })
    .await;
    scene.reviewer.rule(|_, _| AccessVerdict::Allowed(()));
    until("the right began", async || {
        scene.by_user("bob", VALUES).await.status == 200
    })
    .await;
}

#[tokio::test]
async fn s082_no_two_questions_share_an_answer() {
    let scene = Scene::with(|it| it.allowed_life = Duration::from_secs(600)).await;
    let base = [("X-Remote-User", "bob")];
    let other = |line: (&'static str, &'static str)| vec![base[0], line];
    let mut wanted = 0;
    for (target, headers) in [
        (VALUES.to_owned(), base.to_vec()),
        (VALUES.replace("pods/a/", "pods/b/"), base.to_vec()),
        (VALUES.replace("pods/a/", "pods/*/"), base.to_vec()),
        (VALUES.replace("/ns/", "/other/"), base.to_vec()),
        (VALUES.replace("/pods/", "/services/"), base.to_vec()),
        (VALUES.replace("a/m", "a/other"), base.to_vec()),
        (VALUES.replace("v1beta2", "v1beta1"), base.to_vec()),
        (format!("{EXT}/namespaces/ns/m"), base.to_vec()),
        (format!("{EXT}/namespaces/ns/m?watch=1"), base.to_vec()),
        (format!("{V2}/namespaces/ns/metrics/m"), base.to_vec()),
        (VALUES.to_owned(), vec![("X-Remote-User", "eve")]),
        (VALUES.to_owned(), other(("X-Remote-Group", "g"))),
        (VALUES.to_owned(), other(("X-Remote-Extra-Scope", "s"))),
        (VALUES.to_owned(), other(("X-Remote-Extra-s", "cope"))),
    ] {
        wanted += 1;
        for _ in 0..2 {
            scene.proxied(&target, &headers).await;
            assert_eq!(scene.reviewer.asked().len(), wanted, "{target} {headers:?}");
        }
    }
}

#[tokio::test]
async fn s082_many_equal_requests_cause_one_review() {
    let scene = Scene::new().await;
    let several = (0..20).map(|_| scene.by_user("bob", VALUES));
    for answer in futures_util::future::join_all(several).await {
        assert_eq!(answer.status, 200);
    }
    assert_eq!(scene.reviewer.asked().len(), 1);
}

#[tokio::test]
async fn s083_a_failed_review_refuses_in_time_and_shows_no_address() {
    let scene = Scene::with(|it| it.access_budget = Duration::from_millis(200)).await;
    for mood in [Mood::Failing, Mood::Hanging] {
        scene.reviewer.mood(mood);
        for target in [VALUES, VALUES, "/apis"] {
            let message = refused(&scene.by_user("bob", target).await, 500);
            let is_short = message.starts_with("Internal error occurred: ");
            assert!(is_short && !message.contains("10.96.0.1"), "{message}");
        }
    }
    assert_eq!(scene.times_served(), 0);
    assert_eq!(scene.fixture.times_asked(), 0);
    assert_eq!(scene.counters.accesses.failed.load(Ordering::SeqCst), 6);
    scene.reviewer.mood(Mood::Healthy);
    assert_eq!(scene.by_user("bob", VALUES).await.status, 200);
}

#[tokio::test]
async fn s085_an_unauthorized_user_gets_403_whether_or_not_the_object_exists() {
    let scene = Scene::new().await;
    deny(&scene, "");
    for (known, unknown) in [
        ("ns/pods/a/m", "ns/pods/a/n"),
        ("ns/pods/a/m", "ns/pods/z/m"),
        ("ns/pods/a/m", "na/pods/a/m"),
        ("ns/pods/a/m", "ns/sods/a/m"),
        (
            "ns/pods/*/m?labelSelector=%3D",
            "ns/pods/*/n?labelSelector=%3D",
        ),
    ] {
        let target = |of: &str| format!("{V2}/namespaces/{of}");
        let one = scene.by_user("bob", &target(known)).await;
        let two = scene.by_user("bob", &target(unknown)).await;
        let (one, two) = (refused(&one, 403), refused(&two, 403));
        assert_eq!(one.len(), two.len(), "{one} {two}");
    }
    assert_eq!(scene.fixture.times_asked(), 0);
}

#[tokio::test]
async fn s086_a_right_in_one_namespace_does_not_apply_to_another() {
    let scene = Scene::new().await;
    scene.reviewer.rule(|_, what| match what {
        Access::Resource { namespace, .. } if namespace == "ns" => AccessVerdict::Allowed(()),
        _ => AccessVerdict::Refused(String::new()),
    });
    let queries = "labelSelector=app%3Dx metricLabelSelector=namespace%3Dother namespace=other \
                   labelSelector=";
    for query in queries.split(' ').chain([""]) {
        let target = format!("{V2}/namespaces/ns/pods/*/m?{query}");
        let answer = scene.by_user("bob", &target).await;
        assert!(matches!(answer.status, 200 | 404), "{target}");
        assert!(!answer.text().contains("99"), "{target}: {}", answer.text());
        if answer.status == 200 {
            let names = super::super::names(&answer);
            assert!(names.iter().all(|name| name != "d"), "{target}: {names:?}");
        }
    }
    let asked = scene.fixture.times_asked();
    let others = "namespaces/other/pods/*/m namespaces/ns/%2e%2e/other/pods/*/m \
                  namespaces/ns/../other/pods/*/m namespaces/ns%2f..%2fother/pods/*/m \
                  namespaces/%6fther/pods/*/m namespaces/other/pods/d/m namespaces/other/metrics/m \
                  nodes/*/m";
    for target in others.split(' ') {
        refused(&scene.by_user("bob", &format!("{V2}/{target}")).await, 403);
    }
    assert_eq!(scene.fixture.times_asked(), asked);
}

#[tokio::test]
async fn s010_the_aggregators_own_user_gets_discovery_as_authenticated() {
    let scene = Scene::new().await;
    scene.reviewer.rule(|who, what| match what {
        Access::NonResource { .. } if who.is_in("system:authenticated") => {
            AccessVerdict::Allowed(())
        }
        _ => AccessVerdict::Refused(String::new()),
    });
    let user = "system:kube-aggregator";
    assert_eq!(scene.by_user(user, V2).await.status, 200);
    assert_eq!(scene.reviewed().groups, ["system:authenticated"]);
    refused(&scene.direct(V2, &[]).await, 403);
}

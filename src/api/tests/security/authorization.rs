use super::super::EXT;
use super::*;
use aggregated_apiserver::security::reviewer::AccessVerdict;
use aggregated_apiserver::testing::fake_reviewer::Mood;

/// Refuses everything from now on.
fn deny(scene: &Scene, reason: &'static str) {
    let verdict = |_: &Identity, _: &Access| AccessVerdict::Refused(reason.to_owned());
    scene.reviewer.rule(verdict);
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

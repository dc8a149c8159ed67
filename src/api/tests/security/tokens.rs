use super::*;
use aggregated_apiserver::testing::fake_reviewer::Mood;
use aggregated_apiserver::testing::log::logging;

async fn bearer(scene: &Scene, token: &str) -> TestResponse {
    let value = format!("Bearer {token}");
    scene.direct(VALUES, &[("Authorization", &value)]).await
}

#[tokio::test]
async fn s069_a_token_is_reviewed_again_after_its_review_expired() {
    let scene = Scene::with(|it| it.token_life = Duration::from_millis(400)).await;
    scene.reviewer.token_is("good", "bob");
    assert_eq!(bearer(&scene, "good").await.status, 200);
    assert_eq!(scene.reviewed().user, "bob");
    assert_eq!(scene.reviewed().groups, ["system:authenticated"]);
    assert!(!scene.served().headers.contains_key("authorization"));
    until("the token was reviewed again", async || {
        assert_eq!(bearer(&scene, "good").await.status, 200);
        scene.reviewer.tokens_asked().len() > 1
    })
    .await;
}

#[tokio::test]
async fn s069_concurrent_requests_with_a_token_cause_one_review() {
    let scene = Scene::new().await;
    scene.reviewer.token_is("good", "bob");
    let several = (0..20).map(|_| bearer(&scene, "good"));
    for answer in futures_util::future::join_all(several).await {
        assert_eq!(answer.status, 200);
    }
    assert_eq!(bearer(&scene, "good").await.status, 200);
    assert_eq!(scene.reviewer.tokens_asked().len(), 1);
    assert_eq!(scene.counters.tokens.allowed.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn s071_a_token_whose_review_failed_is_refused() {
    let scene = Scene::with(|it| {
        it.token_budget = Duration::from_millis(200);
        it.token_life = Duration::from_millis(1);
    })
    .await;
    scene.reviewer.token_is("good", "bob");
    for mood in [Mood::Failing, Mood::Hanging] {
        scene.reviewer.mood(mood);
        for _ in 0..2 {
            let answer = bearer(&scene, "good").await;
            assert_eq!(refused(&answer, 401), "Unauthorized");
        }
    }
    assert_eq!(scene.times_served(), 0);
    assert_eq!(scene.counters.tokens.failed.load(Ordering::SeqCst), 4);
    // A failure is not cached.
    scene.reviewer.mood(Mood::Healthy);
    assert_eq!(bearer(&scene, "good").await.status, 200);
}

#[tokio::test]
async fn a_token_without_a_permit_in_time_gets_429_and_delays_no_other_client() {
    let scene = Scene::with(|it| {
        it.token_reviews = 2;
        it.token_budget = Duration::from_secs(2);
    })
    .await;
    scene.reviewer.hold(|token| ["a", "b"].contains(&token));
    let waiting = async { tokio::join!(bearer(&scene, "a"), bearer(&scene, "b")) };
    let third = async {
        until("two tokens are under review", async || {
            scene.reviewer.tokens_asked().len() == 2
        })
        .await;
        let answer = bearer(&scene, "c").await;
        refused(&answer, 429);
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(scene.direct("/readyz", &[]).await.status, 200);
        assert_eq!(scene.by_user("hpa", VALUES).await.status, 200);
        assert_eq!(scene.by_user("hpa", "/apis").await.status, 200);
        let bob = scene.client("bob");
        assert_eq!(scene.ask(Some(&bob), VALUES, &[]).await.status, 200);
    };
    let ((first, second), ()) = tokio::join!(waiting, third);
    refused(&first, 401);
    refused(&second, 401);
}

#[tokio::test]
async fn s072_no_log_line_contains_a_token() {
    let (log, _guard) = logging(tracing::Level::TRACE);
    let scene = Scene::with(|it| it.token_budget = Duration::from_millis(100)).await;
    scene.reviewer.token_is("SECRETgood", "bob");
    let mut answers = vec![bearer(&scene, "SECRETgood").await];
    answers.push(bearer(&scene, "SECRETbad").await);
    for mood in [Mood::Failing, Mood::Hanging] {
        scene.reviewer.mood(mood);
        answers.push(bearer(&scene, &format!("SECRET{mood:?}")).await);
    }
    scene.reviewer.mood(Mood::Healthy);
    let client = scene.server.http2();
    let request = client.get(scene.server.url(VALUES));
    let answer = request.bearer_auth("SECRETh2").send().await.unwrap();
    assert_eq!(answer.status(), 401);
    for answer in &answers {
        assert!(!format!("{answer:?}{}", answer.text()).contains("SECRET"));
    }
    assert!(!format!("{:?}", scene.counters).contains("SECRET"));
    let ours = log.text();
    assert!(ours.contains("unauthenticated"), "{ours}");
    // This holds even at the finest level, with the lines of libraries.
    assert!(!ours.contains("SECRET"), "{ours}");
}

#[tokio::test]
async fn a_failing_check_and_a_missing_right_are_not_logged_for_each_request() {
    let (log, _guard) = logging(tracing::Level::INFO);
    let scene = Scene::new().await;
    let health = &scene.telemetry.health;
    let _check = health.register("cluster-objects", false);
    assert_eq!(scene.direct("/readyz", &[]).await.status, 500);
    let path = VALUES.replace("/a/m", "/*/unlisted");
    let answer = scene.by_user("bob", &path).await;
    assert_eq!(answer.status, 500);
    let said = "Internal error occurred: unable to list matching resources";
    assert_eq!(status(&answer)["message"], said);
    let text = log.text();
    assert!(!text.contains("request failed"), "{text}");
}

#[tokio::test]
async fn the_audit_has_one_line_for_each_refusal_and_none_for_a_success() {
    let (log, _guard) = logging(tracing::Level::INFO);
    let scene = Scene::new().await;
    assert_eq!(scene.by_user("bob", VALUES).await.status, 200);
    assert_eq!(log.text(), "");
    let hostile = "eve\u{1b}[31m\u{202e} code=200".replace('\u{1b}', "\u{9b}");
    let verdict = || AccessVerdict::Refused("no\nsuch right".to_owned());
    scene.reviewer.rule(move |_, _| verdict());
    let target = format!("{VALUES}?labelSelector=private");
    refused(&scene.by_user(&hostile, &target).await, 403);
    let text = log.text();
    assert_eq!(text.lines().count(), 1, "{text}");
    for piece in [
        "request refused",
        "code=403",
        "verdict=\"forbidden\"",
        r"eve\u{9b}[31m\u{202e} code=200",
        VALUES,
        r"no\nsuch right",
        "from=127.0.0.1:",
        "audit_id=",
    ] {
        assert!(text.contains(piece), "{piece} in {text}");
    }
    assert!(!text.contains("private"), "{text}");
    refused(&bearer(&scene, "wrong").await, 401);
    assert_eq!(log.text().lines().count(), 2);
}

//! A client that sends too many requests does not delay others.

use axum::body::Body;

use super::*;
use aggregated_apiserver::testing::fake_reviewer::Mood;
use aggregated_apiserver::testing::log::logging;

const CUSTOM: &str = "/apis/custom.metrics.k8s.io/v1beta2";

/// Paths that each need their own review.
fn paths(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|index| format!("{CUSTOM}/namespaces/ns/pods/p{index}/m"))
}

/// Sets times at which reviews do not time out on a slow machine.
fn patient(it: &mut SecuritySettings) {
    let minute = Duration::from_secs(60);
    (it.access_budget, it.token_budget, it.values_time) = (minute, minute, minute);
}

/// A server on tokio's clock, which a test pauses. No user has access.
fn without_network(reviewer: &Arc<FakeReviewer>) -> Router {
    layers(&super::super::api(&Arc::new(Fixture::new())), reviewer)
}

async fn code(router: &Router, path: &str) -> u16 {
    let request = http::Request::get(path).body(Body::empty()).unwrap();
    let Ok(answer) = router.clone().oneshot(request).await;
    answer.status().as_u16()
}

impl Scene {
    /// Requests all `paths` concurrently on one connection with the user's certificate. Counts
    /// the responses by code. Requests without a response after `enough` responses are left out.
    async fn codes(
        &self,
        user: &str,
        paths: impl Iterator<Item = String>,
        enough: usize,
        headers: &[(&'static str, &'static str)],
    ) -> (BTreeMap<u16, usize>, tokio::task::JoinSet<u16>) {
        let issued = self.client(user);
        let client = self.server.http2_as(Some(&issued));
        let mut tasks = tokio::task::JoinSet::new();
        for path in paths {
            let mut request = client.get(self.server.url(&path));
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            tasks.spawn(async move { request.send().await.unwrap().status().as_u16() });
        }
        let mut codes = BTreeMap::new();
        let answered = async {
            while codes.values().sum::<usize>() < enough {
                let code = tasks.join_next().await.unwrap().unwrap();
                *codes.entry(code).or_default() += 1;
            }
        };
        let answered = tokio::time::timeout(Duration::from_secs(30), answered).await;
        assert!(answered.is_ok(), "too few answers: {codes:?}");
        (codes, tasks)
    }

    async fn as_user(&self, user: &str, target: &str) -> TestResponse {
        let issued = self.client(user);
        self.ask(Some(&issued), target, &[]).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_review_that_panics_returns_its_permit() {
    let reviewer = Arc::new(FakeReviewer::new());
    reviewer.rule(|_, _| panic!("on demand"));
    let service = without_network(&reviewer);
    for path in paths(100) {
        assert_eq!(code(&service, &path).await, 500);
    }
}

#[tokio::test]
async fn requests_that_wait_for_one_review_take_one_permit() {
    let scene = Scene::with(|it| {
        patient(it);
        it.direct_access_reviews = 2;
    })
    .await;
    scene.reviewer.hold(|user| user == "eve");
    let same = std::iter::repeat_n(VALUES.to_owned(), 10);
    let (_, waiting) = scene.codes("eve", same, 0, &[]).await;
    until("a review is under way", async || {
        scene.reviewer.asked().len() == 1
    })
    .await;
    assert_eq!(scene.as_user("bob", VALUES).await.status, 200);
    scene.reviewer.release();
    assert_eq!(waiting.join_all().await.len(), 10);
    assert_eq!(scene.reviewer.asked().len(), 2);
}

#[tokio::test]
async fn direct_flood_does_not_delay_reviews_of_the_front_proxy() {
    let scene = Scene::with(|it| {
        patient(it);
        it.direct_access_reviews = 8;
        it.direct_in_flight = 200;
    })
    .await;
    scene.reviewer.hold(|user| user == "eve");
    let (_, waiting) = scene.codes("eve", paths(100), 0, &[]).await;
    until("all permits are taken", async || {
        scene.reviewer.asked().len() == 8
    })
    .await;
    assert_eq!(scene.by_user("hpa", VALUES).await.status, 200);
    assert_eq!(scene.by_user("hpa", "/apis").await.status, 200);
    scene.reviewer.release();
    let codes = waiting.join_all().await;
    assert_eq!(codes.len(), 100);
    assert!(!codes.contains(&429), "{codes:?}");
}

#[tokio::test]
async fn direct_requests_in_flight_do_not_refuse_the_front_proxys_users() {
    let scene = Scene::with(|it| {
        it.direct_in_flight = 6;
        it.values_in_flight = 2;
    })
    .await;
    let slow = [("x-test-sleep", "1")];
    let same = std::iter::repeat_n(VALUES.to_owned(), 10);
    // One user has half of the permits.
    let (codes, _waiting) = scene.codes("eve", same.clone(), 7, &slow).await;
    assert_eq!(codes, BTreeMap::from([(429, 7)]));
    let (codes, _others) = scene.codes("ann", same, 7, &slow).await;
    assert_eq!(codes, BTreeMap::from([(429, 7)]));
    let answer = scene.as_user("bob", VALUES).await;
    refused(&answer, 429);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(scene.by_user("hpa", VALUES).await.status, 200);
    assert_eq!(scene.by_user("eve", VALUES).await.status, 200);
}

#[tokio::test]
async fn a_garbage_token_ends_its_connection() {
    let scene = Scene::new().await;
    let head = format!("GET {VALUES} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bad\r\n\r\n");
    // The connection ends after the response, because the server closes it.
    let answer = scene.raw(scene.config(None), head.as_bytes()).await;
    refused(&answer, 401);
}

#[tokio::test(start_paused = true)]
async fn refusals_beyond_the_line_limit_are_not_logged() {
    let (log, _guard) = logging(tracing::Level::INFO);
    let reviewer = Arc::new(FakeReviewer::new());
    let service = without_network(&reviewer);
    for _ in 0..1000 {
        assert_eq!(code(&service, "/apis").await, 403);
    }
    assert_eq!(log.text().lines().count(), 50);
    // Lines of another verdict have their own limit.
    reviewer.mood(Mood::Failing);
    assert_eq!(code(&service, "/metrics").await, 500);
    assert!(log.text().contains("request failed"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    reviewer.mood(Mood::Healthy);
    for _ in 0..1000 {
        assert_eq!(code(&service, "/apis").await, 403);
    }
    assert_eq!(log.text().lines().count(), 101, "each second has its lines");
}

//! What somebody who asks for too much costs others.

use axum::body::Body;
use futures_util::future::join_all;
use tokio::net::TcpSocket;
use tokio::time::Instant;

use super::*;
use crate::security::denied::Verdict;
use crate::testing::fake_reviewer::Mood;
use crate::testing::log::logging;

const CUSTOM: &str = "/apis/custom.metrics.k8s.io/v1beta2";

/// Paths that are reviewed one by one.
fn paths(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|index| format!("{CUSTOM}/namespaces/ns/pods/p{index}/m"))
}

/// Reviews that a slow machine does not cut.
fn patient() -> Settings {
    Settings {
        access_budget: Duration::from_secs(60),
        token_budget: Duration::from_secs(60),
        values_time: Duration::from_secs(60),
        ..Settings::default()
    }
}

/// The layers without a network: everybody is anonymous and nobody may. Their
/// clock is tokio's, which a test stops.
fn layers(reviewer: &Arc<FakeReviewer>) -> Router {
    let api = super::super::api(&Arc::new(Fixture::new()));
    let security = Security::new(
        Arc::new(TrustStore::new(false)),
        reviewer.clone(),
        Arc::new(SystemTime::now),
        Settings::default(),
        api.counters(),
    );
    router::secured(router::routes(&api), &api, Arc::new(security))
}

async fn code(router: &Router, path: &str) -> u16 {
    let request = http::Request::get(path).body(Body::empty()).unwrap();
    let answer = router.clone().oneshot(request).await;
    answer
        .unwrap_or_else(|never| match never {})
        .status()
        .as_u16()
}

impl Scene {
    /// How often each code is answered to a user's certificate on `paths`, all
    /// at a time on one connection; those that are not answered are left out
    /// once `enough` were.
    async fn codes(
        &self,
        user: &str,
        paths: impl Iterator<Item = String>,
        enough: usize,
        headers: &[(&'static str, &'static str)],
    ) -> (BTreeMap<u16, usize>, tokio::task::JoinSet<u16>) {
        let issued = self.clients.client(user, None, validity()).unwrap();
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
        let limit = Duration::from_secs(30);
        if tokio::time::timeout(limit, answered).await.is_err() {
            panic!("too few answers: {codes:?}");
        }
        (codes, tasks)
    }

    async fn as_user(&self, user: &str, target: &str) -> Answer {
        let issued = self.clients.client(user, None, validity()).unwrap();
        self.ask(Some(&issued), target, &[]).await
    }

    /// Requests with garbage tokens, all under review and held there or
    /// refused; they go on until the set is dropped.
    async fn garbage(&self, count: usize) -> tokio::task::JoinSet<()> {
        let mut tasks = tokio::task::JoinSet::new();
        for index in 0..count {
            let client = self.server.http2();
            let request = client.get(self.server.url(VALUES));
            let request = request.bearer_auth(format!("garbage{index}"));
            tasks.spawn(async move {
                let _ = request.send().await;
            });
        }
        until("tokens are refused for others under review", async || {
            self.counters.refusals(Verdict::Busy) > 0
        })
        .await;
        tasks
    }
}

#[tokio::test]
async fn a_review_outlives_who_asked_for_it_and_its_answer_is_learnt() {
    let scene = Scene::with(patient()).await;
    scene.reviewer.hold(|user| user == "bob");
    tokio::select! {
        answer = scene.by_user("bob", VALUES) => panic!("{answer:?}"),
        () = until("a review is under way", async || scene.reviewer.asked().len() == 1) => {}
    }
    // The server sees that nobody waits.
    for _ in 0..3 {
        assert_eq!(scene.by_user("tina", VALUES).await.status, 200);
    }
    let asked = scene.reviewer.asked().len();
    scene.reviewer.release();
    until("the review was answered", async || {
        scene.counters.accesses.yes.load(Ordering::SeqCst) == 2
    })
    .await;
    assert_eq!(scene.by_user("bob", VALUES).await.status, 200);
    assert_eq!(scene.reviewer.asked().len(), asked);
}

#[tokio::test(start_paused = true)]
async fn reviews_are_asked_at_a_bounded_rate() {
    let reviewer = Arc::new(FakeReviewer::new());
    let service = layers(&reviewer);
    let began = Instant::now();
    for path in paths(1000) {
        assert_eq!(code(&service, &path).await, 403);
    }
    // 200 a second after the first 400, of which some are kept for the front
    // proxy.
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(3), "{took:?}");
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(reviewer.asked().len(), 1000);
}

#[tokio::test]
async fn a_users_reviews_leave_places_for_others() {
    let scene = Scene::with(patient()).await;
    scene.reviewer.hold(|user| user == "eve");
    let (codes, waiting) = scene.codes("eve", paths(100), 84, &[]).await;
    assert_eq!(codes, BTreeMap::from([(429, 84)]));
    until("the others are under review", async || {
        scene.reviewer.asked().len() == 16
    })
    .await;
    assert_eq!(scene.as_user("bob", VALUES).await.status, 200);
    assert_eq!(scene.by_user("hpa", VALUES).await.status, 200);
    assert_eq!(scene.by_user("hpa", "/apis").await.status, 200);
    scene.reviewer.release();
    let codes = waiting.join_all().await;
    assert_eq!(codes.len(), 16);
    assert!(!codes.contains(&429), "{codes:?}");
    assert_eq!(scene.as_user("eve", VALUES).await.status, 200);
}

#[tokio::test]
async fn a_users_requests_leave_places_for_others() {
    let scene = Scene::new().await;
    let slow = [("x-test-sleep", "1")];
    let same = std::iter::repeat_n(VALUES.to_owned(), 40);
    let (codes, waiting) = scene.codes("eve", same, 8, &slow).await;
    assert_eq!(codes, BTreeMap::from([(429, 8)]));
    assert_eq!(waiting.len(), 32);
    let answer = scene.as_user("eve", VALUES).await;
    refused(&answer, 429);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(scene.as_user("bob", VALUES).await.status, 200);
    assert_eq!(scene.by_user("eve", VALUES).await.status, 200);
}

#[tokio::test]
async fn direct_callers_leave_places_for_the_front_proxy() {
    let scene = Scene::with(Settings {
        values_in_flight: 8,
        access_reviews: 8,
        ..patient()
    })
    .await;
    scene.reviewer.hold(|user| user.starts_with("eve"));
    let (codes, waiting) = scene.codes("eve", paths(10), 4, &[]).await;
    assert_eq!(codes, BTreeMap::from([(429, 4)]));
    refused(&scene.as_user("bob", VALUES).await, 429);
    assert_eq!(scene.by_user("hpa", VALUES).await.status, 200);
    drop(waiting);
    // Their reviews go on, and leave places, too.
    let other = format!("{CUSTOM}/namespaces/ns/pods/other/m");
    assert_eq!(scene.by_user("hpa", &other).await.status, 404);
}

#[tokio::test]
async fn one_addresss_tokens_leave_places_for_others() {
    let scene = Scene::with(Settings {
        token_waiting: 12,
        ..patient()
    })
    .await;
    scene.reviewer.token_is("good", "bob");
    scene.reviewer.hold(|token| token.starts_with("garbage"));
    let _garbage = scene.garbage(40).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let tcp = socket.connect(scene.server.address).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let config = Arc::new(scene.config(None));
    let connector = tokio_rustls::TlsConnector::from(config);
    let mut tls = connector.connect(name, tcp).await.unwrap();
    let head = format!(
        "GET {VALUES} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer good\r\n\r\n"
    );
    tls.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(read_answer(&mut tls).await.status, 200);
}

#[tokio::test]
async fn a_token_that_was_good_does_not_wait_behind_strangers_of_its_address() {
    let scene = Scene::with(Settings {
        token_life: Duration::from_millis(200),
        token_waiting: 12,
        ..patient()
    })
    .await;
    scene.reviewer.token_is("good", "bob");
    scene.reviewer.hold(|token| token.starts_with("garbage"));
    let good = [("Authorization", "Bearer good")];
    assert_eq!(scene.direct(VALUES, &good).await.status, 200);
    let _garbage = scene.garbage(40).await;
    let times = || {
        let asked = scene.reviewer.tokens_asked();
        asked.iter().filter(|(token, _)| token == "good").count()
    };
    until("it was reviewed again", async || {
        assert_eq!(scene.direct(VALUES, &good).await.status, 200);
        times() > 1
    })
    .await;
    let several = (0..20).map(|_| scene.direct(VALUES, &good));
    for answer in join_all(several).await {
        assert_eq!(answer.status, 200);
    }
}

#[tokio::test]
async fn a_garbage_token_costs_its_connection() {
    let scene = Scene::new().await;
    let head = format!("GET {VALUES} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer bad\r\n\r\n");
    // It is read to its end, which the server makes.
    let answer = scene.raw(scene.config(None), head.as_bytes()).await;
    refused(&answer, 401);
    assert_eq!(scene.counters.refusals(Verdict::Unauthenticated), 1);
}

#[tokio::test(start_paused = true)]
async fn refusals_beyond_a_rate_are_counted_in_one_line() {
    let (log, _guard) = logging(tracing::Level::INFO);
    let reviewer = Arc::new(FakeReviewer::new());
    let service = layers(&reviewer);
    for _ in 0..1000 {
        assert_eq!(code(&service, "/apis").await, 403);
    }
    assert_eq!(log.text().lines().count(), 200);
    tokio::time::sleep(Duration::from_secs(11)).await;
    let text = log.text();
    assert_eq!(text.lines().count(), 201);
    let last = text.lines().last().unwrap();
    assert!(
        last.contains("800 more requests were refused (forbidden 800) and not logged singly"),
        "{last}"
    );
    // What we did wrong is heard none the less.
    reviewer.mood(Mood::Failing);
    assert_eq!(code(&service, "/version").await, 500);
    assert!(log.text().contains("request failed"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(log.text().lines().count(), 202);
}

#[tokio::test(start_paused = true)]
async fn a_review_that_hangs_is_told_in_the_same_words_for_discovery_and_values() {
    let reviewer = Arc::new(FakeReviewer::new());
    reviewer.mood(Mood::Hanging);
    let service = layers(&reviewer);
    for path in ["/apis", VALUES] {
        assert_eq!(code(&service, path).await, 500, "{path}");
    }
}

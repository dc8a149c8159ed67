use super::*;
use crate::api::request::Backend;
use aggregated_apiserver::testing::fake_reviewer::Mood;
use aggregated_apiserver::testing::frames::Frames;

async fn json(answer: reqwest::Response) -> serde_json::Value {
    serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
}

#[tokio::test]
async fn a_panic_fails_one_request_and_keeps_the_connection() {
    let scene = Scene::new().await;
    let client = scene.server.http2_as(Some(&scene.proxy()));
    let bob = [("X-Remote-User", "bob"), ("x-test-panic", "1")];
    let answer = scene.over(&client, VALUES, &bob).await;
    assert_eq!(answer.status(), 500);
    let body = json(answer).await;
    assert_eq!(
        (&body["kind"], &body["code"]),
        (&"Status".into(), &500.into())
    );
    let address = scene.served().address;
    let answer = scene.over(&client, VALUES, &bob[..1]).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(scene.served().address, address);
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_cut() {
    let scene = Scene::with(|it| it.values_time = Duration::from_millis(200)).await;
    let headers = [("X-Remote-User", "bob"), ("x-test-sleep", "1")];
    let answer = scene.proxied(VALUES, &headers).await;
    let message = "Timeout: request did not complete within the allotted timeout";
    assert_eq!(refused(&answer, 504), message);
    assert_eq!(answer.json()["reason"], "Timeout");
}

#[tokio::test]
async fn s105_too_many_requests_are_refused_but_not_the_masters_nor_discovery_nor_health() {
    let scene = Scene::with(|it| {
        it.values_in_flight = 2;
    })
    .await;
    let [bob, ann] = ["bob", "ann"].map(|user| [("X-Remote-User", user), ("x-test-sleep", "1")]);
    let proxy = scene.proxy();
    let sleep = |headers| scene.ask(Some(&proxy), VALUES, headers);
    let sleepers = futures_util::future::join(sleep(&bob), sleep(&ann));
    let rest = async {
        until("two requests are under way", async || {
            scene.times_served() == 2
        })
        .await;
        let answer = scene.by_user("eve", VALUES).await;
        refused(&answer, 429);
        assert_eq!(answer.header("retry-after"), Some("1"));
        assert_eq!(answer.json()["reason"], "TooManyRequests");
        assert_eq!(scene.by_user("eve", V2).await.status, 200);
        assert_eq!(scene.direct("/readyz", &[]).await.status, 200);
        refused(&scene.direct(VALUES, &[]).await, 403);
        assert_eq!(scene.proxied(VALUES, &MASTER).await.status, 200);
    };
    tokio::select! {
        _ = sleepers => panic!("the requests under way ended"),
        () = rest => {}
    }
    // The permits of the clients that disconnected are free again.
    until("a permit is free", async || {
        scene.by_user("eve", VALUES).await.status == 200
    })
    .await;
}

/// A metric whose fetch never ends.
const RULE: &str = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/ns/pods/a/rule";

#[tokio::test]
async fn requests_for_fetched_values_take_no_permits_of_values_in_memory() {
    let scene = Scene::with(|it| {
        it.values_in_flight = 3;
        it.fetched_in_flight = vec![8; Backend::COUNT];
        it.access_budget = Duration::from_secs(60);
        it.values_time = Duration::from_secs(60);
    })
    .await;
    let client = scene.server.http2_as(Some(&scene.proxy()));
    let ask = |user: &str, path: &str| {
        let request = client.get(scene.server.url(path));
        request.header("X-Remote-User", user).send()
    };
    let saturated = async |user| {
        let answer = ask(user, RULE).await.unwrap();
        assert_eq!(answer.status(), 503);
        assert_eq!(answer.headers().get("retry-after"), None);
        let body = json(answer).await;
        assert_eq!(body["reason"], "ServiceUnavailable");
    };
    saturated("unlucky").await;
    let mut waiting = tokio::task::JoinSet::new();
    for user in ["bob", "eve"] {
        for _ in 0..4 {
            let count = waiting.len() + 1;
            waiting.spawn(ask(user, RULE));
            until("it waits", async || {
                scene.fixture.fetching.lock().unwrap().len() == count
            })
            .await;
        }
        // One user has half of the permits.
        saturated(user).await;
        assert_eq!(ask(user, VALUES).await.unwrap().status(), 200);
    }
    saturated("hpa").await;
    assert_eq!(ask("hpa", VALUES).await.unwrap().status(), 200);
    waiting.shutdown().await;
    // Nor do they while requests wait for a review.
    scene.reviewer.hold(|user| user == "new");
    for _ in 0..4 {
        waiting.spawn(ask("new", RULE));
    }
    until("a review is under way", async || {
        scene.reviewer.last().0.user == "new"
    })
    .await;
    assert_eq!(ask("hpa", VALUES).await.unwrap().status(), 200);
    until("a permit is free", async || {
        let _ = tokio::time::timeout(Duration::from_millis(50), ask("hpa", RULE)).await;
        let fetching = scene.fixture.fetching.lock().unwrap();
        fetching.last().is_some_and(|user| user == "hpa")
    })
    .await;
}

#[tokio::test]
async fn anonymous_flood_does_not_refuse_the_front_proxys_users() {
    let scene = Scene::with(|it| {
        it.direct_in_flight = 1;
        it.values_in_flight = 1;
    })
    .await;
    assert_eq!(scene.by_user("bob", VALUES).await.status, 200);
    scene.reviewer.mood(Mood::Hanging);
    let first = scene.direct(VALUES, &[]);
    let rest = async {
        until("a review is under way", async || {
            scene.reviewer.asked().len() == 2
        })
        .await;
        refused(&scene.direct("/apis", &[]).await, 429);
        assert_eq!(scene.by_user("bob", VALUES).await.status, 200);
    };
    tokio::select! {
        answer = first => panic!("{answer:?}"),
        () = rest => {}
    }
}

#[tokio::test]
async fn s091_too_many_header_lines_or_bytes_are_refused_over_either_protocol() {
    let scene = Scene::new().await;
    let client = scene.server.http2_as(Some(&scene.proxy()));
    // hyper looks at the size between two reads, each of which may return as much as the limit.
    let long = "x".repeat(4000);
    let headers = vec![("X-Remote-Group", long.as_str()); 200];
    assert_eq!(scene.proxied(VALUES, &headers).await.status, 431);
    let long = "x".repeat(2000);
    let headers = vec![("X-Remote-Group", long.as_str()); 200];
    assert_eq!(scene.over(&client, VALUES, &headers).await.status(), 431);
    let headers = vec![("X-Remote-Group", "x"); 1100];
    assert_eq!(scene.proxied(VALUES, &headers).await.status, 431);
    assert_eq!(scene.times_served(), 0);
}

#[tokio::test]
async fn a_response_counts_as_a_request_until_the_client_received_it() {
    let reviewer = Arc::new(FakeReviewer::new());
    reviewer.rule(|_, _| AccessVerdict::Allowed(()));
    let api = super::super::api(&Arc::new(Fixture::new()));
    let settings = SecuritySettings {
        direct_in_flight: 1,
        ..SecuritySettings::default()
    };
    let routes = Router::new().fallback(async || "an answer");
    let service = into_service(secured(routes, &api, &reviewer, settings));
    let server = TestServer::start(service).await;
    let mut client = Frames::connect(&server, 0).await;
    let stream = client.get(VALUES).await.unwrap();
    client.began(1).await;
    assert_eq!(server.get(VALUES).await.status, 429);
    client.open(stream, 1 << 20).await;
    client.answered(1).await;
    assert_eq!(server.get(VALUES).await.status, 200);
}

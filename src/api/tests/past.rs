//! `?at=`: values of a past time, and the last request before it.

use super::*;

const NOW_TEXT: &str = "2026-01-02T03:04:20.25Z";

fn before(path: &str) -> String {
    let joint = if path.contains('?') { '&' } else { '?' };
    format!("{path}{joint}at={NOW_TEXT}")
}

#[tokio::test]
async fn a_list_of_then_is_marked_and_tells_when_it_was_asked_for() {
    let (server, _) = server().await;
    let pods = |query: &str| format!("{V2}/namespaces/ns/pods/*/m{query}");
    let external = format!("{EXT}/namespaces/ns/queue_depth");
    for path in [pods("?labelSelector=app%3Dx,n"), external] {
        let first = server.get(&before(&path)).await.json();
        assert_eq!(first["computedAgain"]["asked"], Json::Null, "{path}");
        let now = server.get(&path).await.json();
        let then = server.get(&before(&path)).await.json();
        assert_eq!(then["answer"], now, "{path}");
        let expected = serde_json::json!({
            "asOf": NOW_TEXT,
            "snapshot": "2026-01-02T03:04:18Z",
            "reachesBackTo": "2026-01-02T03:04:05.999Z",
            "asked": {"at": NOW_TEXT, "snapshot": "2026-01-02T03:04:18Z"},
            "askedKnownSince": null,
        });
        assert_eq!(then["computedAgain"], expected, "{path}");
        let earlier = path.clone() + if path.contains('?') { "&" } else { "?" };
        let earlier = server
            .get(&format!("{earlier}at=2026-01-02T03:04:20Z"))
            .await;
        assert_eq!(earlier.json()["computedAgain"]["asked"], Json::Null);
    }
    // The same question in another spelling; and another one.
    let same = server.get(&before(&pods("?labelSelector=n,app==x"))).await;
    assert_ne!(same.json()["computedAgain"]["asked"], Json::Null);
    let other = server.get(&before(&pods("?labelSelector=n"))).await;
    assert_eq!(other.json()["computedAgain"]["asked"], Json::Null);
}

#[tokio::test]
async fn what_is_no_time_or_out_of_reach_is_refused_and_discovery_does_not_care() {
    let (server, _) = server().await;
    for (at, words) in [
        ("noon", "at=\"noon\": write a time"),
        ("2027-01-02T03:04:05Z", "at: too late"),
    ] {
        let path = format!("{V2}/namespaces/ns/pods/a/m?at={at}");
        let refused = status(&server.get(&path).await);
        let message = refused["message"].as_str().unwrap();
        assert!(
            refused["code"] == 400 && message.starts_with(words),
            "{refused}"
        );
    }
    assert_eq!(server.get("/apis?at=noon").await.status, 200);
    let nobody = before(&format!("{V2}/namespaces/ns/pods/c/m"));
    assert_eq!(status(&server.get(&nobody).await)["code"], 404);
}

//! Refusals of the listener are logged.

use super::*;
use crate::testing::log::{Log, logging};

fn refusals(log: &Log) -> Vec<String> {
    let text = log.text();
    let lines = text.lines().filter(|line| line.contains("request refused"));
    lines.map(str::to_owned).collect()
}

#[tokio::test]
async fn requests_refused_before_the_service_are_logged() {
    let (log, _guard) = logging(tracing::Level::INFO);
    let limits = Limits {
        read: Duration::from_millis(200),
        ..Limits::default()
    };
    let (server, _) = start(limits, Duration::ZERO).await;
    assert_eq!(server.raw(GET).await.status, 200);
    assert_eq!(refusals(&log), [""; 0]);
    let long = |length| format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(length));
    let (long, too_long) = (long(40_000), long(70_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(2000));
    let cases = [
        (
            "GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
            "code=400",
        ),
        (
            "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n",
            413,
            "code=413",
        ),
        (
            "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc",
            408,
            "code=408",
        ),
        (&long, 414, "code=414"),
        // Refused by hyper.
        ("nonsense\r\n\r\n", 400, "invalid"),
        (&too_long, 414, "URI"),
        (&many, 431, "too large"),
    ];
    for (count, (request, status, words)) in cases.into_iter().enumerate() {
        let answer = server.raw(request.as_bytes()).await;
        assert_eq!(answer.status, status);
        if words.starts_with("code") {
            assert_eq!(answer.json()["code"], status);
        }
        until("a line", async || refusals(&log).len() > count).await;
        let lines = refusals(&log);
        assert_eq!(lines.len(), count + 1, "{lines:?}");
        let line = lines.last().unwrap();
        assert!(
            line.contains("from=127.0.0.1:") && line.contains(words),
            "{line}"
        );
    }
}

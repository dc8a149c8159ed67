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
    let (server, _) = start(patient(|_| ()), Duration::ZERO).await;
    assert_eq!(server.raw(GET).await.status, 200);
    assert_eq!(refusals(&log), [""; 0]);
    let too_long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(70_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(2000));
    let get = |header| format!("GET / HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\nabc");
    let cases = [
        (get("Transfer-Encoding: chunked"), 400, "ambiguous"),
        (get("Content-Length: 9"), 413, "must not have a body"),
        // Refused by hyper.
        ("nonsense\r\n\r\n".to_owned(), 400, "invalid"),
        (too_long, 431, "too large"),
        (many, 431, "too large"),
    ];
    for (count, (request, status, words)) in cases.into_iter().enumerate() {
        let answer = server.raw(request.as_bytes()).await;
        assert_eq!(answer.status, status);
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

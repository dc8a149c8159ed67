//! The kinds of failures, and their remedies.

use super::*;

#[test]
fn an_excerpt_is_one_short_line() {
    assert_eq!(excerpt(" 502\r\nBad\u{7}Gateway\n"), "502 Bad Gateway");
    assert!(excerpt(&"é".repeat(5000)).len() <= MOST_EXCERPT);
}

fn refused(status: u16, text: &str) -> Error {
    Error::refused("http://p", status, excerpt(text))
}

/// A status and a part of the store's text; the cause, and a part of the remedy.
const REFUSALS: &str = r#"
422 execution: query processing would load too many samples into memory in query execution => Query raise the store's limits
503 timeout: query timed out in expression evaluation => Query raise the store's limits
413 too_large_entry: response larger than the max message size (216832234 vs 104857600) => Query
408 - => Query
504 upstream => Query
429 too many requests: rate limit exceeded => Store raise gpu.poll or the limits of the server
404 page not found => Store check the path prefix in prometheus.url
401 no org id => Store check prometheus.auth, the tenant in prometheus.headers
403 limit => Store check prometheus.auth
400 bad_data: parse error => Query
400 bad_data: =~ is an unsupported matchtype for the __name__ label => Query
405 - => Query set prometheus.verb
414 - => Query set prometheus.verb: POST
500 internal: unexpected EOF => Query
502 - => Store
302 - => Store redirects are not followed
"#;

#[test]
fn each_refusal_has_its_cause_and_its_remedy() {
    for row in REFUSALS.trim().lines() {
        let (said, wanted) = row.split_once(" => ").unwrap();
        let (status, text) = said.split_once(' ').unwrap();
        let (cause, remedy) = wanted.split_once(' ').unwrap_or((wanted, ""));
        let error = refused(status.parse().unwrap(), text);
        assert_eq!(error.is_of_query, cause != "Store", "{row}");
        assert!(error.to_string().contains(remedy), "{error}");
    }
}

#[test]
fn a_finding_has_neither_the_address_nor_the_text_of_the_store() {
    let skew = Error::new(ErrorKind::ClockSkew, "http://p", "its clock is 1m30s ahead");
    let tls = Error::new(ErrorKind::Tls, "http://p", "TLS: UnknownIssuer");
    let ahead = "clock_skew: its clock is 1m30s ahead; set the clocks";
    for (error, words) in [
        (tls, "tls: TLS: UnknownIssuer; check prometheus.tls"),
        (refused(404, "no"), "rejected; check the path prefix"),
        (refused(500, "no"), "server_error; see the server's log"),
        (skew, ahead),
    ] {
        let (how, remedy) = error.finding();
        let told = format!("{how}; {remedy}");
        assert!(told.starts_with(words) && !told.contains("://p"), "{told}");
    }
}

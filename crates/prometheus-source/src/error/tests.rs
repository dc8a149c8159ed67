//! The kinds of failures, and their remedies.

use rustls::{CertificateError, InvalidMessage};

use super::*;

#[test]
fn an_excerpt_is_one_short_line_without_markup() {
    let html = "<html>\n<head><title>502 Bad Gateway</title></head>\r\n<body>nginx\u{7}</body>";
    assert_eq!(excerpt(html), "502 Bad Gateway nginx");
}

#[test]
fn a_long_text_keeps_its_beginning_and_its_end() {
    let store = format!("error of {}: the cause", "é".repeat(5000));
    let kept = excerpt(&store);
    assert!(
        kept.starts_with("error of éé") && kept.ends_with("éé: the cause"),
        "{kept}"
    );
    assert!(kept.contains("é … é"), "{kept}");
    assert!(kept.len() < EXCERPT_HEAD + EXCERPT_TAIL + 10);
}

fn refused(status: u16, text: &str) -> Error {
    Error::of_status("http://p", status, text, &excerpt(text))
}

#[test]
fn each_refusal_has_its_cause_and_only_size_and_time_are_limits() {
    for (status, text, wanted) in [
        (
            422,
            "execution: query processing would load too many samples into memory in query execution",
            Cause::Size,
        ),
        (
            503,
            "timeout: query timed out in expression evaluation",
            Cause::Time,
        ),
        (
            422,
            "422: cannot fetch data for \"x\": cannot select more than -search.maxSamplesPerQuery=3 samples; possible solutions: …",
            Cause::Size,
        ),
        (
            422,
            "execution: expanding series: context deadline exceeded",
            Cause::Time,
        ),
        (
            422,
            "execution: the query exceeded the maximum number of chunks (limit: 2000000 chunks)",
            Cause::Size,
        ),
        (
            413,
            "too_large_entry: response larger than the max message size (216832234 vs 104857600)",
            Cause::Size,
        ),
        (413, "", Cause::Size),
        (504, "upstream", Cause::Time),
        (429, "too many requests: rate limit exceeded", Cause::Rate),
        (404, "page not found", Cause::Path),
        (401, "no org id", Cause::Other),
        (403, "limit", Cause::Other),
        (400, "bad_data: parse error", Cause::Content),
        (
            422,
            "execution: unavailable with Prometheus Agent",
            Cause::Agent,
        ),
        (500, "internal: unexpected EOF", Cause::Other),
        (502, "", Cause::Other),
        (503, "", Cause::Other),
    ] {
        let error = refused(status, text);
        assert_eq!(error.cause(), wanted, "{error}");
        let is_limit = matches!(wanted, Cause::Size | Cause::Time);
        assert_eq!(wanted.is_limit(), is_limit, "{error}");
    }
    assert_eq!(Cause::of_query("timeout", ""), Cause::Time);
    let many = Cause::of_query("execution", "too many samples");
    assert_eq!(many, Cause::Size);
    assert!(!Cause::of_query("bad_data", "parse error").is_limit());
}

#[test]
fn another_address_may_answer_unless_the_query_is_at_fault() {
    for status in 300..600 {
        let error = refused(status, "no");
        let is_of_query = matches!(status, 400 | 408 | 413 | 414 | 422 | 431 | 504);
        assert_eq!(error.is_of_query(), is_of_query, "{error}");
        let is_final = matches!(status, 400 | 405 | 408 | 413 | 414 | 422 | 431);
        assert_eq!(error.is_of_address(), !is_final, "{error}");
    }
    let wrong_path = refused(400, "unsupported path requested");
    assert!(wrong_path.is_of_address() && !wrong_path.is_of_query());
    let overloaded = refused(503, "query timed out");
    assert!(overloaded.is_of_address() && overloaded.is_of_query());
}

#[test]
fn messages_of_stores_lead_to_a_remedy() {
    for (status, text, remedy) in [
        (
            400,
            "remoteAddr: \"10.0.0.1:1\"; requestURI: /x/api/v1/query; unsupported path requested: \"/x/api/v1/query\"",
            "check the path prefix in prometheus.url",
        ),
        (
            404,
            "page not found",
            "check the path prefix in prometheus.url",
        ),
        (
            422,
            "execution: unavailable with Prometheus Agent",
            "point prometheus.url at the store it writes to",
        ),
        (
            400,
            "bad_data: =~ is an unsupported matchtype for the __name__ label",
            "set prometheus.nameMatching: exact",
        ),
        (
            401,
            "no org id",
            "name the tenant in prometheus.headers (X-Scope-OrgID)",
        ),
        (429, "", "raise gpu.poll or the limits of the server"),
    ] {
        let text = refused(status, text).to_string();
        assert!(text.contains(&format!(": {remedy}")), "{text}");
    }
}

/// The text of a failure in a finding.
fn told(error: &Error) -> String {
    let (how, remedy) = error.finding();
    format!("{how}; {remedy}")
}

#[test]
fn a_skew_says_which_clock_is_ahead_by_how_much() {
    let error = |skew_ms| Error::new(ErrorKind::ClockSkew, "http://p", skew_text(skew_ms));
    let remedy = "set the clocks of Prometheus and of this server by NTP";
    assert_eq!(
        error(90_500).to_string(),
        format!("http://p: its clock is 1m30s ahead of this server's clock: {remedy}")
    );
    assert_eq!(
        error(-3_600_000).to_string(),
        format!("http://p: this server's clock is 1h ahead of its clock: {remedy}")
    );
    let told = told(&error(90_500));
    assert!(
        told.starts_with("clock_skew: its clock is 1m30s ahead"),
        "{told}"
    );
}

#[test]
fn each_cause_has_its_description_without_the_address() {
    let tls = |error: rustls::Error| {
        let failed = Error::new(ErrorKind::Tls, "https://p", format!("TLS: {error}"));
        failed.because(Cause::of_tls(&error))
    };
    let certificate = |error| tls(rustls::Error::InvalidCertificate(error));
    let not_an_answer = Error::new(ErrorKind::NotAnAnswer, "http://p", "no JSON");
    let plain = rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType);
    for (error, words) in [
        (tls(plain), "tls: the port speaks plain HTTP; use http://"),
        (
            certificate(CertificateError::Expired),
            "tls: its certificate has expired; renew",
        ),
        (
            certificate(CertificateError::NotValidYet),
            "not valid yet; set the clocks",
        ),
        (
            certificate(CertificateError::UnknownIssuer),
            "prometheus.tls.caFile",
        ),
        (
            certificate(CertificateError::NotValidForName),
            "another name",
        ),
        (
            certificate(CertificateError::BadSignature),
            "tls; check prometheus.tls",
        ),
        (
            refused(404, "404 page not found"),
            "rejected: this path has no query API; check the path prefix",
        ),
        (refused(403, "no"), "denied; check prometheus.auth"),
        (not_an_answer, "not_an_answer: the server at this path"),
    ] {
        let told = told(&error);
        assert!(told.contains(words) && !told.contains("://p"), "{told}");
    }
}

//! The kinds of failures, and their remedies.

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
    Error::Status {
        address: "http://p".into(),
        status,
        cause: Cause::of(status, text),
        text: excerpt(text),
    }
}

#[test]
fn a_shorter_range_is_no_remedy_for_rights_rates_and_addresses() {
    for (status, text, wanted) in [
        (
            422,
            "execution: query processing would load too many samples into memory in query execution",
            Some(Limit::Size),
        ),
        (
            503,
            "timeout: query timed out in expression evaluation",
            Some(Limit::Time),
        ),
        (
            422,
            "422: cannot fetch data for \"x\": cannot select more than -search.maxSamplesPerQuery=3 samples; possible solutions: …",
            Some(Limit::Size),
        ),
        (
            422,
            "execution: expanding series: context deadline exceeded",
            Some(Limit::Time),
        ),
        (
            422,
            "execution: the query exceeded the maximum number of chunks (limit: 2000000 chunks)",
            Some(Limit::Size),
        ),
        (
            413,
            "too_large_entry: response larger than the max message size (216832234 vs 104857600)",
            Some(Limit::Size),
        ),
        (413, "", Some(Limit::Size)),
        (504, "upstream", Some(Limit::Time)),
        (429, "too many requests: rate limit exceeded", None),
        (404, "page not found", None),
        (401, "no org id", None),
        (403, "limit", None),
        (400, "bad_data: parse error", None),
        (422, "execution: unavailable with Prometheus Agent", None),
        (500, "internal: unexpected EOF", None),
        (502, "", None),
        (503, "", None),
    ] {
        let error = refused(status, text);
        assert_eq!(error.limit(), wanted, "{error}");
    }
    let address = || "http://p".to_owned();
    let late = Error::Timeout {
        address: address(),
        limit: Duration::from_secs(10),
    };
    assert_eq!(late.limit(), Some(Limit::Time));
    let large = Error::TooLarge {
        address: address(),
        limit: 1,
        remedy: "",
    };
    assert_eq!(large.limit(), Some(Limit::Size));
    let absent = Error::Unreachable {
        address: address(),
        reason: "refused".to_owned(),
    };
    assert_eq!(absent.limit(), None);
    let query = |error_type: &str, error: &str| Error::Query {
        address: address(),
        error_type: error_type.into(),
        error: error.into(),
    };
    assert_eq!(query("timeout", "").limit(), Some(Limit::Time));
    let many = query("execution", "too many samples");
    assert_eq!(many.limit(), Some(Limit::Size));
    assert_eq!(query("bad_data", "parse error").limit(), None);
}

#[test]
fn what_stores_say_of_wrong_addresses_has_its_remedy() {
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
        assert!(text.ends_with(&format!(": {remedy}")), "{text}");
    }
}

/// The failure as reported outside the log.
fn told(error: &Error) -> String {
    let told = error.told();
    format!("{}; {}", told.how, told.remedy)
}

#[test]
fn a_skew_says_which_clock_is_ahead_by_how_much() {
    let error = |skew_ms| Error::ClockSkew {
        address: "http://p".into(),
        skew_ms,
    };
    assert_eq!(
        error(90_500).to_string(),
        "http://p: its clock is 1m30s ahead of this server's clock: set both by NTP"
    );
    assert_eq!(
        error(-3_600_000).to_string(),
        "http://p: this server's clock is 1h ahead of its clock: set both by NTP"
    );
    let told = told(&error(90_500));
    assert!(
        told.starts_with("clock_skew: its clock is 1m30s ahead"),
        "{told}"
    );
}

#[test]
fn each_cause_is_told_in_its_own_words_without_the_address() {
    let tls = |error: rustls::Error| Error::Tls {
        address: "https://p".into(),
        cause: TlsCause::of(&error),
        reason: error.to_string(),
    };
    let certificate = |error| tls(rustls::Error::InvalidCertificate(error));
    let not_an_answer = Error::NotAnAnswer {
        address: "http://p".into(),
        reason: "no JSON".into(),
        excerpt: "<html>".into(),
    };
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
            "rejected: this path has no query API; correct prometheus.url",
        ),
        (refused(403, "no"), "denied; check prometheus.auth"),
        (not_an_answer, "not_an_answer: the server at this path"),
    ] {
        let told = told(&error);
        assert!(told.contains(words) && !told.contains("://p"), "{told}");
    }
}

//! Errors of queries: their messages, and the closed list of kinds by which they are
//! counted.

use std::fmt;
use std::time::Duration;

use apimachinery::duration::format_duration;

/// Why a query failed. Earlier samples stay in the store until they expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The queried address, without credentials, or the faulty file.
    place: String,
    kind: ErrorKind,
    cause: Cause,
    /// The fault, which may repeat an excerpt of the store's text.
    text: String,
    /// Empty: the text contains it, or it is unknown.
    remedy: &'static str,
}

impl Error {
    /// A failure at an address, or of a file.
    pub(crate) fn new(kind: ErrorKind, place: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            kind,
            cause: Cause::Store,
            text: text.into(),
            remedy: kind.remedy(),
        }
    }

    /// An HTTP status other than 200 with its whole text, of which an excerpt is shown.
    pub(crate) fn of_status(address: &str, status: u16, text: &str, excerpt: &str) -> Self {
        let kind = match status {
            401 | 403 => ErrorKind::Denied,
            500.. => ErrorKind::ServerError,
            _ => ErrorKind::Rejected,
        };
        let (cause, remedy) = refusal(status, text);
        Self::new(kind, address, format!("HTTP {status}: {excerpt}"))
            .because(cause)
            .with_remedy(remedy)
    }

    /// `status: error` in an answer with HTTP status 200: a refusal of the query.
    pub(crate) fn of_query(address: &str, error_type: &str, error: &str, excerpt: &str) -> Self {
        let status = if error_type == "timeout" { 408 } else { 422 };
        let (cause, remedy) = refusal(status, error);
        let text = format!("the query failed: {excerpt}");
        Self::new(ErrorKind::Rejected, address, text)
            .because(cause)
            .with_remedy(remedy)
    }

    pub(crate) const fn because(mut self, cause: Cause) -> Self {
        self.cause = cause;
        self
    }

    /// This error with another remedy; empty if the text contains it.
    pub(crate) const fn with_remedy(mut self, remedy: &'static str) -> Self {
        self.remedy = remedy;
        self
    }

    /// The kind by which the failure is counted.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the store matches names only by equality.
    pub(crate) const fn is_of_name_matching(&self) -> bool {
        matches!(self.cause, Cause::NameMatching)
    }

    /// Whether the store refused this query, or answered a part of it: it may answer a
    /// smaller one.
    #[must_use]
    pub const fn is_of_query(&self) -> bool {
        matches!(self.kind, ErrorKind::Partial | ErrorKind::Truncated)
            || !matches!(self.cause, Cause::Store)
    }

    /// The fault and the remedy for a finding, without the address and the store's text.
    #[must_use]
    pub fn finding(&self) -> (String, &'static str) {
        let label = self.kind.label();
        let how = match self.kind {
            ErrorKind::ClockSkew => format!("{label}: {}", self.text),
            _ => label.to_owned(),
        };
        match self.remedy {
            "" => (how, "see the server's log for the answer of Prometheus"),
            remedy => (how, remedy),
        }
    }
}

/// For the log, with the address.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)?;
        match self.remedy {
            "" => Ok(()),
            remedy => write!(f, ": {remedy}"),
        }
    }
}

impl std::error::Error for Error {}

/// What a failure depends on, which decides what is queried next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The query: the store may answer another one.
    Query,
    /// The matcher of names: the store matches them only by equality.
    NameMatching,
    /// The connection, rights, or the load of the store.
    Store,
}

const RAISE_LIMITS: &str = "raise the store's limits, or narrow prometheus.matchers";
const CHECK_AUTH: &str = "check prometheus.auth and the account's rights";
const CHECK_PATH: &str = "check the path prefix in prometheus.url: it is that of --web.external-url or --web.route-prefix";

/// The cause and the remedy of an HTTP status with the whole text of its answer.
fn refusal(status: u16, text: &str) -> (Cause, &'static str) {
    use Cause::{NameMatching, Query, Store};
    let text = text.to_ascii_lowercase();
    let says = |words: &str| text.contains(words);
    match status {
        300..=399 => (
            Store,
            "redirects are not followed: write the final address into prometheus.url",
        ),
        401 if says("no org id") => (
            Store,
            "name the tenant in prometheus.headers (X-Scope-OrgID)",
        ),
        401 | 403 => (Store, CHECK_AUTH),
        400 if says("unsupported path requested") => (Store, CHECK_PATH),
        400 if says("unsupported matchtype") => {
            (NameMatching, "set prometheus.nameMatching: exact")
        }
        404 => (Store, CHECK_PATH),
        405 => (
            Query,
            "set prometheus.verb to the other method, GET or POST",
        ),
        414 | 431 => (Query, "set prometheus.verb: POST"),
        422 if says("unavailable with prometheus agent") => {
            (Query, "point prometheus.url at the store it writes to")
        }
        429 => (Store, "raise gpu.poll or the limits of the server"),
        408 | 413 | 422 | 503 | 504 => (Query, RAISE_LIMITS),
        400 | 500 => (Query, ""),
        _ => (Store, ""),
    }
}

/// The kinds by which failures are counted: a closed list, which bounds the values of
/// a metric's label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// No connection.
    Unreachable,
    /// No answer in time.
    Timeout,
    /// TLS failed.
    Tls,
    /// This server has no credentials that can be used.
    Credentials,
    Denied,
    /// Another status below 500, or `status: error`.
    Rejected,
    /// 500 and above.
    ServerError,
    /// The answer is incomplete.
    Truncated,
    /// Not an answer of the query API, or its data are null.
    NotAnAnswer,
    /// The answer may be partial.
    Partial,
    /// Over the size limit.
    TooLarge,
    /// The clocks differ.
    ClockSkew,
}

impl ErrorKind {
    /// The kind as a metric's label value.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Tls => "tls",
            Self::Credentials => "credentials",
            Self::Denied => "denied",
            Self::Rejected => "rejected",
            Self::ServerError => "server_error",
            Self::Truncated => "truncated",
            Self::NotAnAnswer => "not_an_answer",
            Self::Partial => "partial",
            Self::TooLarge => "too_large",
            Self::ClockSkew => "clock_skew",
        }
    }

    /// The remedy if nothing else is known; empty for refusals, whose text decides.
    const fn remedy(self) -> &'static str {
        match self {
            Self::Unreachable => {
                "check prometheus.url or --prometheus-url, that Prometheus runs, and that a NetworkPolicy lets the server reach it"
            }
            Self::Timeout => {
                "check the load of Prometheus and that a NetworkPolicy lets the server reach it, or raise prometheus.timeout"
            }
            Self::Tls => {
                "check prometheus.tls, that the port serves TLS, and that its certificate is valid for the host in prometheus.url"
            }
            Self::Credentials => CHECK_AUTH,
            Self::Denied | Self::Rejected | Self::ServerError => "",
            Self::Truncated => {
                "read the log of Prometheus or of a proxy in front of it, which closed the connection"
            }
            Self::NotAnAnswer => {
                "check that prometheus.url is the address of Prometheus, with the path prefix of its --web.external-url or --web.route-prefix"
            }
            Self::Partial => "check the stores behind it",
            Self::TooLarge => "narrow prometheus.matchers",
            Self::ClockSkew => "set the clocks of Prometheus and of this server by NTP",
        }
    }
}

/// Which clock is ahead, from Prometheus' clock minus this server's in milliseconds.
pub(crate) fn skew_text(skew_ms: i64) -> String {
    let by = format_duration(Duration::from_secs(skew_ms.unsigned_abs() / 1000));
    if skew_ms > 0 {
        format!("its clock is {by} ahead of this server's clock")
    } else {
        format!("this server's clock is {by} ahead of its clock")
    }
}

/// Bytes of the beginning and of the end in the excerpt of a store's text. Stores repeat
/// the query first and put the cause last.
const EXCERPT_HEAD: usize = 80;
const EXCERPT_TAIL: usize = 280;

/// A text on one line: markup, control characters and runs of white space become
/// single spaces. A long text is cut to its beginning and end.
pub(super) fn excerpt(text: &str) -> String {
    let mut out = String::new();
    let (mut in_tag, mut gap) = (false, false);
    for c in text.chars() {
        match c {
            '<' => (in_tag, gap) = (true, true),
            '>' if in_tag => in_tag = false,
            _ if in_tag => {}
            c if c.is_whitespace() || c.is_control() => gap = true,
            c => {
                if gap && !out.is_empty() {
                    out.push(' ');
                }
                gap = false;
                out.push(c);
            }
        }
    }
    if out.len() > EXCERPT_HEAD + EXCERPT_TAIL {
        let whole = |from: usize| {
            (from..)
                .find(|&at| out.is_char_boundary(at))
                .unwrap_or(from)
        };
        let cut = whole(EXCERPT_HEAD)..whole(out.len() - EXCERPT_TAIL);
        out.replace_range(cut, " … ");
    }
    out
}

#[cfg(test)]
mod tests;

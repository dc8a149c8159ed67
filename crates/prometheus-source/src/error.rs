//! Errors of queries: their messages, and the closed list of kinds by which they are
//! counted.

mod cause;

use std::fmt;
use std::time::Duration;

use apimachinery::duration::format_duration;
pub use cause::Cause;

/// Why a query failed. Earlier samples stay in the store until they expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The queried address, without credentials, or the faulty file.
    place: String,
    kind: ErrorKind,
    cause: Cause,
    /// The fault, which may repeat an excerpt of the store's text.
    text: String,
    /// Replaces the remedy of [`advice`]; empty if `text` contains the remedy.
    remedy: Option<&'static str>,
}

impl Error {
    /// A failure at an address, or of a file.
    pub(crate) fn new(kind: ErrorKind, place: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            kind,
            cause: Cause::Other,
            text: text.into(),
            remedy: None,
        }
    }

    /// An HTTP status other than 200 with its whole text, of which an excerpt is shown.
    pub(crate) fn of_status(address: &str, status: u16, text: &str, excerpt: &str) -> Self {
        let kind = match status {
            401 if text.to_ascii_lowercase().contains("no org id") => ErrorKind::Tenant,
            401 | 403 => ErrorKind::Denied,
            500.. => ErrorKind::ServerError,
            _ => ErrorKind::Rejected,
        };
        Self::new(kind, address, format!("HTTP {status}: {excerpt}"))
            .because(Cause::of(status, text))
    }

    /// This error with its cause.
    pub(crate) const fn because(mut self, cause: Cause) -> Self {
        self.cause = cause;
        self
    }

    /// This error with another remedy; empty if the text contains it.
    pub(crate) const fn with_remedy(mut self, remedy: &'static str) -> Self {
        self.remedy = Some(remedy);
        self
    }

    /// The address that failed, or the file at fault.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// The kind by which the failure is counted.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The cause; [`Cause::Other`] if it is unknown.
    #[must_use]
    pub const fn cause(&self) -> Cause {
        self.cause
    }

    /// Whether the store refused the query for its content, its size or its time, or
    /// answered a part of it: it may answer a smaller one.
    #[must_use]
    pub const fn is_of_query(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Query | ErrorKind::Partial | ErrorKind::Truncated
        ) || self.cause.is_of_query()
    }

    /// Whether another address may answer: false if the query, its size or a local file
    /// is the cause.
    pub(crate) const fn is_of_address(&self) -> bool {
        match self.kind {
            ErrorKind::Query | ErrorKind::TooLarge | ErrorKind::Credentials => false,
            ErrorKind::Rejected => !self.cause.is_of_query() && !matches!(self.cause, Cause::Verb),
            _ => true,
        }
    }

    /// The fault and the remedy for a finding, without the address and the store's text.
    #[must_use]
    pub fn finding(&self) -> (String, &'static str) {
        let (what, remedy) = advice(self.kind, self.cause);
        let what = match self.kind {
            ErrorKind::ClockSkew => self.text.as_str(),
            _ => what,
        };
        let label = self.kind.label();
        let how = match what {
            "" => label.to_owned(),
            what => format!("{label}: {what}"),
        };
        let own = self.remedy.filter(|own| !own.is_empty());
        match own.unwrap_or(remedy) {
            "" => (how, "see the server's log for the answer of Prometheus"),
            remedy => (how, remedy),
        }
    }
}

/// For the log, with the address.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)?;
        let general = advice(self.kind, self.cause).1;
        match self.remedy.unwrap_or(general) {
            "" => Ok(()),
            remedy => write!(f, ": {remedy}"),
        }
    }
}

impl std::error::Error for Error {}

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
    /// 401 or 403.
    Denied,
    /// 401: the tenant is missing.
    Tenant,
    /// Another status below 500.
    Rejected,
    /// 500 and above.
    ServerError,
    /// The answer is incomplete.
    Truncated,
    /// Not an answer of the query API.
    NotAnAnswer,
    /// `status: error`.
    Query,
    /// The answer may be partial.
    Partial,
    /// Null data.
    NullData,
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
            Self::Tenant => "tenant",
            Self::Rejected => "rejected",
            Self::ServerError => "server_error",
            Self::Truncated => "truncated",
            Self::NotAnAnswer => "not_an_answer",
            Self::Query => "query",
            Self::Partial => "partial",
            Self::NullData => "null_data",
            Self::TooLarge => "too_large",
            Self::ClockSkew => "clock_skew",
        }
    }
}

/// A description that adds to the label of the kind, and the remedy; both may be empty.
/// The cause is used only for failures of TLS and for refusals by the store.
const fn advice(kind: ErrorKind, cause: Cause) -> (&'static str, &'static str) {
    use ErrorKind::{Query, Rejected, ServerError, Tls};
    match (kind, cause) {
        (kind, Cause::Other) => of_kind(kind),
        (Tls | Rejected | ServerError | Query, cause) => cause.advice(),
        (kind, _) => of_kind(kind),
    }
}

const fn of_kind(kind: ErrorKind) -> (&'static str, &'static str) {
    let remedy = match kind {
        ErrorKind::Unreachable => {
            "check prometheus.url or --prometheus-url, that Prometheus runs, and that a NetworkPolicy lets the server reach it"
        }
        ErrorKind::Timeout => {
            "check the load of Prometheus and that a NetworkPolicy lets the server reach it, or raise prometheus.timeout"
        }
        ErrorKind::Credentials | ErrorKind::Denied => {
            "check prometheus.auth and the account's rights"
        }
        ErrorKind::Tenant => "name the tenant in prometheus.headers (X-Scope-OrgID)",
        ErrorKind::Truncated => {
            "read the log of Prometheus or of a proxy in front of it, which closed the connection"
        }
        ErrorKind::NotAnAnswer => {
            let what = "the server at this path does not answer as the query API";
            return (
                what,
                "check that prometheus.url is the address of Prometheus, with the path prefix of its --web.external-url or --web.route-prefix",
            );
        }
        ErrorKind::Partial => "check the stores behind it",
        ErrorKind::NullData => {
            "check the proxy or engine in front of Prometheus, which lost the data"
        }
        ErrorKind::TooLarge => "raise prometheus.maxBodyBytes, or narrow prometheus.matchers",
        ErrorKind::ClockSkew => "set the clocks of Prometheus and of this server by NTP",
        ErrorKind::Tls => "check prometheus.tls",
        ErrorKind::Rejected | ErrorKind::ServerError | ErrorKind::Query => "",
    };
    ("", remedy)
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

//! Errors of queries: their messages, and the closed list of kinds by which they are
//! counted.

use std::fmt;

use apimachinery::letters::shortened;

/// Why a query failed. Earlier samples stay in the store until they expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The queried address, without credentials, or the faulty file.
    place: String,
    /// The kind by which the failure is counted.
    pub kind: ErrorKind,
    /// Whether the store refused this query, or answered a part of it: it may answer a
    /// smaller one.
    pub is_of_query: bool,
    /// The fault, which may repeat an excerpt of the store's text.
    text: String,
    /// Empty: the text contains it, or it is unknown.
    pub(crate) remedy: &'static str,
}

impl Error {
    /// A failure at an address, or of a file.
    pub(crate) fn new(kind: ErrorKind, place: impl Into<String>, text: impl Into<String>) -> Self {
        use ErrorKind::{Partial, Timeout, TooLarge, Truncated};
        Self {
            place: place.into(),
            kind,
            is_of_query: matches!(kind, Timeout | Truncated | Partial | TooLarge),
            text: text.into(),
            remedy: kind.remedy(),
        }
    }

    /// The refusal of a query with an HTTP status. `text` has an excerpt of the store's text.
    pub(crate) fn refused(address: &str, status: u16, text: String) -> Self {
        let kind = match status {
            401 | 403 => ErrorKind::Denied,
            500.. => ErrorKind::ServerError,
            _ => ErrorKind::Rejected,
        };
        let is_of_query = matches!(
            status,
            400 | 405 | 408 | 413 | 414 | 422 | 431 | 500 | 503 | 504
        );
        Self {
            is_of_query,
            remedy: remedy(status),
            ..Self::new(kind, address, text)
        }
    }

    /// The fault and the remedy for a finding: the reason that the log has, without the
    /// address and the store's text.
    #[must_use]
    pub fn finding(&self) -> (String, &'static str) {
        let label = self.kind.label();
        let how = match self.kind {
            ErrorKind::Denied
            | ErrorKind::Rejected
            | ErrorKind::ServerError
            | ErrorKind::Credentials
            | ErrorKind::NotAnAnswer
            | ErrorKind::Partial => label.to_owned(),
            _ => format!("{label}: {}", self.text),
        };
        match self.remedy {
            "" => (how, "see the server's log for the answer of Prometheus"),
            remedy => (how, remedy),
        }
    }
}

/// For the log, with the address.
impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.place, self.text)?;
        match self.remedy {
            "" => Ok(()),
            remedy => write!(out, ": {remedy}"),
        }
    }
}

impl std::error::Error for Error {}

/// The remedy for a refusal with this HTTP status; empty if the text of the store says enough.
const fn remedy(status: u16) -> &'static str {
    match status {
        300..=399 => "redirects are not followed: write the final address into prometheus.url",
        401 | 403 => {
            "check prometheus.auth, the tenant in prometheus.headers, and the account's rights"
        }
        404 => {
            "check the path prefix in prometheus.url: it is that of --web.external-url or --web.route-prefix"
        }
        405 => "set prometheus.verb to the other method, GET or POST",
        414 | 431 => "set prometheus.verb: POST",
        429 => "raise gpu.poll or the limits of the server",
        408 | 413 | 422 | 503 | 504 => "raise the store's limits, or narrow prometheus.matchers",
        _ => "",
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
    Tls,
    /// This server has no credentials that can be used.
    Credentials,
    Denied,
    /// Another status below 500.
    Rejected,
    /// 500 and above.
    ServerError,
    Truncated,
    /// Not an answer of the query API, or its data are null.
    NotAnAnswer,
    Partial,
    TooLarge,
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

    /// The remedy if nothing else is known; empty for refusals, whose status decides, and for
    /// credentials, whose place decides.
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
            Self::Credentials | Self::Denied | Self::Rejected | Self::ServerError => "",
            Self::Truncated => {
                "read the log of Prometheus or of a proxy in front of it, which closed the connection"
            }
            Self::NotAnAnswer => {
                "check that prometheus.url is the address of Prometheus, with the path prefix of its --web.external-url or --web.route-prefix"
            }
            Self::Partial => "check the stores behind it",
            Self::TooLarge => "select less: aggregate in the query, or narrow prometheus.matchers",
            Self::ClockSkew => "set the clocks of Prometheus and of this server by NTP",
        }
    }
}

/// The most bytes of a store's text in a message. Stores repeat the query first and put the
/// cause last.
const MOST_EXCERPT: usize = 4 << 10;

/// A text on one line: control characters and runs of white space become single spaces.
pub(super) fn excerpt(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    shortened(&words.join(" "), MOST_EXCERPT).into_owned()
}

#[cfg(test)]
mod tests;

//! Why queries fail: one sentence each, and the closed list of kinds by which failures
//! are counted.

use std::fmt;
use std::time::Duration;

use rustls::{CertificateError, InvalidMessage};

use apimachinery::duration::format_duration;

/// Why a query failed. Old samples stay, and age by their own timestamps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The address asked, without credentials, or the file at fault.
    place: String,
    kind: ErrorKind,
    cause: Cause,
    /// The fault, which may repeat an excerpt of the store's text.
    text: String,
    /// The remedy in place of the one in [`advice`].
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

    /// The same with its cause.
    pub(crate) const fn because(mut self, cause: Cause) -> Self {
        self.cause = cause;
        self
    }

    /// The same with another remedy; with an empty one if the text has it.
    pub(crate) const fn with_remedy(mut self, remedy: &'static str) -> Self {
        self.remedy = Some(remedy);
        self
    }

    /// The kind by which the failure is counted.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The cause as far as it is known.
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

    /// Whether another address may answer: not if the query, its size or a local file is
    /// the cause.
    pub(crate) const fn is_of_address(&self) -> bool {
        match self.kind {
            ErrorKind::Query | ErrorKind::TooLarge | ErrorKind::Credentials => false,
            ErrorKind::Rejected => !self.cause.is_of_query() && !matches!(self.cause, Cause::Verb),
            _ => true,
        }
    }

    /// The fault and its remedy as a finding has them: without address and foreign text.
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
    /// The answer broke off.
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

/// The cause of a failure, recognised by the store's message or by the error of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The port speaks HTTP without TLS.
    PlainHttp,
    /// The certificate has expired.
    Expired,
    /// The certificate is not valid yet.
    NotYetValid,
    /// The certificate's authority is not trusted.
    UnknownAuthority,
    /// The certificate is for another name.
    OtherName,
    /// A limit on samples or bytes: the same query will be refused again, and a shorter
    /// range may be answered.
    Size,
    /// A limit on time: a shorter range may be answered, and another time this one.
    Time,
    /// The path is not a query API.
    Path,
    /// A Prometheus without a query API, which only forwards samples.
    Agent,
    /// The store matches metric names only by equality.
    NameMatching,
    /// The query is invalid for the store.
    Content,
    /// The request has too long a line or header.
    Length,
    /// The method is refused.
    Verb,
    /// Another address is to be asked.
    Redirect,
    /// Too many requests.
    Rate,
    /// Anything else.
    Other,
}

/// Phrases of Prometheus, VictoriaMetrics, Thanos, Mimir and Cortex about limits of
/// time, in lower case.
const WORDS_OF_TIME: [&str; 3] = ["timed out", "timeout", "deadline exceeded"];

/// Phrases about limits of size.
const WORDS_OF_SIZE: [&str; 9] = [
    "too many samples",
    "too many chunks",
    "too large",
    "larger than",
    "cannot select more than",
    "maximum number of",
    "limit",
    "exceed",
    "out of memory",
];

impl Cause {
    /// The reason of a status with its whole text.
    pub(crate) fn of(status: u16, text: &str) -> Self {
        let text = text.to_ascii_lowercase();
        let says = |words: &str| text.contains(words);
        match status {
            300..=399 => Self::Redirect,
            400 if says("unsupported path requested") => Self::Path,
            400 if says("unsupported matchtype") => Self::NameMatching,
            404 => Self::Path,
            405 => Self::Verb,
            414 | 431 => Self::Length,
            429 => Self::Rate,
            422 if says("unavailable with prometheus agent") => Self::Agent,
            408 | 504 => Self::Time,
            413 => Self::Size,
            422 | 500..=503 if WORDS_OF_TIME.into_iter().any(says) => Self::Time,
            422 | 500..=503 if WORDS_OF_SIZE.into_iter().any(says) => Self::Size,
            400 | 422 => Self::Content,
            _ => Self::Other,
        }
    }

    /// The reason of a failure that an answer with status 200 tells.
    pub(crate) fn of_query(error_type: &str, error: &str) -> Self {
        match error_type {
            "timeout" => Self::Time,
            _ => Self::of(422, error),
        }
    }

    /// The cause of a rustls error.
    pub(crate) const fn of_tls(error: &rustls::Error) -> Self {
        let invalid = match error {
            // The first byte of `HTTP/1.1 400 Bad Request` is not that of a TLS
            // record.
            rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
                return Self::PlainHttp;
            }
            rustls::Error::InvalidCertificate(invalid) => invalid,
            _ => return Self::Other,
        };
        match invalid {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                Self::NotYetValid
            }
            CertificateError::UnknownIssuer => Self::UnknownAuthority,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::OtherName
            }
            _ => Self::Other,
        }
    }

    /// Whether a shorter range may be answered. Rights, addresses and rates do not depend
    /// on the range.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        matches!(self, Self::Size | Self::Time)
    }

    const fn is_of_query(self) -> bool {
        self.is_limit()
            || matches!(
                self,
                Self::Agent | Self::NameMatching | Self::Content | Self::Length
            )
    }
}

/// What a failure is, where its kind does not say it, and its remedy; both may be empty.
/// Only TLS and refusals have a cause that the kind does not imply.
const fn advice(kind: ErrorKind, cause: Cause) -> (&'static str, &'static str) {
    use ErrorKind::{Query, Rejected, ServerError, Tls};
    match (kind, cause) {
        (kind, Cause::Other) => of_kind(kind),
        (Tls | Rejected | ServerError | Query, cause) => of_cause(cause),
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

const fn of_cause(cause: Cause) -> (&'static str, &'static str) {
    match cause {
        Cause::PlainHttp => (
            "the port speaks plain HTTP",
            "use http:// in prometheus.url, or the port that serves TLS",
        ),
        Cause::Expired => (
            "its certificate has expired",
            "renew the certificate of Prometheus",
        ),
        Cause::NotYetValid => (
            "its certificate is not valid yet",
            "set the clocks of Prometheus and of this server by NTP, or renew the certificate",
        ),
        Cause::UnknownAuthority => (
            "its certificate is signed by an authority that is not trusted",
            "name the authority's certificate in prometheus.tls.caFile",
        ),
        Cause::OtherName => (
            "its certificate is for another name",
            "use a name of the certificate in prometheus.url",
        ),
        Cause::Size | Cause::Time => (
            "",
            "raise the store's limits, or narrow prometheus.matchers",
        ),
        Cause::Path => (
            "this path has no query API",
            "check the path prefix in prometheus.url: it is that of --web.external-url or --web.route-prefix",
        ),
        Cause::Agent => ("", "point prometheus.url at the store it writes to"),
        Cause::NameMatching => ("", "set prometheus.nameMatching: exact"),
        Cause::Length => ("", "set prometheus.verb: POST"),
        Cause::Verb => ("", "set prometheus.verb to the other method, GET or POST"),
        Cause::Redirect => (
            "",
            "redirects are not followed: write the final address into prometheus.url",
        ),
        Cause::Rate => ("", "raise gpu.poll or the limits of the server"),
        Cause::Content | Cause::Other => ("", ""),
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

/// The length of excerpts from foreign texts. Stores repeat the query first and put
/// the cause last.
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

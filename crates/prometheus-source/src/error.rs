//! Errors of a source, one sentence each, and the closed list of kinds by which
//! failures are counted.

mod told;

use std::path::PathBuf;
use std::time::Duration;

use rustls::{CertificateError, InvalidMessage};

use apimachinery::duration::format_duration;
use cloud_auth::CloudAuthError;
pub use told::Told;

/// Why a poll failed. Old samples stay, and age by their own timestamps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No connection: refused, no such host, no route.
    #[error(
        "{address}: no connection: {reason}: check prometheus.url or --prometheus-url, and that Prometheus runs"
    )]
    Unreachable {
        /// The address asked, without credentials.
        address: String,
        /// The operating system's message.
        reason: String,
    },
    /// No complete answer in time.
    #[error("{address}: no answer within {}: check its load, or raise prometheus.timeout", format_duration(*.limit))]
    Timeout {
        /// The address asked.
        address: String,
        /// The limit that passed.
        limit: Duration,
    },
    /// The secure connection failed.
    #[error("{address}: TLS: {reason}: check prometheus.tls")]
    Tls {
        /// The address asked.
        address: String,
        /// The cause, if known.
        cause: TlsCause,
        /// The message of rustls.
        reason: String,
    },
    /// A certificate, key, token or password file cannot be used.
    #[error("{}: {reason}: {remedy}", .path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// No signature or access token can be added to a request.
    #[error("{address}: no credentials: {reason}")]
    Unauthenticated {
        /// The address that was to be asked.
        address: String,
        /// Why there are none.
        reason: CloudAuthError,
    },
    /// An HTTP status other than 200.
    #[error("{address}: HTTP {status}: {text}{}", remedy(*.status, *.cause))]
    Status {
        /// The address asked.
        address: String,
        /// The status code.
        status: u16,
        /// The reason, as far as the text tells it.
        cause: Cause,
        /// The API's message, or the body: beginning and end.
        text: String,
    },
    /// The connection ended before the answer was complete.
    #[error(
        "{address}: the answer was cut off: {reason}: Prometheus or a proxy in front of it closed the connection"
    )]
    Truncated {
        /// The address asked.
        address: String,
        /// Where or how it ended.
        reason: String,
    },
    /// A 200 whose body is no answer of the query API.
    #[error(
        "{address}: {reason}; the answer begins with {excerpt:?}: check that prometheus.url is the address of Prometheus, with its path prefix"
    )]
    NotAnAnswer {
        /// The address asked.
        address: String,
        /// What the decoder found.
        reason: String,
        /// The body: beginning and end.
        excerpt: String,
    },
    /// `status: error` with HTTP 200.
    #[error("{address}: the query failed: {error_type}: {error}")]
    Query {
        /// The address asked.
        address: String,
        /// Prometheus' class of the error.
        error_type: String,
        /// The message.
        error: String,
    },
    /// An answer with warnings: series may be missing.
    #[error(
        "{address}: refused an answer that may be partial: {warnings}: check the stores behind it"
    )]
    Partial {
        /// The address asked.
        address: String,
        /// The engine's warnings.
        warnings: String,
    },
    /// `data` or `data.result` is null.
    #[error("{address}: {reason}: a proxy or engine in front of Prometheus lost the data")]
    NullData {
        /// The address asked.
        address: String,
        /// Which part is null.
        reason: String,
    },
    /// The body is larger than allowed.
    #[error("{address}: the answer is larger than {limit} bytes: {remedy}")]
    TooLarge {
        /// The address asked.
        address: String,
        /// The limit.
        limit: usize,
        /// The remedy.
        remedy: &'static str,
    },
    /// Other answers use all memory for answers.
    #[error(
        "{address}: answers to other rules use all memory for answers: aggregate in their queries, or raise \
         prometheus.maxBodyBytes"
    )]
    NoRoom {
        /// The address asked.
        address: String,
    },
    /// The answer has more parts than allowed.
    #[error("{address}: the answer has more than {limit} {parts}: {remedy}")]
    TooMany {
        /// The address asked.
        address: String,
        /// The limit.
        limit: usize,
        /// Name of the parts.
        parts: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// The two clocks differ too much to judge freshness.
    #[error("{address}: {}: set both by NTP", skew_text(*.skew_ms))]
    ClockSkew {
        /// The address asked.
        address: String,
        /// Prometheus' clock minus this server's, in milliseconds.
        skew_ms: i64,
    },
}

/// Why TLS fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsCause {
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
    /// Anything else.
    Other,
}

impl TlsCause {
    /// The cause of a rustls error.
    pub(crate) const fn of(error: &rustls::Error) -> Self {
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
}

/// The reason of a refusal, recognised by the stores' messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A limit on samples or bytes: a shorter range may be answered.
    Size,
    /// A limit on time: a shorter range may be answered, and another time this one.
    Time,
    /// The path is not a query API.
    Path,
    /// A Prometheus without a query API, which only forwards samples.
    Agent,
    /// The store matches metric names only by equality.
    NameMatching,
    /// The tenant is missing.
    Tenant,
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
            400 if says("unsupported path requested") => Self::Path,
            400 if says("unsupported matchtype") => Self::NameMatching,
            401 if says("no org id") => Self::Tenant,
            404 => Self::Path,
            422 if says("unavailable with prometheus agent") => Self::Agent,
            408 | 504 => Self::Time,
            413 => Self::Size,
            422 | 500..=503 if WORDS_OF_TIME.into_iter().any(says) => Self::Time,
            422 | 500..=503 if WORDS_OF_SIZE.into_iter().any(says) => Self::Size,
            _ => Self::Other,
        }
    }
}

/// A store's limit that depends on the amount of requested data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Samples or bytes: the same query will be refused again.
    Size,
    /// Time: the same query may succeed when the store has less load.
    Time,
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

impl Error {
    /// The store's limit that a query over a shorter range may stay within. Rights,
    /// addresses and rates do not depend on the range.
    #[must_use]
    pub fn limit(&self) -> Option<Limit> {
        let limit_of = |cause| match cause {
            Cause::Size => Some(Limit::Size),
            Cause::Time => Some(Limit::Time),
            _ => None,
        };
        match self {
            Self::Timeout { .. } => Some(Limit::Time),
            Self::TooLarge { .. } => Some(Limit::Size),
            Self::Status { cause, .. } => limit_of(*cause),
            // Some engines return this status inside a 200.
            Self::Query { error_type, .. } if error_type == "timeout" => Some(Limit::Time),
            Self::Query { error, .. } => limit_of(Cause::of(422, error)),
            _ => None,
        }
    }

    /// Whether the store refused the query for its content, its size or its time, or
    /// answered a part of it: it may answer a smaller one.
    #[must_use]
    pub fn is_of_query(&self) -> bool {
        let is_refused = match self {
            Self::Status { status, cause, .. } => {
                *cause != Cause::Path && matches!(status, 400 | 414 | 422 | 431)
            }
            _ => matches!(
                self.kind(),
                ErrorKind::Query | ErrorKind::Partial | ErrorKind::Truncated
            ),
        };
        is_refused || self.limit().is_some()
    }

    /// The kind by which the failure is counted.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreachable { .. } => ErrorKind::Unreachable,
            Self::Timeout { .. } => ErrorKind::Timeout,
            Self::Tls { .. } => ErrorKind::Tls,
            Self::Credentials { .. } | Self::Unauthenticated { .. } => ErrorKind::Credentials,
            Self::Status {
                cause: Cause::Tenant,
                ..
            } => ErrorKind::Tenant,
            Self::Status { status, .. } => match *status {
                401 | 403 => ErrorKind::Denied,
                500.. => ErrorKind::ServerError,
                _ => ErrorKind::Rejected,
            },
            Self::Truncated { .. } => ErrorKind::Truncated,
            Self::NotAnAnswer { .. } => ErrorKind::NotAnAnswer,
            Self::Query { .. } => ErrorKind::Query,
            Self::Partial { .. } => ErrorKind::Partial,
            Self::NullData { .. } => ErrorKind::NullData,
            Self::TooLarge { .. } | Self::TooMany { .. } | Self::NoRoom { .. } => {
                ErrorKind::TooLarge
            }
            Self::ClockSkew { .. } => ErrorKind::ClockSkew,
        }
    }
}

/// The remedy for a refusal.
const fn remedy(status: u16, cause: Cause) -> &'static str {
    match cause {
        Cause::Size | Cause::Time => {
            return ": raise the store's limits, or narrow prometheus.matchers";
        }
        Cause::Path => return ": check the path prefix in prometheus.url",
        Cause::Agent => return ": point prometheus.url at the store it writes to",
        Cause::NameMatching => return ": set prometheus.nameMatching: exact",
        Cause::Tenant => return ": name the tenant in prometheus.headers (X-Scope-OrgID)",
        Cause::Other => {}
    }
    match status {
        300..=399 => ": redirects are not followed: write the final address into prometheus.url",
        401 | 403 => ": check prometheus.auth and the account's rights",
        405 => ": set prometheus.verb to the other method, GET or POST",
        414 | 431 => ": set prometheus.verb: POST",
        429 => ": raise gpu.poll or the limits of the server",
        _ => "",
    }
}

fn skew_text(skew_ms: i64) -> String {
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

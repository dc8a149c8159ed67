//! What a source can do wrong, one sentence each, and the closed list of kinds
//! that failures are counted by.

mod told;

use std::path::PathBuf;
use std::time::Duration;

use rustls::{CertificateError, InvalidMessage};

use apimachinery::duration::format_duration;
pub use told::Told;

/// Why a poll brought nothing. Old data stands and ages by its own timestamps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No connection: refused, no such host, no route.
    #[error("{address}: no connection: {reason}: check prometheus.url and that Prometheus runs")]
    Unreachable {
        /// The address asked, without credentials.
        address: String,
        /// What the system said.
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
        /// Why, as far as it is known.
        cause: TlsCause,
        /// What rustls said.
        reason: String,
    },
    /// A certificate, key, token or password file cannot be used.
    #[error("{}: {reason}: {remedy}", .path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// An HTTP status other than 200.
    #[error("{address}: HTTP {status}: {text}{}", remedy(*.status, *.cause))]
    Status {
        /// The address asked.
        address: String,
        /// The status code.
        status: u16,
        /// What it says about its reason.
        cause: Cause,
        /// The API's own words, or the body: beginning and end.
        text: String,
    },
    /// The connection ended before the answer did.
    #[error(
        "{address}: the answer broke off: {reason}: Prometheus or a proxy before it closed the connection"
    )]
    Truncated {
        /// The address asked.
        address: String,
        /// Where or how.
        reason: String,
    },
    /// A 200 whose body is no answer of the query API.
    #[error(
        "{address}: {reason}; it reads {excerpt:?}: check that prometheus.url leads to Prometheus, with its path prefix"
    )]
    NotAnAnswer {
        /// The address asked.
        address: String,
        /// What the decoder met.
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
        /// Its sentence.
        error: String,
    },
    /// An answer with warnings: series may be missing.
    #[error(
        "{address}: refused an answer that may be partial: {warnings}: mend the stores behind it"
    )]
    Partial {
        /// The address asked.
        address: String,
        /// The engine's warnings.
        warnings: String,
    },
    /// `data` or `data.result` is null.
    #[error("{address}: {reason}: a proxy or engine before Prometheus lost the data")]
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
        /// What to do.
        remedy: &'static str,
    },
    /// Other answers have the memory for answers.
    #[error(
        "{address}: answers to other rules take the memory for answers: aggregate in their queries, or raise \
         prometheus.maxBodyBytes"
    )]
    NoRoom {
        /// The address asked.
        address: String,
    },
    /// The answer has more parts than are taken.
    #[error("{address}: the answer has more than {limit} {parts}: {remedy}")]
    TooMany {
        /// The address asked.
        address: String,
        /// The limit.
        limit: usize,
        /// Of what.
        parts: &'static str,
        /// What to do.
        remedy: &'static str,
    },
    /// The two clocks disagree too much to tell what is fresh.
    #[error("{address}: {}: set both by NTP", skew_text(*.skew_ms))]
    ClockSkew {
        /// The address asked.
        address: String,
        /// Its clock minus ours, in milliseconds.
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
    /// The certificate is of an authority that is not trusted.
    UnknownAuthority,
    /// The certificate is for another name.
    OtherName,
    /// Anything else.
    Other,
}

impl TlsCause {
    /// What rustls says.
    #[must_use]
    pub const fn of(error: &rustls::Error) -> Self {
        let invalid = match error {
            // The first byte of `HTTP/1.1 400 Bad Request` is no TLS record's.
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

/// What a refusal says about its reason, in the words of the stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A limit on samples or bytes: a shorter range may be answered.
    Size,
    /// A limit on time: a shorter range may be answered, and another time this one.
    Time,
    /// The path leads to no query API.
    Path,
    /// It has no query API: a Prometheus that only forwards samples.
    Agent,
    /// It matches metric names by equality only.
    NameMatching,
    /// The tenant is not named.
    Tenant,
    /// Anything else.
    Other,
}

/// Words of Prometheus, VictoriaMetrics, Thanos, Mimir and Cortex about limits of
/// time, in lower case.
const WORDS_OF_TIME: [&str; 3] = ["timed out", "timeout", "deadline exceeded"];

/// Those about limits of size.
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
    /// What a status and its whole text say.
    #[must_use]
    pub fn of(status: u16, text: &str) -> Self {
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

/// A limit of a store that depends on how much is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Samples or bytes: the same query is refused again.
    Size,
    /// Time: the same query may be answered when the store has less to do.
    Time,
}

/// What failures are counted by: a closed list, so that a metric's labels are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// No connection.
    Unreachable,
    /// No answer in time.
    Timeout,
    /// TLS failed.
    Tls,
    /// Our own credential files cannot be used.
    Credentials,
    /// 401 or 403.
    Denied,
    /// 401: the tenant is not named.
    Tenant,
    /// Another status below 500.
    Rejected,
    /// 500 and above.
    ServerError,
    /// Broke off.
    Truncated,
    /// No answer of the query API.
    NotAnAnswer,
    /// `status: error`.
    Query,
    /// May be partial.
    Partial,
    /// Null data.
    NullData,
    /// Over the size limit.
    TooLarge,
    /// Clocks disagree.
    ClockSkew,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [Self; 15] = [
        Self::Unreachable,
        Self::Timeout,
        Self::Tls,
        Self::Credentials,
        Self::Denied,
        Self::Tenant,
        Self::Rejected,
        Self::ServerError,
        Self::Truncated,
        Self::NotAnAnswer,
        Self::Query,
        Self::Partial,
        Self::NullData,
        Self::TooLarge,
        Self::ClockSkew,
    ];

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
    /// The limit of the store that a query over a shorter range may keep to; rights,
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
            // An engine that hides the status behind 200.
            Self::Query { error_type, .. } if error_type == "timeout" => Some(Limit::Time),
            Self::Query { error, .. } => limit_of(Cause::of(422, error)),
            Self::Unreachable { .. }
            | Self::TooMany { .. }
            | Self::NoRoom { .. }
            | Self::Tls { .. }
            | Self::Credentials { .. }
            | Self::Truncated { .. }
            | Self::NotAnAnswer { .. }
            | Self::Partial { .. }
            | Self::NullData { .. }
            | Self::ClockSkew { .. } => None,
        }
    }

    /// What the failure is counted by.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreachable { .. } => ErrorKind::Unreachable,
            Self::Timeout { .. } => ErrorKind::Timeout,
            Self::Tls { .. } => ErrorKind::Tls,
            Self::Credentials { .. } => ErrorKind::Credentials,
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

/// The remedy that a refusal suggests.
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
        405 => ": set prometheus.verb to the other of GET and POST",
        414 | 431 => ": set prometheus.verb: POST",
        429 => ": raise gpu.poll or the limits of the server",
        _ => "",
    }
}

fn skew_text(skew_ms: i64) -> String {
    let by = format_duration(Duration::from_secs(skew_ms.unsigned_abs() / 1000));
    if skew_ms > 0 {
        format!("its clock is {by} ahead of ours")
    } else {
        format!("our clock is {by} ahead of its")
    }
}

/// How much of somebody else's text stands in a message of ours. Stores repeat
/// the query first and put the cause last.
const EXCERPT_HEAD: usize = 80;
const EXCERPT_TAIL: usize = 280;

/// A text in one line: markup, control characters and runs of white space become
/// single spaces. Of a long one the beginning and the end.
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

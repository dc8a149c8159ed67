//! Why TLS fails or a store refuses a query, and the remedy.

use rustls::{CertificateError, InvalidMessage};

/// The cause of a failure, from the HTTP status, the store's message or the error of TLS.
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
    /// A limit on samples or bytes: the store will refuse the same query again, but may
    /// answer a shorter range.
    Size,
    /// A limit on time: the store may answer a shorter range, or the same one later.
    Time,
    /// The path is not a query API.
    Path,
    /// A Prometheus without a query API, which only forwards samples.
    Agent,
    /// The store matches metric names only by equality.
    NameMatching,
    /// The query is invalid for the store.
    Content,
    /// The request line or a header is too long.
    Length,
    /// The HTTP method is refused.
    Verb,
    /// A redirect to another address.
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
    /// The cause of an HTTP status with the whole text of its answer.
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

    /// The cause of `status: error` in an answer with HTTP status 200.
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

    pub(super) const fn is_of_query(self) -> bool {
        self.is_limit()
            || matches!(
                self,
                Self::Agent | Self::NameMatching | Self::Content | Self::Length
            )
    }

    /// A description that adds to the kind's label, and the remedy; both may be empty.
    pub(super) const fn advice(self) -> (&'static str, &'static str) {
        match self {
            Self::PlainHttp => (
                "the port speaks plain HTTP",
                "use http:// in prometheus.url, or the port that serves TLS",
            ),
            Self::Expired => (
                "its certificate has expired",
                "renew the certificate of Prometheus",
            ),
            Self::NotYetValid => (
                "its certificate is not valid yet",
                "set the clocks of Prometheus and of this server by NTP, or renew the certificate",
            ),
            Self::UnknownAuthority => (
                "its certificate is signed by an authority that is not trusted",
                "name the authority's certificate in prometheus.tls.caFile",
            ),
            Self::OtherName => (
                "its certificate is for another name",
                "use a name of the certificate in prometheus.url",
            ),
            Self::Size | Self::Time => (
                "",
                "raise the store's limits, or narrow prometheus.matchers",
            ),
            Self::Path => (
                "this path has no query API",
                "check the path prefix in prometheus.url: it is that of --web.external-url or --web.route-prefix",
            ),
            Self::Agent => ("", "point prometheus.url at the store it writes to"),
            Self::NameMatching => ("", "set prometheus.nameMatching: exact"),
            Self::Length => ("", "set prometheus.verb: POST"),
            Self::Verb => ("", "set prometheus.verb to the other method, GET or POST"),
            Self::Redirect => (
                "",
                "redirects are not followed: write the final address into prometheus.url",
            ),
            Self::Rate => ("", "raise gpu.poll or the limits of the server"),
            Self::Content | Self::Other => ("", ""),
        }
    }
}

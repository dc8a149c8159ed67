//! Why a request is not answered with data.

use http::StatusCode;

use crate::security::reviewer::Access;

/// Why a request is not answered with data, with the code of the response. The table of
/// [`crate::api::status`] has the message for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 400: path, query or selector is invalid: the fault.
    Malformed(String),
    /// 401: all presented credentials are invalid.
    Unauthenticated {
        /// Why each is invalid. For the log only.
        why: String,
    },
    /// 403: the request asks for impersonation, which this server does not support.
    Impersonation,
    /// 403: the user lacks the right.
    Forbidden {
        /// The user's name.
        user: String,
        /// The access that was requested.
        what: Box<Access>,
        /// kube-apiserver's reason; may be empty.
        reason: String,
    },
    /// 404: no resource has this path.
    NoSuchPath,
    /// 404: the object or value does not exist: which one, and why.
    NoValue(String),
    /// 405: the path supports only GET.
    MethodNotAllowed,
    /// 405: the resource cannot be watched.
    WatchNotSupported {
        /// Its group.
        group: &'static str,
        /// Its name.
        resource: String,
    },
    /// 406: the response has none of the accepted media types, only these.
    NotAcceptable(&'static str),
    /// 429: too many requests in flight.
    Busy,
    /// 429: the request is expensive, and the limit on such work is reached.
    TooMuchWork,
    /// 500: the access could not be reviewed.
    ReviewFailed {
        /// The error of the review. For the log only.
        why: String,
    },
    /// 500: a bug in the server.
    Panicked,
    /// 500: data could not be fetched, or objects not be listed: the message. The log has the
    /// reason, once for all requests.
    Unavailable(&'static str),
    /// 503: the server has no data yet: what it waits for.
    NotReady(&'static str),
    /// 503: too many requests or queries in flight that wait for a backend: the message.
    Saturated(&'static str),
    /// 504: no answer in time.
    TimedOut,
    /// The listener refused the request: the code, and why.
    Rejected(StatusCode, &'static str),
}

impl Refusal {
    /// The verdict of the audit, of a closed set; `None`: no security layer refused the request.
    pub(crate) const fn verdict(&self) -> Option<&'static str> {
        Some(match self {
            Self::Unauthenticated { .. } => "unauthenticated",
            Self::Impersonation => "impersonation",
            Self::Forbidden { .. } => "forbidden",
            Self::ReviewFailed { .. } => "review_failed",
            Self::Busy => "busy",
            Self::Saturated(_) => "saturated",
            Self::TimedOut => "timed_out",
            Self::Panicked => "panicked",
            _ => return None,
        })
    }

    /// Details for the log only.
    pub(crate) fn detail(&self) -> &str {
        match self {
            Self::Unauthenticated { why } | Self::ReviewFailed { why } => why,
            Self::Forbidden { reason, .. } => reason,
            Self::Rejected(_, why) => why,
            _ => "",
        }
    }
}

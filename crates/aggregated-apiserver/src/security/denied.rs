//! Why a request is not served.

use super::reviewer::Access;

/// Why a request is not served. The API's table of `Status` maps it to the client's
/// answer; [`Denied::detail`] is for the log only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// 401: all presented credentials are invalid.
    Unauthenticated {
        /// Why each is invalid.
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
    /// 500: the access could not be reviewed.
    ReviewFailed {
        /// The error of the review.
        why: String,
    },
    /// 429: too many requests in flight.
    Busy,
    /// 503: too many requests in flight that wait for a backend.
    Saturated,
    /// 431: too many header lines, or too long ones.
    HeadersTooLarge,
    /// 504: no answer in time.
    TimedOut,
    /// 500: a bug in the server.
    Panicked,
}

macro_rules! labels {
    ($($refusal:pat => $label:literal,)*) => {
        /// The label values of all reasons: a closed set.
        pub const LABELS: &[&str] = &[$($label),*];

        pub(crate) const fn label(&self) -> &'static str {
            match self {
                $($refusal => $label,)*
            }
        }
    };
}

impl Denied {
    labels! {
        Self::Unauthenticated { .. } => "unauthenticated",
        Self::Impersonation => "impersonation",
        Self::Forbidden { .. } => "forbidden",
        Self::ReviewFailed { .. } => "review_failed",
        Self::Busy => "busy",
        Self::Saturated => "saturated",
        Self::HeadersTooLarge => "headers_too_large",
        Self::TimedOut => "timed_out",
        Self::Panicked => "panicked",
    }

    /// Details for the log only.
    pub fn detail(&self) -> &str {
        match self {
            Self::Unauthenticated { why } | Self::ReviewFailed { why } => why,
            Self::Forbidden { reason, .. } => reason,
            _ => "",
        }
    }
}

//! Why a request is not served.

use super::reviewer::Access;

/// Why a request is not served. The API's table of `Status` turns it into the
/// client's words; [`Denied::detail`] is for the log only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// 401: credentials were shown and none was accepted.
    Unauthenticated {
        /// What was wrong with them.
        why: String,
    },
    /// 403: the request wants to act as somebody else, which is not done here.
    Impersonation,
    /// 403: the user may not do this.
    Forbidden {
        /// The user's name.
        user: String,
        /// What was asked for.
        what: Box<Access>,
        /// What kube-apiserver said, may be empty.
        reason: String,
    },
    /// 500: whether the user may could not be found out.
    ReviewFailed {
        /// What went wrong.
        why: String,
    },
    /// 429: too many requests at a time.
    Busy,
    /// 503: too many requests at a time that wait for Prometheus.
    Saturated,
    /// 431: too many header lines, or too long ones.
    HeadersTooLarge,
    /// 504: no answer in time.
    TimedOut,
    /// 500: a fault of ours.
    Panicked,
}

/// The kinds of [`Denied`], a closed set: a label of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeniedKind {
    /// [`Denied::Unauthenticated`].
    Unauthenticated,
    /// [`Denied::Impersonation`].
    Impersonation,
    /// [`Denied::Forbidden`].
    Forbidden,
    /// [`Denied::ReviewFailed`].
    ReviewFailed,
    /// [`Denied::Busy`].
    Busy,
    /// [`Denied::Saturated`].
    Saturated,
    /// [`Denied::HeadersTooLarge`].
    HeadersTooLarge,
    /// [`Denied::TimedOut`].
    TimedOut,
    /// [`Denied::Panicked`].
    Panicked,
}

impl DeniedKind {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Unauthenticated,
        Self::Impersonation,
        Self::Forbidden,
        Self::ReviewFailed,
        Self::Busy,
        Self::Saturated,
        Self::HeadersTooLarge,
        Self::TimedOut,
        Self::Panicked,
    ];

    /// The word for logs and labels.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unauthenticated => "unauthenticated",
            Self::Impersonation => "impersonation",
            Self::Forbidden => "forbidden",
            Self::ReviewFailed => "review_failed",
            Self::Busy => "busy",
            Self::Saturated => "saturated",
            Self::HeadersTooLarge => "headers_too_large",
            Self::TimedOut => "timed_out",
            Self::Panicked => "panicked",
        }
    }
}

impl Denied {
    /// Which kind this is.
    #[must_use]
    pub const fn kind(&self) -> DeniedKind {
        match self {
            Self::Unauthenticated { .. } => DeniedKind::Unauthenticated,
            Self::Impersonation => DeniedKind::Impersonation,
            Self::Forbidden { .. } => DeniedKind::Forbidden,
            Self::ReviewFailed { .. } => DeniedKind::ReviewFailed,
            Self::Busy => DeniedKind::Busy,
            Self::Saturated => DeniedKind::Saturated,
            Self::HeadersTooLarge => DeniedKind::HeadersTooLarge,
            Self::TimedOut => DeniedKind::TimedOut,
            Self::Panicked => DeniedKind::Panicked,
        }
    }

    /// What only the log may know.
    #[must_use]
    pub fn detail(&self) -> &str {
        match self {
            Self::Unauthenticated { why } | Self::ReviewFailed { why } => why,
            Self::Forbidden { reason, .. } => reason,
            Self::Impersonation
            | Self::Busy
            | Self::Saturated
            | Self::HeadersTooLarge
            | Self::TimedOut
            | Self::Panicked => "",
        }
    }
}

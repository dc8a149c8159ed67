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
    /// 431: too many header lines, or too long ones.
    HeadersTooLarge,
    /// 504: no answer in time.
    TimedOut,
    /// 500: a fault of ours.
    Panicked,
}

macro_rules! verdicts {
    ($($verdict:ident $word:literal),*) => {
        /// The kinds of [`Denied`], a closed set: a label of counters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Verdict {
            $(#[doc = concat!("[`Denied::", stringify!($verdict), "`].")] $verdict),*
        }

        impl Verdict {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$verdict),*];

            /// The word for logs and labels.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$verdict => $word),*
                }
            }
        }
    };
}

verdicts! {
    Unauthenticated "unauthenticated",
    Impersonation "impersonation",
    Forbidden "forbidden",
    ReviewFailed "review_failed",
    Busy "busy",
    HeadersTooLarge "headers_too_large",
    TimedOut "timed_out",
    Panicked "panicked"
}

impl Denied {
    /// Which kind this is.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        match self {
            Self::Unauthenticated { .. } => Verdict::Unauthenticated,
            Self::Impersonation => Verdict::Impersonation,
            Self::Forbidden { .. } => Verdict::Forbidden,
            Self::ReviewFailed { .. } => Verdict::ReviewFailed,
            Self::Busy => Verdict::Busy,
            Self::HeadersTooLarge => Verdict::HeadersTooLarge,
            Self::TimedOut => Verdict::TimedOut,
            Self::Panicked => Verdict::Panicked,
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
            | Self::HeadersTooLarge
            | Self::TimedOut
            | Self::Panicked => "",
        }
    }
}

//! Errors of the connection to kube-apiserver, each with its remedy.

use apimachinery::letters::{escaped, shortened};

/// The reason why no client can be made: the invalid part, and the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ClientError(pub(super) String);

/// A failed call to kube-apiserver. The texts of most begin with its address.
///
/// The text is for the log: it names the server and quotes its message, which names
/// the account. It is not sent to clients.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No connection, no answer in time, or only a part of it.
    #[error("kube-apiserver at {0}")]
    Unreachable(String),
    #[error(
        "kube-apiserver at {0}: check the token or client certificate of the kubeconfig or \
         service account"
    )]
    Unauthorized(String),
    /// 403: a right is missing.
    #[error("{text}{}{remedy}", if remedy.is_empty() { "" } else { ": " })]
    Forbidden {
        /// The server's message.
        text: String,
        /// What grants the right; empty where the user is not known.
        remedy: String,
    },
    /// 404: the server's message.
    #[error("not found: {0}")]
    NotFound(String),
    /// Any other error status. 410: kube-apiserver no longer has the resource version.
    #[error("kube-apiserver at {1}")]
    Status(u16, String),
    /// The answer is too large, or not one of the Kubernetes API.
    #[error("kube-apiserver at {0}: check the server address")]
    Garbled(String),
}

impl CallError {
    /// Whether a permission is missing.
    #[must_use]
    pub const fn is_forbidden(&self) -> bool {
        matches!(self, Self::Forbidden { .. })
    }

    /// Whether the same call may succeed in a moment: connection reset, 409 because another
    /// replica wrote first, 429, 500 and 504
    /// (`k8s.io/apiserver/pkg/util/webhook/webhook.go`, `DefaultShouldRetry`), and 502 and 503
    /// of a proxy in between.
    pub(super) const fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable(..) => true,
            Self::Status(code, _) => matches!(*code, 409 | 429 | 500 | 502 | 503 | 504),
            _ => false,
        }
    }

    /// The error, with the remedy if a right is missing.
    #[must_use]
    pub(super) fn without_right(self, remedy: &str) -> Self {
        match self {
            Self::Forbidden { text, .. } => Self::Forbidden {
                remedy: remedy.to_owned(),
                text,
            },
            other => other,
        }
    }
}

/// The longest excerpt of a foreign text in a message, in bytes.
const EXCERPT: usize = 300;

/// The beginning of a text on one line, without control characters.
pub(super) fn excerpt(text: &str) -> String {
    escaped(&shortened(text, EXCERPT)).into_owned()
}

/// An error with its causes, on one line. hyper's own text is only
/// `client error (Connect)`.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut parts = vec![error.to_string()];
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        // Wrappers often repeat the text of their cause.
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
        next = cause.source();
    }
    excerpt(&parts.join(": "))
}

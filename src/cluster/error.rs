//! What can go wrong between us and kube-apiserver, each with its remedy.

use std::time::Duration;

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A kubeconfig that cannot be used.
    #[error(
        "kubeconfig {path}: {reason}: name a readable kubeconfig whose current context has a \
         cluster and a user, or none to use the pod's service account"
    )]
    Kubeconfig {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No kubeconfig was named and there is no service account.
    #[error(
        "no kubeconfig was named and this is no pod with a service account: {reason}: name a \
         kubeconfig, or mount the service account's token (automountServiceAccountToken: true)"
    )]
    InCluster {
        /// What is missing.
        reason: String,
    },
    /// The configuration was read, but no client can be made of it.
    #[error("{from}: {reason}: check certificates, keys and the user's credentials there")]
    Unusable {
        /// The file, or `service account`.
        from: String,
        /// What is wrong.
        reason: String,
    },
    /// A file that should hold a token.
    #[error(
        "token file {path}: {reason}: write the token alone into it, or name another tokenFile"
    )]
    TokenFile {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A proxy is asked for; connections go straight.
    #[error(
        "kubeconfig {path}: proxy-url is not supported: name an address that is reached without a proxy"
    )]
    Proxy {
        /// The file.
        path: String,
    },
}

/// A call to kube-apiserver that did not do what it should.
///
/// The text is for the log; it names the server and quotes its words, which in
/// turn name the account. No client of ours is told any of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No connection.
    #[error("kube-apiserver at {address} cannot be reached: {reason}")]
    Unreachable {
        /// Its address.
        address: String,
        /// What failed.
        reason: String,
    },
    /// No answer in time.
    #[error("kube-apiserver at {address} did not answer within {} s", after.as_secs())]
    Timeout {
        /// Its address.
        address: String,
        /// How long we waited.
        after: Duration,
    },
    /// 401.
    #[error(
        "kube-apiserver at {address} does not accept our credentials: {text}: check the token or \
         client certificate of the kubeconfig or service account"
    )]
    Unauthorized {
        /// Its address.
        address: String,
        /// Its words.
        text: String,
    },
    /// 403: a right is missing.
    #[error("{text}: {remedy}")]
    Forbidden {
        /// The server's words.
        text: String,
        /// The rule to add.
        remedy: String,
    },
    /// 404.
    #[error("not found: {text}")]
    NotFound {
        /// The server's words.
        text: String,
    },
    /// 410: the version we know is no longer known there; list again.
    #[error(
        "kube-apiserver forgets versions before they can be followed (410 Gone): check its load \
         and its storage"
    )]
    Gone,
    /// Any other status that is no success.
    #[error("kube-apiserver at {address}: HTTP {code}: {text}")]
    Status {
        /// Its address.
        address: String,
        /// The status.
        code: u16,
        /// The server's words.
        text: String,
    },
    /// More bytes than we take at once.
    #[error("kube-apiserver at {address}: more than {limit} bytes in one piece")]
    TooLarge {
        /// Its address.
        address: String,
        /// The limit.
        limit: usize,
    },
    /// The answer broke off.
    #[error("kube-apiserver at {address}: the answer broke off: {reason}")]
    Cut {
        /// Its address.
        address: String,
        /// What failed.
        reason: String,
    },
    /// The answer is not what the API promises.
    #[error(
        "kube-apiserver at {address}: not an answer of the Kubernetes API: {reason}: check the server address"
    )]
    Garbled {
        /// Its address.
        address: String,
        /// What was met, and where.
        reason: String,
    },
}

impl CallError {
    /// Whether the server as a whole is away, so that every call fails alike.
    #[must_use]
    pub const fn is_outage(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Timeout { .. })
    }

    /// Whether the same call may do better in a moment
    /// (`protocol.md` §4.4: connection reset, 429, 500 and 504).
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Cut { .. } => true,
            Self::Status { code, .. } => matches!(*code, 429 | 500 | 502 | 503 | 504),
            Self::Timeout { .. }
            | Self::Unauthorized { .. }
            | Self::Forbidden { .. }
            | Self::NotFound { .. }
            | Self::Gone
            | Self::TooLarge { .. }
            | Self::Garbled { .. } => false,
        }
    }
}

/// An object that is not what its kind promises; the others are kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Garbage(pub String);

/// The longest excerpt of somebody else's text in a message of ours, in
/// characters.
const EXCERPT: usize = 300;

/// The beginning of a text in one line, without control characters.
pub(super) fn excerpt(text: &str) -> String {
    let mut out: String = text
        .chars()
        .take(EXCERPT)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if out.len() < text.len() {
        out.push('…');
    }
    out
}

/// An error with its causes, in one line: hyper says `client error (Connect)`
/// and keeps the reason to itself.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut parts = vec![error.to_string()];
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        // Wrappers often repeat what they wrap.
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
        next = cause.source();
    }
    excerpt(&parts.join(": "))
}

//! A failure as reported outside the log: its cause and remedy, without addresses and
//! foreign texts.

use super::{Cause, Error, ErrorKind, TlsCause, skew_text};

/// A failure in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its kind.
    pub kind: ErrorKind,
    /// The kind, and the cause if known.
    pub how: String,
    /// The remedy.
    pub remedy: &'static str,
}

const PREFIX: &str = "correct prometheus.url: it must end with the path prefix that --web.external-url or --web.route-prefix sets, if any";

impl Error {
    /// The failure as reported outside the log.
    pub(crate) fn told(&self) -> Told {
        let kind = self.kind();
        let (cause, remedy) = match self {
            Self::Tls { cause, .. } => of_tls(*cause),
            Self::Status {
                cause: Cause::Path, ..
            } => ("this path has no query API".to_owned(), PREFIX),
            Self::NotAnAnswer { .. } => {
                let cause = "the server at this path does not answer as the query API";
                (cause.to_owned(), PREFIX)
            }
            Self::ClockSkew { skew_ms, .. } => (skew_text(*skew_ms), remedy(kind)),
            _ => (String::new(), remedy(kind)),
        };
        let how = match cause.as_str() {
            "" => kind.label().to_owned(),
            cause => format!("{}: {cause}", kind.label()),
        };
        Told { kind, how, remedy }
    }
}

fn of_tls(cause: TlsCause) -> (String, &'static str) {
    let (cause, remedy) = match cause {
        TlsCause::PlainHttp => (
            "the port speaks plain HTTP",
            "use http:// in prometheus.url, or the port that serves TLS",
        ),
        TlsCause::Expired => (
            "its certificate has expired",
            "renew the certificate of Prometheus",
        ),
        TlsCause::NotYetValid => (
            "its certificate is not valid yet",
            "set the clocks of Prometheus and of this server by NTP, or renew the certificate",
        ),
        TlsCause::UnknownAuthority => (
            "its certificate is signed by an authority that is not trusted",
            "name the authority's certificate in prometheus.tls.caFile",
        ),
        TlsCause::OtherName => (
            "its certificate is for another name",
            "use a name of the certificate in prometheus.url",
        ),
        TlsCause::Other => ("", "check prometheus.tls, and see the server's log"),
    };
    (cause.to_owned(), remedy)
}

const fn remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Unreachable | ErrorKind::Timeout | ErrorKind::Truncated => {
            "check prometheus.url or --prometheus-url, that Prometheus runs, and that a NetworkPolicy lets the server reach it"
        }
        ErrorKind::Credentials | ErrorKind::Denied => {
            "check prometheus.auth and the account's rights"
        }
        ErrorKind::Tenant => "name the tenant in prometheus.headers (X-Scope-OrgID)",
        ErrorKind::TooLarge => "narrow prometheus.matchers, or raise prometheus.maxBodyBytes",
        ErrorKind::ClockSkew => "set the clocks of Prometheus and of this server by NTP",
        ErrorKind::Tls
        | ErrorKind::Rejected
        | ErrorKind::ServerError
        | ErrorKind::NotAnAnswer
        | ErrorKind::Query
        | ErrorKind::Partial
        | ErrorKind::NullData => "see the server's log for the answer of Prometheus",
    }
}

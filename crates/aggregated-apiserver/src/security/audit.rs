//! One line for each request that was refused or failed: user, request, verdict;
//! beyond so many a second, only how many.
//!
//! No line holds a token, a header or a query. Text from a client is escaped and cut.

use std::net::SocketAddr;

use http::StatusCode;

use super::always_allowed::is_health;
use super::denied::Denied;
use super::reviewer::Access;
use super::settings::SecuritySettings;
use limits::line_limit::{LineLimit, SECOND};

/// Most characters of a client's text in a line.
const MAX_SHOWN: usize = 256;

/// Which side a line reports a fault of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    /// The client's: a refusal.
    Theirs,
    /// The server's: a failure.
    Ours,
}

/// The rate limit of the audit's lines, for each verdict.
type AuditLimit = LineLimit<(Fault, &'static str)>;

fn write_left_out((fault, verdict): (Fault, &'static str), left_out: u64) {
    match fault {
        Fault::Theirs => tracing::info!(verdict, left_out, "more requests refused"),
        Fault::Ours => tracing::error!(verdict, left_out, "more requests failed"),
    }
}

/// Marks an answer whose reason is in the log already, once for all such answers.
#[derive(Clone, Copy, Debug)]
pub struct AlreadyLogged;

/// How a request ended, and what it was.
#[derive(Debug)]
pub struct RequestOutcome<'o> {
    /// The answer's code.
    pub code: StatusCode,
    /// Why it is not served.
    pub denied: Option<&'o Denied>,
    /// Set when the log has the reason already.
    pub told: Option<&'o AlreadyLogged>,
    /// The access requested.
    pub access: &'o Access,
    /// The user; `None` before authentication.
    pub user: Option<&'o str>,
    /// The method.
    pub method: &'o str,
    /// The path, without the query.
    pub path: &'o str,
    /// The answer's Audit-Id.
    pub audit_id: Option<&'o str>,
    /// The other end.
    pub address: Option<SocketAddr>,
}

/// Writes the lines.
#[derive(Debug)]
pub struct Audit {
    limit: AuditLimit,
}

impl Audit {
    pub(super) fn new(settings: &SecuritySettings) -> Self {
        Self {
            limit: LineLimit::new(settings.audit_lines, SECOND, write_left_out),
        }
    }

    /// Writes a line if the request was refused or failed, within the rate.
    pub(crate) fn write(&self, outcome: &RequestOutcome<'_>) {
        let fault = match (outcome.denied, outcome.code.is_server_error()) {
            // A failed health probe is an answer, and its reason is in the log.
            (None, true) if is_health(outcome.access) || outcome.told.is_some() => return,
            (_, true) => Fault::Ours,
            (Some(_), false) => Fault::Theirs,
            (None, false) => return,
        };
        let verdict = outcome
            .denied
            .map_or("failed", |denied| denied.kind().word());
        if !self.limit.admit((fault, verdict)) {
            return;
        }
        let code = outcome.code.as_u16();
        let user = shown(outcome.user.unwrap_or("-"));
        let (method, path) = (shown(outcome.method), shown(outcome.path));
        let detail = shown(outcome.denied.map_or("", Denied::detail));
        let from = outcome
            .address
            .map_or_else(String::new, |it| it.to_string());
        let audit_id = outcome.audit_id.unwrap_or("-");
        match fault {
            Fault::Ours => tracing::error!(
                code, verdict, %user, %method, %path, %detail, %from, audit_id, "request failed"
            ),
            Fault::Theirs => tracing::info!(
                code, verdict, %user, %method, %path, %detail, %from, audit_id, "request refused"
            ),
        }
    }
}

/// A client's text, escaped and cut for the log.
fn shown(text: &str) -> String {
    let mut chars = text.chars();
    let mut out: String = chars
        .by_ref()
        .take(MAX_SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if chars.next().is_some() {
        out.push('…');
    }
    // Words separate a line's fields, so text with spaces is quoted.
    if out.contains(' ') {
        format!("\"{out}\"")
    } else {
        out
    }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_strangers_text_cannot_make_a_line_or_colour_it_or_fill_the_log() {
        assert_eq!(shown("bob"), "bob");
        assert_eq!(shown("a\r\nb\u{1b}[31m"), r"a\r\nb\u{1b}[31m");
        assert_eq!(shown("\u{202e}x"), r"\u{202e}x");
        assert_eq!(shown("a b=\"c\""), r#""a b=\"c\"""#);
        assert!(shown(&"é".repeat(100_000)).chars().count() <= 257);
        assert!(shown(&"\u{1b}".repeat(100_000)).len() < 2000);
    }
}

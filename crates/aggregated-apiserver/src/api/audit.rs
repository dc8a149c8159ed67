//! One log line for each request that was refused or failed: user, request, verdict. Above
//! a rate limit, further requests have no line.
//!
//! No line contains a token, a header or a query. Text from a client is escaped and cut.

use std::collections::BTreeMap;
use std::time::Duration;

use apimachinery::letters::shortened;
use axum::response::Response;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::context::RequestContext;
use crate::refusal::Refusal;
use crate::security::always_allowed::is_health;

/// The most bytes of a client's text in a line.
const MAX_SHOWN: usize = 256;

/// The most lines of each kind in a second. A line costs a client little.
const LINES: u64 = 50;

/// Whether the server failed, and the verdict: a closed set, independent of clients.
type LineKind = (bool, &'static str);

/// Writes the lines. Failures of the server are limited apart from refusals.
#[derive(Debug, Default)]
pub(super) struct Audit {
    /// For each kind, the start of its current second, and the requests since then.
    counts: Mutex<BTreeMap<LineKind, (Instant, u64)>>,
}

impl Audit {
    /// Whether to write a line of this kind now.
    fn admit(&self, kind: LineKind) -> bool {
        let now = Instant::now();
        let mut counts = self.counts.lock();
        let (began, count) = counts.entry(kind).or_insert((now, 0));
        if now - *began >= Duration::from_secs(1) {
            (*began, *count) = (now, 0);
        }
        *count += 1;
        *count <= LINES
    }

    /// Writes a line if the request was refused or failed, within the rate.
    pub(super) fn write(&self, context: &RequestContext, response: &Response) {
        let refusal: Option<&Refusal> = response.extensions().get();
        let failed = response.status().is_server_error();
        let verdict = match refusal.and_then(Refusal::verdict) {
            Some(verdict) => verdict,
            // The reason is in the log once for all such responses, as that of a health probe is.
            None if matches!(refusal, Some(Refusal::Unavailable(_))) => return,
            None if !failed || is_health(&context.access) => return,
            None => "failed",
        };
        if !self.admit((failed, verdict)) {
            return;
        }
        let code = response.status().as_u16();
        let user = context.user.get().map(|user| &*user.identity.user);
        let user = quoted(user.unwrap_or("-"));
        let (method, path) = (quoted(context.method.as_str()), quoted(context.uri.path()));
        let detail = quoted(refusal.map_or("", Refusal::detail));
        let from = context.peer.as_ref().map(|peer| peer.address.to_string());
        let from = from.unwrap_or_default();
        let audit_id = context.audit_id.as_ref().and_then(|id| id.to_str().ok());
        let audit_id = audit_id.unwrap_or("-");
        if failed {
            tracing::error!(
                code, verdict, %user, %method, %path, %detail, %from, audit_id, "request failed"
            );
        } else {
            tracing::info!(
                code, verdict, %user, %method, %path, %detail, %from, audit_id, "request refused"
            );
        }
    }
}

/// The beginning of a client's text. Words separate a line's fields, so a text with other
/// characters than those of names and paths is quoted.
fn quoted(text: &str) -> String {
    let beginning = shortened(text, MAX_SHOWN);
    match text.contains(|letter: char| !letter.is_ascii_graphic()) {
        true => format!("{beginning:?}"),
        false => beginning.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn text_of_a_client_cannot_add_lines_or_colours_or_fill_the_log() {
        assert_eq!(quoted("bob"), "bob");
        assert_eq!(quoted("a\r\nb\u{1b}[31m"), r#""a\r\nb\u{1b}[31m""#);
        assert_eq!(quoted("\u{202e}x"), r#""\u{202e}x""#);
        assert_eq!(quoted("a b=\"c\""), r#""a b=\"c\"""#);
        assert!(quoted(&"é".repeat(100_000)).len() <= 260);
        assert!(quoted(&"\u{1b}".repeat(100_000)).len() < 2000);
    }
}

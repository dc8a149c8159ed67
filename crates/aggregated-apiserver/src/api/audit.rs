//! One log line for each request that was refused or failed: user, request, verdict. Above
//! a rate limit, further requests are only counted.
//!
//! No line contains a token, a header or a query. Text from a client is escaped and cut.

use axum::response::Response;

use super::context::RequestContext;
use super::response::AlreadyLogged;
use crate::security::always_allowed::is_health;
use crate::security::denied::Denied;
use limits::line_limit::{LineLimit, SECOND};

/// The most characters of a client's text in a line.
const MAX_SHOWN: usize = 256;

/// Writes the lines, limited by verdict. Failures of the server are limited apart from refusals.
#[derive(Debug)]
pub(super) struct Audit(LineLimit<(bool, &'static str)>);

impl Audit {
    pub(super) fn new(lines_per_second: u64) -> Self {
        Self(LineLimit::new(
            lines_per_second,
            SECOND,
            |(failed, verdict), left_out| {
                if failed {
                    tracing::error!(verdict, left_out, "more requests failed");
                } else {
                    tracing::info!(verdict, left_out, "more requests refused");
                }
            },
        ))
    }

    /// Writes a line if the request was refused or failed, within the rate.
    pub(super) fn write(&self, context: &RequestContext, response: &Response) {
        let denied: Option<&Denied> = response.extensions().get();
        let failed = response.status().is_server_error();
        // A failed health probe is a normal response. Its reason is logged elsewhere.
        let is_told =
            || is_health(&context.access) || response.extensions().get::<AlreadyLogged>().is_some();
        if denied.is_none() && (!failed || is_told()) {
            return;
        }
        let verdict = denied.map_or("failed", Denied::label);
        if !self.0.admit((failed, verdict)) {
            return;
        }
        let code = response.status().as_u16();
        let user = context.user.get().map(|user| &*user.identity.user);
        let user = shown(user.unwrap_or("-"));
        let (method, path) = (shown(context.method.as_str()), shown(context.uri.path()));
        let detail = shown(denied.map_or("", Denied::detail));
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
fn shown(text: &str) -> String {
    let cut: String = text.chars().take(MAX_SHOWN).collect();
    match cut.contains(|c: char| !c.is_ascii_graphic()) {
        true => format!("{cut:?}"),
        false => cut,
    }
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn text_of_a_client_cannot_add_lines_or_colours_or_fill_the_log() {
        assert_eq!(shown("bob"), "bob");
        assert_eq!(shown("a\r\nb\u{1b}[31m"), r#""a\r\nb\u{1b}[31m""#);
        assert_eq!(shown("\u{202e}x"), r#""\u{202e}x""#);
        assert_eq!(shown("a b=\"c\""), r#""a b=\"c\"""#);
        assert!(shown(&"é".repeat(100_000)).chars().count() <= 258);
        assert!(shown(&"\u{1b}".repeat(100_000)).len() < 2000);
    }
}

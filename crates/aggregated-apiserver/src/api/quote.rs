//! Quotes a client's text in messages.

use apimachinery::letters::{escaped, shortened};
use apimachinery::promql;

/// The most bytes of a client's text in a message.
const MAX_SHOWN: usize = 256;

/// Quotes as Go's `%q` does and escapes `& < >`, as apiserver
/// `pkg/endpoints/handlers/responsewriters/errors.go` does for its messages.
pub fn quote(text: &str) -> String {
    let quoted = promql::quote(&shortened(text, MAX_SHOWN));
    escaped(&quoted)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// A name without special characters unchanged; any other name quoted. Upstream never
/// quotes metric and object names.
pub fn bare(name: &str) -> String {
    let harmless = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':' | b'*' | b'|')
    };
    if name.len() <= MAX_SHOWN && name.bytes().all(harmless) {
        name.to_owned()
    } else {
        quote(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_is_gos_with_escaped_markup() {
        assert_eq!(quote("a\"b\\c\n<x>&"), r#""a\"b\\c\n&lt;x&gt;&amp;""#);
        assert_eq!(quote("\u{1b}[31m\u{202e}"), r#""\u001b[31m\u202e""#);
        assert!(quote(&"é".repeat(10_000)).len() < 300);
    }

    #[test]
    fn names_without_special_characters_are_not_quoted() {
        assert_eq!(bare("gpu_memory:avg-1.x"), "gpu_memory:avg-1.x");
        assert_eq!(bare("a b"), "\"a b\"");
    }
}
